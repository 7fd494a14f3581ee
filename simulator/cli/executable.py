"""What this machine can run at full rate: bfloat16 falls back to float32 where the processor cannot multiply it."""

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
    """The points with the types of number that this host computes at the rate of its profile; said on stderr."""
    from runtime.host import missing_flag
    from simulator.spec.load import Point

    found, said = [], set()
    for point in points:
        profile, dtype = point.scenario.deployment.hardware, point.scenario.target.compute_dtype
        flag = missing_flag(profile, dtype)
        found.append(Point(_fallen_back(point.scenario), point.axes) if flag else point)
        if flag:
            said.add(f"this processor has no {flag}, so {dtype} would be slower than {FALLBACK}: running {FALLBACK}")
    for words in sorted(said):
        typer.echo(words, err=True)
    return found


def _fallen_back(scenario: Scenario) -> Scenario:
    changed: dict[str, object] = {"target": _float32(scenario.target)}
    if scenario.draft_model is not None:
        changed["draft"] = scenario.draft.model_copy(update={"model": _float32(scenario.draft_model)})
    return scenario.model_copy(update=changed)


def _float32(model: ModelSpec) -> ModelSpec:
    return model.model_copy(update={"weight_dtype": FALLBACK, "kv_dtype": None, "activation_dtype": None})
