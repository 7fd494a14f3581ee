"""What is not in the store yet is computed and kept."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from simulator.sweep.executors import Batch, Executor, Lost
from simulator.sweep.store import Store
from simulator.sweep.tasks import Done, Task, Work, code_version, compute

BATCH = 50
"""Points that go to a worker at a time: a message costs about a millisecond, a point by closed form some ten."""


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    total: int
    reused: int
    failed: int
    workers: int
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Points a second since the start, without those that were there already."""
        computed = self.done - self.reused
        return computed / self.elapsed_s if computed and self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds to go at this rate; None before the first result."""
        return (self.total - self.done) / self.rate if self.rate else None


@dataclass
class Outcome:
    """What a run did. The results are in the store."""

    points: int
    """Different keys asked for."""
    reused: int
    """Of them, those that the store had."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why a point has no result, by key, in the order of the tasks; the next run tries it again."""

    @property
    def computed(self) -> int:
        """Points computed now."""
        return self.points - self.reused - len(self.failures)


Report = Callable[[Progress], None]


def run(
    tasks: Sequence[Task],
    work: Work,
    store: Store,
    executor: Executor,
    report: Report = lambda _progress: None,
    batch: int = BATCH,
) -> Outcome:
    """Compute what the store does not have, and keep it there as it comes. Both must be open.

    Args:
        tasks: the points; two with the same key are computed once.
        work: a pure function at the top of a module that every worker can import.
        store: gets the results; whatever stops this function, those that came are in it.
        executor: where the work is done.
        report: called after every batch, and every few seconds where none comes.
        batch: points that go to a worker at a time.

    Raises:
        UnfinishedError: the workers are gone or have other code than this process; or results cannot be written.
    """
    asked = {task.key: task for task in tasks}
    missing = [task for key, task in asked.items() if key not in store]
    outcome = Outcome(len(asked), len(asked) - len(missing))
    call = functools.partial(compute, work, code_version())
    desk = _Desk(store, outcome, executor, report)
    desk.tell()
    lost = desk.take(executor.outcomes(call, _batches(missing, batch)))
    # One point may have killed the workers that had others too: now each is tried with no other at its side.
    for one in (one for each in lost for one in each.batch):
        for gone in desk.take(executor.outcomes(call, [[one]])):
            desk.fail(gone)
    store.flush()
    outcome.failures = {key: outcome.failures[key] for key in asked if key in outcome.failures}
    return outcome


def _batches(tasks: Sequence[Task], size: int) -> list[Batch]:
    """Key and payload of every task, so many together."""
    pairs = [(task.key, task.payload) for task in tasks]
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


class _Desk:
    """Where results arrive: they are kept, failures noted, progress told."""

    def __init__(self, store: Store, outcome: Outcome, executor: Executor, report: Report) -> None:
        self._store, self._outcome, self._executor, self._report = store, outcome, executor, report
        self._computed = 0
        self._started_s = time.monotonic()

    def take(self, found: Generator[list[Done] | Lost | None]) -> list[Lost]:
        """Everything that comes; returns the batches that were lost."""
        lost = []
        with closing(found):
            for one in found:
                if isinstance(one, Lost):
                    lost.append(one)
                for done in one if isinstance(one, list) else ():
                    self._keep(done)
                self.tell()
        return lost

    def fail(self, lost: Lost) -> None:
        """Note that some points have no result."""
        self._outcome.failures |= dict.fromkeys((key for key, _ in lost.batch), lost.why)
        self.tell()

    def tell(self) -> None:
        """Say how far we are."""
        done = self._outcome.reused + self._computed
        self._report(
            Progress(
                done,
                self._outcome.points,
                self._outcome.reused,
                len(self._outcome.failures),
                self._executor.workers,
                time.monotonic() - self._started_s,
            )
        )

    def _keep(self, done: Done) -> None:
        if done.failure:
            self._outcome.failures[done.key] = done.failure
            return
        self._store.keep(done.key, done.text)
        self._computed += 1
