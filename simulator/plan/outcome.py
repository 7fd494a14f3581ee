"""The search as a whole: screen every shape, draw the survivors, and say what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.errors import RefusedError
from simulator.plan.ranking import Entry, Ranked, ranked
from simulator.plan.screen import Candidates, Group, groups, screen, with_draft
from simulator.plan.space import Drafts, drafts_of
from simulator.prior.acceptance import AcceptancePrior
from simulator.prior.sizes import Sizes, sizes_of
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.model import ModelSpec
from simulator.spec.named import may_draft
from simulator.spec.plan import Plan
from simulator.spec.scenario import Scenario
from simulator.speculation import break_even_acceptance, tokens_per_round
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
    drafts = drafts_of(asked.drafts, scenario.target)
    prior = AcceptancePrior.of(asked.prior, scenario.decoding.temperature)
    target = sizes_of([scenario.target], asked.prior.target_tokens)
    sizes = Sizes.of(drafts.parameters, asked.prior.training_tokens, drafts.layers, drafts.d_model)
    mean = prior.mean(target, sizes, asked.prior.domain, scenario.decoding.temperature)
    known, left_out = _screened(scenario, asked, drafts)
    proposals = _survivors(asked, known, mean)
    for model in existing:
        if why := _not_comparable(model, scenario.target):
            left_out.append(why)
            continue
        proposals += [_existing(one.group, asked, model) for one in known]
    spec = _Drawing(prior, target, asked, scenario, np.random.default_rng(scenario.seed if seed is None else seed))
    return Outcome(
        scenario,
        drafts,
        sum(c.round_s.size for c in known),
        tuple(spec.ranked(proposals)),
        tuple(known),
        mean,
        prior.statement,
        tuple(left_out),
        tuple(_by_shape(asked, known, prior, target, sizes, scenario.decoding.temperature)),
    )


@dataclass(frozen=True)
class _Candidate:
    """A survivor before it is ranked."""

    entry: Entry
    model: ModelSpec | None
    group: Group
    step_s: float = 0.0
    collective_share: float = 0.0
    index: int | None = None


def _screened(scenario: Scenario, asked: Plan, drafts: Drafts) -> tuple[list[Candidates], list[str]]:
    """Every group that fits and may be paid for; and why others are left out.

    Raises:
        RefusedError: none is left.
    """
    known: list[Candidates] = []
    left_out: dict[str, None] = {}
    for group in groups(scenario, asked):
        deployment = group.scenario.deployment
        if not _affordable(group, asked):
            left_out[f"{deployment.chips} chips{group.option and f', {group.option},'} exceed plan.limits.price"] = None
            continue
        try:
            found = screen(group, drafts, asked)
        except RefusedError as error:
            left_out[str(error)] = None
            continue
        known.append(found)
        if not found.index.size:
            left_out[
                f"no draft fits beside {scenario.target.name}{group.option and f', {group.option},'} over "
                f"{group.degree} of {deployment.chips} chips"
            ] = None
    if not known:
        reasons = list(left_out) or ["no number of plan.draft_tensor_parallel divides the chips of the target"]
        raise RefusedError("\n".join(reasons))
    return known, list(left_out)


def _not_comparable(model: ModelSpec, target: ModelSpec) -> str:
    """Why an existing draft has no place in the table; empty where it has."""
    try:
        sizes_of([model])
    except RefusedError as error:
        return str(error)
    if not may_draft(model, target):
        return f"{model.name} cannot draft for {target.name}: other tokens, or as large"
    return ""


def _affordable(group: Group, asked: Plan) -> bool:
    limit, each = asked.limits.price_usd_per_h, group.scenario.deployment.chip_usd_per_h
    if limit is None:
        return True
    if each is None:
        raise RefusedError("plan.limits.price needs the price of a chip: deployment.price, or that of its profile")
    return bool(group.scenario.deployment.chips * each <= limit)


def _weight(group: Group, asked: Plan) -> float:
    return float(group.scenario.deployment.chips) if asked.objective == "cost" else 1.0


def _value(one: Candidates, asked: Plan, mean: Array) -> Array:
    """What is least at the best lookahead, by the mean of the prior: [candidates]."""
    tokens = tokens_per_round(mean[one.index][None, :], one.lookahead[:, None])
    return np.asarray(_weight(one.group, asked) * (one.round_s / tokens).min(axis=0))


def _by_shape(
    asked: Plan, known: Sequence[Candidates], prior: AcceptancePrior, target: Sizes, sizes: Sizes, temperature: float
) -> Iterator[tuple[float, int]]:
    for times in SHAPE_TERM:
        other = replace(prior, shape=replace(prior.shape, strength=times * prior.shape.strength))
        mean = other.mean(target, sizes, asked.prior.domain, temperature)
        values = [(one, _value(one, asked, mean)) for one in known if one.index.size]
        if values:
            _, best = min((float(each.min()), int(one.index[each.argmin()])) for one, each in values)
            yield times, best


def _survivors(asked: Plan, known: Sequence[Candidates], mean: Array) -> list[_Candidate]:
    """Plain decoding of every option, and the drafts that are best by the mean of the prior."""
    found = []
    for group in {c.group.option: c.group for c in known}.values():
        name = f"no draft{f', {group.option}' if group.option else ''}"
        entry = Entry(name, group.option, (), (), (group.plain_s,), _weight(group, asked))
        found.append(_Candidate(entry, None, group))
    scored = []
    for number, one in enumerate(known):
        each = _value(one, asked, mean)
        limit = asked.limits.tpot_s
        good = np.flatnonzero(each <= limit * _weight(one.group, asked)) if limit else np.arange(len(each))
        scored += [(float(each[i]), number, int(i)) for i in good]
    for _, number, place in sorted(scored)[: asked.survivors]:
        one = known[number]
        model = one.drafts.model(int(one.index[place]))
        drafted = one.first_s[place] + (one.lookahead - 1) * one.step_s[place]
        rest = tuple(one.group.verify_s[int(k)] for k in one.lookahead)
        entry = Entry(
            f"{model.name}{_of(one.group)}",
            one.group.option,
            tuple(int(k) for k in one.lookahead),
            tuple(float(s) for s in drafted),
            rest,
            _weight(one.group, asked),
        )
        share = float(one.collective_s[place] / one.step_s[place])
        found.append(_Candidate(entry, model, one.group, float(one.step_s[place]), share, int(one.index[place])))
    return found


def _of(group: Group) -> str:
    placed = "" if group.degree == group.scenario.deployment.target_degree else f" on {group.degree}"
    return f"{placed}{f', {group.option}' if group.option else ''}"


def _existing(group: Group, asked: Plan, model: ModelSpec) -> _Candidate:
    """A draft that exists, by the passes of its scenario."""
    parts = Steps.of(with_draft(group.scenario, model, max(*asked.lookahead, 2), group.degree)).mechanisms()
    first, later = (sum(parts.get(name, {}).values()) for name in ("draft_first_step", "draft_step"))
    wires = sum(parts.get("draft_step", {}).get(f"collective_{kind}", 0.0) for kind in ("latency", "bandwidth"))
    drafted = tuple(first + (lookahead - 1) * later for lookahead in asked.lookahead)
    rest = tuple(group.verify_s[lookahead] for lookahead in asked.lookahead)
    entry = Entry(f"{model.name}{_of(group)}", group.option, asked.lookahead, drafted, rest, _weight(group, asked))
    return _Candidate(entry, model, group, later, wires / later if later else 0.0)


@dataclass(frozen=True)
class _Drawing:
    prior: AcceptancePrior
    target: Sizes
    asked: Plan
    scenario: Scenario
    rng: np.random.Generator

    def ranked(self, candidates: Sequence[_Candidate]) -> list[Proposal]:
        """The candidates by expected regret."""
        drafts = [c.model for c in candidates if c.model is not None]
        temperature, domain = self.scenario.decoding.temperature, self.asked.prior.domain
        named = {c.entry.name: c for c in candidates}
        if len(named) != len(candidates):  # the same draft in several groups is told apart by its name
            raise RefusedError("two candidates have one name")
        sizes = sizes_of(drafts) if drafts else Sizes.of(np.array([1.0]))
        made = np.array([c.index is not None for c in candidates if c.model is not None])
        if self.asked.prior.training_tokens is not None:
            sizes = replace(sizes, tokens=np.where(made, self.asked.prior.training_tokens, sizes.tokens))
        level = self.prior.summary(self.target, sizes, domain, temperature)
        alpha = self.prior.draws(self.target, sizes, domain, self.asked.draws, self.rng, temperature)
        calibration = Steps.of(self.scenario).calibration
        found = ranked([c.entry for c in candidates], alpha, calibration.residual, self.asked.draws, self.rng)
        order = {c.entry.name: i for i, c in enumerate(c for c in candidates if c.model is not None)}
        return [self._proposal(one, named[one.entry.name], level, order) for one in found]

    @staticmethod
    def _proposal(one: Ranked, own: _Candidate, level: object, order: dict[str, int]) -> Proposal:
        place = order.get(one.entry.name)
        acceptance = None
        if place is not None:
            acceptance = tuple(float(np.atleast_1d(getattr(level, name))[place]) for name in ("mean", "low", "high"))
        needs = float("nan")
        if one.lookahead:
            at = one.entry.lookahead.index(one.lookahead)
            cost = (one.entry.drafted_s[at] + one.entry.rest_s[at]) / own.group.plain_s
            needs = float(break_even_acceptance(cost, one.lookahead))
        return Proposal(one, own.model, own.group, acceptance, needs, own.step_s, own.collective_share, own.index)  # type: ignore[arg-type]
