"""The candidates once they are ranked: draws of acceptance, by the prior or as stated, and what is said of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.errors import RefusedError
from simulator.plan.candidates import Candidate
from simulator.plan.needs import needed
from simulator.plan.ranking import Ranked, ranked
from simulator.plan.screen import Group, with_draft
from simulator.prior.acceptance import AcceptancePrior
from simulator.prior.sizes import Sizes, sizes_of
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.model import ModelSpec
from simulator.spec.plan import Plan
from simulator.spec.scenario import Scenario
from simulator.steps import Steps

Array = npt.NDArray[np.float64]

NORMAL_95 = 1.6448536269514722
"""The 95 % quantile of a standard normal number."""


@dataclass(frozen=True)
class Proposal:
    """A candidate with what there is to say about it."""

    ranked: Ranked
    model: ModelSpec | None
    """The draft; None for plain decoding."""
    group: Group
    acceptance: tuple[float, float, float] | None
    """Mean of the prior, and its 90 % interval; of a head, what the plan states."""
    needs: float
    """Acceptance from which it pays at its lookahead; nan without a draft, or where it never or always does."""
    for_gain: float
    """Acceptance from which it gives the gain that is wanted, at the best lookahead for that; nan where none is wanted
    or none does."""
    step_s: float
    collective_share: float
    """Of a draft step, the share that its collectives take."""
    index: int | None = None
    """Its number among the drafts of the space; None where it exists already or is a head."""

    @property
    def head(self) -> bool:
        """Whether it reads hidden states of the target."""
        return self.model is not None and self.model.hidden_states is not None

    @property
    def gain(self) -> float:
        """Median speedup over plain decoding of the same target on the same chips."""
        return self.group.plain_s * self.ranked.entry.weight / self.ranked.value_s

    @property
    def scenario(self) -> Scenario:
        """A scenario of this candidate alone, whose acceptance is the mean of its prior."""
        group = self.group
        if self.model is None or self.acceptance is None:
            return group.scenario
        rate = RateAcceptance(kind="rate", acceptance_rate=round(self.acceptance[0], 4))
        own = with_draft(group.scenario, self.model, self.ranked.lookahead, group.degree)
        return own.model_copy(update={"acceptance": rate, "published": ()})


def front_of(some: Sequence[Proposal]) -> list[Proposal]:
    """Those that draft of which no other is both faster and more often accepted, from fast to slow."""
    known = [(one, one.acceptance[0]) for one in some if one.acceptance is not None]
    found: list[tuple[Proposal, float]] = []
    for one, rate in sorted(known, key=lambda each: (each[0].step_s, -each[1])):
        if not found or rate > found[-1][1]:
            found.append((one, rate))
    return [one for one, _ in found]


def proposed(
    candidates: Sequence[Candidate],
    scenario: Scenario,
    asked: Plan,
    prior: AcceptancePrior,
    target: Sizes,
    rng: np.random.Generator,
) -> tuple[Proposal, ...]:
    """The candidates within the limits, by expected regret."""
    named = {one.entry.name: one for one in candidates}
    if len(named) != len(candidates):
        raise RefusedError("a model of plan.existing or plan.heads has the name of another candidate")
    drafted = [one for one in candidates if one.model is not None]
    draws, levels = _acceptance(drafted, scenario, asked, prior, target, rng)
    limit = asked.limits.tpot_s or np.inf
    kept = {name: one for name, one in named.items() if one.value(levels.get(name, (0.0,))[0]) <= limit}
    columns = [i for i, one in enumerate(drafted) if one.entry.name in kept]
    if not kept:
        return ()
    residual = Steps.of(scenario).calibration.residual
    found = ranked([one.entry for one in kept.values()], draws[:, columns], residual, asked.draws, rng)
    entries, own = [one.entry for one in found], [kept[one.entry.name] for one in found]
    plain_s = np.array([one.group.plain_s for one in own])
    pays = needed(entries, plain_s, [one.lookahead for one in found])
    wanted = needed(entries, plain_s / asked.gain) if asked.gain else np.full(len(own), np.nan)
    return tuple(
        Proposal(
            each,
            one.model,
            one.group,
            levels.get(one.entry.name),
            float(pays[i]),
            float(wanted[i]),
            one.step_s,
            one.collective_share,
            one.index,
        )
        for i, (each, one) in enumerate(zip(found, own, strict=True))
    )


def _acceptance(
    drafted: Sequence[Candidate],
    scenario: Scenario,
    asked: Plan,
    prior: AcceptancePrior,
    target: Sizes,
    rng: np.random.Generator,
) -> tuple[Array, dict[str, tuple[float, float, float]]]:
    """Joint draws of the acceptance of each that drafts, [draws, drafts]; and mean and 90 % interval by name."""
    draws = np.empty((asked.draws, len(drafted)))
    levels: dict[str, tuple[float, float, float]] = {}
    # One state of prior and heads is drawn even where there is nothing of a kind, so that adding one moves no other.
    by_law = [(i, one, one.model) for i, one in enumerate(drafted) if one.model is not None and one.stated is None]
    sizes = sizes_of([model for _, _, model in by_law]) if by_law else Sizes.of(np.empty(0))
    if asked.prior.training_tokens is not None:
        made = np.array([one.index is not None for _, one, _ in by_law], dtype=bool)
        sizes = replace(sizes, tokens=np.where(made, asked.prior.training_tokens, sizes.tokens))
    domain, temperature = asked.prior.domain, scenario.decoding.temperature
    level = prior.summary(target, sizes, domain, temperature)
    draws[:, [i for i, _, _ in by_law]] = prior.draws(target, sizes, domain, asked.draws, rng, temperature)
    for place, (_, one, _) in enumerate(by_law):
        levels[one.entry.name] = (float(level.mean[place]), float(level.low[place]), float(level.high[place]))
    for i, one in enumerate(drafted):
        if one.stated is not None:
            draws[:, i] = stated_draws(one.stated, rng.standard_normal(asked.draws))
            levels[one.entry.name] = (float(draws[:, i].mean()), *one.stated)
    return draws, levels


def stated_draws(interval: tuple[float, float], normal: Array) -> Array:
    """Acceptance rates, one for each standard normal number, whose logit is normal with this 90 % interval."""
    low, high = (math.log(rate / (1 - rate)) for rate in interval)
    return np.asarray(1 / (1 + np.exp(-((low + high) / 2 + (high - low) / 2 / NORMAL_95 * normal))))
