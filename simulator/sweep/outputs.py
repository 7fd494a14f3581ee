"""What is known of the points of a sweep: sweep.jsonl, sweep.csv, the best ones. In the order of the sweep."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.files import write
from simulator.spec.load import Point
from simulator.spec.record import scenario_hash
from simulator.sweep.store import Store
from simulator.sweep.tasks import Task, compact

Row = dict[str, Any]

FAILED = "failed"
"""The state of a point whose work failed; its reason says how."""
_LEADING = ("kind", "state", "reason")


def rows_of(points: Sequence[Point], tasks: Sequence[Task], store: Store, failures: Mapping[str, str]) -> list[Row]:
    """One row for each record of each point; one for a point that failed."""
    rows = []
    for point, task in zip(points, tasks, strict=True):
        about = {"scenario_hash": scenario_hash(point.scenario), "axes": point.axes}
        failed = [{"status": {"state": FAILED, "reason": failures.get(task.key, "")}}]
        records = json.loads(store[task.key]) if task.key in store else failed
        rows += [about | record for record in records]
    return rows


def write_rows(folder: Path, rows: Sequence[Row]) -> dict[str, Path]:
    """Both files, each written whole; their paths by what they are.

    Raises:
        ConfigError: the folder cannot be written.
    """
    lines = "".join(f"{compact(row)}\n" for row in rows)
    return {"rows": write(folder / "sweep.jsonl", lines), "table": write(folder / "sweep.csv", _csv(rows))}


def best(rows: Iterable[Row], count: int) -> list[Row]:
    """The points of the highest speedup by closed form, of those with an answer to rely on."""
    answered = [row for row in rows if row.get("kind") == "analytic" and row["status"]["state"] == "ok"]
    ranked = sorted(answered, key=lambda row: -row["metrics"].get("speedup", 0.0))
    return ranked[:count]


def _csv(rows: Sequence[Row]) -> str:
    """A line a row; a column for each axis and each metric of any row."""
    axes = dict.fromkeys(path for row in rows for path in row["axes"])
    flat = [_flat(row.get("metrics", {})) for row in rows]
    metrics = sorted({name for values in flat for name in values})
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*axes, *_LEADING, *metrics])
    for row, values in zip(rows, flat, strict=True):
        status = row["status"]
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
