"""Tables of a comparison: by point, by term, published values, the order of drafts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simulator.compare import Comparison, Row
from simulator.compare.agreement import summaries as summarise
from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures, interval, is_time, percent, quantity, short_names, term_words, time_scale

MAIN_TERMS = ("plain_step_s", "draft_step_s", "verify_step_s", "round_s", "speedup")
# The simulation knows the length of the output; where it says nothing, the closed form does.
PREFERRED = ("simulated", "analytic", "compiled")
GOAL = 0.25
"""Relative error that counts as near."""


def preferred(rows: Iterable[Row]) -> list[Row]:
    """Of several predictions of the same term at the same point, the one to show."""
    best: dict[tuple[str, str, str, str], Row] = {}
    for row in rows:
        place = (row.question, row.term, row.reference_kind, row.where)
        if place not in best or _rank(row) < _rank(best[place]):
            best[place] = row
    return list(best.values())


def _rank(row: Row) -> int:
    return PREFERRED.index(row.predicted_kind) if row.predicted_kind in PREFERRED else len(PREFERRED)


def by_point(comparison: Comparison) -> Table:
    """One row a point: predicted / seen and the error of the terms that matter most."""
    points: dict[str, dict[str, Row]] = {}
    for row in preferred(comparison.record_rows):
        points.setdefault(row.question, {})[row.term] = row
    known = [rows for rows in points.values() if any(term in rows for term in MAIN_TERMS)]
    names = short_names(row.draft for rows in known for row in rows.values())
    scales = {term: time_scale(_seconds(known, term)) for term in MAIN_TERMS if is_time(term)}
    columns = [Column("draft", numeric=False), Column("X"), Column("K")]
    for term in MAIN_TERMS:
        heading = f"{term_words(term)} {scales[term][0]}" if term in scales else term_words(term)
        columns += [Column("pred/seen", group=heading), Column("error", group=heading)]
    lines = []
    for rows in known:
        first = next(iter(rows.values()))
        cells = [names[first.draft], str(first.chips), str(first.lookahead)]
        for term in MAIN_TERMS:
            cells += _cells(rows.get(term), scales.get(term, ("", 1.0))[1])
        # The only draft of all points stands in the question already.
        lines.append(("" if len(names) == 1 else cells[0], *cells[1:]))
    return Table("", tuple(columns), tuple(lines), _marks(comparison)).without_empty_columns()


def _seconds(points: Iterable[dict[str, Row]], term: str) -> list[float]:
    return [rows[term].reference.value for rows in points if term in rows]


def _cells(row: Row | None, scale: float) -> tuple[str, str]:
    if row is None:
        return "", ""
    pair = f"{figures(row.predicted.value / scale)}/{figures(row.reference.value / scale)}"
    return pair, percent(row.error) + ("!" if row.flags else "")


def _marks(comparison: Comparison) -> str:
    seen = " and ".join(dict.fromkeys(row.reference_kind for row in comparison.record_rows))
    note = f"X: chips or devices; K: draft tokens proposed a round; seen: {seen}"
    return note + ("; ! flagged, see below" if comparison.flags else "")


def by_term(rows: Sequence[Row], title: str = "") -> Table:
    """One row for each point and term, with intervals."""
    columns = (
        Column("point", numeric=False),
        Column("term", numeric=False),
        Column("by", numeric=False),
        Column("predicted"),
        Column("90 % interval", numeric=False),
        Column("seen"),
        Column("90 % interval", numeric=False),
        Column("error"),
        Column("flag", numeric=False),
    )
    lines = tuple(
        (
            row.point,
            term_words(row.term),
            row.predicted_kind,
            quantity(row.term, row.predicted.value),
            interval(row.term, row.predicted),
            quantity(row.term, row.reference.value),
            interval(row.term, row.reference),
            percent(row.error),
            ", ".join(code.replace("_", " ") for code in row.flags),
        )
        for row in rows
    )
    return Table(title, columns, lines).without_empty_columns()


def summaries(rows: Sequence[Row]) -> Table:
    """Bias, median and worst error by term."""
    names = short_names(row.draft for row in rows)
    columns = (
        Column("term", numeric=False),
        Column("predicted", numeric=False),
        Column("against", numeric=False),
        Column("n"),
        Column("bias"),
        Column("median |error|"),
        Column("worst |error|"),
        Column("at", numeric=False),
        Column("in interval"),
    )
    lines = tuple(
        (
            term_words(s.term),
            s.predicted_kind,
            f"{s.reference_kind} {s.use}".strip(),
            str(s.count),
            percent(s.bias),
            percent(s.median_absolute).lstrip("+"),
            percent(s.worst_absolute).lstrip("+"),
            without_draft(s.worst_point, names),
            "" if s.within is None else f"{s.within} of {s.count}",
        )
        for s in summarise(rows)
    )
    return Table("", columns, lines).without_empty_columns().without_constant("predicted", "against")


def without_draft(point: str, names: Mapping[str, str]) -> str:
    """A label with the draft's short name, or without it where there is but one."""
    draft, comma, rest = point.partition(", ")
    return rest if len(names) == 1 else f"{names.get(draft, draft)}{comma}{rest}"


def published(rows: Sequence[Row]) -> Table:
    """Predictions beside what others published; ``fit`` values are no test."""
    columns = (
        Column("term", numeric=False),
        Column("K", numeric=False),
        Column("X", numeric=False),
        Column("published"),
        Column("predicted"),
        Column("error"),
        Column("use", numeric=False),
        Column("where", numeric=False),
    )
    merged: dict[tuple[str, ...], list[Row]] = {}
    for row in preferred(rows):
        shown = (quantity(row.term, row.reference.value), quantity(row.term, row.predicted.value))
        merged.setdefault((term_words(row.term), *shown, percent(row.error), row.use, row.where), []).append(row)
    lines = tuple(
        (term, _span(r.lookahead for r in group), _span(r.chips for r in group), seen, predicted, error, use, where)
        for (term, seen, predicted, error, use, where), group in merged.items()
    )
    return Table("", columns, lines)


def _span(values: Iterable[int]) -> str:
    """``1-7`` for all of a run, ``2, 4, 8`` for a list."""
    known = sorted(set(values))
    if len(known) > 2 and known == list(range(known[0], known[-1] + 1)):
        return f"{known[0]}-{known[-1]}"
    return ", ".join(map(str, known))
