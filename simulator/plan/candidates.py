"""From all that was screened to the candidates that are drawn: plain decoding, and the best shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.errors import RefusedError
from simulator.plan.ranking import Entry
from simulator.plan.screen import Candidates, Group, groups, screen
from simulator.plan.space import Drafts
from simulator.spec.model import ModelSpec
from simulator.spec.plan import Plan
from simulator.spec.scenario import Scenario
from simulator.speculation import tokens_per_round

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
    """Its number among the drafts of the space; None where it exists already or is a head."""
    stated: tuple[float, float] | None = None
    """The 90 % interval of its acceptance, where the plan states it; else the prior says."""

    @property
    def head(self) -> bool:
        """Whether it reads hidden states of the target."""
        return self.model is not None and self.model.hidden_states is not None

    def value(self, acceptance: float) -> float:
        """Time a token of a sequence at that acceptance and the best lookahead for it."""
        entry = self.entry
        if entry.plain:
            return entry.rest_s[0]
        return float((entry.round_s / tokens_per_round(acceptance, np.array(entry.lookahead))).min())


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


def token_s(one: Candidates, mean: Array) -> Array:
    """Time a token of a sequence at the best lookahead, by the mean of the prior: [candidates]."""
    tokens = tokens_per_round(mean[one.index][None, :], one.lookahead[:, None])
    return np.asarray((one.round_s / tokens).min(axis=0))


def plain(known: Iterable[Candidates]) -> list[Candidate]:
    """Every way to serve the target, without a draft."""
    options = {one.group.option: one.group for one in known}
    return [
        Candidate(Entry(_named("no draft", option), option, (), (), (group.plain_s,), group.weight), group)
        for option, group in options.items()
    ]


def survivors(known: Sequence[Candidates], asked: Plan, mean: Array) -> Iterator[Candidate]:
    """The drafts of the space that are best by the mean of the prior."""
    scored = []
    for number, one in enumerate(known):
        values = token_s(one, mean)
        good = np.flatnonzero(values <= (asked.limits.tpot_s or np.inf))
        scored += [(float(values[i]) * one.group.weight, number, int(i)) for i in good]
    for _, number, place in sorted(scored)[: asked.survivors]:
        one, index = known[number], int(known[number].index[place])
        model, first, later = one.drafts.model(index), float(one.first_s[place]), float(one.step_s[place])
        share = float(one.collective_s[place]) / later
        yield Candidate(_entry(model, one.group, asked, first, later), one.group, model, later, share, index)


def _entry(model: ModelSpec, group: Group, asked: Plan, first_s: float, later_s: float) -> Entry:
    return Entry(
        entry_name(model, group),
        group.option,
        asked.lookahead,
        tuple(first_s + (lookahead - 1) * later_s for lookahead in asked.lookahead),
        tuple(group.verify_s[lookahead] for lookahead in asked.lookahead),
        group.weight,
    )


def entry_name(model: ModelSpec, group: Group) -> str:
    placed = "" if group.degree == group.scenario.deployment.target_degree else f" on {group.degree}"
    return _named(f"{model.name}{placed}", group.option)


def _named(name: str, option: str) -> str:
    return f"{name}, {option}" if option else name
