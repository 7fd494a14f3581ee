"""The whole comparison, from records to rows and verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.compare.agreement import Ranking, Summary, rankings, summaries
from simulator.compare.compiled import CompiledComparison, chosen, compared
from simulator.compare.flags import Flag, flags
from simulator.compare.pairs import NotCompared, pairs
from simulator.compare.rows import Row, published_rows, rows, unmet
from simulator.compare.views import View, label, views
from simulator.spec.record import RunRecord


@dataclass(frozen=True)
class Comparison:
    """What two or more records say of each other."""

    views: tuple[View, ...]
    """The records, with their scenarios."""
    rows: tuple[Row, ...]
    summaries: tuple[Summary, ...]
    rankings: tuple[Ranking, ...]
    flags: tuple[Flag, ...]
    not_compared: tuple[NotCompared, ...]
    compiled: tuple[CompiledComparison, ...] = ()
    """What compiled records say of the cost model's counts, point by point."""

    @property
    def record_rows(self) -> tuple[Row, ...]:
        """Rows whose reference is a record, published values left out."""
        return tuple(row for row in self.rows if not row.use)

    @property
    def published_rows(self) -> tuple[Row, ...]:
        """Rows whose reference is a value that the scenario quotes."""
        return tuple(row for row in self.rows if row.use)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON; the records themselves are left out."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "summaries": [dataclasses.asdict(summary) for summary in self.summaries],
            "rankings": [dataclasses.asdict(ranking) | {"agrees": ranking.agrees} for ranking in self.rankings],
            "flags": [dataclasses.asdict(flag) | {"words": flag.words} for flag in self.flags],
            "not_compared": [dataclasses.asdict(item) for item in self.not_compared],
            "compiled": [each.to_json() for each in self.compiled],
        }


def compare(records: Sequence[RunRecord]) -> Comparison:
    """Set records about the same question against each other, and predictions against published values.

    Raises:
        pydantic.ValidationError: a record whose scenario this version cannot read.
    """
    known = views(records)
    found, missing = pairs(known)
    flagged = {index: flags(pair.predicted, pair.reference) for index, pair in enumerate(found)}
    items: list[Row | NotCompared] = [*missing]
    for index, pair in enumerate(found):
        items += rows(pair, flagged[index])
    predictions = tuple(view for view in known if view.predicted and view.record.kind != "compiled")
    for view in predictions:
        items += published_rows(view)
    items += unmet(predictions)
    kept = tuple(item for item in items if isinstance(item, Row))
    return Comparison(
        views=known,
        rows=kept,
        summaries=summaries(kept),
        rankings=rankings(found),
        flags=tuple(dict.fromkeys(flag for group in flagged.values() for flag in group)),
        not_compared=_merged(item for item in items if isinstance(item, NotCompared)),
        compiled=tuple(_of_compiled(view, known) for view in known if view.record.kind == "compiled"),
    )


def _of_compiled(view: View, every: Sequence[View]) -> CompiledComparison:
    """A compiled record against the cost model, by the calibration of a prediction of the same question if there is."""
    predicted = (each for each in every if each.key == view.key and each.record.kind in ("analytic", "simulated"))
    return compared(label(view), next(predicted, view).scenario, chosen(view.record))


def _merged(items: Iterable[NotCompared]) -> tuple[NotCompared, ...]:
    """The same thing missing for the same reason at many points is one entry with a count."""
    counts: dict[tuple[str, str], int] = {}
    for item in items:
        counts[item.what, item.why] = counts.get((item.what, item.why), 0) + item.points
    return tuple(NotCompared(what, why, points) for (what, why), points in counts.items())
