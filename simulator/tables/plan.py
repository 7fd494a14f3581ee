"""What a plan found, in sentences and in a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from simulator.plan import Outcome, Proposal, training_cost
from simulator.predict import outside_calibration
from simulator.spec.record import Distribution, RunRecord
from simulator.steps import Steps
from simulator.tables.layout import Column, Table
from simulator.units import human_time

_SHOWN = 8
PLAN_LEGEND = (
    "gain: over plain decoding of the same target, with the K of each draw's acceptance; K: to begin with; comm.: what "
    "of a draft step its collectives take; needs: acceptance from which that K pays, and under the gain that is wanted "
    "what that takes; regret: what it costs on average not to have chosen the best of each draw; *: worse, better than "
    "the first in under 5 % of the draws."
)


def plan_answer(outcome: Outcome) -> list[str]:
    """The recommendation, why, what it rests on and what would change it."""
    return [line for line in _sentences(outcome) if line]


def _sentences(outcome: Outcome) -> Iterator[str]:
    leader = outcome.leader
    yield _rests_on(leader)
    yield f"{outcome.screened:,} combinations of {len(outcome.drafts):,} shapes timed, {len(outcome.proposals)} drawn"
    if leader.model is None:
        yield (
            f"no draft pays: {leader.ranked.entry.name} takes {human_time(leader.ranked.value_s, 3)} a token "
            f"and is best in {leader.ranked.p_best:.0%} of the draws"
        )
    else:
        own = leader.ranked
        low, high = (leader.group.plain_s * own.entry.weight / value for value in (own.high_s, own.low_s))
        verb = "train" if leader.index is not None else "take"
        yield (
            f"{verb} {_words(leader)}: {leader.gain:.2f} times as fast as plain decoding [{low:.2f}, {high:.2f}] "
            f"with K set by its acceptance; begin with K = {own.lookahead}, which pays from acceptance "
            f"{leader.needs:.2f} on"
        )
        yield _acceptance_words(leader)
        yield _gain_words(outcome)
        yield from _plain(outcome)
        yield _training(outcome)
    top = [one for one in outcome.top if one.index is not None]
    if len(top) > 1:
        least, most = (f"{size:.2g}" for size in (min(map(_size, top)), max(map(_size, top))))
        yield (
            f"{len(top)} drafts cannot be told from {'it' if leader.model is None else 'each other'}: "
            f"{_range(top, 'layers')} layers, width {_range(top, 'd_model')}, {least} to {most} B"
        )
    yield from _why(outcome)
    yield _depth(outcome)
    for one in outcome.proposals:
        if one.index is None and one.model is not None:
            yield _existing(one)
    for option in [one for one in outcome.proposals if one.model is None and one.ranked.entry.option]:
        yield f"{option.ranked.entry.name}: {human_time(option.ranked.value_s, 3)} a token without any draft"
    if leader.index is not None and (edges := outcome.drafts.at_the_edge(leader.index)):
        yield f"at the edge of the search: {'; '.join(edges)}: try more"
    yield from outcome.left_out
    yield outcome.statement


def _rests_on(leader: Proposal) -> str:
    """The calibration behind the times, and where it does not reach."""
    scenario = leader.scenario
    name = scenario.deployment.calibration
    if name is None:
        return "no calibration: datasheet peaks without any overhead. Times are a floor, NOT a prediction."
    beyond = outside_calibration(Steps.of(scenario), ("plain_step", "draft_step", "verify_step"))
    return f"calibration {name}" + (f"; EXTRAPOLATED: {beyond}" if beyond else "")


def _plain(outcome: Outcome) -> Iterator[str]:
    """How often no draft at all would be the better choice; nothing where plan.limits leave that out."""
    for one in outcome.proposals:
        if one.model is None and one.group.option == outcome.leader.group.option:
            yield f"plain decoding is the better one in {one.ranked.p_beats_leader:.0%} of the draws"


def _words(one: Proposal) -> str:
    if one.model is None:
        return one.ranked.entry.name
    layers, chips = one.model.layers, one.group.degree
    shape = f"{layers} layer{'s' * (layers != 1)} of width {one.model.d_model:,}, {one.model.parameters / 1e9:.2g} B"
    shape = shape if one.index is not None else f"{one.ranked.entry.name} ({shape})"
    return f"{shape}, over {chips} chip{'s' * (chips > 1)}{f', {one.group.option}' if one.group.option else ''}"


def _acceptance_words(one: Proposal) -> str:
    if one.acceptance is None:
        return ""
    mean, low, high = one.acceptance
    return (
        f"its acceptance is taken as {mean:.2f} [{low:.2f}, {high:.2f}] {'as stated' if one.head else 'by the prior'}"
    )


def _gain_words(outcome: Outcome) -> str:
    """The acceptance that the gain which is wanted needs, of the leader and of whoever needs least."""
    asked = outcome.scenario.plan
    if asked is None or asked.gain is None:
        return ""
    able = [one for one in outcome.proposals if not math.isnan(one.for_gain)]
    if not able:
        return f"a gain of {asked.gain:g} is out of reach of every draft here, whatever its acceptance"
    least, own = min(able, key=lambda one: one.for_gain), outcome.leader.for_gain
    said = f"a gain of {asked.gain:g} " + ("it never reaches" if math.isnan(own) else f"takes acceptance {own:.2f}")
    return f"{said}; least asks {least.ranked.entry.name}: {least.for_gain:.2f}" if least.for_gain != own else said


def _training(outcome: Outcome) -> str:
    """What its training costs, and when serving has paid for it."""
    asked = outcome.scenario.plan
    cost = training_cost(outcome.leader, asked) if asked is not None else None
    if cost is None or asked is None:
        return ""
    said = f"to train it on {cost.tokens:.2g} tokens takes {cost.flop:.2g} FLOP"
    if cost.chip_hours is not None:
        chip = outcome.scenario.deployment.hardware.name
        said += f", {cost.chip_hours:,.0f} chip-hours of {chip} at {asked.training.utilisation:.0%} of its peak"
    if cost.usd is not None:
        said += f", {cost.usd:,.0f} USD"
    if cost.saved_usd_per_day is None:
        return f"{said}; plan.training.tokens_per_day says when that is paid back"
    if cost.payback_days is None:
        return f"{said}; that is never paid back"
    return f"{said}; it saves {cost.saved_usd_per_day:,.0f} USD a day: paid back in {cost.payback_days:,.1f} days"


def _size(one: Proposal) -> float:
    return one.model.parameters / 1e9 if one.model is not None else 0.0


def _range(top: Sequence[Proposal], key: str) -> str:
    values = sorted({getattr(one.model, key) for one in top})
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _why(outcome: Outcome) -> Iterator[str]:
    """What a deeper draft of the same size would take, and what of it collectives are."""
    leader = outcome.leader
    if leader.index is None:
        return
    layers = _layers(leader)
    deeper = [
        one
        for one in outcome.proposals
        if one.index is not None
        and one.group == leader.group
        and _layers(one) >= 2 * layers
        and 0.7 <= _size(one) / _size(leader) <= 1.4
    ]
    if not deeper:
        return
    other = min(deeper, key=lambda one: abs(math.log(_size(one) / _size(leader))))
    grown = other.step_s - leader.step_s
    more = other.step_s * other.collective_share - leader.step_s * leader.collective_share
    cause = f"{_layers(other) - layers} more layers' fixed times"
    if leader.group.degree > 1 and grown > 0:
        cause = (
            f"{2 * (_layers(other) - layers)} more all-reduces take {human_time(more, 3)}, {more / grown:.0%} of that"
        )
    yield (
        f"why: a draft of {_size(other):.2g} B with {_layers(other)} layers takes {human_time(other.step_s, 3)} a step "
        f"instead of {human_time(leader.step_s, 3)}: {cause}"
    )


def _existing(one: Proposal) -> str:
    if one.head:
        return f"{one.ranked.entry.name}, at the acceptance that is stated: gain {one.gain:.2f}, {_verdict(one)}"
    said = f"{one.ranked.entry.name}, which exists, {_verdict(one)}: gain {one.gain:.2f}, "
    said += f"{human_time(one.step_s, 3)} a step"
    if one.group.degree > 1:
        said += f", of which its {2 * _layers(one)} all-reduces take {one.collective_share:.0%}"
    return said


def _verdict(one: Proposal) -> str:
    return "is worse" if one.ranked.apart else "cannot be told from it"


def _depth(outcome: Outcome) -> str:
    """How deep the best draft is, by how much a shallow one loses."""
    if not outcome.by_shape:
        return ""
    said = [f"{outcome.drafts.layers[best]:.0f} at {times:g}" for times, best in outcome.by_shape]
    return f"layers of the best draft, by what depth gives (1 as published models say): {', '.join(said)}"


def _layers(one: Proposal) -> int:
    return one.model.layers if one.model is not None else 0


def plan_table(outcome: Outcome) -> Table:
    """The first candidates by expected regret, what exists, and plain decoding."""
    gain = outcome.scenario.plan.gain if outcome.scenario.plan is not None else None
    columns = (
        Column("candidate", numeric=False),
        Column("B"),
        Column("K"),
        Column("step ms"),
        Column("comm."),
        Column("needs"),
        *([Column(f"{gain:g}x")] if gain is not None else []),
        Column("prior"),
        Column("90 %"),
        Column("gain"),
        Column("P(best)"),
        Column("regret"),
    )
    first = [one for one in outcome.proposals if one.index is not None][:_SHOWN]
    others = [one for one in outcome.proposals if one.index is None]
    shown = sorted([*first, *others], key=lambda one: one.ranked.regret)
    return Table("", columns, tuple(_row(one, wanted=gain is not None) for one in shown))


def _row(one: Proposal, *, wanted: bool) -> tuple[str, ...]:
    own, drafts = one.ranked, one.model is not None
    prior, interval = (
        (f"{one.acceptance[0]:.2f}", "{1:.2f}-{2:.2f}".format(*one.acceptance)) if one.acceptance else ("", "")
    )
    return (
        own.entry.name.removeprefix("draft-"),
        f"{_size(one):.2g}" if drafts else "",
        str(own.lookahead) if drafts else "",
        f"{one.step_s * 1e3:.2f}" if drafts else "",
        f"{one.collective_share:.0%}" if drafts else "",
        _rate(one.needs),
        *([_rate(one.for_gain)] if wanted else []),
        prior,
        interval,
        f"{one.gain:.2f}",
        f"{own.p_best:.2f}",
        f"{own.regret:.3f}{'*' if own.apart else ' '}",
    )


def _rate(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def tails(records: Sequence[RunRecord]) -> Table:
    """What simulation says of candidates: gain, tokens a round, and the time of a whole answer with its tail."""
    columns = (
        Column("candidate", numeric=False),
        Column("TPOT ms"),
        Column("gain"),
        Column("tokens a round"),
        *(Column(name, group="seconds of an answer after its first token") for name in ("p50", "p90", "p99")),
    )
    return Table("", columns, tuple(_tail(record) for record in records if record.kind == "simulated"))


def _tail(record: RunRecord) -> tuple[str, ...]:
    metrics, name = record.metrics, str(record.axes.get("candidate", "")).removeprefix("draft-")
    whole = metrics.get("time_to_tokens_s")
    if not isinstance(whole, Distribution):
        return (name, *[""] * 6)
    each = (metrics["tpot_s"], metrics["speedup"], metrics["acceptance_length"])
    tpot, gain, tokens = (value if isinstance(value, float) else float("nan") for value in each)
    quantiles = (f"{value:.3g}" for value in (whole.p50, whole.p90, whole.p99))
    return (name, f"{tpot * 1e3:.2f}", f"{gain:.2f}", f"{tokens:.2f}", *quantiles)
