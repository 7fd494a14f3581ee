"""A plan at every point of a sweep, such as batch and context: who is first where, and which one draft serves all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.errors import RefusedError
from simulator.plan import plan
from simulator.plan.proposals import Proposal
from simulator.predict import outside_calibration
from simulator.spec.load import Point
from simulator.spec.model import ModelSpec
from simulator.spec.record import scenario_hash
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from simulator.sweep.points import label
from simulator.sweep.tasks import Task, task_of

Payload = tuple[Scenario, Mapping[str, ModelSpec]]


@dataclass(frozen=True)
class OneForAll:
    """One draft at every point, switched off where plain decoding costs less."""

    name: str
    regret: float
    """Mean of its expected regrets over the points, each of the same weight."""
    worst: float
    worst_at: int
    """The number of the point."""
    lookahead: tuple[int, ...]
    """K to begin with at each point; 0 where it is off."""


def plan_tasks(points: Sequence[Point], models: Mapping[str, ModelSpec]) -> list[Task]:
    """One task a point; ``models`` are those that the plan names."""
    return [task_of(planned, question(p.scenario, models), (p.scenario, dict(models)), label(p)) for p in points]


def question(scenario: Scenario, models: Mapping[str, ModelSpec]) -> list[Any]:
    """What tells one search from every other: a scenario's hash is without its plan."""
    asked = None if scenario.plan is None else scenario.plan.model_dump(mode="json", exclude_defaults=True)
    named = {name: model.model_dump(mode="json", exclude_defaults=True) for name, model in models.items()}
    return [scenario_hash(scenario), asked, named]


def planned(payload: Payload) -> dict[str, Any]:
    """The candidates of one point by expected regret, or why there are none: ``{"refused": ...}``."""
    scenario, models = payload
    try:
        found = plan(scenario, models)
    except RefusedError as error:
        return {"refused": str(error), "candidates": []}
    names = ("plain_step", "draft_step", "verify_step")
    return {
        "refused": "",
        "outside": outside_calibration(Steps.of(found.leader.scenario), names),
        "plain_s": found.leader.group.plain_s,
        "screened": found.screened,
        "top": len(found.top),
        "candidates": [_brief(one) for one in found.proposals],
    }


def _brief(one: Proposal) -> dict[str, Any]:
    own = one.ranked
    scale = one.group.plain_s * own.entry.weight
    return {
        "name": own.entry.name,
        "option": one.group.option,
        "drafts": one.model is not None,
        "lookahead": own.lookahead,
        "gain": one.gain,
        "gain_low": scale / own.high_s,
        "gain_high": scale / own.low_s,
        "p_best": own.p_best,
        "regret": own.regret,
        "value_s": own.value_s,
        "tokens_per_s": one.group.scenario.workload.batch * own.entry.weight / own.value_s,
        "acceptance": one.acceptance,
        "told_from_the_first": own.apart,
    }


def one_for_all(answers: Sequence[Mapping[str, Any]]) -> list[OneForAll]:
    """Every draft that was drawn at all points that have an answer, by its mean regret; the least first.

    Each point may have other survivors of its screening. A draft that is not among those of some point is not here:
    there it is worse than all that were drawn.
    """
    told = [(number, answer) for number, answer in enumerate(answers) if answer["candidates"]]
    if not told:
        return []
    plain = [{c["option"]: c["regret"] for c in answer["candidates"] if not c["drafts"]} for _, answer in told]
    known = [{c["name"]: c for c in answer["candidates"] if c["drafts"]} for _, answer in told]
    found = []
    for name in set.intersection(*(set(each) for each in known)):
        each = [here[name] for here in known]
        off = [plain[i].get(one["option"], np.inf) < one["regret"] for i, one in enumerate(each)]
        costs = [plain[i][one["option"]] if off[i] else one["regret"] for i, one in enumerate(each)]
        depths = dict.fromkeys(range(len(answers)), 0)
        depths |= {told[i][0]: 0 if off[i] else one["lookahead"] for i, one in enumerate(each)}
        worst = int(np.argmax(costs))
        found.append(
            OneForAll(name, float(np.mean(costs)), costs[worst], told[worst][0], tuple(depths[i] for i in depths))
        )
    return sorted(found, key=lambda one: (one.regret, one.name))
