"""Parts of measured steps and rounds: by ablation, and timed in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from simulator.compare.views import views
from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures, time_scale

if TYPE_CHECKING:
    from simulator.ablation import Parts
    from simulator.spec.record import RunRecord

_NOTE = "beyond one device: what the layers take more than on one device, collectives above all"


def ablation(found: Sequence[Parts]) -> Table:
    """A step a row: fixed part, layers, cached positions, and what more devices add."""
    unit, scale = time_scale(part.step_s for part in found)
    columns = (
        Column("model", numeric=False),
        Column("X"),
        *(Column(name, group=unit) for name in ("step", "fixed", "layers", "kv")),
        Column("beyond one device"),
    )
    lines = [
        (
            part.model,
            str(part.chips),
            *(figures(seconds / scale) for seconds in (part.step_s, part.fixed_s, part.layers_s, part.kv_s)),
            "" if part.devices_s is None else figures(part.devices_s / scale),
        )
        for part in found
    ]
    return Table("", columns, tuple(lines), _NOTE if any(p.devices_s is not None for p in found) else "")


def in_place(records: Sequence[RunRecord]) -> list[str]:
    """How far the parts of a round, timed inside it and alone, are from the round; nothing where none was timed."""
    rows = [row for view in views(records) for row in _row(view.record, view.draft, view.chips, view.lookahead)]
    if not rows:
        return []
    columns = (
        Column("draft", numeric=False),
        Column("X"),
        Column("K"),
        Column("round ms"),
        *(Column(name, group="in its place, ms") for name in ("1st draft", "draft", "verify", "sampling")),
        *(Column(name, group="sum over the round") for name in ("in place", "isolated")),
    )
    return ["", Table("", columns, tuple(rows)).text()]


_PARTS = ("draft_first_step", "draft_step", "verify_step", "sampling")


def _row(record: RunRecord, draft: str, chips: int, lookahead: int) -> Iterator[tuple[str, ...]]:
    found = record.provenance.get("in_place")
    if isinstance(found, Mapping):
        parts = [found.get(f"{part}_s") for part in _PARTS]
        sums = [found.get(f"{name}_sum_over_round") for name in ("in_place", "isolated")]
        yield (
            draft,
            str(chips),
            str(lookahead),
            figures(found["round_s"] * 1e3),
            *("" if seconds is None else figures(seconds * 1e3) for seconds in parts),
            *("" if total is None else f"{total - 1:+.1%}" for total in sums),
        )
