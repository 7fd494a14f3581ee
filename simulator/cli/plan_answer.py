"""The whole answer of one plan, as lines and as data: here, or on a worker of a cluster."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simulator.cli.compare import told
from simulator.cli.plan_files import lookahead_data

if TYPE_CHECKING:
    from simulator.plan import BestLookahead, Outcome
    from simulator.spec.model import ModelSpec
    from simulator.spec.record import RunRecord
    from simulator.spec.scenario import Scenario


def answered(payload: tuple[Scenario, Mapping[str, ModelSpec], int | None]) -> dict[str, Any]:
    """What a search prints and writes, as plain data: the work of a task.

    Args:
        payload: the scenario, the models that its plan names, the seed of the draws.
    """
    from simulator.plan import best_lookahead, plan
    from simulator.report import plan_page, rendered

    outcome = plan(*payload)
    best = best_lookahead(outcome)
    return {
        "lines": list(lines_of(outcome)),
        # As text: what travels as a result has its keys sorted, and these are the columns of a table.
        "data": json.dumps(to_data(outcome, best)),
        "html": rendered(plan_page(outcome, best)),
    }


def lines_of(
    outcome: Outcome,
    played: Sequence[RunRecord] = (),
    run: Sequence[RunRecord] = (),
    compiled: Sequence[RunRecord] = (),
) -> Iterator[str]:
    """The answer for people, at most 100 columns wide; commands to be copied stay whole."""
    from simulator import compare, tables
    from simulator.plan import commands

    scenario = outcome.scenario
    yield f"{scenario.target.name} on {scenario.deployment.chips} x {scenario.deployment.hardware.name}: which draft?"
    yield from tables.wrapped(*tables.plan_answer(outcome))
    yield f"\n{tables.plan_table(outcome).text()}"
    yield from tables.wrapped(tables.PLAN_LEGEND)
    if outcome.heads:
        yield f"\n{tables.heads_table(outcome).text()}"
        yield from tables.wrapped(tables.HEADS_LEGEND)
    if played:
        yield "\nplayed round by round, acceptance as the mean of the prior:\n"
        yield tables.tails(played).text()
    if run:
        yield "\nreally run here, acceptance forced to the mean of the prior:\n"
        yield from told(compare.compare(run))
    if compiled:
        yield f"\n{tables.confirmed(outcome, compiled).text()}"
    for made in commands(outcome.leader):
        yield f"\n{made.engine}: {made.text or 'cannot serve it: ' + made.why_not}"


def known(value: float) -> float | None:
    """A number as JSON has it, which knows no NaN."""
    return None if math.isnan(value) else value


def to_data(outcome: Outcome, best: BestLookahead | None) -> dict[str, Any]:
    """Everything as plain data."""
    from simulator.plan import commands, training_cost

    asked = outcome.scenario.plan
    if asked is None:  # an outcome is of a scenario with a plan
        raise AssertionError
    costs = [training_cost(one, asked) for one in outcome.proposals]
    return {
        "screened": outcome.screened,
        "shapes": len(outcome.drafts),
        "statement": outcome.statement,
        "left_out": list(outcome.left_out),
        "best_lookahead": lookahead_data(best),
        "heads": [
            {
                "name": head.candidate.entry.name,
                "model": head.candidate.model.model_dump(mode="json", exclude_defaults=True),
                "option": head.candidate.group.option,
                "pass_s": head.candidate.step_s,
                "to_pay": known(head.to_pay),
                "to_lead": known(head.to_lead),
                "for_gain": known(head.for_gain),
            }
            for head in outcome.heads
            if head.candidate.model is not None
        ],
        "candidates": [
            {
                "name": one.ranked.entry.name,
                "model": one.model.model_dump(mode="json", exclude_defaults=True) if one.model else None,
                "option": one.group.option,
                "draft_tensor_parallel": one.group.degree if one.model else None,
                "lookahead": one.ranked.lookahead,
                "p_best": one.ranked.p_best,
                "regret": one.ranked.regret,
                "gain": one.gain,
                "value_s": one.ranked.value_s,
                "value_s_low": one.ranked.low_s,
                "value_s_high": one.ranked.high_s,
                "acceptance": one.acceptance,
                "needs": known(one.needs),
                "for_gain": known(one.for_gain),
                "draft_step_s": one.step_s,
                "collective_share": one.collective_share,
                "told_from_the_first": one.ranked.apart,
                "training": None if cost is None else dataclasses.asdict(cost) | {"payback_days": cost.payback_days},
                "serve": {made.engine: made.text or None for made in commands(one)},
            }
            for one, cost in zip(outcome.proposals, costs, strict=True)
        ],
    }
