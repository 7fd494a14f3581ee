"""From all that was screened to the candidates that are drawn: plain decoding, the best shapes, drafts that exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.cost.memory import does_not_fit, memory_terms
from simulator.errors import RefusedError
from simulator.plan.ranking import Entry
from simulator.plan.screen import Candidates, Group, groups, screen, with_draft
from simulator.plan.space import Drafts
from simulator.prior.sizes import sizes_of
from simulator.spec.model import ModelSpec
from simulator.spec.named import may_draft
from simulator.spec.plan import Plan
from simulator.spec.scenario import Scenario
from simulator.speculation import tokens_per_round
from simulator.steps import Steps

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One that is drawn, before it is ranked."""

    entry: Entry
    group: Group
    model: ModelSpec | None = None
    """The draft; None for plain decoding."""
    step_s: float = 0.0
    collective_share: float = 0.0
    index: int | None = None
    """Its number among the drafts of the space; None where it exists already."""

    def value(self, acceptance: float) -> float:
        """Time a token of a sequence at that acceptance and the best lookahead for it."""
        entry = self.entry
        if entry.plain:
            return entry.rest_s[0]
        rounds = np.array(entry.drafted_s) + np.array(entry.rest_s)
        return float((rounds / tokens_per_round(acceptance, np.array(entry.lookahead))).min())


def screened(scenario: Scenario, asked: Plan, drafts: Drafts) -> tuple[list[Candidates], list[str]]:
    """Every group that fits and may be paid for; and why others are left out.

    Raises:
        RefusedError: none is left.
    """
    known: list[Candidates] = []
    left_out: dict[str, None] = {}
    for group in groups(scenario, asked, drafts):
        if reason := _too_dear(group, asked):
            left_out[reason] = None
            continue
        try:
            found = screen(group, drafts, asked)
        except RefusedError as error:
            left_out[str(error)] = None
            continue
        known.append(found)
        if not found.index.size:
            chips = group.scenario.deployment.chips
            left_out[f"no draft fits beside {group.target} over {group.degree} of {chips} chips"] = None
    if not known:
        reasons = list(left_out) or ["no number of plan.draft_tensor_parallel divides the chips of the target"]
        raise RefusedError("\n".join(reasons))
    return known, list(left_out)


def _too_dear(group: Group, asked: Plan) -> str:
    deployment, limit = group.scenario.deployment, asked.limits.price_usd_per_h
    if limit is None:
        return ""
    if deployment.chip_usd_per_h is None:
        raise RefusedError("plan.limits.price needs the price of a chip: deployment.price, or that of its profile")
    dear = deployment.chips * deployment.chip_usd_per_h > limit
    return f"{group.target} on {deployment.chips} chips exceeds plan.limits.price" if dear else ""


def weight(group: Group, asked: Plan) -> float:
    """What a second counts under the objective."""
    return float(group.scenario.deployment.chips) if asked.objective == "cost" else 1.0


def token_s(one: Candidates, mean: Array) -> Array:
    """Time a token of a sequence at the best lookahead, by the mean of the prior: [candidates]."""
    tokens = tokens_per_round(mean[one.index][None, :], one.lookahead[:, None])
    return np.asarray((one.round_s / tokens).min(axis=0))


def plain(known: Iterable[Candidates], asked: Plan) -> list[Candidate]:
    """Every way to serve the target, without a draft."""
    options = {one.group.option: one.group for one in known}
    return [
        Candidate(Entry(_named("no draft", option), option, (), (), (group.plain_s,), weight(group, asked)), group)
        for option, group in options.items()
    ]


def survivors(known: Sequence[Candidates], asked: Plan, mean: Array) -> Iterator[Candidate]:
    """The drafts of the space that are best by the mean of the prior."""
    scored = []
    for number, one in enumerate(known):
        values = token_s(one, mean)
        good = np.flatnonzero(values <= (asked.limits.tpot_s or np.inf))
        scored += [(float(values[i]) * weight(one.group, asked), number, int(i)) for i in good]
    for _, number, place in sorted(scored)[: asked.survivors]:
        one, index = known[number], int(known[number].index[place])
        model, first, later = one.drafts.model(index), float(one.first_s[place]), float(one.step_s[place])
        share = float(one.collective_s[place]) / later
        yield Candidate(_entry(model, one.group, asked, first, later), one.group, model, later, share, index)


def existing(known: Sequence[Candidates], asked: Plan, model: ModelSpec) -> tuple[list[Candidate], list[str]]:
    """A draft that exists, in every group that it can be in; and why it is left out of others."""
    target = known[0].group.scenario.target
    try:
        sizes_of([model])
    except RefusedError as error:
        return [], [str(error)]
    if not may_draft(model, target):
        return [], [f"{model.name} cannot draft for {target.name}: other tokens, or as large"]
    found, left_out = [], []
    for group in (one.group for one in known):
        drafted = with_draft(group.scenario, model, max(*asked.lookahead, 2), group.degree)
        if model.heads < group.degree:
            left_out.append(f"{model.name} has {model.heads} heads, too few for {group.degree} chips")
        elif reason := does_not_fit(drafted, memory_terms(drafted)):
            left_out.append(f"{model.name} beside {group.target}: {reason}")
        else:
            found.append(_by_its_steps(group, asked, model, drafted))
    return found, left_out


def _by_its_steps(group: Group, asked: Plan, model: ModelSpec, drafted: Scenario) -> Candidate:
    parts = Steps.of(drafted).mechanisms()
    first, later = (sum(parts.get(name, {}).values()) for name in ("draft_first_step", "draft_step"))
    wires = sum(parts.get("draft_step", {}).get(f"collective_{kind}", 0.0) for kind in ("latency", "bandwidth"))
    share = wires / later if later else 0.0
    return Candidate(_entry(model, group, asked, first, later), group, model, later, share)


def _entry(model: ModelSpec, group: Group, asked: Plan, first_s: float, later_s: float) -> Entry:
    placed = "" if group.degree == group.scenario.deployment.target_degree else f" on {group.degree}"
    return Entry(
        _named(f"{model.name}{placed}", group.option),
        group.option,
        asked.lookahead,
        tuple(first_s + (lookahead - 1) * later_s for lookahead in asked.lookahead),
        tuple(group.verify_s[lookahead] for lookahead in asked.lookahead),
        weight(group, asked),
    )


def _named(name: str, option: str) -> str:
    return f"{name}, {option}" if option else name
