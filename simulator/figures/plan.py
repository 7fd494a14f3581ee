"""What a plan found: the front of step and acceptance, gain of the leader, who is best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simulator.figures.shapes import INK, about_one, colour_bar, stamped
from simulator.figures.style import BAR_HEIGHT, COLOURS, DASHES, SYMBOLS, bar, categories, cycle, escape, layout
from simulator.plan import Outcome, front_of, leading_draft
from simulator.plan.proposals import Proposal
from simulator.speculation import break_even_acceptance, tokens_per_round

Array = npt.NDArray[np.float64]

_GAINS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0)
_FIRST = 10


def _acceptance(one: Proposal) -> tuple[float, float, float]:
    return one.acceptance or (float("nan"),) * 3


def drafting(outcome: Outcome) -> list[Proposal]:
    """The drawn candidates with a model of its own, of the target option of the first of them.

    A head is not among them: its first pass of a round is not like the others, as lines of equal gain take for given.
    """
    some = [one for one in outcome.proposals if one.acceptance and one.model is not None and not one.head]
    return [one for one in some if one.group.option == some[0].group.option]


def step_for_gain(leader: Proposal, gain: float, acceptance: Array) -> Array:
    """The slowest draft step that gives a gain at each acceptance, at the best lookahead; what else a round takes is
    the leader's. Below nothing where no step does."""
    entry = leader.ranked.entry
    cold_s = entry.drafted_s[0] - entry.lookahead[0] * leader.step_s  # the first step over the others
    allowed = [
        (tokens_per_round(acceptance, k) * leader.group.plain_s / gain - rest - cold_s) / k
        for k, rest in zip(entry.lookahead, entry.rest_s, strict=True)
    ]
    return np.asarray(np.max(allowed, axis=0))


def front(outcome: Outcome, *, validated: bool = False) -> go.Figure | None:
    """Draft step over acceptance by the prior, the front, lines of equal gain; None where nothing drafts."""
    some = drafting(outcome)
    if not some:
        return None
    leader, figure, best = some[0], go.Figure(), front_of(some)
    existing = [one for one in some if one.index is None]
    others = [one for one in some if one.index is not None and one not in best and one is not leader]
    ends = [1e3 * f(one.step_s for one in some) for f in (min, max)]
    low, high = 0.8 * ends[0], 1.3 * ends[1]
    _equal_gain(figure, leader, low, high)
    _points(figure, "drawn", others, "circle-open", 6, "#888888", bars=False)
    _points(figure, "on the front", best, "circle", 8, COLOURS[0], bars=True)
    names = dict.fromkeys(one.model.name for one in existing if one.model is not None)
    for number, name in enumerate(names, start=1):
        same = [one for one in existing if one.model is not None and one.model.name == name]
        _points(figure, f"{name}, exists", same, cycle(SYMBOLS[:5], number), 11, cycle(COLOURS, number), bars=True)
    name = leader.ranked.entry.name.removeprefix("draft-")
    _points(figure, f"first: {name}", [leader], "star", 16, COLOURS[2], bars=True)
    layout(figure, (), x="acceptance, by the prior", y="draft step, ms", height=520)
    ticks = _ticks(low, high)
    figure.update_yaxes(type="log", range=[np.log10(low), np.log10(high)], tickvals=ticks)
    figure.update_yaxes(ticktext=[f"{value:g}" for value in ticks])
    figure.update_xaxes(range=[0, 1])
    return stamped(figure, validated=validated)


def _ticks(low: float, high: float) -> list[float]:
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    digits = (1, 2, 5) if high / low > 12 else (1, 1.5, 2, 3, 4, 5, 7)
    return [d * 10.0**decade for decade in decades for d in digits if low <= d * 10.0**decade <= high]


def _equal_gain(figure: go.Figure, leader: Proposal, low: float, high: float) -> None:
    acceptance, shown = np.linspace(0.0, 1.0, 201), True
    for gain in _GAINS:
        allowed = 1e3 * step_for_gain(leader, gain, acceptance)
        inside = (allowed > low) & (allowed < high)
        if inside.sum() < 3:
            continue
        x, y = acceptance[inside], allowed[inside]
        figure.add_trace(
            go.Scatter(
                name="equal gain",
                legendgroup="equal gain",
                showlegend=shown,
                x=x,
                y=y,
                mode="lines+text",
                text=[f"{gain:g}x" if i == len(x) - 1 else "" for i in range(len(x))],
                textposition="bottom left",
                textfont={"size": 12},
                line={"width": 2 if gain == 1 else 1, "dash": "solid" if gain == 1 else "dot", "color": "#888888"},
                hovertemplate=f"gain {gain:g}: a step of %{{y:.3g}} ms at acceptance %{{x:.2f}}<extra></extra>",
            )
        )
        shown = False


