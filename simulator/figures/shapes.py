"""Every shape of a plan by closed form: gain over width and depth, with lines of equal size and of equal step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from simulator.figures.style import SYMBOLS, cycle, escape, layout, stamp
from simulator.plan import Outcome, leading_draft
from simulator.plan.proposals import Proposal
from simulator.speculation import tokens_per_round
from simulator.units import human_time

Array = npt.NDArray[np.float64]
Point = tuple[float, float]

LOSS, ONE, GAIN = "#D98A45", "#F7F5F0", "#4C9BD1"
"""Below 1, at 1, above 1; light enough for dark lines upon them."""
INK = "#222222"
_MOST_TICKS, _MOST_LINES = 6, 5
_SHORTEST = 0.7
"""Cells that a line must cross."""


@dataclass(frozen=True)
class Grid:
    """The best of every layers and width: gain at the mean of the prior, weights, draft step; each [layers, widths]."""

    layers: Array
    widths: Array
    gain: Array
    lookahead: Array
    degree: Array
    parameters: Array
    step_s: Array
    """Where the leading draft is placed."""


def grid(outcome: Outcome) -> Grid:
    """Of each layers and width the best lookahead, placement and whatever else is tried, with the leader's target."""
    leader = leading_draft(outcome)
    group = leader.group if leader else outcome.candidates[0].group
    drafts = outcome.drafts
    layers, row = np.unique(drafts.layers, return_inverse=True)
    widths, column = np.unique(drafts.d_model, return_inverse=True)
    gain, lookahead, degree, parameters, step = (np.full((len(layers), len(widths)), np.nan) for _ in range(5))
    for one in outcome.candidates:
        if one.group.option != group.option:
            continue
        tokens = tokens_per_round(outcome.mean_acceptance[one.index][None, :], one.lookahead[:, None])
        gains = tokens * one.group.plain_s / one.round_s
        for place, index in enumerate(one.index):
            at = row[index], column[index]
            best = int(gains[:, place].argmax())
            if not gains[best, place] <= gain[at]:
                gain[at], parameters[at] = gains[best, place], drafts.parameters[index]
                lookahead[at], degree[at] = one.lookahead[best], one.group.degree
            if one.group.degree == group.degree and not step[at] <= one.step_s[place]:
                step[at] = one.step_s[place]
    return Grid(layers, widths, gain, lookahead, degree, parameters, step)


def shapes(outcome: Outcome, *, validated: bool = False) -> go.Figure:
    """Colour is gain; lines are of equal size and equal draft step; marked are the leader, its peers, what exists."""
    found, figure = grid(outcome), go.Figure()
    figure.add_trace(_map(found))
    single = (leading_draft(outcome), *(one for one in outcome.proposals if one.index is None))
    marks = [place for one in single if one is not None and (place := _place(found, one)) is not None]
    line: dict[str, Any] = {"width": 1.6, "color": INK}
    sizes = {level: f"{level / 1e9:g} B" for level in _levels(found.parameters)}
    _lines(figure, found.parameters, sizes, "equal size", line | {"dash": "solid"}, marks, first=True)
    times = {level: human_time(level, 2) for level in _levels(found.step_s, (1, 1.5, 2, 3, 5, 7))}
    _lines(figure, found.step_s, times, "equal draft step", line | {"dash": "dot"}, marks, first=False)
    _marks(figure, found, outcome)
    layout(figure, (), x="width", y="layers", height=560)
    figure.update_xaxes(**_ticks(found.widths), showgrid=False)
    figure.update_yaxes(**_ticks(found.layers), showgrid=False)
    return stamped(figure, validated=validated)


def stamped(figure: go.Figure, *, validated: bool) -> go.Figure:
    """The figure, with the words NOT VALIDATED unless it is."""
    if not validated:
        stamp(figure)
    return figure


def _map(found: Grid) -> go.Heatmap:
    low, high, colours = about_one(found.gain)
    words = [
        [
            f"{layers:g} layers of width {width:,.0f}, {found.parameters[i, j] / 1e9:.2g} B<br>gain "
            f"{found.gain[i, j]:.2f} at K {found.lookahead[i, j]:.0f}, on {found.degree[i, j]:.0f} chips"
            for j, width in enumerate(found.widths)
        ]
        for i, layers in enumerate(found.layers)
    ]
    return go.Heatmap(
        x=np.arange(len(found.widths), dtype=float),
        y=np.arange(len(found.layers), dtype=float),
        z=found.gain,
        zmin=low,
        zmax=high,
        colorscale=colours,
        hoverongaps=False,
        text=words,
        hovertemplate="%{text}<extra></extra>",
        colorbar=colour_bar("gain"),
    )


def about_one(gains: Array) -> tuple[float, float, list[tuple[float, str]]]:
    """Ends of a scale that holds all gains and 1, and its colours, by their share of it."""
    low, high = min(float(np.nanmin(gains)), 1.0), max(float(np.nanmax(gains)), 1.0)
    if high - low < 1e-9:
        return low, low + 0.1, [(0.0, ONE), (1.0, GAIN)]
    middle = (1 - low) / (high - low)
    colours = [(middle, ONE)]
    if middle > 0:
        colours.insert(0, (0.0, LOSS))
    if middle < 1:
        colours.append((1.0, GAIN))
    return low, high, colours


def colour_bar(title: str) -> dict[str, Any]:
    """A thin bar at the right."""
    return {"title": {"text": title, "side": "top"}, "thickness": 9, "xpad": 2, "ypad": 0, "nticks": 6}


