"""What is known of the points of a sweep: sweep.jsonl, sweep.csv, the best ones. In the order of the sweep."""

from __future__ import annotations

import csv
import heapq
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.files import write
from simulator.spec.load import Point
from simulator.sweep.store import Store
from simulator.sweep.tasks import Task, compact

Row = dict[str, Any]

FAILED = "failed"
"""The state of a point whose work failed; its reason says how."""
_LEADING = ("kind", "state", "reason")


class Rows:
    """One row for each record of each point; one for a point that failed. Made anew each time: they may be many."""

    def __init__(
        self, points: Sequence[Point], tasks: Sequence[Task], store: Store, failures: Mapping[str, str]
    ) -> None:
        """Of the tasks of ``points``, one each, which were run into ``store``."""
        self._pairs = list(zip(points, tasks, strict=True))
        self._store, self._failures = store, failures

    def __iter__(self) -> Iterator[Row]:
        """In the order of the sweep."""
        for point, task in self._pairs:
            about = {"scenario_hash": task.identity, "axes": point.axes}
            failed = [{"status": {"state": FAILED, "reason": self._failures.get(task.key, "")}}]
            records = json.loads(self._store[task.key]) if task.key in self._store else failed
            for record in records:
                yield about | record


def write_rows(folder: Path, rows: Iterable[Row]) -> dict[str, Path]:
    """Both files, each written whole; their paths by what they are.

    Raises:
        ConfigError: the folder cannot be written.
    """
    lines = "".join(f"{compact(row)}\n" for row in rows)
    return {"rows": write(folder / "sweep.jsonl", lines), "table": write(folder / "sweep.csv", _csv(rows))}


def best(rows: Iterable[Row], count: int) -> list[Row]:
    """The points of the highest speedup by closed form, of those with an answer to rely on."""
    answered = (row for row in rows if row.get("kind") == "analytic" and row["status"]["state"] == "ok")
    return heapq.nlargest(count, answered, key=lambda row: row["metrics"].get("speedup", 0.0))


def _csv(rows: Iterable[Row]) -> str:
    """A line a row; a column for each axis and each metric of any row."""
    axes: dict[str, Any] = {}
    names: set[str] = set()
    for row in rows:
        axes |= row["axes"]
        names |= _flat(row.get("metrics", {})).keys()
    metrics = sorted(names)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*axes, *_LEADING, *metrics])
    for row in rows:
        status, values = row["status"], _flat(row.get("metrics", {}))
        leading = (row.get("kind", ""), status["state"], status["reason"])
        table.writerow([*(row["axes"].get(path, "") for path in axes), *leading, *(values.get(m, "") for m in metrics)])
    return text.getvalue()


def _flat(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Distributions as one column for each of their numbers: ``time_to_tokens_s.p50``."""
    flat: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{part}": number for part, number in value.items()}
        else:
            flat[name] = value
    return flat
