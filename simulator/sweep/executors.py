"""Where batches are computed: in this process, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from simulator.errors import ConfigError, Problem, UnfinishedError

RESTARTS = 3
"""How often processes that died are started anew before the run gives up."""

Batch = Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Lost:
    """A batch that no worker lived to finish."""

    batch: Batch
    why: str


class Executor(Protocol):
    """Calls a function with batches, in any order; to be opened in a ``with`` statement."""

    @property
    def workers(self) -> int:
        """How many batches are computed at a time, now."""

    def __enter__(self) -> Self:
        """Ready to compute."""

    def __exit__(self, *error: object) -> None:
        """Lets go of what was asked for and not yet computed."""

    def outcomes(self, call: Callable[[Batch], Any], batches: Sequence[Batch]) -> Generator[Any]:
        """What ``call`` returns of each batch, or :class:`Lost`; None now and then where nothing came for seconds.

        Raises:
            UnfinishedError: nothing more will come.
        """


class Local:
    """Processes of this machine; with one job, this process itself."""

    def __init__(self, jobs: int | None = None) -> None:
        """As many processes as ``jobs`` says; one a processor unless given, but no more than there are batches."""
        self._jobs = jobs
        self.workers = jobs or 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held."""

    def outcomes(self, call: Callable[[Batch], Any], batches: Sequence[Batch]) -> Generator[Any]:
        """What ``call`` returns of each batch, as it comes."""
        self.workers = min(self._jobs or _processors(), len(batches)) if len(batches) > 1 else 1
        if self.workers <= 1:
            yield from map(call, batches)
        else:
            yield from self._in_processes(call, batches)

    def _in_processes(self, call: Callable[[Batch], Any], batches: Sequence[Batch]) -> Generator[Any]:
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left = dict(enumerate(batches))
        for _ in range(RESTARTS + 1):
            pool = joblib.Parallel(self.workers, return_as="generator_unordered", batch_size=1)
            try:
                for index, found in pool(joblib.delayed(_numbered)(call, *item) for item in list(left.items())):
                    del left[index]
                    yield found
                return
            except TerminatedWorkerError:
                continue  # all its batches in flight are lost with a process: they are asked for again
        raise UnfinishedError(f"worker processes died {RESTARTS + 1} times, perhaps for want of memory")


def _numbered(call: Callable[[Batch], Any], index: int, batch: Batch) -> tuple[int, Any]:
    return index, call(batch)


def _processors() -> int:
    import joblib

    return int(joblib.cpu_count())


def executor_of(words: str, jobs: int | None = None) -> Executor:
    """The executor that ``--executor`` and ``--jobs`` ask for; a cluster is not yet reached for.

    Args:
        words: ``local``, or ``dask://HOST:PORT``.
        jobs: processes of this machine.

    Raises:
        ConfigError: it is neither; or Dask is not installed.
    """
    if words == "local":
        return Local(jobs)
    scheme, _, place = words.partition("://")
    host, _, port = place.rpartition(":")
    if scheme != "dask" or not host or not port.isdecimal():
        accepts = "local, or dask://HOST:PORT with the host and port of a Dask scheduler"
        raise ConfigError((Problem("", 0, 0, "--executor", words, accepts),))
    if jobs is not None:
        accepts = "nothing beside --executor dask://...: the cluster has the workers that it has"
        raise ConfigError((Problem("", 0, 0, "--jobs", str(jobs), accepts),))
    from simulator.sweep.cluster import Dask

    return Dask(place)
