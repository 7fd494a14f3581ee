"""Where the time goes: the round and its parts, the step and its mechanisms."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from simulator.compare import View
from simulator.figures.style import MOST_POINTS, bar, bars_height, categories, escape, layout, place, side_by_side
from simulator.spec.terms import MECHANISMS
from simulator.tables import round_parts
from simulator.tables.wording import short_names, time_scale

_PARTS = ("first draft step", "draft steps", "verify", "sampling", "overhead", "not separated")


def rounds(views: Sequence[View]) -> go.Figure | None:
    """Each round as a stack of its parts, predicted above measured, and the time it must stay under to pay.

    None where no record has a round.
    """
    shown, left_out = side_by_side(view for view in views if view.get("round_s"))
    if not shown:
        return None
    unit, scale = time_scale(value.value for view in shown if (value := view.get("round_s")))
    names = short_names(view.draft for view in shown)
    labels = [place(view, names) for view in shown]
    parts = [round_parts(view) for view in shown]
    figure = go.Figure()
    for index, name in enumerate(_PARTS):
        if any(name in known for known in parts):
            # What a round takes beyond its parts may be less than nothing; that is no bar, but see the whole round.
            seconds = [known[name] / scale if known.get(name, 0.0) > 0 else None for known in parts]
            figure.add_trace(bar(name, index, seconds, labels, unit))
    whole = [value.value / scale for view in shown if (value := view.get("round_s"))]
    figure.add_trace(_marks("the whole round", "diamond-tall-open", whole, labels, unit))
    limits = _pays_until(shown, scale)
    figure.add_trace(_marks("plain decoding of as many tokens", "line-ns-open", limits, labels, unit))
    figure.update_layout(barmode="stack", bargap=0.25)
    layout(figure, shown, x=f"time of a round, {unit}{left_out}", y="", height=bars_height(len(shown)))
    categories(figure, labels)
    return figure


def _pays_until(views: Sequence[View], scale: float) -> list[float | None]:
    """Tokens of a round times a plain step: a round that ends left of it is faster than plain decoding."""
    limits = []
    for view in views:
        step, tokens = view.get("plain_step_s"), view.get("acceptance_length")
        limits.append(step.value * tokens.value / scale if step and tokens else None)
    return limits


def _marks(name: str, symbol: str, x: Sequence[float | None], labels: Sequence[str], unit: str) -> go.Scatter:
    return go.Scatter(
        name=name,
        x=x,
        y=labels,
        mode="markers",
        marker={"symbol": symbol, "size": 14, "line": {"width": 2}, "color": "#888888"},
        hovertemplate=f"%{{y}}<br>{name} %{{x:.3g}} {unit}<extra></extra>",
    )


def mechanisms(views: Sequence[View]) -> go.Figure | None:
    """What the plain step and the draft step are spent on, for each model and number of chips; None if unknown."""
    stacks: dict[str, dict[str, float]] = {}
    shown = [view for view in views if view.record.mechanisms]
    names = short_names(view.draft for view in shown)
    for view in shown:
        known = view.record.mechanisms
        steps = {f"plain step X{view.chips}": "plain_step"}
        steps |= {f"{escape(names[view.draft])} step X{view.chips}": "draft_step"}
        for words, component in steps.items():
            if component in known:
                stacks.setdefault(words, known[component])
    stacks = dict(list(stacks.items())[:MOST_POINTS])
    if not stacks:
        return None
    unit, scale = time_scale(sum(parts.values()) for parts in stacks.values())
    figure = go.Figure()
    for index, name in enumerate(MECHANISMS):
        seconds = [parts.get(name, 0.0) / scale for parts in stacks.values()]
        if any(seconds):
            figure.add_trace(bar(name.replace("_", " "), index, seconds, list(stacks), unit))
    figure.update_layout(barmode="stack", bargap=0.25)
    layout(figure, shown, x=f"predicted time of a step, {unit}", y="", height=bars_height(len(stacks)))
    categories(figure, list(stacks))
    return figure
