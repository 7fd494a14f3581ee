"""Scenario -> analytic and simulated records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulator.cost.memory import does_not_fit, draft_terms, memory_terms
from simulator.des.rounds import MAX_TOKENS, simulate_rounds
from simulator.metrics import closed_form_metrics
from simulator.overheads import MANY_ROWS
from simulator.spec.hardware import Calibration
from simulator.spec.load import Point
from simulator.spec.record import RunRecord, Status, Validation, new_record
from simulator.spec.scenario import Scenario
from simulator.steps import Step, Steps
from simulator.uncertainty import relative_spreads, with_intervals

REPLICATIONS = 400
"""Independent runs behind each simulated distribution."""


@dataclass(frozen=True)
class Prediction:
    """Components of a scenario in seconds, each with its mechanisms, and what else a record says."""

    components: dict[str, float]
    mechanisms: dict[str, dict[str, float]]
    metrics: dict[str, float]
    status: Status
    validation: Validation
    provenance: dict[str, Any]
    spreads: dict[str, float]
    """Relative standard deviations of metrics, where the calibration says how sure it is."""


def predict(points: Sequence[Point]) -> list[RunRecord]:
    """One analytic and one simulated record for each point, in order."""
    records: list[RunRecord] = []
    for point in points:
        prediction = predict_scenario(point.scenario)
        shared = {
            "axes": point.axes,
            "status": prediction.status,
            "validation": prediction.validation,
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
        playable = point.scenario.workload.output_tokens <= MAX_TOKENS
        fits = prediction.status.state != "does_not_fit" and playable
        if not playable:
            prediction.provenance["not_simulated"] = f"more than {MAX_TOKENS:,} output tokens"
        simulated = simulate_rounds(point.scenario, prediction.components, REPLICATIONS) if fits else {}
        played = with_intervals(simulated, prediction.spreads)
        records.append(new_record("simulated", point.scenario, metrics=played, **shared))
    return records


def predict_scenario(scenario: Scenario) -> Prediction:
    """The closed forms, for one scenario."""
    steps = Steps.of(scenario)
    mechanisms = steps.mechanisms()
    components = {name: sum(by.values()) for name, by in mechanisms.items()}
    terms, on_own = memory_terms(scenario), draft_terms(scenario)
    spreads = relative_spreads(steps)
    metrics = with_intervals(closed_form_metrics(scenario, components), spreads) | steps.floors()
    metrics["memory_per_chip_bytes"] = max(sum(terms.values()), sum(on_own.values()))
    provenance: dict[str, Any] = {
        "calibration": describe(steps.calibration_name, steps.calibration),
        "memory_terms_bytes": terms,
        "cache_read": steps.calibration.cache_read,
        "speedup_baseline": "plain decoding of the same target on the same chips, by the same calibration",
        "counts": counts(steps, components),
        "matmul_time": matmul_sources(steps),
    }
    if scenario.deployment.engine is not None:
        provenance["engine"] = _engine(steps)
    if steps.anchors:
        provenance["anchored"] = {name: anchor.to_json() for name, anchor in steps.anchors.items()}
    if on_own:
        provenance["draft_memory_terms_bytes"] = on_own
        provenance["speedup_baseline"] += ", those of the draft left idle"
    if beyond := outside_calibration(steps, ("prefill", "draft_prefill")):
        provenance["prefill_extrapolated"] = beyond
    status = _status(steps, terms, on_own)
    return Prediction(components, mechanisms, metrics, status, _validation(steps, status), provenance, spreads)


def _validation(steps: Steps, status: Status) -> Validation:
    """Validated where the calibration passed on held-out shapes of this machine, and the question lies in its range."""
    claim = steps.calibration.validation
    if claim is None or not claim.passed or status.state != "ok":
        return Validation()
    return Validation(state="validated", record=claim.record)


def _status(steps: Steps, terms: dict[str, float], on_own: dict[str, float]) -> Status:
    reason = does_not_fit(steps.scenario, terms) or does_not_fit(steps.scenario, on_own, "a chip of the draft")
    if reason:
        return Status(state="does_not_fit", reason=reason)
    decoding = [name for name in steps.passes if not name.endswith("prefill")]
    outside = outside_calibration(steps, decoding)
    return Status(state="outside_calibration", reason=outside) if outside else Status()


def _engine(steps: Steps) -> dict[str, Any]:
    """What a record says of the engine behind it."""
    name, known = steps.scenario.deployment.engine, steps.engine
    if known is None:
        others = ", ".join(steps.scenario.deployment.hardware.engines) or "none"
        return {"name": name, "known": False, "words": f"not known on this chip (known: {others}): kernels alone"}
    return {"name": name, "known": True} | known.model_dump(mode="json")


def describe(name: str, calibration: Calibration) -> dict[str, Any]:
    """What a record says of the calibration behind it: all but the parameters, which stand in the scenario."""
    return {"name": name} | calibration.model_dump(mode="json", exclude={"parameters", "uncertainty"})


def counts(steps: Steps, components: dict[str, float]) -> dict[str, dict[str, float]]:
    """What each step moves and computes on one chip: bytes, executed and model FLOP, and what share of the peaks.

    MFU is model FLOP over time x peak rate, MBU streamed bytes over time x peak bandwidth; where devices share one
    memory, those of all of them.
    """
    found = {}
    for name, step in steps.passes.items():
        cost, peaks, seconds = step.cost, step.machine.profile.peaks, components[name]
        # A pipeline's stages work one after the other, each on a share of the layers.
        share = (step.forward.chips if step.machine.profile.shares_memory else 1) / step.forward.stages
        rate = peaks.matmul[step.machine.dtype].value_flop_per_s
        found[name] = {
            "streamed_bytes": float(cost.streamed_bytes),
            "executed_flop": float(cost.executed_flop),
            "model_flop": float(cost.model_flop),
            "mfu": float(cost.model_flop) * share / (seconds * rate),
            "mbu": float(cost.streamed_bytes) * share / (seconds * peaks.hbm_bandwidth.value_bytes_per_s),
        }
    return found


def matmul_sources(steps: Steps) -> dict[str, str]:
    """Of each step, what its matrix multiplications were timed by: the roofline, or a measured T(n)."""
    return {
        name: "measured T(n)" if step.machine.parameters.row_factor else "roofline"
        for name, step in steps.passes.items()
    }


def outside_calibration(steps: Steps, names: Sequence[str]) -> str:
    """Along which axis some steps leave the range that the calibration was fitted on; empty where none does."""
    engine = steps.engine
    beside = engine is not None and engine.calibration != steps.calibration_name
    found = {f"engine fitted beside {engine.calibration}": None} if engine is not None and beside else {}
    found |= dict.fromkeys(_other_type(steps.passes[name]) for name in names if name in steps.passes)
    asked = [(axis, value) for name in names if name in steps.passes for axis, value in _asked(steps.passes[name])]
    if engine is not None and engine.rows:
        many = max((value for of, value in asked if of == "rows"), default=0.0)
        found |= {f"rows {many:,.4g} (the engine's T(n) goes to {MANY_ROWS})": None} if many > MANY_ROWS else {}
    for axis, limits in steps.calibration.validity.items():
        for value in (value for of, value in asked if of == axis):
            if not limits.low <= value <= limits.high:
                words = f"{axis.replace('_', ' ')} {value:,.4g}"
                found[f"{words} (fitted on {limits.low:,.4g} to {limits.high:,.4g})"] = None
    return "; ".join(words for words in found if words)


def _other_type(step: Step) -> str:
    """Where the matrices are multiplied in another type than those that were measured."""
    dtype, measured = step.model.rate_dtype, step.machine.parameters.matmul_dtypes
    return f"type {dtype} (fitted on {', '.join(measured)})" if measured and dtype not in measured else ""


def _asked(step: Step) -> list[tuple[str, float]]:
    model, forward = step.model, step.forward
    return [
        ("weight_bytes_per_chip", model.streamed_parameters * model.weight_bytes / (forward.chips * forward.stages)),
        ("rows", float(forward.rows)),
        ("layers", model.layers),
        ("width", model.d_model),
        ("chips", forward.chips),
        ("positions", forward.positions),
        ("payload_bytes", float(forward.rows) * model.d_model * model.activation_bytes),
    ]
