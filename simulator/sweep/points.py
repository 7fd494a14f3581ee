"""The points of a scenario as tasks, and what is computed of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.predict import predict, predict_scenario
from simulator.spec.load import Point
from simulator.spec.record import RunRecord, scenario_hash
from simulator.spec.scenario import Scenario
from simulator.sweep.tasks import Task, Work, task_of

_KEPT = {"kind", "status", "validation", "metrics", "components"}


def tasks_of(points: Sequence[Point], work: Work) -> list[Task]:
    """One task a point, in order. Points that ask the same have the same key."""
    return [task_of(work, scenario_hash(point.scenario), point.scenario, label(point)) for point in points]


def label(point: Point) -> str:
    """What was swept to get to a point, in words."""
    return ", ".join(f"{path} {value}" for path, value in point.axes.items()) or point.scenario.name


def closed_form(scenario: Scenario) -> list[dict[str, Any]]:
    """The analytic record of a scenario, without what explains it: `sps predict` shows that of a single point."""
    found = predict_scenario(scenario)
    return [
        {
            "kind": "analytic",
            "status": found.status.model_dump(mode="json"),
            "validation": found.validation.model_dump(mode="json"),
            "metrics": found.metrics,
            "components": found.components,
        }
    ]


def simulated(scenario: Scenario) -> list[dict[str, Any]]:
    """The analytic record of a scenario and the simulated one."""
    return [_short(record) for record in predict([Point(scenario, {})])]


def _short(record: RunRecord) -> dict[str, Any]:
    return record.model_dump(mode="json", include=_KEPT)
