"""What all figures share. Colour is never the only signal: each series has a symbol, a dash or a pattern too."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from simulator.compare import View, label

# Okabe and Ito's palette, which people with any kind of colour vision can tell apart; without its yellow, which
# vanishes on white, and with a grey in its place.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", "x", ".", "\\", "-", "|")
NOT_VALIDATED = "NOT VALIDATED"
BAR_HEIGHT = 26
MOST_POINTS = 40
"""Points of which a figure with a line for each still reads."""
_LEGEND = {
    "orientation": "h",
    "traceorder": "normal",
    "yref": "container",
    "y": 0,
    "yanchor": "bottom",
    "x": 0,
    "xanchor": "left",
}
_ROOM = 165  # axis, legend and margins


def cycle(values: Sequence[str], index: int) -> str:
    """The value for series number ``index``."""
    return values[index % len(values)]


def escape(text: str) -> str:
    """Words from a file, so that plotly shows them and does not read them as its HTML."""
    return html.escape(text, quote=False)


def layout(figure: go.Figure, views: Sequence[View], *, x: str, y: str, height: int) -> go.Figure:
    """Titles, a legend below, margins that grow with the labels, and the words NOT VALIDATED where they belong.

    There is no width: the page gives it. Colours of text and grid are the page's too, light or dark.
    """
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        margin={"l": 8, "r": 8, "t": 44, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#555555"},
        legend=_LEGEND,
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "#888888", "activecolor": "#555555"},
        hoverlabel={"align": "left", "namelength": -1},
        hovermode="closest",
    )
    axis: dict[str, Any] = {"automargin": True, "gridcolor": "rgba(128,128,128,0.3)", "linecolor": "#888888"}
    figure.update_xaxes(**axis, zeroline=False, title={"text": x, "standoff": 6})
    figure.update_yaxes(**axis, zeroline=False, title={"text": y, "standoff": 4})
    predictions = [view for view in views if view.predicted]
    if predictions and not any(view.validated for view in predictions):
        stamp(figure)
    return figure


def stamp(figure: go.Figure) -> None:
    """The words NOT VALIDATED, above the plot."""
    figure.add_annotation(
        text=f"<b>{NOT_VALIDATED}</b>",
        xref="paper",
        yref="paper",
        x=0,
        y=1,
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        font={"size": 13},
    )


def place(view: View, names: Mapping[str, str]) -> str:
    """The point and the side in few enough letters for the axis of a narrow plot: ``wide X4 K8 seen``."""
    others = "".join(f" {value}" for value in view.other_axes.values())
    side = "pred" if view.predicted else "seen"
    return escape(f"{names[view.draft]} X{view.chips} K{view.lookahead}{others} {side}")


def side_by_side(views: Iterable[View]) -> tuple[list[View], str]:
    """One prediction of each point with what was seen there right after it; and a word on points left out."""
    points: dict[str, dict[str, View]] = {}
    for view in views:
        side = "predicted" if view.predicted else "seen"
        points.setdefault(label(view), {}).setdefault(side, view)
    shown = list(points.values())[:MOST_POINTS]
    pairs = [sides[side] for sides in shown for side in ("predicted", "seen") if side in sides]
    return pairs, f" (the first {MOST_POINTS} of {len(points):,} points)" if len(points) > MOST_POINTS else ""


def categories(figure: go.Figure, labels: Sequence[str]) -> None:
    """Lines from top to bottom in the order given, with no room lost above or below them."""
    figure.update_yaxes(categoryorder="array", categoryarray=list(labels), range=[len(labels) - 0.5, -0.5])


def bars_height(count: int) -> int:
    """Height of a figure with ``count`` horizontal bars."""
    return _ROOM + BAR_HEIGHT * max(count, 2)


def bar(name: str, index: int, x: Sequence[float | None], y: Sequence[str], unit: str) -> go.Bar:
    """One series of a stack of horizontal bars."""
    # Overlaid, the pattern is white on the colour; replacing, which is the default, it would be colour on nothing.
    pattern = {"shape": cycle(PATTERNS, index), "fillmode": "overlay", "fgcolor": "#ffffff", "size": 7}
    return go.Bar(
        name=name,
        x=x,
        y=y,
        orientation="h",
        marker={"color": cycle(COLOURS, index), "pattern": pattern, "line": {"width": 0.5, "color": "#ffffff"}},
        hovertemplate=f"%{{y}}<br>{name} %{{x:.3g}} {unit}<extra></extra>",
    )


def spread(values: Sequence[tuple[float, float | None, float | None]], scale: float, axis: str) -> dict[str, Any]:
    """Error bars along ``axis`` from values and their intervals; empty where there are none."""
    if all(low is None or high is None for _, low, high in values):
        return {}
    above = [(high - value) / scale if high is not None else 0.0 for value, _, high in values]
    below = [(value - low) / scale if low is not None else 0.0 for value, low, _ in values]
    bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.2, "width": 3}
    return {f"error_{axis}": bars}
