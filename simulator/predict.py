"""Scenario -> analytic and simulated records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator import speculation
from simulator.cost.collectives import Links
from simulator.cost.memory import does_not_fit, memory_terms
from simulator.cost.operations import Pass, Shape
from simulator.cost.step import Machine, StepCost, footprint, sampling_time, step_cost
from simulator.des.rounds import simulate_rounds
from simulator.errors import RefusedError
from simulator.spec.acceptance import ForcedAcceptance
from simulator.spec.hardware import (
    Calibration,
    HardwareProfile,
    SharedMemoryTopology,
    TorusTopology,
    datasheet_calibration,
    parse_slice,
)
from simulator.spec.load import Point
from simulator.spec.model import ModelSpec
from simulator.spec.record import RunRecord, Status, new_record
from simulator.spec.scenario import Scenario
from simulator.spec.terms import MECHANISMS

DATASHEET = "datasheet"
REPLICATIONS = 400
"""Independent runs behind each simulated distribution."""


@dataclass(frozen=True)
class Prediction:
    """Components of a scenario in seconds, each with its mechanisms, and what else a record says."""

    components: dict[str, float]
    mechanisms: dict[str, dict[str, float]]
    metrics: dict[str, float]
    status: Status
    provenance: dict[str, Any]


def predict(points: Sequence[Point]) -> list[RunRecord]:
    """One analytic and one simulated record for each point, in order."""
    records: list[RunRecord] = []
    for point in points:
        prediction = predict_scenario(point.scenario)
        shared = {
            "axes": point.axes,
            "status": prediction.status,
            "components": prediction.components,
            "provenance": prediction.provenance,
        }
        records.append(
            new_record(
                "analytic",
                point.scenario,
                metrics=prediction.metrics,
                mechanisms=prediction.mechanisms,
                **shared,
            )
        )
        fits = prediction.status.state != "does_not_fit"
        simulated = simulate_rounds(point.scenario, prediction.components, REPLICATIONS) if fits else {}
        records.append(new_record("simulated", point.scenario, metrics=simulated, **shared))
    return records


def predict_scenario(scenario: Scenario) -> Prediction:
    """The closed forms, for one scenario."""
    calibration_name, calibration = used_calibration(scenario)
    steps = _Steps(scenario, calibration)
    parts = steps.components()
    mechanisms = {name: _floats(cost) for name, cost in parts.items()}
    if scenario.draft_model is not None and scenario.lookahead > 0:
        mechanisms["round"] = _round(mechanisms, scenario.lookahead)
    components = {name: sum(by.values()) for name, by in mechanisms.items()}
    terms = memory_terms(scenario)
    reason = does_not_fit(scenario, terms)
    status = Status()
    if reason:
        status = Status(state="does_not_fit", reason=reason)
    elif outside := outside_calibration(scenario, calibration):
        status = Status(state="outside_calibration", reason=outside)
    metrics = _metrics(scenario, components) | steps.floors()
    metrics["memory_per_chip_bytes"] = sum(terms.values())
    provenance = {
        "calibration": describe(calibration_name, calibration),
        "memory_terms_bytes": terms,
        "cache_read": calibration.cache_read,
        "speedup_baseline": "plain decoding of the same target on the same chips, by the same calibration",
    }
    return Prediction(components, mechanisms, metrics, status, provenance)


def used_calibration(scenario: Scenario) -> tuple[str, Calibration]:
    """The calibration that a scenario names; the datasheet floor where it names none."""
    name = scenario.deployment.calibration
    if name is None:
        return DATASHEET, datasheet_calibration()
    return name, scenario.deployment.hardware.calibrations[name]


def describe(name: str, calibration: Calibration) -> dict[str, Any]:
    """What a record says of the calibration behind it: all but the parameters."""
    return {"name": name} | calibration.model_dump(mode="json", exclude={"parameters"})


def outside_calibration(scenario: Scenario, calibration: Calibration) -> str:
    """Along which axis a scenario leaves the range that the calibration was fitted on; empty where it does not."""
    deployment = scenario.deployment
    positions = scenario.cache_positions if calibration.cache_read == "allocated" else scenario.mean_positions
    asked: dict[str, list[float]] = {"weight_bytes_per_chip": [], "rows": [], "layers": [], "chips": []}
    asked["positions"] = [positions]
    models = [(scenario.target, deployment.target_degree, scenario.lookahead + 1)]
    if scenario.draft_model is not None and scenario.lookahead > 0:
        models.append((scenario.draft_model, deployment.draft_degree, 2))
    for model, degree, tokens in models:
        asked["weight_bytes_per_chip"].append(model.streamed_parameters * model.weight_bytes / degree)
        asked["rows"].append(tokens * scenario.workload.batch)
        asked["layers"].append(model.layers)
        asked["chips"].append(degree)
    found = [
        f"{axis.replace('_', ' ')} {value:,.4g} (fitted on {limits.low:,.4g} to {limits.high:,.4g})"
        for axis, limits in calibration.validity.items()
        for value in asked.get(axis, [])
        if not limits.low <= value <= limits.high
    ]
    return "; ".join(dict.fromkeys(found))


def links_of(hardware: HardwareProfile, slice_text: str | None, chips: int, degree: int) -> Links:
    """The links between the chips of one model; the axes are known only where it lies on the whole slice."""
    topology = hardware.topology
    if isinstance(topology, SharedMemoryTopology):
        return Links(hardware.peaks.hbm_bandwidth.value_bytes_per_s)
    bandwidth = topology.link_bandwidth.value_bytes_per_s
    if isinstance(topology, TorusTopology) and slice_text is not None and degree == chips:
        axes = parse_slice(slice_text)
        return Links(bandwidth, axes, topology.wraps(axes))
    return Links(bandwidth, both_ways=isinstance(topology, TorusTopology))


class _Steps:
    """The forward passes of one scenario on its machine."""

    def __init__(self, scenario: Scenario, calibration: Calibration) -> None:
        self.scenario = scenario
        self.batch = scenario.workload.batch
        allocated = calibration.cache_read == "allocated"
        self.positions = scenario.cache_positions if allocated else scenario.mean_positions
        self.calibration = calibration

    def machine(self, model: ModelSpec, degree: int) -> Machine:
        deployment = self.scenario.deployment
        parameters = self.calibration.for_chips(degree)
        if parameters is None:  # reading a scenario refuses this; one built in code may come here
            raise RefusedError(f"calibration '{deployment.calibration}' does not know {degree} chips")
        links = links_of(deployment.hardware, deployment.slice, deployment.chips, degree)
        return Machine(deployment.hardware, parameters, links, model.compute_dtype)

    def step(self, model: ModelSpec, degree: int, tokens: int, footprint_bytes: Any, sampled_rows: int) -> StepCost:
        # Who draws a token wants the logits of the last position only; verification wants all.
        forward = Pass(self.batch, tokens, self.positions, degree, sampled_rows or None)
        return step_cost(Shape.of(model), forward, self.machine(model, degree), footprint_bytes, sampled_rows)

    def components(self) -> dict[str, StepCost]:
        scenario, deployment = self.scenario, self.scenario.deployment
        target, draft, lookahead = scenario.target, scenario.draft_model, scenario.lookahead
        degree, draft_degree = deployment.target_degree, deployment.draft_degree
        parts = {"plain_step": self.step(target, degree, 1, None, 1)}
        if draft is None or lookahead == 0:
            return parts
        # Target and draft take turns, so within a round each finds the other's weights in what caches there are.
        profile = deployment.hardware
        both = footprint(Shape.of(target), degree, profile) + footprint(Shape.of(draft), draft_degree, profile)
        parts["draft_first_step"] = self.step(draft, draft_degree, 2, both, 1)
        if lookahead > 1:
            parts["draft_step"] = self.step(draft, draft_degree, 1, None, 1)
        parts["verify_step"] = self.step(target, degree, lookahead + 1, both, 0)
        parameters = self.machine(target, degree).parameters
        rows = self.batch * (lookahead + 1)
        accept = sampling_time(parameters.verification or parameters.sampling, Shape.of(target), rows)
        parts["sampling"] = _only("head_and_sampling", accept)
        parts["round_overhead"] = _only("overhead", parameters.round_overhead_s)
        return parts

    def floors(self) -> dict[str, float]:
        scenario, deployment = self.scenario, self.scenario.deployment
        target, degree = scenario.target, deployment.target_degree
        peak = deployment.hardware.peaks.hbm_bandwidth.value_bytes_per_s
        chips = 1 if deployment.hardware.shares_memory else degree
        machine = Machine(deployment.hardware, datasheet_calibration().parameters[0], Links(peak), target.compute_dtype)
        cost = step_cost(Shape.of(target), Pass(self.batch, 1, scenario.mean_positions, degree), machine)
        streamed = float(cost.streamed_bytes) * (degree if deployment.hardware.shares_memory else 1)
        floors = {"bandwidth_floor_s": streamed / peak}
        if target.published_parameters is not None:
            floors["nominal_floor_s"] = target.published_parameters * target.weight_bytes / chips / peak
        return floors


def _only(mechanism: str, seconds: Any) -> StepCost:
    zero = np.zeros(())
    spent = {name: np.asarray(seconds if name == mechanism else 0.0, dtype=np.float64) for name in MECHANISMS}
    return StepCost(spent, zero, zero, zero)


def _floats(cost: StepCost) -> dict[str, float]:
    return {name: float(value) for name, value in cost.mechanisms.items() if float(value) != 0.0}


def _round(parts: dict[str, dict[str, float]], lookahead: int) -> dict[str, float]:
    """The mechanisms of a round: first draft step, K-1 draft steps, verification, acceptance, overhead."""
    times = {"draft_first_step": 1, "draft_step": lookahead - 1, "verify_step": 1, "sampling": 1, "round_overhead": 1}
    total: dict[str, float] = {}
    for name, count in times.items():
        for mechanism, seconds in parts.get(name, {}).items():
            total[mechanism] = total.get(mechanism, 0.0) + count * seconds
    return total


def _metrics(scenario: Scenario, components: dict[str, float]) -> dict[str, float]:
    """Metrics by closed form; TPOT and speedup are those of a long output."""
    plain = components["plain_step"]
    metrics = {f"{name}_s": value for name, value in components.items()}
    if "round" not in components:
        return metrics | {
            "tpot_s": plain,
            "acceptance_length": 1.0,
            "speedup": 1.0,
            "tokens_per_s": scenario.workload.batch / plain,
        }
    conditional = scenario.acceptance.conditional(scenario.lookahead)
    tokens = mean_tokens(scenario)
    cost = components["round"] / plain
    metrics |= {
        "round_cost": cost,
        "acceptance_length": tokens,
        "tpot_s": components["round"] / tokens,
        "speedup": tokens / cost,
        "tokens_per_s": scenario.workload.batch * tokens / components["round"],
    }
    even = float(speculation.break_even_acceptance(cost, len(conditional)))
    return metrics if np.isnan(even) else metrics | {"break_even_acceptance": even}


def mean_tokens(scenario: Scenario) -> float:
    """Tokens per round, the target's own included."""
    law = scenario.acceptance
    if isinstance(law, ForcedAcceptance):
        return 1.0 + float(np.mean(law.accepted))
    return float(speculation.acceptance_length(law.conditional(scenario.lookahead)))
