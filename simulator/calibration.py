"""Probe records -> a named calibration: parameters fitted to what a machine was measured to do.

Fitted for every number of chips on its own: bandwidth efficiency over the footprint, arithmetic efficiency over
the rows, overheads a layer, a step and a round, sampling and verification. The all-reduce is not fitted but tabulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.cost.collectives import Links
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, footprint, sampling_time, step_cost
from simulator.errors import MeasurementError
from simulator.fitting import Fit, Free, fit
from simulator.spec.hardware import Calibration, CostParameters, HardwareProfile, datasheet_calibration
from simulator.spec.model import ModelSpec
from simulator.spec.probe import HostDescription, ProbeRecord
from simulator.units import format_quantity

Array = npt.NDArray[np.float64]

_OVERHEADS = {
    "step_overhead": Free(5e-5, 0.0, 0.05),
    "layer_overhead": Free(5e-5, 0.0, 0.01),
    "round_overhead": Free(1e-4, 0.0, 0.05),
    "sampling_base": Free(5e-5, 0.0, 0.01),
    "sampling_per_logit": Free(5e-9, 0.0, 1e-6),
    "verification_base": Free(5e-5, 0.0, 0.01),
    "verification_per_logit": Free(5e-9, 0.0, 1e-6),
}

SAME_SIZE = 1.25
"""Footprints within this factor count as one size."""


def calibrate(probes: Sequence[ProbeRecord], profile: HardwareProfile, name: str) -> HardwareProfile:
    """``profile`` with a calibration ``name`` fitted to ``probes``, one set of parameters a chip count.

    Raises:
        MeasurementError: no probe, or too few of a kind to fit anything.
    """
    if not probes:
        raise MeasurementError("no probe record to calibrate with")
    counts = sorted({probe.chips for probe in probes})
    fits = {chips: _ChipFit(chips, [p for p in probes if p.chips == chips], profile) for chips in counts}
    solved = {chips: one.solve() for chips, one in fits.items()}
    residuals = np.concatenate([solution.residuals for solution in solved.values()])
    data: dict[str, Any] = {
        "description": "Fitted to probes of this host: short decoder steps, verification, rounds, all-reduces.",
        "source": f"{len(probes)} probe records of {_host_words(probes[0].host)}",
        "free_parameters": sum(len(solution.values) for solution in solved.values()),
        "free_parameter_names": tuple(
            f"{free.replace('_', ' ')} on {chips}" for chips, s in solved.items() for free in s.values
        ),
        "fitted_values": len(residuals),
        "residual": float(np.sqrt(np.mean(residuals**2))),
        "assumptions": (
            "attention reads the whole allocated cache, as the runtime does",
            "the first draft step of a round finds its weights evicted by the target's",
            "one row is multiplied at the rate of memory: its arithmetic is taken to be twice as fast as the bound",
        ),
        "records": tuple(probe.id for probe in probes),
        "cache_read": "allocated",
        "validity": _validity(probes),
        "parameters": tuple(fits[chips].parameters(solved[chips].values) for chips in counts),
    }
    fitted = Calibration.model_validate(data)
    return profile.model_copy(update={"calibrations": {**profile.calibrations, name: fitted}})


def host_profile(profile: HardwareProfile, host: HostDescription) -> HardwareProfile:
    """A CPU profile whose bounds, stated for two cores, are scaled to the host's cores and memory."""
    data = profile.model_dump(mode="json", exclude={"calibrations"}, exclude_defaults=True)
    scale, peaks = host.cores / 2, profile.peaks
    note = f"; scaled to {host.cores} cores"
    data["peaks"]["hbm_bandwidth"] = {
        "value": format_quantity(peaks.hbm_bandwidth.value_bytes_per_s * scale, "B/s"),
        "source": peaks.hbm_bandwidth.source + note,
    }
    for dtype, rate in peaks.matmul.items():
        data["peaks"]["matmul"][dtype]["value"] = format_quantity(rate.value_flop_per_s * scale, "FLOP/s")
        data["peaks"]["matmul"][dtype]["source"] = rate.source + note
    if host.memory_bytes:
        data["peaks"]["hbm_capacity"] = {
            "value": format_quantity(float(host.memory_bytes), "B"),
            "source": "what the operating system reports",
        }
    return HardwareProfile.model_validate(data)


