"""Many compiled records, one a row: what draft, on what slice, whether it fits, and what its steps take."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.spec.record import RunRecord
from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures
from simulator.units import human_bytes

_STEPS = ("draft_step", "plain_step", "verify_step", "round")
_NOTE = (
    "ms: schedules replayed at the datasheet's bandwidth without collectives, the best variant and the scanned one;\n"
    "reduces: all-reduces inside the layers of a verify step"
)


def compiled_points(records: Sequence[RunRecord]) -> Table:
    """A row for each record; columns of programs that none of them has are left out."""
    axes = list(dict.fromkeys(path for record in records for path in record.axes))
    columns = (
        Column("slice", numeric=False),
        *(Column(path.rpartition(".")[2], numeric=False) for path in axes),
        Column("a chip holds"),
        *(Column(name, group=f"{step.replace('_', ' ')}, ms") for step in _STEPS for name in ("best", "scanned")),
        Column("reduces"),
    )
    rows = tuple(_row(record, axes) for record in records)
    return Table("compiled by the TPU compiler", columns, rows, _NOTE).without_empty_columns()


def _row(record: RunRecord, axes: Sequence[str]) -> tuple[str, ...]:
    times = (record.metric(f"{step}_{name}_s") for step in _STEPS for name in ("replay", "replay_scanned"))
    held, reduces = record.metric("memory_per_chip_bytes"), record.metric("verify_step_layer_all_reduces")
    return (
        str(record.provenance["topology"]),
        *(str(record.axes.get(path, "")) for path in axes),
        human_bytes(held) if record.status.state == "ok" and held else f"NO: {record.status.reason}",
        *("" if seconds is None else figures(seconds * 1e3) for seconds in times),
        "" if reduces is None else figures(reduces),
    )