def _points(
    figure: go.Figure, name: str, some: Sequence[Proposal], symbol: str, size: int, colour: str, *, bars: bool
) -> None:
    if not some:
        return
    known = [_acceptance(one) for one in some]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    error = {
        "type": "data",
        "symmetric": False,
        "array": [high - mean for mean, _, high in known],
        "arrayminus": [mean - low for mean, low, _ in known],
        "thickness": 1,
        "width": 0,
        "color": f"rgba({red}, {green}, {blue}, 0.45)",
    }
    figure.add_trace(
        go.Scatter(
            name=escape(name),
            x=[mean for mean, _, _ in known],
            y=[1e3 * one.step_s for one in some],
            mode="markers",
            marker={"symbol": symbol, "size": size, "color": colour, "line": {"width": 1}},
            text=[
                f"{escape(one.ranked.entry.name)}: gain {one.gain:.2f}, acceptance {mean:.2f} [{low:.2f}, {high:.2f}]"
                for one, (mean, low, high) in zip(some, known, strict=True)
            ],
            hovertemplate="%{text}<br>step %{y:.3g} ms<extra></extra>",
            **({"error_x": error} if bars else {}),
        )
    )


def gains_of(one: Proposal, acceptance: Array) -> Array:
    """Gain of one draft at each lookahead and acceptance; [K, acceptance]."""
    entry = one.ranked.entry
    rounds = np.array(entry.drafted_s) + np.array(entry.rest_s)
    tokens = tokens_per_round(acceptance[None, :], np.array(entry.lookahead)[:, None])
    return np.asarray(tokens * one.group.plain_s / rounds[:, None])


def gain_surface(outcome: Outcome, *, validated: bool = False) -> go.Figure | None:
    """Gain of the leading draft over acceptance and K, where it is 1, the best K; None where nothing drafts."""
    leader = leading_draft(outcome)
    if leader is None or leader.acceptance is None:
        return None
    entry, acceptance = leader.ranked.entry, np.linspace(0.0, 1.0, 101)
    gains, places = gains_of(leader, acceptance), list(range(len(entry.lookahead)))
    least, most, colours = about_one(gains)
    figure = go.Figure()
    figure.add_trace(
        go.Heatmap(
            x=acceptance,
            y=places,
            z=gains,
            zmin=least,
            zmax=most,
            colorscale=colours,
            text=[[f"K {k}"] * len(acceptance) for k in entry.lookahead],
            hovertemplate="%{text}, acceptance %{x:.2f}: gain %{z:.2f}<extra></extra>",
            colorbar=colour_bar("gain"),
        )
    )
    best = gains.argmax(axis=0)
    _line(figure, "best K", acceptance.tolist(), best.tolist(), DASHES[2], "hv")
    rounds = (np.array(entry.drafted_s) + np.array(entry.rest_s)) / leader.group.plain_s
    even = [float(break_even_acceptance(cost, k)) for cost, k in zip(rounds, entry.lookahead, strict=True)]
    known = [(x, y) for x, y in zip(even, places, strict=True) if not np.isnan(x)]
    _line(figure, "gain 1", [x for x, _ in known], [y for _, y in known], DASHES[0], "linear")
    mean, low, high = leader.acceptance
    ends = [-0.5, len(places) - 0.5]
    for name, value, dash in (
        ("mean of the prior", [mean, mean], 1),
        ("its 90 % interval", [low, low, None, high, high], 3),
    ):
        _line(figure, name, value, ends if len(value) == 2 else [*ends, None, *ends], cycle(DASHES, dash), "linear")
    layout(figure, (), x="acceptance", y="K", height=460)
    step = -(-len(places) // 10)
    ticks = places[::step]
    words = [str(entry.lookahead[i]) for i in ticks]
    figure.update_yaxes(tickvals=ticks, ticktext=words, range=ends, showgrid=False)
    figure.update_xaxes(range=[0, 1], showgrid=False)
    return stamped(figure, validated=validated)


def _line(
    figure: go.Figure, name: str, x: Sequence[float | None], y: Sequence[float | None], dash: str, shape: str
) -> None:
    figure.add_trace(
        go.Scatter(
            name=name,
            x=x,
            y=y,
            mode="lines+markers" if name == "gain 1" else "lines",
            line={"color": INK, "width": 2, "dash": dash, "shape": shape},
            hoverinfo="skip",
        )
    )


def chances(outcome: Outcome, *, validated: bool = False) -> go.Figure:
    """P(best) and expected regret of the first candidates, with plain decoding."""
    shown = list(outcome.proposals[:_FIRST])
    shown += [one for one in outcome.proposals[_FIRST:] if one.model is None][:1]
    names = [_short(one) for one in shown]
    figure = make_subplots(rows=2, shared_xaxes=False, vertical_spacing=0.1)
    values = (
        ("P(best)", [one.ranked.p_best for one in shown]),
        ("expected regret", [one.ranked.regret for one in shown]),
    )
    for row, (name, known) in enumerate(values, start=1):
        figure.add_trace(bar(name, row - 1, known, names, ""), row=row, col=1)
    layout(figure, (), x="", y="", height=210 + 2 * BAR_HEIGHT * len(shown))
    for row, (name, _) in enumerate(values, start=1):
        figure.update_xaxes(title={"text": name, "standoff": 4}, rangemode="tozero", row=row, col=1)
    categories(figure, names)
    figure.update_layout(bargap=0.25, showlegend=False)
    return stamped(figure, validated=validated)


def _short(one: Proposal) -> str:
    return escape(one.ranked.entry.name.removeprefix("draft-"))