def _ticks(values: Array) -> dict[str, Any]:
    """Places of a grid with the values that stand there, few enough to read."""
    step = -(-len(values) // _MOST_TICKS)
    shown = range(0, len(values), step)
    ends = [-0.5, len(values) - 0.5]
    return {"tickvals": list(shown), "ticktext": [f"{values[i]:g}" for i in shown], "range": ends, "tickangle": 0}


def _levels(values: Array, digits: Sequence[float] = (1, 2, 5)) -> list[float]:
    """Round numbers inside the values, at most a few."""
    known = values[np.isfinite(values)]
    if not known.size:
        return []
    low, high = float(known.min()), float(known.max())
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    every = [digit * 10.0**decade for decade in decades for digit in digits if low < digit * 10.0**decade < high]
    return every[:: -(-len(every) // _MOST_LINES) or 1] if every else []


def crossings(values: Array, level: float) -> list[Point]:
    """Where a grid that grows along both axes meets a level: (column, row), from left to right."""
    found = set()
    log = np.log(values)
    for i, j in np.argwhere(np.isfinite(values)):
        for rows, columns in ((1, 0), (0, 1)):
            i2, j2 = i + rows, j + columns
            if i2 >= values.shape[0] or j2 >= values.shape[1] or not np.isfinite(values[i2, j2]):
                continue
            if values[i, j] <= level < values[i2, j2]:
                share = float((np.log(level) - log[i, j]) / (log[i2, j2] - log[i, j]))
                found.add((float(j + share * columns), float(i + share * rows)))
    return sorted(found, key=lambda point: (point[0], -point[1]))


def _lines(
    figure: go.Figure,
    values: Array,
    levels: dict[float, str],
    name: str,
    line: Any,
    taken: list[Point],
    *,
    first: bool,
) -> None:
    """A line for each level, with its words at its first or last point, or where it is clear of what is taken."""
    shown, (rows, columns) = True, values.shape
    for level, words in levels.items():
        points = crossings(values, level)
        if len(points) < 2 or points[-1][0] - points[0][0] < max(_SHORTEST, 0.08 * columns):
            continue
        figure.add_trace(
            go.Scatter(
                name=name,
                legendgroup=name,
                showlegend=shown,
                x=[x for x, _ in points],
                y=[y for _, y in points],
                mode="lines",
                line=line,
                hoverinfo="skip",
            )
        )
        shown = False
        place = _clear(points, taken, (0.25 * columns, 0.06 * rows), first=first)
        taken.append(points[place])
        _label(figure, words, points[place], left=place < len(points) // 2)


def _clear(points: Sequence[Point], taken: Sequence[Point], room: Point, *, first: bool) -> int:
    """The point of a line that is clear of all that stands there: an end if it can be."""
    last = len(points) - 1
    ends = (0, last) if first else (last, 0)
    order = (*ends, last // 2, last // 4, 3 * last // 4)
    for place in order:
        x, y = points[place]
        if not any(abs(x - x2) < room[0] and abs(y - y2) < room[1] for x2, y2 in taken):
            return place
    return order[0]


def _label(figure: go.Figure, words: str, place: Point, *, left: bool) -> None:
    figure.add_annotation(
        text=words,
        x=place[0],
        y=place[1],
        xanchor="left" if left else "right",
        showarrow=False,
        font={"size": 11, "color": INK},
        bgcolor="rgba(255,255,255,0.8)",
        borderpad=1,
    )


def _marks(figure: go.Figure, found: Grid, outcome: Outcome) -> None:
    leader = leading_draft(outcome)
    peers = [one for one in outcome.top if one.index is not None and one is not leader]
    for name, some, symbol, size in _groups(outcome, leader, peers):
        placed = [(one, place) for one in some if (place := _place(found, one)) is not None]
        if not placed:
            continue
        figure.add_trace(
            go.Scatter(
                name=escape(name),
                x=[place[0] for _, place in placed],
                y=[place[1] for _, place in placed],
                mode="markers",
                marker={"symbol": symbol, "size": size, "color": INK, "line": {"width": 1, "color": "#ffffff"}},
                text=[f"{escape(one.ranked.entry.name)}: gain {one.gain:.2f}, drawn" for one, _ in placed],
                hovertemplate="%{text}<extra></extra>",
            )
        )


def _groups(
    outcome: Outcome, leader: Proposal | None, peers: Sequence[Proposal]
) -> Iterator[tuple[str, list[Proposal], str, int]]:
    """What is marked: words, which, symbol, size."""
    yield "not told from the first", list(peers), "circle", 4
    existing: dict[str, list[Proposal]] = {}
    for one in outcome.proposals:
        if one.index is None and one.model is not None:
            existing.setdefault(one.model.name, []).append(one)
    for number, (name, some) in enumerate(existing.items(), start=1):
        yield f"{name}, exists", some[:1], cycle(SYMBOLS[:5], number), 12
    if leader is not None:
        yield f"first: {leader.ranked.entry.name.removeprefix('draft-')}", [leader], "star", 16


def _place(found: Grid, one: Proposal) -> Point | None:
    """Where on the grid a model lies; None beyond it."""
    if one.model is None:
        return None
    place = []
    for value, known in ((one.model.d_model, found.widths), (one.model.layers, found.layers)):
        if not known[0] <= value <= known[-1]:
            return None
        place.append(float(np.interp(np.log(value), np.log(known), np.arange(len(known)))))
    return place[0], place[1]
