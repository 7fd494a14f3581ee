"""The best lookahead of one draft over batch and context: K*, or none where plain decoding is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cost.memory import does_not_fit, memory_terms
from simulator.plan.outcome import Outcome
from simulator.plan.proposals import Proposal
from simulator.plan.screen import with_draft
from simulator.predict import outside_calibration
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from simulator.speculation import tokens_per_round
from simulator.steps import Steps

BATCHES = tuple(2**power for power in range(9))
CONTEXTS = tuple(2**power for power in range(9, 16))
_ROUND = ("draft_first_step", "draft_step", "shipping", "verify_step", "sampling", "round_overhead")


@dataclass(frozen=True)
class Cell:
    """One batch at one context."""

    batch: int
    context: int
    """Tokens of the prompt; the output of the scenario follows."""
    lookahead: int
    """The best; 0 where plain decoding is as fast or faster, or no draft fits beside the target."""
    gain: float | None
    """Of the best lookahead over plain decoding, even where that is below 1; None where no draft fits."""
    plain_s: float
    outside: bool
    """Whether the calibration was fitted on other sizes than these."""


@dataclass(frozen=True)
class BestLookahead:
    """The best lookahead of a draft wherever the target fits."""

    draft: str
    acceptance: tuple[float, float, float]
    """Mean of the prior, at which everything here is, and its 90 % interval."""
    tried: tuple[int, ...]
    cells: tuple[Cell, ...]
    """Of every batch and context at which the target fits by itself."""


def leading_draft(outcome: Outcome) -> Proposal | None:
    """The first that drafts by expected regret, be it behind plain decoding; None where nothing drafts."""
    return next((one for one in outcome.proposals if one.model is not None), None)


def best_lookahead(
    outcome: Outcome, batches: Sequence[int] = BATCHES, contexts: Sequence[int] = CONTEXTS
) -> BestLookahead | None:
    """K* of the leading draft over batch and context; None where nothing drafts."""
    leader, asked = leading_draft(outcome), outcome.scenario.plan
    if leader is None or leader.model is None or leader.acceptance is None or asked is None:
        return None
    served, acceptance = leader.group.scenario, leader.acceptance[0]
    lookaheads = tuple(sorted(set(leader.ranked.entry.lookahead)))
    drafted = {k: with_draft(served, leader.model, k, leader.group.degree) for k in lookaheads}
    shifts = {k: _shifts(one) for k, one in {0: served, **drafted}.items()}
    cells = [
        _cell(served, drafted, shifts, acceptance, batch, context)
        for batch in batches
        for context in contexts
        if _fits(at(served, batch, context))
    ]
    return BestLookahead(leader.ranked.entry.name, leader.acceptance, lookaheads, tuple(cells))


def at(scenario: Scenario, batch: int, context: int) -> Scenario:
    """The scenario with another batch and prompt; what was measured holds for its own alone, and is left out."""
    workload = scenario.workload.model_copy(update={"batch": batch, "prompt_tokens": context})
    return scenario.model_copy(update={"workload": workload, "measured": None})


def _cell(
    served: Scenario,
    drafted: Mapping[int, Scenario],
    shifts: Mapping[int, Mapping[str, float]],
    acceptance: float,
    batch: int,
    context: int,
) -> Cell:
    plain = Steps.of(at(served, batch, context))
    plain_s = _seconds(plain, shifts[0], {"plain_step": 1})
    outside = bool(outside_calibration(plain, ["plain_step"]))
    gains: dict[int, float] = {}
    for lookahead, one in drafted.items():
        here = at(one, batch, context)
        if not _fits(here):
            continue
        steps = Steps.of(here)
        times = dict.fromkeys(_ROUND, 1) | {"draft_step": lookahead - 1}
        tokens = float(tokens_per_round(acceptance, lookahead))
        gains[lookahead] = tokens * plain_s / _seconds(steps, shifts[lookahead], times)
        outside |= bool(outside_calibration(steps, _ROUND))
    best = max(gains, key=lambda k: gains[k], default=0)
    gain = gains.get(best)
    return Cell(batch, context, best if gain is not None and gain > 1 else 0, gain, plain_s, outside)


def _shifts(scenario: Scenario) -> dict[str, float]:
    """What each pass is multiplied with where a step of the scenario was measured."""
    return {name: anchor.factor for name, anchor in Steps.of(scenario).anchors.items()}


def _seconds(steps: Steps, shifts: Mapping[str, float], times: Mapping[str, int]) -> float:
    parts = steps.mechanisms()
    return sum(shifts.get(name, 1.0) * n * sum(parts.get(name, {}).values()) for name, n in times.items())


def _fits(scenario: Scenario) -> bool:
    """Whether memory holds it, and every model has a position for each of its tokens."""
    models: list[ModelSpec] = [scenario.target, *([scenario.draft_model] if scenario.draft_model else [])]
    last = scenario.workload.prompt_tokens + scenario.workload.output_tokens
    known = min((one.max_positions for one in models if one.max_positions is not None), default=np.inf)
    return last <= known and not does_not_fit(scenario, memory_terms(scenario))
