"""The frame of the page, and the pieces that it is built from."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from simulator.compare import Comparison
from simulator.report.sections import Page, Section, sections
from simulator.tables import Column, Table

# Nothing is fetched, whatever a record says: the browser itself refuses.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_LONG_WORDS = 40


def report(comparison: Comparison) -> str:
    """The whole page of a comparison."""
    return rendered(sections(comparison))


def rendered(page: Page) -> str:
    """A page as HTML. All words that come from records are escaped."""
    plots = [figure.plot for section in page.sections for figure in section.figures]
    numbers = itertools.count()
    body = [
        f"<h1>{escape(page.question)}</h1>",
        *(f'<p class="soft">{escape(words)}</p>' for words in page.described),
        *(_section(section, numbers) for section in page.sections),
    ]
    return "\n".join(
        [
            *_head(page.title),
            "<body>",
            *body,
            *(_data(index, plot) for index, plot in enumerate(plots)),
            *([f"<script>{get_plotlyjs()}</script>", f"<script>{_own('page.js')}</script>"] if plots else []),
            "</body>",
            "</html>",
            "",
        ]
    )


def _own(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _head(title: str) -> list[str]:
    return [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>{_own('page.css')}</style>",
        "</head>",
    ]


def _section(section: Section, numbers: Iterator[int]) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"] if section.title else []
    parts += [f"<p{_class(words)}>{escape(words)}</p>" for words in section.words]
    parts += [_folded(table) if section.folded else _table(table) for table in section.tables if table.rows]
    parts += [_figure(next(numbers), figure.caption) for figure in section.figures]
    if section.items:
        parts.append(f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in section.items)}</ul>")
    return "\n".join(parts)


def _class(words: str) -> str:
    return ' class="warn"' if words.startswith("! ") else ""


def _folded(table: Table) -> str:
    return f"<details><summary>{escape(table.title)}</summary>{_table(table)}</details>"


def _figure(index: int, caption: str) -> str:
    place = f'<div class="plot" data-figure="figure-{index}" role="img" aria-label="{escape(caption)}"></div>'
    return f"<figure>{place}<figcaption>{escape(caption)}</figcaption></figure>"


def _data(index: int, figure: go.Figure) -> str:
    # `<` could end the script element from inside a string.
    text = json.dumps(json.loads(figure.to_json()), sort_keys=True).replace("<", "\\u003c")
    return f'<script type="application/json" id="figure-{index}">{text}</script>'


def _table(table: Table) -> str:
    """A table that scrolls in a box of its own where the page is narrower."""
    starts = _group_starts(table)
    heads = [_cells(((column.name, column) for column in table.columns), starts, "th")]
    if any(column.group for column in table.columns):
        spans = (f'<th colspan="{count}" class="start">{escape(name)}</th>' for name, count in table.groups())
        heads.insert(0, "".join(spans))
    rows = (_cells(zip(row, table.columns, strict=True), starts, "td") for row in table.rows)
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    head, body = ("".join(f"<tr>{cells}</tr>" for cells in part) for part in (heads, rows))
    note = f'<p class="soft">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" role="region" aria-label="{escape(table.title or "table")}" tabindex="0">'
        f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table></div>{note}"
    )


def _group_starts(table: Table) -> set[int]:
    if not any(column.group for column in table.columns):
        return set()
    starts, at = set(), 0
    for _, count in table.groups():
        starts.add(at)
        at += count
    return starts


def _cells(cells: Iterable[tuple[str, Column]], starts: set[int], tag: str) -> str:
    found = []
    for index, (cell, column) in enumerate(cells):
        kinds = ["number"] if column.numeric else ["words"] if len(cell) > _LONG_WORDS else []
        kinds += ["start"] if index in starts else []
        found.append(f'<{tag} class="{" ".join(kinds)}">{escape(cell)}</{tag}>')
    return "".join(found)
