"""The page of a validation against published values."""

from __future__ import annotations

from collections.abc import Sequence

from simulator import figures, tables
from simulator.report.sections import Figure, Page, Section
from simulator.spec.publication import Published
from simulator.validation.published import Judged, crossed, orders, summaries

_CAPTIONS = {
    "parity": "Times that others published over those that are predicted; hollow where a number was fitted to the row.",
    "speedup": "Speedups, with the acceptance that the source states.",
    "errors": "Errors of the rows that nothing was fitted to, by source.",
}


def published_page(rows: Sequence[Judged], published: Sequence[Published]) -> Page:
    """Verdict, errors by quantity, chip, engine and source, figures, what cannot be true, every value."""
    drawn = figures.published(rows)
    found = [*summaries(rows), *crossed(published)]
    by = ("quantity", "hardware", "engine", "source", "cross")
    told = tuple(table for key in by if (table := tables.published_errors(found, key)).rows)
    reasons = tuple(tables.published_reasons(rows))
    sections = (
        Section("", words=tuple(tables.published_verdict(rows))),
        Section("Signs and orders", tables=(tables.published_orders(orders(rows)),)),
        Section("Errors", tables=told),
        *(Section("", figures=(Figure(drawn[name], words),)) for name, words in _CAPTIONS.items() if name in drawn),
        *([Section("What cannot be true, and what is not predicted", words=reasons)] if reasons else []),
        Section("Every value", tables=(tables.published_rows(rows),), folded=True),
        Section(
            "Sources", words=tuple(f"{one.about.name}: {one.about.title}, {one.about.source}" for one in published)
        ),
    )
    return Page("published", "How far are predictions from what others measured?", (), sections)
