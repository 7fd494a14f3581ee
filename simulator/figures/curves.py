"""Predicted against seen, time to N tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from simulator.compare import Comparison, Row, View
from simulator.figures.style import (
    BAR_HEIGHT,
    COLOURS,
    SYMBOLS,
    bars_height,
    categories,
    cycle,
    escape,
    layout,
    place,
    side_by_side,
    spread,
)
from simulator.spec.record import Distribution
from simulator.tables import preferred
from simulator.tables.agreement import GOAL
from simulator.tables.wording import short_names, term_words, time_scale

_COMPARED = ("plain_step_s", "draft_first_step_s", "draft_step_s", "verify_step_s", "round_s", "tpot_s", "prefill_s")
_MANY_DECADES = 2.5


def parity(comparison: Comparison) -> go.Figure | None:
    """Predicted over seen time on logarithmic axes, with a band of +-25 %; None where no time was compared."""
    rows = [row for row in preferred(comparison.rows) if row.term in _COMPARED]
    if not rows:
        return None
    unit, scale = time_scale(row.reference.value for row in rows)
    figure = go.Figure()
    ends = [f(v.value for row in rows for v in (row.predicted, row.reference)) / scale for f in (min, max)]
    _band(figure, ends[0] / 1.3, ends[1] * 1.3)
    series = dict.fromkeys((row.term, row.reference_kind, row.use) for row in rows)
    for index, key in enumerate(series):
        group = [row for row in rows if (row.term, row.reference_kind, row.use) == key]
        words = " ".join(word for word in (term_words(key[0]), key[1] if key[2] else "", key[2]) if word)
        figure.add_trace(_points(words, index, group, unit, scale))
    layout(figure, comparison.views, x=f"seen, {unit}", y=f"predicted, {unit}", height=440)
    axis = _log_axis(ends)
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure


def _points(name: str, index: int, rows: Sequence[Row], unit: str, scale: float) -> go.Scatter:
    return go.Scatter(
        name=name,
        x=[row.reference.value / scale for row in rows],
        y=[row.predicted.value / scale for row in rows],
        mode="markers",
        marker={"symbol": cycle(SYMBOLS, index), "size": 9, "color": cycle(COLOURS, index), "line": {"width": 0.5}},
        text=[f"{escape(row.point)}, error {row.error:+.1%}" for row in rows],
        hovertemplate=f"{name}, %{{text}}<br>seen %{{x:.3g}}, predicted %{{y:.3g}} {unit}<extra></extra>",
        **spread([(r.reference.value, r.reference.low, r.reference.high) for r in rows], scale, "x"),
        **spread([(r.predicted.value, r.predicted.low, r.predicted.high) for r in rows], scale, "y"),
    )


def _band(figure: go.Figure, low: float, high: float) -> None:
    ends = [low, high]
    for factor, fill in ((1 - GOAL, None), (1 + GOAL, "tonexty")):
        figure.add_trace(
            go.Scatter(
                name=f"within {GOAL:.0%}",
                x=ends,
                y=[factor * end for end in ends],
                mode="lines",
                line={"width": 1, "dash": "dot", "color": "#888888"},
                fill=fill,
                fillcolor="rgba(128,128,128,0.15)",
                hoverinfo="skip",
                showlegend=fill is not None,
            )
        )
    line = {"width": 1.5, "color": "#888888"}
    figure.add_trace(go.Scatter(name="equal", x=ends, y=ends, mode="lines", line=line, hoverinfo="skip"))


def _log_axis(ends: Sequence[float]) -> dict[str, object]:
    """From under the least to over the most, whatever the error bars; ticks in plain numbers, few enough to read."""
    low, high = (math.log10(max(end, 1e-12)) for end in ends)
    digits = (1, 2, 5) if high - low < _MANY_DECADES else (1,)
    values = [digit * 10.0**decade for decade in range(math.floor(low) - 1, math.ceil(high) + 1) for digit in digits]
    ticks = {"tickvals": values, "ticktext": [f"{value:g}" for value in values], "tickangle": 0}
    return {"type": "log", "range": [low - 0.15, high + 0.15], **ticks}


def time_to_tokens(views: Sequence[View]) -> go.Figure | None:
    """How long a request of N tokens takes: median, mean, 90th and 99th percentile; None where nobody knows."""
    timed = (view for view in views if isinstance(view.record.metrics.get("time_to_tokens_s"), Distribution))
    shown, left_out = side_by_side(timed)
    known = [(view, d) for view in shown if isinstance(d := view.record.metrics["time_to_tokens_s"], Distribution)]
    if not known:
        return None
    unit, scale = time_scale(distribution.p99 for _, distribution in known)
    names = short_names(view.draft for view, _ in known)
    labels = [place(view, names) for view, _ in known]
    figure = go.Figure()
    parts = (("median", "p50"), ("mean", "mean"), ("90 %", "p90"), ("99 %", "p99"))
    for words, (_, distribution) in zip(labels, known, strict=True):
        span = [distribution.p50 / scale, distribution.p99 / scale]
        line = {"color": "#888888", "width": 2}
        figure.add_scatter(x=span, y=[words] * 2, mode="lines", line=line, showlegend=False, hoverinfo="skip")
    for index, (words, part) in enumerate(parts):
        figure.add_trace(
            go.Scatter(
                name=words,
                x=[getattr(distribution, part) / scale for _, distribution in known],
                y=labels,
                mode="markers",
                marker={"symbol": cycle(SYMBOLS, index), "size": 9, "color": cycle(COLOURS, index)},
                hovertemplate=f"%{{y}}<br>{words} %{{x:.3g}} {unit}<extra></extra>",
            )
        )
    tokens = sorted({view.scenario.workload.output_tokens for view, _ in known})
    title = f"time to {' or '.join(f'{n:,}' for n in tokens)} tokens, {unit}{left_out}"
    layout(figure, [view for view, _ in known], x=title, y="", height=bars_height(len(known)) - BAR_HEIGHT)
    categories(figure, labels)
    return figure
