"""What stands on the page, in the order in which a planner asks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import plotly.graph_objects as go

from simulator import figures, tables
from simulator.compare import Comparison, View, question
from simulator.tables import Column, Table

_LONGEST_VALUE = 400
_MOST_ROWS = 2000


@dataclass(frozen=True)
class Figure:
    """A plot and what it shows, in words."""

    plot: go.Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """One heading and what stands under it; words that start with ``! `` are warnings."""

    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    items: tuple[str, ...] = ()
    folded: bool = False
    """Whether the tables are shown on demand, under their titles."""

    @property
    def empty(self) -> bool:
        """Whether nothing stands under the heading."""
        return not (self.words or any(table.rows for table in self.tables) or self.figures or self.items)


@dataclass(frozen=True)
class Page:
    """All that the page says."""

    title: str
    question: str
    described: tuple[str, ...]
    sections: tuple[Section, ...]


def sections(comparison: Comparison) -> Page:
    """The page of a comparison; sections that would be empty are left out."""
    views = comparison.views
    names = tuple(dict.fromkeys(view.scenario.name for view in views))
    described = tuple(dict.fromkeys(f"{v.scenario.name}: {v.scenario.description}" for v in views))
    found = (
        _verdict(comparison),
        _by_point(comparison),
        *_plots(comparison),
        _predictions(views),
        _agreement(comparison),
        _published(comparison),
        _every_row(comparison),
        Section("Not compared", items=tuple(tables.missing_lines(comparison, most=100))),
        _calibrations(views),
        _provenance(views),
    )
    return Page(", ".join(names), question(views), described, tuple(part for part in found if not part.empty))


def _verdict(comparison: Comparison) -> Section:
    warnings = (*tables.status_lines(comparison), *tables.flag_lines(comparison), *tables.anchor_lines(comparison))
    return Section("", words=(*tables.verdicts(comparison), *warnings, *tables.derived_lines(comparison)))


def _by_point(comparison: Comparison) -> Section:
    return Section("Predicted against seen", tables=(tables.by_point(comparison),))


def _plots(comparison: Comparison) -> Iterator[Section]:
    views = comparison.views
    drawn = (
        ("", figures.parity(comparison), "Each time, predicted over seen, with 90 % intervals. The band is +-25 %."),
        (
            "A round and its parts",
            figures.rounds(views),
            "A round that ends left of its mark pays: there plain decoding would have emitted as many tokens.",
        ),
        (
            "Speedup over K",
            figures.speedup(views),
            "Over plain decoding of the same target on the same chips. Lines are predicted, markers were seen.",
        ),
        (
            "What a step is spent on",
            figures.mechanisms(views),
            "Mechanisms of the predicted steps; they sum to the step. The roof that binds an operation gets its time.",
        ),
        (
            "Time to the last token",
            figures.time_to_tokens(views),
            "From the first round until every sequence of the batch has its tokens.",
        ),
    )
    for title, plot, caption in drawn:
        if plot is not None:
            yield Section(title, figures=(Figure(plot, caption),))


def _predictions(views: Sequence[View]) -> Section:
    closed = [view for view in views if view.record.kind == "analytic"]
    played = [view for view in views if view.record.kind == "simulated"]
    return Section("What each point promises", tables=(tables.sweep(closed or played, played),))


def _agreement(comparison: Comparison) -> Section:
    shown = tables.preferred(comparison.record_rows)
    return Section("Error by term", tables=(tables.summaries(shown), tables.rankings(comparison)))


def _published(comparison: Comparison) -> Section:
    words = "Values marked fit went into the calibration: they are no test of it."
    rows = comparison.published_rows
    return Section("Published values", words=(words,) if rows else (), tables=(tables.published(rows),))


def _every_row(comparison: Comparison) -> Section:
    rows = comparison.record_rows
    title = f"{len(rows):,} rows" + (f", the first {_MOST_ROWS:,} here" if len(rows) > _MOST_ROWS else "")
    return Section("Every term of every point", tables=(tables.by_term(rows[:_MOST_ROWS], title),), folded=True)


def _calibrations(views: Sequence[View]) -> Section:
    predicted = [view for view in views if view.predicted]
    known: dict[str, Mapping[str, Any]] = {}
    for view in predicted:
        told = view.record.provenance.get("calibration")
        if isinstance(told, Mapping):
            known.setdefault(json.dumps(told, sort_keys=True), told)
    parts = tuple(_flat(str(told.get("name", "calibration")), told) for told in known.values())
    return Section("Calibration", words=tuple(tables.calibration_words(predicted)), tables=parts)


def _provenance(views: Sequence[View]) -> Section:
    """Where the records of each kind come from, by the first of each; calibrations have a section of their own."""
    found = []
    for kind in dict.fromkeys(view.record.kind for view in views):
        told = [view.record.provenance for view in views if view.record.kind == kind]
        first = {name: value for name, value in told[0].items() if name != "calibration"}
        found.append(_flat(f"{kind}: the first of {len(told)} records", first))
    return Section("Provenance", words=(f"Written by sps {_version()}.",), tables=tuple(found), folded=True)


def _version() -> str:
    try:
        return metadata.version("sps-planner")
    except metadata.PackageNotFoundError:
        return "from a source tree"


def _flat(title: str, data: Mapping[str, Any]) -> Table:
    """Nested data as one row a value, by dotted path."""
    columns = (Column("what", numeric=False), Column("value", numeric=False))
    return Table(title, columns, tuple(_leaves(data)))


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(data, Mapping) and data:
        for name, value in data.items():
            yield from _leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(data, list | tuple) and any(isinstance(item, Mapping) for item in data):
        for index, value in enumerate(data):
            yield from _leaves(value, f"{path}[{index}]")
    elif data not in (None, "", [], {}):
        words = ", ".join(map(str, data)) if isinstance(data, list | tuple) else str(data)
        yield path.replace("_", " "), words if len(words) <= _LONGEST_VALUE else f"{words[:_LONGEST_VALUE]}..."
