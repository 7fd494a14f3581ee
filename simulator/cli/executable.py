"""A scenario for a processor, as this machine is one: its memory, and types of number that it computes at full rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from simulator.spec.load import Point
    from simulator.spec.model import ModelSpec
    from simulator.spec.scenario import Scenario

FALLBACK = "float32"


def executable(points: Sequence[Point]) -> list[Point]:
    """The points with this host's memory, and float32 where its cores lack what the profile's bfloat16 rate needs."""
    from runtime.host import missing_flag
    from simulator.spec.load import Point

    found, said = [], set()
    for point in points:
        profile, dtype = point.scenario.deployment.hardware, point.scenario.target.compute_dtype
        flag = missing_flag(profile, dtype)
        scenario = _with_host_memory(point.scenario) if profile.shares_memory else point.scenario
        found.append(Point(_fallen_back(scenario) if flag else scenario, point.axes))
        if flag:
            said.add(f"this processor has no {flag}, so {dtype} would be slower than {FALLBACK}: running {FALLBACK}")
    for words in sorted(said):
        typer.echo(words, err=True)
    return found


def _with_host_memory(scenario: Scenario) -> Scenario:
    from runtime.host import host_memory

    deployment, size = scenario.deployment, host_memory()
    if not size:
        return scenario
    capacity = {"value_bytes": float(size), "source": "what the operating system reports"}
    old = deployment.hardware.peaks
    peaks = old.model_copy(update={"hbm_capacity": old.hbm_capacity.model_copy(update=capacity)})
    hardware = deployment.hardware.model_copy(update={"peaks": peaks})
    return scenario.model_copy(update={"deployment": deployment.model_copy(update={"hardware": hardware})})


def _fallen_back(scenario: Scenario) -> Scenario:
    changed: dict[str, object] = {"target": _float32(scenario.target)}
    if scenario.draft_model is not None:
        changed["draft"] = scenario.draft.model_copy(update={"model": _float32(scenario.draft_model)})
    return scenario.model_copy(update=changed)


def _float32(model: ModelSpec) -> ModelSpec:
    return model.model_copy(update={"weight_dtype": FALLBACK, "kv_dtype": None, "activation_dtype": None})
