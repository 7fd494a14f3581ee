"""A comparison in a few lines: how near, which order, what cannot be true, what was left out."""

from __future__ import annotations

from simulator.compare import Comparison, Ranking, label
from simulator.tables.agreement import GOAL, MAIN_TERMS, preferred, without_draft
from simulator.tables.layout import Column, Table
from simulator.tables.wording import percent, quantity, short_names, term_words


def rankings(comparison: Comparison) -> Table:
    """Which of two drafts has more, as predicted and as seen."""
    columns = (
        Column("term", numeric=False),
        Column("where", numeric=False),
        Column("first / second", numeric=False),
        Column("predicted ratio"),
        Column("seen ratio"),
        Column("order", numeric=False),
        Column("seen apart", numeric=False),
    )
    names = short_names(draft for r in comparison.rankings for draft in r.drafts)
    lines = tuple(
        (
            term_words(r.term),
            r.where,
            " / ".join(names[draft] for draft in r.drafts),
            f"{r.predicted_ratio:.2f}",
            f"{r.reference_ratio:.2f}",
            "same" if r.agrees else "REVERSED",
            "" if r.clear is None else "yes" if r.clear else "no, within noise",
        )
        for r in _shown_rankings(comparison)
    )
    return Table("", columns, lines).without_empty_columns()


def _shown_rankings(comparison: Comparison) -> list[Ranking]:
    """Those of the preferred kind of prediction, where several rank the same pair."""
    best: dict[tuple[object, ...], Ranking] = {}
    for ranking in comparison.rankings:
        best.setdefault((ranking.term, ranking.where, ranking.drafts), ranking)
    return list(best.values())


def ranking_verdicts(comparison: Comparison) -> list[str]:
    """``order of the drafts by draft step: right in 3 of 3 at X 1, 3 of 3 at X 4``, a line a term."""
    groups: dict[str, dict[int, list[bool]]] = {}
    for ranking in _shown_rankings(comparison):
        groups.setdefault(ranking.term, {}).setdefault(ranking.chips, []).append(ranking.agrees)
    return [
        f"order of the drafts by {term_words(term)}: right in "
        + ", ".join(f"{sum(agree)} of {len(agree)} at X {chips}" for chips, agree in by_chips.items())
        for term, by_chips in groups.items()
    ]


def verdicts(comparison: Comparison) -> list[str]:
    """The comparison in a few lines."""
    rows = [row for row in preferred(comparison.record_rows) if row.term in MAIN_TERMS]
    if not rows:
        return []
    worst = max(rows, key=lambda row: abs(row.error))
    near = sum(abs(row.error) <= GOAL for row in rows)
    kinds = " and ".join(dict.fromkeys(row.reference_kind for row in rows))
    at = f"{term_words(worst.term)}, {without_draft(worst.point, short_names(row.draft for row in rows))}"
    share = f"{near} of {len(rows)} times and speedups within {GOAL:.0%} of the {kinds} ones"
    nearness = f"{share}; worst {percent(worst.error)} ({at})"
    return [nearness, *ranking_verdicts(comparison)]


def status_lines(comparison: Comparison) -> list[str]:
    """What could not be answered as asked, or not within what a calibration knows; each reason once."""
    points: dict[str, set[str]] = {}
    for view in comparison.views:
        status = view.record.status
        if status.state != "ok":
            words = f"! {status.state.replace('_', ' ')}: {status.reason}"
            points.setdefault(words, set()).add(label(view))
    return [f"{words} ({len(where)} point{'s' * (len(where) != 1)})" for words, where in points.items()]


def flag_lines(comparison: Comparison) -> list[str]:
    """What cannot be true, a line each."""
    return [
        f"! {flag.point}: {term_words(flag.term)} {quantity(flag.term, flag.measured)} "
        f"(limit {quantity(flag.term, flag.limit)}): {flag.words}"
        for flag in comparison.flags
    ]


def derived_lines(comparison: Comparison) -> list[str]:
    """Of imported records, how the compared values were had that their logs do not have as such."""
    compared = {(row.question, row.term) for row in comparison.record_rows}
    found: dict[str, list[str]] = {}
    for view in comparison.views:
        derived = view.record.provenance.get("derived") if view.imported else None
        for term, how in derived.items() if isinstance(derived, dict) else ():
            if (view.key, term) in compared and term_words(term) not in found.setdefault(str(how), []):
                found[str(how)].append(term_words(term))
    return [f"{', '.join(terms)} of the log: {how}" for how, terms in found.items()]


def missing_lines(comparison: Comparison, most: int) -> list[str]:
    """What was not compared, by reason."""
    reasons: dict[str, list[str]] = {}
    for item in comparison.not_compared:
        reasons.setdefault(item.why, []).append(term_words(item.what))
    lines = []
    for why, what in reasons.items():
        more = f" and {len(what) - most} more" if len(what) > most else ""
        lines.append(f"{', '.join(what[:most])}{more} ({why})")
    return lines
