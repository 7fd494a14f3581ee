"""What the cost model says of one measured thing: the same code that predicts scenarios, at the shapes of a record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.calibration.form import Form
from simulator.cost.collectives import Links
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, footprint, sampling_time, step_cost
from simulator.errors import MeasurementError
from simulator.spec.hardware import CostParameters, HardwareProfile
from simulator.spec.model import ModelSpec
from simulator.spec.probe import ProbePoint

Array = npt.NDArray[np.float64]


class Predictor:
    """Times of points under parameters of a profile."""

    def __init__(self, profile: HardwareProfile) -> None:
        self.profile = profile

    def seconds(self, point: ProbePoint, parameters: CostParameters) -> float:
        """The time of a point that is no all-reduce and no dispatch."""
        model = point.model
        if model is None:
            raise MeasurementError(f"a record of kind {point.kind} without its model")
        if point.kind == "verification":
            cost = parameters.sampling if point.tokens == 1 else parameters.verification or parameters.sampling
            return float(sampling_time(cost, model.vocabulary, point.rows))
        if point.kind in ("round", "generation"):
            return self._round(point, model, parameters)
        sampled = 0 if point.kind == "forward" else 1
        both = self._both(point) if point.kind == "first_draft_step" else None
        return self._step(point, model, point.tokens, parameters, both, sampled)

    def linear(self, points: Sequence[ProbePoint], form: Form) -> tuple[Array, Array]:
        """Matrix [points, numbers] and constant [points] such that times are ``matrix @ numbers + constant``."""
        base = dict.fromkeys(form.names, 1e-5) | {n: 5.0 for n in form.names if n.startswith("time_a")}
        at_base = self._times(points, form, base)
        columns = []
        for name in form.names:
            moved = base | {name: 2 * base[name]}
            columns.append((self._times(points, form, moved) - at_base) / base[name])
        matrix = np.stack(columns, axis=1)
        return matrix, at_base - matrix @ np.array([base[name] for name in form.names])

    def _times(self, points: Sequence[ProbePoint], form: Form, values: dict[str, float]) -> Array:
        parameters = form.parameters(values)
        return np.array([self.seconds(point, parameters) for point in points])

    def _round(self, point: ProbePoint, draft: ModelSpec, parameters: CostParameters) -> float:
        target, both, lookahead = point.partner, self._both(point), point.tokens - 1
        if target is None:
            raise MeasurementError(f"a record of kind {point.kind} without its target")
        first = self._step(point, draft, 2, parameters, both, 1)
        others = (lookahead - 1) * self._step(point, draft, 1, parameters, None, 1)
        verify = self._step(point, target, point.tokens, parameters, both, 0)
        accept = sampling_time(parameters.verification or parameters.sampling, target.vocabulary, point.rows)
        return float(first + others + verify + accept + parameters.round_overhead_s)

    def _step(
        self,
        point: ProbePoint,
        model: ModelSpec,
        tokens: int,
        parameters: CostParameters,
        size: float | None,
        sampled: int,
    ) -> float:
        links = Links(self.profile.peaks.hbm_bandwidth.value_bytes_per_s)
        machine = Machine(self.profile, parameters, links, model.rate_dtype)
        forward = Pass(point.batch, tokens, point.positions, point.chips, sampled or None)
        return float(step_cost(Shape.of(model), forward, machine, size, sampled).seconds)

    def footprint(self, model: ModelSpec | None, chips: int) -> float:
        """Bytes that one memory system streams for a model's weights."""
        return 0.0 if model is None else float(footprint(Shape.of(model), chips, self.profile))

    def _both(self, point: ProbePoint) -> float:
        return self.footprint(point.model, point.chips) + self.footprint(point.partner, point.chips)