def _host_words(host: HostDescription) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(host.versions.items()))
    return f"{host.processor or host.device}, {host.cores} cores, {versions}"


def _validity(probes: Sequence[ProbeRecord]) -> dict[str, Any]:
    models = [(probe, probe.model) for probe in probes if probe.model is not None]
    seen = {
        "chips": [float(probe.chips) for probe in probes],
        "layers": [float(model.layers) for _, model in models],
        "rows": [float(probe.batch * probe.tokens) for probe in probes],
        "positions": [0.0, *(float(p.positions) for p in probes)],
        "weight_bytes_per_chip": [m.streamed_parameters * m.weight_bytes / p.chips for p, m in models],
    }
    return {axis: {"low": min(values), "high": max(values)} for axis, values in seen.items() if values}


def _knots(footprints: Sequence[float]) -> list[int]:
    """Where the curve over the footprint has its points: one for all probes of about one size.

    Shapes of one size then share an efficiency, and what tells them apart is the cost of their layers.
    """
    groups: list[list[float]] = []
    for size in sorted(footprints):
        if groups and size < SAME_SIZE * groups[-1][0]:
            groups[-1].append(size)
        else:
            groups.append([size])
    return [round(float(np.exp(np.mean(np.log(group))))) for group in groups]


class _ChipFit:
    """The fit for one number of chips."""

    def __init__(self, chips: int, probes: Sequence[ProbeRecord], profile: HardwareProfile) -> None:
        self.chips, self.profile = chips, profile
        self.collectives = sorted((p for p in probes if p.kind == "all_reduce"), key=lambda p: p.payload_bytes)
        self.timed = [p for p in probes if p.kind != "all_reduce"]
        if len(self.timed) < 4:
            raise MeasurementError(f"only {len(self.timed)} probe records on {chips} chips; a fit needs more")
        self.measured = np.array([p.time.median for p in self.timed])
        self.knots = _knots([self._footprint(p.model) for p in self.timed if p.kind == "decode_step"])
        self.rows = sorted({p.batch * p.tokens for p in self.timed if self._is_pass(p)} - {1})

    def solve(self) -> Fit:
        # A larger footprint never streams faster; otherwise overheads would hide in the efficiencies of small models.
        free = {"efficiency": self._around(self._seen(1, "hbm"))}
        free |= {f"gain_{i}": Free(0.1, 0.0, 20.0) for i in range(len(self.knots) - 1)}
        free |= {f"matmul_{n}": self._around(self._seen(n, "matmul")) for n in self.rows}
        kinds = {probe.kind for probe in self.timed}
        absent = [] if "round" in kinds else ["round"]
        absent += [] if "verification" in kinds else ["verification"]
        free |= {n: bounds for n, bounds in _OVERHEADS.items() if n.partition("_")[0] not in absent}
        return fit(self._errors, free)

    @staticmethod
    def _around(seen: float) -> Free:
        # An efficiency far above what was seen binds nowhere and has no gradient: the search must not get lost there.
        return Free(1.1 * seen, 0.5 * seen, 3.0 * seen)

    def _seen(self, rows: int, roof: str) -> float:
        """The efficiency that the largest model reached at ``rows`` rows, overheads included."""
        sizes = {self._footprint(p.model): p for p in self.timed if p.batch * p.tokens == rows and self._is_pass(p)}
        probe = sizes[max(sizes)]
        if probe.model is None:
            raise MeasurementError("a probe record of a pass without its model")
        cost = step_cost(
            Shape.of(probe.model),
            Pass(probe.batch, probe.tokens, 0, 1),
            Machine(self.profile, datasheet_calibration().parameters[0], Links(1.0), probe.model.compute_dtype),
        )
        peaks, seconds = self.profile.peaks, probe.time.median
        if roof == "hbm":
            return float(cost.streamed_bytes / seconds / peaks.hbm_bandwidth.value_bytes_per_s)
        return float(cost.executed_flop / seconds / peaks.matmul[probe.model.compute_dtype].value_flop_per_s)

    @staticmethod
    def _is_pass(probe: ProbeRecord) -> bool:
        return probe.kind in ("forward", "decode_step")

    def parameters(self, values: Mapping[str, float]) -> dict[str, Any]:
        """The parameters as a profile's YAML has them."""
        efficiency = values["efficiency"]
        curve: list[dict[str, Any]] = []
        for i in reversed(range(len(self.knots))):
            efficiency *= 1 + values.get(f"gain_{i}", 0.0)
            curve.insert(0, {"footprint": format_quantity(float(self.knots[i]), "B"), "efficiency": efficiency})
        table = [
            {"payload": format_quantity(p.payload_bytes, "B"), "time": format_quantity(p.time.median, "s")}
            for p in self.collectives
        ]
        # One row is a matrix-vector product: it streams weights and never waits for arithmetic.
        rates = [{"rows": 1, "efficiency": 2.0}, *({"rows": n, "efficiency": values[f"matmul_{n}"]} for n in self.rows)]
        seconds = {name: format_quantity(values.get(name, 0.0), "s") for name in _OVERHEADS}
        data: dict[str, Any] = {
            "chips": self.chips,
            "hbm_efficiency": tuple(curve),
            "matmul_efficiency": tuple(rates),
            "step_overhead": seconds["step_overhead"],
            "layer_overhead": seconds["layer_overhead"],
            "round_overhead": seconds["round_overhead"],
            "sampling": {"base": seconds["sampling_base"], "per_logit": seconds["sampling_per_logit"]},
            "verification": {"base": seconds["verification_base"], "per_logit": seconds["verification_per_logit"]},
        }
        return data | ({"all_reduce": {"algorithm": "table", "table": tuple(table)}} if table else {})

    def _errors(self, values: Mapping[str, float]) -> Array:
        parameters = CostParameters.model_validate(self.parameters(values))
        predicted = np.array([self._predict(probe, parameters) for probe in self.timed])
        return np.asarray(predicted / self.measured - 1)

    def _predict(self, probe: ProbeRecord, parameters: CostParameters) -> float:
        model = probe.model
        if model is None:
            raise MeasurementError(f"a probe record of kind {probe.kind} without its model")
        if probe.kind == "verification":
            cost = parameters.verification or parameters.sampling
            return float(sampling_time(cost, model.vocabulary, probe.batch * probe.tokens))
        if probe.kind == "round":
            return self._round(probe, model, parameters)
        sampled = 0 if probe.kind == "forward" else 1
        both = self._both(probe) if probe.kind == "first_draft_step" else None
        return self._step(probe, model, probe.tokens, parameters, both, sampled)

    def _round(self, probe: ProbeRecord, draft: ModelSpec, parameters: CostParameters) -> float:
        target, both, lookahead = probe.partner, self._both(probe), probe.tokens - 1
        if target is None:
            raise MeasurementError("a probe record of a round without its target")
        first = self._step(probe, draft, 2, parameters, both, 1)
        others = (lookahead - 1) * self._step(probe, draft, 1, parameters, None, 1)
        verify = self._step(probe, target, probe.tokens, parameters, both, 0)
        accept = sampling_time(
            parameters.verification or parameters.sampling, target.vocabulary, probe.batch * probe.tokens
        )
        return float(first + others + verify + accept + parameters.round_overhead_s)

    def _step(
        self, probe: ProbeRecord, model: ModelSpec, tokens: int, parameters: CostParameters, size: Any, sampled: int
    ) -> float:
        machine = Machine(
            self.profile, parameters, Links(self.profile.peaks.hbm_bandwidth.value_bytes_per_s), model.compute_dtype
        )
        forward = Pass(probe.batch, tokens, probe.positions, self.chips, sampled or None)
        return float(step_cost(Shape.of(model), forward, machine, size, sampled).seconds)

    def _footprint(self, model: ModelSpec | None) -> float:
        return 0.0 if model is None else float(footprint(Shape.of(model), self.chips, self.profile))

    def _both(self, probe: ProbeRecord) -> float:
        return self._footprint(probe.model) + self._footprint(probe.partner)
