"""Batches on an existing Dask cluster. Workers send results back: they need no file system in common with us."""

from __future__ import annotations

import importlib.util
import queue
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from typing import Any, NoReturn, Self

from simulator.errors import ConfigError, Problem, SpsError, UnfinishedError
from simulator.sweep.executors import Batch, Lost

CONNECT_S = 10
"""How long the scheduler has to answer."""
BEAT_S = 5.0
"""After so long without a result we look whether the cluster is still there."""
AHEAD = 3
"""Batches in flight for each thread of the cluster: enough that none waits, few enough to hold in memory."""


class Dask:
    """The workers of a scheduler that runs already.

    A worker that dies costs nothing but its time: the scheduler gives its batches to others. It gives a batch up only
    after several workers have died of it.
    """

    def __init__(self, place: str) -> None:
        """Of the scheduler at ``place``, HOST:PORT.

        Raises:
            ConfigError: Dask is not installed.
        """
        if importlib.util.find_spec("distributed") is None:
            # By the lock, not by a package's name: an index may give that name to somebody else.
            accepts = "local alone: the extra [dask] is not installed; requirements/dask.lock is what it needs"
            raise ConfigError((Problem("", 0, 0, "--executor", f"dask://{place}", accepts),))
        self._place = place
        self._client: Any = None
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._in_flight: dict[str, tuple[Any, Batch]] = {}
        """By key; a future that nobody holds is given up by the scheduler."""
        self.workers = 0

    def __enter__(self) -> Self:
        """Connects.

        Raises:
            ConfigError: no scheduler answers.
        """
        from distributed import Client

        try:
            self._client = Client(f"tcp://{self._place}", timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            accepts = f"the address of a Dask scheduler that answers within {CONNECT_S} s; {reason}"
            raise ConfigError((Problem("", 0, 0, "--executor", f"dask://{self._place}", accepts),)) from None
        self.workers = self._threads()
        return self

    def __exit__(self, *error: object) -> None:
        self._in_flight.clear()
        self._client.close()  # the scheduler then drops what only we had asked for

    def outcomes(self, call: Callable[[Batch], Any], batches: Sequence[Batch]) -> Generator[Any]:
        """What ``call`` returns of each batch, as it comes; :class:`Lost` where the scheduler gave one up."""
        waiting = iter(batches)
        while True:
            room = AHEAD * max(self.workers, 1) - len(self._in_flight)
            for _, batch in zip(range(room), waiting, strict=False):
                self._submit(call, batch)
            if not self._in_flight:
                return
            try:
                future = self._arrived.get(timeout=BEAT_S)
            except queue.Empty:
                self._look()
                yield None
                continue
            _, batch = self._in_flight.pop(future.key)
            if future.status in ("lost", "pending"):
                # It was done, but its worker died before we had the result.
                self._submit(call, batch)
            else:
                yield self._outcome(future, batch)

    def _submit(self, call: Callable[[Batch], Any], batch: Batch) -> None:
        # Not pure: another run's failure is not to be taken for the outcome of this one.
        future = self._client.submit(call, batch, pure=False)
        self._in_flight[future.key] = (future, batch)
        future.add_done_callback(self._arrived.put)

    def _outcome(self, future: Any, batch: Batch) -> Any:
        from distributed.scheduler import KilledWorker

        try:
            error = future.exception()
            if error is None:
                return future.result()
        except (CancelledError, OSError):
            self._gone()
        if isinstance(error, KilledWorker):
            return Lost(batch, "every worker that took it died, perhaps for want of memory")
        if isinstance(error, SpsError):
            raise error
        raise UnfinishedError(f"a worker could not run it: {type(error).__name__}: {error}")

    def _look(self) -> None:
        if self._client.status != "running":
            self._gone()
        self.workers = self._threads()

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except (CancelledError, OSError, ValueError):
            self._gone()

    def _gone(self) -> NoReturn:
        raise UnfinishedError(f"the scheduler at {self._place} is gone")
