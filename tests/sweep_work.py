"""A closed form over many points, for tests of the sweep; and a client that can be killed.

    python -c "from tests.sweep_work import main; main('dask://HOST:PORT', 'FOLDER', 'COUNT')"

computes COUNT points into FOLDER and writes all results, in order, to FOLDER/results.jsonl.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from simulator import speculation
from simulator.files import write
from simulator.sweep import Store, Task, executor_of, run, task_of

BAD = 13
"""Where the lookahead is this, :func:`fragile` fails and :func:`deadly` kills its process."""


def gain(point: dict[str, Any]) -> dict[str, float]:
    """What a draft gains at one acceptance rate and lookahead, and the rounds that 64 tokens take."""
    rate, lookahead = point["acceptance_rate"], point["lookahead"]
    law = speculation.rounds_to_tokens_law([rate] * lookahead, 64)
    tokens = speculation.tokens_per_round(rate, lookahead)
    return {"speedup": float(speculation.speedup(tokens, 1 + 0.1 * lookahead)), "rounds": speculation.law_mean(law)}


def fragile(point: dict[str, Any]) -> dict[str, float]:
    """As :func:`gain`, with a mistake in it."""
    if point["lookahead"] == BAD:
        raise ValueError("no such lookahead")
    return gain(point)


def deadly(point: dict[str, Any]) -> dict[str, float]:
    """As :func:`gain`, but for one point that no process survives."""
    if point["lookahead"] == BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return gain(point)


def grid(count: int, work: Any = gain) -> list[Task]:
    """So many different points."""
    points = [{"lookahead": index % 20, "acceptance_rate": 0.3 + 0.6 * index / count} for index in range(count)]
    return [task_of(work, point, point, f"point {index}") for index, point in enumerate(points)]


def results(tasks: list[Task], store: Store) -> str:
    """All results in the order of the tasks."""
    return "".join(f'{{"key":"{task.key}","result":{store[task.key]}}}\n' for task in tasks)


def main(executor: str, folder: str, count: str) -> None:
    """Compute and write."""
    tasks = grid(int(count))
    with executor_of(executor) as workers, Store(Path(folder) / "points") as store:
        outcome = run(tasks, gain, store, workers)
        write(Path(folder) / "results.jsonl", results(tasks, store))
    sys.stdout.write(f"{outcome.reused} {outcome.computed}\n")
