"""Two records -> one row a term; published values -> rows of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from simulator.compare.flags import Flag
from simulator.compare.pairs import NotCompared, Pair
from simulator.compare.views import Value, View, label
from simulator.spec.scenario import PublishedValue
from simulator.spec.terms import DISTRIBUTION_METRICS, PLAIN_METRICS, TIME_METRICS

_TERMS = (*TIME_METRICS, *PLAIN_METRICS, *DISTRIBUTION_METRICS)
# Computed from bytes or from acceptance alone: nobody measures them.
_ONLY_PREDICTED = ("bandwidth_floor_s", "nominal_floor_s", "break_even_acceptance", "wasted_draft_s")


@dataclass(frozen=True)
class Row:
    """One term of one point, predicted and seen."""

    point: str
    draft: str
    chips: int
    lookahead: int
    question: str
    """The same for all rows of one point, whatever the calibration."""
    axes: dict[str, str | int | float]
    term: str
    predicted_kind: str
    predicted: Value
    reference_kind: str
    reference: Value
    flags: tuple[str, ...] = ()
    use: Literal["", "fit", "test"] = ""
    """Of a published value: whether the calibration was fitted to it."""
    where: str = ""
    """Of a published value: where it stands."""

    @property
    def error(self) -> float:
        """Predicted over seen, minus 1."""
        return self.predicted.value / self.reference.value - 1

    @property
    def within(self) -> bool | None:
        """Whether what was seen lies in the predicted 90 % interval; None where there is no interval."""
        low, high = self.predicted.low, self.predicted.high
        return None if low is None or high is None else low <= self.reference.value <= high

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data = vars(self) | {"error": self.error, "within": self.within, "flags": list(self.flags)}
        return data | {"predicted": vars(self.predicted), "reference": vars(self.reference)}


def rows(pair: Pair, flags: tuple[Flag, ...]) -> Iterator[Row | NotCompared]:
    """A row for each term that both records have, a reason for each that only one has."""
    predicted, seen = pair.predicted.values(), pair.reference.values()
    for term in sorted(predicted.keys() & seen.keys(), key=_order):
        if seen[term].value <= 0:
            yield NotCompared(term, f"zero or less in the {pair.reference.record.kind} record")
        else:
            codes = tuple(flag.code for flag in flags if flag.term == term)
            yield _row(pair.predicted, term, predicted[term], seen[term], pair.reference.record.kind, flags=codes)
    if "compiled" in (pair.predicted.record.kind, pair.reference.record.kind):
        return  # it has counts of its own, which simulator.compare.compiled compares
    for one, other, view in ((predicted, seen, pair.reference), (seen, predicted, pair.predicted)):
        # A distribution is missed once, not once for each of its parts.
        for name in dict.fromkeys(term.partition(".")[0] for term in one if term not in other):
            if name not in _ONLY_PREDICTED:
                yield NotCompared(name, f"not in the {'log' if view.imported else f'{view.record.kind} record'}")


def _order(term: str) -> tuple[int, str]:
    """Terms in the order of the schema: the parts of a round as they run, then ratios, then distributions."""
    name = term.partition(".")[0]
    return (_TERMS.index(name) if name in _TERMS else len(_TERMS), term)


def published_rows(view: View) -> Iterator[Row | NotCompared]:
    """A row for each published value that belongs to this point."""
    for published in view.scenario.published:
        if not all(_is_at(view, path, wanted) for path, wanted in published.at.items()):
            continue
        predicted = view.get(published.metric)
        if predicted is None:
            yield NotCompared(f"published {published.metric}", f"not in the {view.record.kind} record")
        else:
            where = f"{published.source}, {published.where}"
            seen = Value(published.value_s)
            yield _row(view, published.metric, predicted, seen, "published", use=published.use, where=where)


def unmet(views: tuple[View, ...]) -> Iterator[NotCompared]:
    """Published values that belong to no point of these records."""
    every = {(v.metric, str(v.at)): v for view in views for v in view.scenario.published}
    for published in every.values():
        if not any(all(_is_at(view, *item) for item in published.at.items()) for view in views):
            yield NotCompared(f"published {published.metric}", f"no record at {_where(published)}")


def _where(published: PublishedValue) -> str:
    return ", ".join(f"{path} {value}" for path, value in published.at.items())


def _is_at(view: View, path: str, wanted: object) -> bool:
    """Whether the point has ``wanted`` at ``path``: as the sweep words it, or as the scenario resolves it."""
    if path in view.record.axes:
        return view.record.axes[path] == wanted
    value: Any = view.asked
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return (value.get("name") if isinstance(value, dict) else value) == wanted


def _row(view: View, term: str, predicted: Value, seen: Value, kind: str, **more: Any) -> Row:
    return Row(
        point=label(view),
        draft=view.draft,
        chips=view.chips,
        lookahead=view.lookahead,
        question=view.key,
        axes=view.record.axes,
        term=term,
        predicted_kind=view.record.kind,
        predicted=predicted,
        reference_kind=kind,
        reference=seen,
        **more,
    )
