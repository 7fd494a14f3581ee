"""Published against predicted: parity by quantity, errors by source, speedups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from simulator.figures.style import COLOURS, SYMBOLS, cycle, escape, layout
from simulator.validation.published import Judged


def published(rows: Sequence[Judged]) -> Mapping[str, go.Figure]:
    """The figures by name, of the rows whose errors count; none without rows."""
    counted = [row for row in rows if row.counted]
    times = [row for row in counted if row.quantity != "speedup"]
    gains = [row for row in counted if row.quantity == "speedup"]
    drawn = {
        "parity": _parity(times, "time a step, round or token, ms", _milliseconds) if times else None,
        "speedup": _parity(gains, "speedup", lambda _, value: value) if gains else None,
        "errors": _errors(counted) if any(row.entry.row.use == "test" for row in counted) else None,
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _milliseconds(row: Judged, value: float) -> float:
    return 1e3 / value if row.entry.row.unit == "token/s" else 1e3 * value


def _parity(rows: Sequence[Judged], what: str, shown: Callable[[Judged, float], float]) -> go.Figure:
    """Published over predicted, both logarithmic; hollow where the row was fitted to."""
    figure = go.Figure()
    sources = list(dict.fromkeys(row.about.name for row in rows))
    for index, name in enumerate(sources):
        for use in ("test", "fit"):
            found = [row for row in rows if row.about.name == name and row.entry.row.use == use]
            pairs = [(shown(row, row.predicted or 0.0), shown(row, row.published), row) for row in found]
            if pairs:
                figure.add_trace(_dots(pairs, name if use == "test" else f"{name}, fitted", index, hollow=use == "fit"))
    values = [value for row in rows for value in (shown(row, row.predicted or 0.0), shown(row, row.published))]
    if values:
        ends = [min(values) / 1.3, max(values) * 1.3]
        line = {"color": "#888888", "width": 1, "dash": "dash"}
        figure.add_trace(go.Scatter(x=ends, y=ends, mode="lines", line=line, name="equal", hoverinfo="skip"))
    layout(figure, (), x=f"predicted {what}", y=f"published {what}", height=480)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return figure


def _dots(pairs: Sequence[tuple[float, float, Judged]], name: str, index: int, *, hollow: bool) -> go.Scatter:
    symbol = cycle(SYMBOLS, index) + ("-open" if hollow else "")
    return go.Scatter(
        name=escape(name),
        x=[x for x, _, _ in pairs],
        y=[y for _, y, _ in pairs],
        mode="markers",
        marker={"color": cycle(COLOURS, index), "symbol": symbol, "size": 8},
        text=[escape(f"{row.about.name}, {row.entry.row.where}") for _, _, row in pairs],
        hovertemplate="%{text}<br>predicted %{x:.3g}, published %{y:.3g}<extra></extra>",
    )


def _errors(rows: Sequence[Judged]) -> go.Figure:
    """Errors of the rows that were not fitted to, by source."""
    figure = go.Figure()
    tested = [row for row in rows if row.entry.row.use == "test"]
    for index, quantity in enumerate(dict.fromkeys(row.quantity for row in tested)):
        found = [row for row in tested if row.quantity == quantity]
        figure.add_trace(
            go.Box(
                name=quantity,
                x=[100 * (row.error or 0.0) for row in found],
                y=[escape(row.about.name) for row in found],
                orientation="h",
                boxpoints="all",
                jitter=0.4,
                pointpos=0,
                line={"width": 1},
                marker={"color": cycle(COLOURS, index), "symbol": cycle(SYMBOLS, index), "size": 4},
                text=[escape(row.entry.row.where) for row in found],
                hovertemplate="%{text}<br>%{x:+.1f} %<extra></extra>",
            )
        )
    height = 160 + 46 * max(len({row.about.name for row in tested}), 4)
    layout(figure, (), x="error of the prediction, %; positive is too slow", y="", height=height)
    figure.update_layout(boxmode="group")
    return figure
