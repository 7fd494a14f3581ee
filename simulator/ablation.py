"""Mechanisms of a measured step, by taking things away: fewer layers, shorter and longer caches, fewer devices.

A jitted step cannot be cut open. But its time is, nearly, a fixed part, a part for each layer, and in each layer a part
for each cached position. Steps of all layers and of half of them, at one cached length and at four times as many, give
the three; what a layer takes on more devices than one, beyond its share of one device's, is what its collectives take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.spec.load import Point
from simulator.spec.model import ModelSpec
from simulator.spec.record import RunRecord
from simulator.spec.scenario import Scenario

LONGER = 4
Key = tuple[str, int, int, int]
"""Model, chips, layers, prompt tokens."""


@dataclass(frozen=True)
class Parts:
    """A plain step of one model on some devices, in seconds, measured and predicted."""

    model: str
    chips: int
    step_s: float
    fixed_s: float
    layers_s: float
    """All layers, without what grows with the cached positions."""
    kv_s: float
    """What grows with the cached positions, at those of the scenario."""
    devices_s: float | None
    """What the layers take more than on one device: collectives, and less room for each; None on one."""


@dataclass(frozen=True)
class Plan:
    """The points to measure, and how to read them."""

    points: tuple[Point, ...]
    keys: tuple[Key, ...]
    wanted: tuple[tuple[ModelSpec, int, int], ...]
    """Models, chips and prompt tokens that are to be explained."""

    def explained(self, records: Sequence[RunRecord]) -> list[Parts]:
        """The parts of every step, from the records of :attr:`points`."""
        times: dict[Key, float] = {}
        for key, record in zip(self.keys, records, strict=True):
            if (seconds := record.metric("plain_step_s")) is not None:
                times[key] = seconds
        found = [self._parts(times, *one) for one in self.wanted]
        alone = {part.model: part for part in found if part is not None and part.chips == 1}
        return [_beside(part, alone.get(part.model)) for part in found if part is not None]

    def _parts(self, times: Mapping[Key, float], model: ModelSpec, chips: int, prompt: int) -> Parts | None:
        few = _fewer(model.layers)
        lengths = (prompt, _far(prompt))
        keys = [(model.name, chips, count, length) for count in (model.layers, few) for length in lengths]
        if any(key not in times for key in keys):
            return None
        here, far, few_here, few_far = (times[key] for key in keys)
        gone = model.layers - few
        each, each_far = (here - few_here) / gone, (far - few_far) / gone
        kv = model.layers * (each_far - each) * prompt / (_far(prompt) - prompt)
        return Parts(model.name, chips, here, here - model.layers * each, model.layers * each - kv, kv, None)


def plan(points: Sequence[Point]) -> Plan:
    """Plain steps of target and draft of every point, with all layers and half of them, at two cached lengths."""
    made: dict[Key, Point] = {}
    wanted: dict[Key, tuple[ModelSpec, int, int]] = {}
    for point in points:
        deployment, prompt = point.scenario.deployment, point.scenario.workload.prompt_tokens
        models = [(point.scenario.target, deployment.target_degree)]
        if point.scenario.draft_model is not None:
            models.append((point.scenario.draft_model, deployment.draft_degree))
        for model, chips in models:
            wanted.setdefault((model.name, chips, model.layers, prompt), (model, chips, prompt))
            for layers in (model.layers, _fewer(model.layers)):
                for length in (prompt, _far(prompt)):
                    key = (model.name, chips, layers, length)
                    made.setdefault(key, _alone(point.scenario, model, chips, layers, length))
    return Plan(tuple(made.values()), tuple(made), tuple(wanted.values()))


def _fewer(layers: int) -> int:
    return max(1, layers // 2) if layers > 1 else layers + 1


def _far(prompt: int) -> int:
    return LONGER * prompt


def _alone(scenario: Scenario, model: ModelSpec, chips: int, layers: int, prompt: int) -> Point:
    """Plain decoding of one model."""
    deployment = scenario.deployment.model_copy(
        update={"chips": chips, "tensor_parallel": None, "slice": None, "draft": type(scenario.deployment.draft)()}
    )
    plain = {"draft": {"kind": "none"}, "decoding": scenario.decoding.model_dump(exclude_defaults=True)}
    plain["decoding"]["lookahead"] = 0
    data = scenario.model_dump(exclude_defaults=True) | plain
    # A name of its own: what has one name is built once.
    other = {"name": f"{model.name[:60]}-{layers}-layers", "layers": layers}
    data["target"] = model.model_copy(update=other).model_dump(exclude_defaults=True)
    data["deployment"] = deployment.model_dump(exclude_defaults=True)
    data["workload"] = scenario.workload.model_dump(exclude_defaults=True) | {"prompt_tokens": prompt}
    data["published"] = ()
    data["measured"] = None  # of all layers, and of one model only
    axes: dict[str, str | int | float] = {"target": model.name, "layers": layers, "prompt_tokens": prompt}
    return Point(Scenario.model_validate(data), axes | {"deployment.chips": chips})


def _beside(part: Parts, alone: Parts | None) -> Parts:
    if part.chips == 1 or alone is None:
        return part
    return replace(part, devices_s=part.layers_s - alone.layers_s)
