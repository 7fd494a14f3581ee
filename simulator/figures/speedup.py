"""Speedup over K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simulator.compare import View
from simulator.compare.views import devices
from simulator.figures.style import COLOURS, DASHES, SYMBOLS, cycle, escape, layout, spread
from simulator.tables.wording import short_names

_PANEL_HEIGHT = 230
_MOST_PANELS = 6
_MOST_SERIES = 6  # as many as there are dashes
_ASIDE = 0.015  # of the range of K


@dataclass(frozen=True)
class _Series:
    """One draft, with whatever else is swept: the points of a line and of the markers that belong to it."""

    words: str
    index: int
    aside: float
    """How far markers stand from their K, so that the error bars of two series do not cover each other."""


def speedup(views: Sequence[View]) -> go.Figure | None:
    """Speedup over K: predicted lines, measured markers with their spread, a panel for each number of chips.

    None where no record drafts anything.
    """
    drafting = [view for view in views if view.lookahead > 0 and view.get("speedup")]
    if not drafting:
        return None
    panels = {devices(view): view.chips for view in sorted(drafting, key=lambda view: view.chips)}
    panels = dict(list(panels.items())[:_MOST_PANELS])
    titles = [f"on {words}" for words in panels]
    figure = make_subplots(rows=len(panels), shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.09)
    # To the right, clear of the words NOT VALIDATED.
    figure.update_annotations(x=1, xanchor="right", font={"size": 13})
    names = short_names(view.draft for view in drafting)
    series, left_out = _series(drafting, names)
    for row, chips in enumerate(panels.values(), start=1):
        here = [view for view in drafting if view.chips == chips]
        for one in series:
            _draw(figure, row, one, [view for view in here if _words(view, names) == one.words])
        figure.add_hline(y=1, line={"dash": "dot", "color": "#888888", "width": 1.5}, row=row, col=1)
    layout(figure, drafting, x="", y="speedup", height=130 + _PANEL_HEIGHT * len(panels))
    figure.update_xaxes(tickvals=sorted({view.lookahead for view in drafting}), showticklabels=True)
    figure.update_yaxes(matches="y", range=_range(drafting))
    figure.update_xaxes(title={"text": f"K, draft tokens proposed per round{left_out}"}, row=len(panels))
    return figure


def _words(view: View, names: Mapping[str, str]) -> str:
    others = (f"{path.rpartition('.')[2]} {value}" for path, value in view.other_axes.items())
    return escape(", ".join((names[view.draft], *others)))


def _series(views: Sequence[View], names: Mapping[str, str]) -> tuple[list[_Series], str]:
    """The series to draw, and a word on those left out."""
    every = list(dict.fromkeys(_words(view, names) for view in views))
    shown = every[:_MOST_SERIES]
    span = max(view.lookahead for view in views) - min(view.lookahead for view in views)
    middle = (len(shown) - 1) / 2
    found = [_Series(words, index, (index - middle) * _ASIDE * span) for index, words in enumerate(shown)]
    return found, f" (the first {_MOST_SERIES} of {len(every):,} series)" if len(every) > _MOST_SERIES else ""


def _range(views: Sequence[View]) -> list[float]:
    """From under 1 (no gain) to over the best, with room for the error bars."""
    seen = [end for view in views if (v := view.get("speedup")) for end in (v.value, v.low, v.high) if end is not None]
    low, high = min(1.0, *seen), max(1.0, *seen)
    return [low - 0.06 * (high - low), high + 0.06 * (high - low)]


def _draw(figure: go.Figure, row: int, series: _Series, views: Sequence[View]) -> None:
    named = {trace.name for trace in figure.data}
    for predicted in (True, False):
        points = _by_lookahead([view for view in views if view.predicted == predicted])
        if points:
            line = _line(points, series, predicted=predicted)
            figure.add_trace(line.update(showlegend=line.name not in named), row=row, col=1)


def _by_lookahead(views: Sequence[View]) -> list[View]:
    """One record for each K: that which plays the output to its end, where there are several predictions."""
    known = {view.lookahead: view for view in sorted(views, key=lambda view: view.record.kind)}
    return [known[lookahead] for lookahead in sorted(known)]


def _line(points: Sequence[View], series: _Series, *, predicted: bool) -> go.Scatter:
    values = [(v.value, v.low, v.high) for point in points if (v := point.get("speedup"))]
    name = f"{series.words}, {'predicted' if predicted else 'seen'}"
    symbol = cycle(SYMBOLS, series.index) + ("-open" if predicted else "")
    colour = cycle(COLOURS, series.index)
    return go.Scatter(
        name=name,
        legendgroup=name,
        x=[point.lookahead + (0.0 if predicted else series.aside) for point in points],
        text=[str(point.lookahead) for point in points],
        y=[value for value, _, _ in values],
        mode="lines" if predicted and len(points) > 1 else "markers",
        line={"color": colour, "dash": cycle(DASHES, series.index), "width": 2},
        marker={"symbol": symbol, "size": 10, "color": colour},
        hovertemplate=f"{name}<br>K %{{text}}: %{{y:.2f}} x<extra></extra>",
        **spread(values, 1.0, "y"),
    )
