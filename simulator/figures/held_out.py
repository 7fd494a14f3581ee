"""What a validation found: parity with intervals, errors by component, errors over size, coverage."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, log, sqrt

import numpy as np
import plotly.graph_objects as go

from simulator.figures.style import COLOURS, SYMBOLS, cycle, escape, layout, stamp
from simulator.fitting import NINE_IN_TEN
from simulator.validation import HeldOut, Outcome

NAMES = {
    "plain_step": "plain or draft step",
    "verify_step": "verify step",
    "draft_first_step": "first draft step",
    "sampling": "verification",
    "round": "round",
}
"""Components in seconds, in words."""
LEVELS = np.linspace(0.1, 0.99, 30)


def held_out(outcome: Outcome) -> Mapping[str, go.Figure]:
    """The four figures by name; each says NOT VALIDATED where the verdict was that."""
    figures = {
        "parity": _parity(outcome),
        "by_component": _by_component(outcome),
        "over_size": _over_size(outcome),
        "coverage": _coverage(outcome),
    }
    if not outcome.passed:
        for figure in figures.values():
            stamp(figure)
    return figures


def _of(outcome: Outcome, quantity: str) -> list[HeldOut]:
    return [one for one in outcome.found if one.quantity == quantity]


def _parity(outcome: Outcome) -> go.Figure:
    """Measured over predicted milliseconds, both logarithmic, with the 90 % interval of each prediction."""
    figure = go.Figure()
    for index, (quantity, name) in enumerate(NAMES.items()):
        found = _of(outcome, quantity)
        if not found:
            continue
        figure.add_trace(
            go.Scatter(
                name=name,
                x=[one.predicted * 1e3 for one in found],
                y=[one.measured * 1e3 for one in found],
                mode="markers",
                marker={"color": cycle(COLOURS, index), "symbol": cycle(SYMBOLS, index), "size": 6},
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [(one.high - one.predicted) * 1e3 for one in found],
                    "arrayminus": [(one.predicted - one.low) * 1e3 for one in found],
                    "thickness": 0.8,
                    "width": 0,
                },
                text=[escape(one.words) for one in found],
                hovertemplate="%{text}<br>predicted %{x:.3g} ms, measured %{y:.3g} ms<extra></extra>",
            )
        )
    times = [value * 1e3 for one in outcome.found if one.quantity in NAMES for value in (one.predicted, one.measured)]
    if times:
        ends = [min(times) / 1.3, max(times) * 1.3]
        line = {"color": "#888888", "width": 1, "dash": "dash"}
        figure.add_trace(go.Scatter(x=ends, y=ends, mode="lines", line=line, name="equal", hoverinfo="skip"))
    layout(figure, (), x="predicted, ms, with its 90 % interval", y="measured, ms", height=440)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return figure


def _by_component(outcome: Outcome) -> go.Figure:
    """Every relative error, by component and number of devices."""
    figure = go.Figure()
    chips = sorted({one.point.chips for one in outcome.found})
    for index, count in enumerate(chips):
        found = [one for one in outcome.found if one.point.chips == count and one.quantity in (*NAMES, "round_cost")]
        figure.add_trace(
            go.Box(
                name=f"{count} device{'s' * (count > 1)}",
                x=[one.error * 100 for one in found],
                y=[NAMES.get(one.quantity, "round cost") for one in found],
                orientation="h",
                boxpoints="all",
                jitter=0.4,
                pointpos=0,
                line={"width": 1},
                marker={"color": cycle(COLOURS, index), "symbol": cycle(SYMBOLS, index), "size": 3},
                text=[escape(one.words) for one in found],
                hovertemplate="%{text}<br>%{x:+.1f} %<extra></extra>",
            )
        )
    layout(figure, (), x="predicted over measured, % of error", y="", height=460)
    figure.update_layout(boxmode="group")
    return figure


def _over_size(outcome: Outcome) -> go.Figure:
    """Relative error over the bytes of weights that are streamed; the cache's edge is where the hard ones are."""
    figure = go.Figure()
    for index, (quantity, name) in enumerate(NAMES.items()):
        found = [one for one in _of(outcome, quantity) if quantity != "sampling"]
        if found:
            figure.add_trace(
                go.Scatter(
                    name=name,
                    x=[one.footprint_bytes / 1e6 for one in found],
                    y=[one.error * 100 for one in found],
                    mode="markers",
                    marker={"color": cycle(COLOURS, index), "symbol": cycle(SYMBOLS, index), "size": 6},
                    text=[escape(one.words) for one in found],
                    hovertemplate="%{text}<br>%{x:.0f} MB, %{y:+.1f} %<extra></extra>",
                )
            )
    edge = [one.footprint_bytes / 1e6 for one in outcome.found if one.edge]
    if edge:
        figure.add_vrect(x0=min(edge), x1=max(edge), fillcolor="rgba(128,128,128,0.15)", line_width=0)
    layout(figure, (), x="weights, MB (shaded: near a cache's edge)", y="error, %", height=400)
    figure.update_xaxes(type="log")
    return figure


def _coverage(outcome: Outcome) -> go.Figure:
    """Share of measured values inside intervals of each nominal width: on the line where intervals are honest."""
    figure = go.Figure()
    timed = [one for one in outcome.found if one.quantity in (*NAMES, "round_cost")]
    for index, count in enumerate(sorted({one.point.chips for one in timed})):
        scores = [_score(one) for one in timed if one.point.chips == count]
        figure.add_trace(
            go.Scatter(
                name=f"{count} device{'s' * (count > 1)}, {len(scores)} values",
                x=LEVELS * 100,
                y=[100 * float(np.mean([score <= level for score in scores])) for level in LEVELS],
                mode="lines+markers",
                line={"color": cycle(COLOURS, index), "width": 1.5},
                marker={"symbol": cycle(SYMBOLS, index), "size": 5},
            )
        )
    line = {"color": "#888888", "width": 1, "dash": "dash"}
    figure.add_trace(go.Scatter(x=[0, 100], y=[0, 100], mode="lines", line=line, name="honest", hoverinfo="skip"))
    return layout(figure, (), x="nominal width of the interval, %", y="measured values inside, %", height=400)


def _score(one: HeldOut) -> float:
    """The nominal width at which the interval of a prediction just holds the measured value."""
    spread = log(one.high / one.predicted) / NINE_IN_TEN
    return erf(abs(log(one.measured / one.predicted)) / spread / sqrt(2)) if spread > 0 else 1.0
