"""The search as a whole: screen every shape, draw the survivors, and say what comes of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.errors import RefusedError
from simulator.plan.candidates import Candidate, plain, screened, survivors, token_s
from simulator.plan.needs import needed
from simulator.plan.proposals import Proposal, proposed
from simulator.plan.screen import Candidates
from simulator.plan.space import Drafts, drafts_of
from simulator.plan.spelled_out import existing, heads
from simulator.prior.acceptance import AcceptancePrior
from simulator.prior.sizes import Sizes, target_sizes
from simulator.spec.model import ModelSpec
from simulator.spec.plan import Plan
from simulator.spec.scenario import DraftDeployment, Scenario

Array = npt.NDArray[np.float64]

SHAPE_TERM = (0.0, 0.5, 1.0, 2.0, 4.0)
"""What depth gives, in times of the published fit: its spread between studies is a factor of about two."""


@dataclass(frozen=True)
class HeadCost:
    """A draft head by what it costs: what acceptance it needs, each at the best lookahead for that."""

    candidate: Candidate
    to_pay: float
    """From which it is as fast as plain decoding."""
    to_lead: float
    """From which it is as fast as the first of the plan is at its median."""
    for_gain: float
    """From which it gives the gain that is wanted; nan where none is wanted. All of them are nan where none does."""


@dataclass(frozen=True)
class Outcome:
    """What a plan found."""

    scenario: Scenario
    drafts: Drafts
    screened: int
    """Combinations of draft, placement, target option and lookahead that were timed."""
    proposals: tuple[Proposal, ...]
    """The survivors by expected regret, the leader first."""
    candidates: tuple[Candidates, ...]
    mean_acceptance: Array
    """Of every draft of the space, by the prior."""
    statement: str
    """What the prior is worth."""
    left_out: tuple[str, ...]
    """What could not be compared, and why."""
    heads: tuple[HeadCost, ...] = ()
    """Every draft head that was asked for and fits."""
    by_shape: tuple[tuple[float, int], ...] = ()
    """What a shallow draft loses, in times of what was fitted on published models: with it, the draft of the space that
    is best by the mean of the prior."""

    @property
    def leader(self) -> Proposal:
        """The candidate of least expected regret."""
        return self.proposals[0]

    @property
    def top(self) -> tuple[Proposal, ...]:
        """The candidates that cannot be told from the leader, it among them."""
        return tuple(one for one in self.proposals if not one.ranked.apart)


def plan(scenario: Scenario, models: Mapping[str, ModelSpec] | None = None, seed: int | None = None) -> Outcome:
    """Which draft to train.

    Args:
        scenario: one with a `plan`.
        models: what `plan.existing` and `plan.heads` name, by those names.
        seed: of the draws; that of the scenario unless given.

    Raises:
        RefusedError: the scenario has no plan, or nothing fits.
    """
    asked, models = scenario.plan, models or {}
    if asked is None:
        raise RefusedError("the scenario has no 'plan:'")
    if scenario.deployment.draft != DraftDeployment():
        raise RefusedError("plan.draft_tensor_parallel places the drafts: leave out deployment.draft")
    drafts = drafts_of(asked.drafts, scenario.target)
    prior = AcceptancePrior.of(asked.prior, scenario.decoding.temperature)
    target = target_sizes(scenario.target, asked.prior)
    sizes = Sizes.of(drafts.parameters, asked.prior.training_tokens, drafts.layers, drafts.d_model)
    mean = prior.mean(target, sizes, asked.prior.domain, scenario.decoding.temperature)
    known, left_out = screened(scenario, asked, drafts)
    candidates = [*plain(known), *survivors(known, asked, mean)]
    for name in asked.existing:
        found, why = existing(known, asked, models[name])
        candidates += found
        left_out += why
    by_cost, why = heads(scenario, known, asked, models)
    left_out += why
    candidates += [one for one in by_cost if one.stated is not None]
    rng = np.random.default_rng(scenario.seed if seed is None else seed)
    proposals = proposed(candidates, scenario, asked, prior, target, rng)
    if not proposals:
        raise RefusedError("nothing is within plan.limits.tpot: neither a draft nor plain decoding")
    return Outcome(
        scenario,
        drafts,
        sum(c.round_s.size for c in known),
        proposals,
        tuple(known),
        mean,
        prior.statement,
        tuple(dict.fromkeys(left_out)),
        tuple(_head_costs(by_cost, proposals[0], asked.gain)),
        tuple(_by_shape(asked, known, prior, target, sizes, scenario.decoding.temperature)),
    )


def _by_shape(
    asked: Plan, known: Sequence[Candidates], prior: AcceptancePrior, target: Sizes, sizes: Sizes, temperature: float
) -> Iterator[tuple[float, int]]:
    """The best draft of the space by what depth gives; nothing where no draft fits."""
    for times in SHAPE_TERM:
        other = replace(prior, shape=replace(prior.shape, strength=times * prior.shape.strength))
        mean = other.mean(target, sizes, asked.prior.domain, temperature)
        values = [(one, one.group.weight * token_s(one, mean)) for one in known if one.index.size]
        if values:
            _, best = min((float(each.min()), int(one.index[each.argmin()])) for one, each in values)
            yield times, best


def _head_costs(some: Sequence[Candidate], leader: Proposal, gain: float | None) -> Iterator[HeadCost]:
    """What acceptance each head needs; those that need least to lead first."""
    entries = [one.entry for one in some]
    plain_s = np.array([one.group.plain_s for one in some])
    lead_s = np.array([leader.ranked.value_s / entry.weight for entry in entries])
    found = zip(
        some,
        needed(entries, plain_s),
        needed(entries, lead_s),
        needed(entries, plain_s / gain) if gain else np.full(len(entries), np.nan),
        strict=True,
    )
    costs = [HeadCost(one, float(pay), float(lead), float(want)) for one, pay, lead, want in found]
    yield from sorted(costs, key=lambda one: (math.isnan(one.to_lead), one.to_lead))
