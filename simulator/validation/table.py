"""Measured times of a design as a small table: one line for each shape and process, the shapes being the design's."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from simulator.errors import ConfigError, Problem
from simulator.spec.design import Design
from simulator.spec.probe import HostDescription, ProbePoint, ProbeRecord, Timing
from simulator.validation.held_out import describe

COLUMNS = ("key", "role", "kind", "what", "positions", "process", "median_s", "low_s", "high_s", "windows", "dropped")
TOKENS = "tokens_per_round"


def table_text(records: Iterable[ProbeRecord]) -> str:
    """Records as CSV. What the host is stands elsewhere."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*COLUMNS, TOKENS))
    for record in records:
        time = record.time
        what = f"{record.payload_bytes:g} B" if record.kind == "all_reduce" else describe(record)
        writer.writerow(
            (
                record.key,
                record.role,
                record.kind,
                what,
                record.positions or "",
                record.process,
                *(f"{seconds:.6g}" for seconds in (time.median, time.low, time.high)),
                time.windows,
                time.dropped,
                "" if record.tokens_per_round is None else f"{record.tokens_per_round:.6g}",
            )
        )
    return out.getvalue()


def read_table(path: Path, design: Design, host: HostDescription) -> list[ProbeRecord]:
    """The records that :func:`table_text` wrote.

    Raises:
        ConfigError: lines that are no such table, or shapes that the design does not have.
    """
    chips = sorted({point.chips for point in design.points()})
    controls = {point.key: point for count in chips for point in design.control_points(count)}
    known = {point.key: point for point in design.points()}
    found, problems = [], []
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            point = (controls if row.get("role") == "control" else known).get(row.get("key") or "")
            if point is None:
                problems.append(Problem(str(path), number, 1, "key", row.get("key") or "", "a shape of the design"))
                continue
            try:
                found.append(_record(point, row, host))
            except (ValueError, TypeError, KeyError) as error:
                problems.append(Problem(str(path), number, 1, "", row.get("key") or "", _accepts(error)))
    if problems:
        raise ConfigError(tuple(problems))
    return found


def _accepts(error: Exception) -> str:
    first: Sequence[str] = str(error).splitlines()[:1]
    return f"a line of a table of this design; {first[0] if first else type(error).__name__}"


def _record(point: ProbePoint, row: dict[str, str], host: HostDescription) -> ProbeRecord:
    time = Timing(
        median=float(row["median_s"]),
        low=float(row["low_s"]),
        high=float(row["high_s"]),
        windows=int(row["windows"]),
        dropped=int(row["dropped"]),
    )
    tokens = float(row[TOKENS]) if row[TOKENS] else None
    fields = {name: getattr(point, name) for name in ProbePoint.model_fields}
    return ProbeRecord(**fields, time=time, host=host, process=row["process"], tokens_per_round=tokens)
