"""The search as a whole: screen every shape, draw the survivors, and say what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.errors import RefusedError
from simulator.plan.candidates import Candidate, plain, screened, survivors, token_s, weight
from simulator.plan.candidates import existing as candidates_of
from simulator.plan.ranking import Ranked, ranked
from simulator.plan.screen import Candidates, Group, with_draft
from simulator.plan.space import Drafts, drafts_of
from simulator.prior.acceptance import AcceptancePrior
from simulator.prior.sizes import Sizes, sizes_of
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.model import ModelSpec
from simulator.spec.plan import Plan
from simulator.spec.scenario import DraftDeployment, Scenario
from simulator.speculation import break_even_acceptance
from simulator.steps import Steps

Array = npt.NDArray[np.float64]

SHAPE_TERM = (0.0, 0.5, 1.0, 2.0, 4.0)
"""What depth gives, in times of the published fit: its spread between studies is a factor of about two."""


@dataclass(frozen=True)
class Proposal:
    """A candidate with what there is to say about it."""

    ranked: Ranked
    model: ModelSpec | None
    """The draft; None for plain decoding."""
    group: Group
    acceptance: tuple[float, float, float] | None
    """Mean of the prior, and its 90 % interval."""
    needs: float
    """Acceptance from which it pays at its lookahead; nan without a draft, or where it never or always does."""
    step_s: float
    collective_share: float
    """Of a draft step, the share that its collectives take."""
    index: int | None = None
    """Its number among the drafts of the space; None where it exists already."""

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
    """Existing drafts that could not be compared, and why."""
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


def plan(scenario: Scenario, existing: Sequence[ModelSpec] = (), seed: int | None = None) -> Outcome:
    """Which draft to train.

    Args:
        scenario: one with a `plan`.
        existing: the models that `plan.existing` names.
        seed: of the draws; that of the scenario unless given.

    Raises:
        RefusedError: the scenario has no plan, or nothing fits.
    """
    asked = scenario.plan
    if asked is None:
        raise RefusedError("the scenario has no 'plan:'")
    if scenario.deployment.draft != DraftDeployment():
        raise RefusedError("plan.draft_tensor_parallel places the drafts: leave out deployment.draft")
    drafts = drafts_of(asked.drafts, scenario.target)
    prior = AcceptancePrior.of(asked.prior, scenario.decoding.temperature)
    target = sizes_of([scenario.target], asked.prior.target_tokens)
    sizes = Sizes.of(drafts.parameters, asked.prior.training_tokens, drafts.layers, drafts.d_model)
    mean = prior.mean(target, sizes, asked.prior.domain, scenario.decoding.temperature)
    known, left_out = screened(scenario, asked, drafts)
    candidates = [*plain(known, asked), *survivors(known, asked, mean)]
    for model in existing:
        found, why = candidates_of(known, asked, model)
        candidates += found
        left_out += why
    rng = np.random.default_rng(scenario.seed if seed is None else seed)
    proposals = _ranked(candidates, scenario, asked, prior, target, rng)
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
        tuple(_by_shape(asked, known, prior, target, sizes, scenario.decoding.temperature)),
    )


def _by_shape(
    asked: Plan, known: Sequence[Candidates], prior: AcceptancePrior, target: Sizes, sizes: Sizes, temperature: float
) -> Iterator[tuple[float, int]]:
    """The best draft of the space by what depth gives; nothing where no draft fits."""
    for times in SHAPE_TERM:
        other = replace(prior, shape=replace(prior.shape, strength=times * prior.shape.strength))
        mean = other.mean(target, sizes, asked.prior.domain, temperature)
        values = [(one, weight(one.group, asked) * token_s(one, mean)) for one in known if one.index.size]
        if values:
            _, best = min((float(each.min()), int(one.index[each.argmin()])) for one, each in values)
            yield times, best


def _ranked(
    candidates: Sequence[Candidate],
    scenario: Scenario,
    asked: Plan,
    prior: AcceptancePrior,
    target: Sizes,
    rng: np.random.Generator,
) -> tuple[Proposal, ...]:
    """The candidates within the limits, by expected regret."""
    drafted = [(one, one.model) for one in candidates if one.model is not None]
    sizes = sizes_of([model for _, model in drafted]) if drafted else Sizes.of(np.empty(0))
    if asked.prior.training_tokens is not None:
        made = np.array([one.index is not None for one, _ in drafted], dtype=bool)
        sizes = replace(sizes, tokens=np.where(made, asked.prior.training_tokens, sizes.tokens))
    domain, temperature = asked.prior.domain, scenario.decoding.temperature
    level = prior.summary(target, sizes, domain, temperature)
    draws = prior.draws(target, sizes, domain, asked.draws, rng, temperature)
    levels = {
        one.entry.name: (float(level.mean[i]), float(level.low[i]), float(level.high[i]))
        for i, (one, _) in enumerate(drafted)
    }
    named = {one.entry.name: one for one in candidates}
    if len(named) != len(candidates):
        raise RefusedError("a model of plan.existing has the name of a draft of the space")
    limit = asked.limits.tpot_s or np.inf
    kept = {name: one for name, one in named.items() if one.value(levels.get(name, (0.0,))[0]) <= limit}
    columns = [i for i, (one, _) in enumerate(drafted) if one.entry.name in kept]
    residual = Steps.of(scenario).calibration.residual
    found = ranked([one.entry for one in kept.values()], draws[:, columns], residual, asked.draws, rng) if kept else []
    return tuple(_proposal(one, kept[one.entry.name], levels.get(one.entry.name)) for one in found)


def _proposal(one: Ranked, own: Candidate, acceptance: tuple[float, float, float] | None) -> Proposal:
    needs = float("nan")
    if one.lookahead:
        at = one.entry.lookahead.index(one.lookahead)
        cost = (one.entry.drafted_s[at] + one.entry.rest_s[at]) / own.group.plain_s
        needs = float(break_even_acceptance(cost, one.lookahead))
    return Proposal(one, own.model, own.group, acceptance, needs, own.step_s, own.collective_share, own.index)
