"""Rows -> bias and worst error by term; pairs of points -> is the order of two drafts right?"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from simulator.compare.pairs import Pair
from simulator.compare.rows import Row
from simulator.compare.views import Value, devices, question_key

RANKED_TERMS = ("draft_step_s", "round_s", "speedup")


@dataclass(frozen=True)
class Summary:
    """How well one term is predicted, over all points."""

    term: str
    predicted_kind: str
    reference_kind: str
    use: str
    """Of published values: ``fit`` or ``test``."""
    count: int
    bias: float
    """Mean of the relative error, signed."""
    median_absolute: float
    worst_absolute: float
    worst_point: str
    within: int | None
    """How many lie in the predicted interval; None where no row has one."""


@dataclass(frozen=True)
class Ranking:
    """Two points that differ in the draft alone: which has more, as predicted and as seen."""

    term: str
    predicted_kind: str
    where: str
    lookahead: int
    chips: int
    drafts: tuple[str, str]
    predicted_ratio: float
    """First draft over second."""
    reference_ratio: float
    clear: bool | None
    """Whether the seen intervals are apart; None where there are none."""

    @property
    def agrees(self) -> bool:
        """Whether the order is the same on both sides."""
        return (self.predicted_ratio > 1) == (self.reference_ratio > 1)


def summaries(rows: Iterable[Row]) -> tuple[Summary, ...]:
    """One summary for each term, kind of prediction and kind of reference."""
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.term, row.predicted_kind, row.reference_kind, row.use), []).append(row)
    return tuple(_summary(name, group) for name, group in groups.items())


def _summary(name: tuple[str, str, str, str], group: list[Row]) -> Summary:
    errors = [row.error for row in group]
    worst = max(group, key=lambda row: abs(row.error))
    judged = [row.within for row in group if row.within is not None]
    return Summary(
        *name,
        count=len(group),
        bias=statistics.fmean(errors),
        median_absolute=statistics.median(abs(error) for error in errors),
        worst_absolute=abs(worst.error),
        worst_point=worst.point,
        within=sum(judged) if judged else None,
    )


def rankings(pairs: Sequence[Pair]) -> tuple[Ranking, ...]:
    """The order of every two drafts wherever all else is equal."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        rest = question_key({name: value for name, value in pair.predicted.asked.items() if name != "draft"})
        groups.setdefault((rest, pair.predicted.record.kind), []).append(pair)
    return tuple(
        ranking
        for group in groups.values()
        for first, second in itertools.combinations(group, 2)
        if first.predicted.draft != second.predicted.draft
        for ranking in _rank(first, second)
    )


def _rank(first: Pair, second: Pair) -> Iterator[Ranking]:
    for term in RANKED_TERMS:
        predicted = first.predicted.get(term), second.predicted.get(term)
        seen = first.reference.get(term), second.reference.get(term)
        if predicted[0] is None or predicted[1] is None or seen[0] is None or seen[1] is None:
            continue
        if min(predicted[1].value, seen[1].value) <= 0:
            continue
        view = first.predicted
        yield Ranking(
            term=term,
            predicted_kind=view.record.kind,
            where=", ".join((devices(view), f"K {view.lookahead}")),
            lookahead=view.lookahead,
            chips=view.chips,
            drafts=(first.predicted.draft, second.predicted.draft),
            predicted_ratio=predicted[0].value / predicted[1].value,
            reference_ratio=seen[0].value / seen[1].value,
            clear=_apart(seen[0], seen[1]),
        )


def _apart(one: Value, other: Value) -> bool | None:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.high < other.low or other.high < one.low
