"""Counts x calibration -> seconds, and which roof binds (Williams, Waterman, Patterson 2009).

``time = max(bytes / (peak_bandwidth * efficiency), flop / (peak_flop_per_s * efficiency))``; the longer hides of the
shorter what the machine overlaps. Where a table T(n) was measured, it replaces the flat start of the roofline for
weight-streaming matmuls: real kernels change between one and two rows and at tile edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.cost.counted import Operation
from simulator.cost.shape import Array, Number
from simulator.spec.fields import DType
from simulator.spec.hardware import CostParameters, HardwareProfile, RowEfficiencyPoint

Rates = tuple[RowEfficiencyPoint, ...] | float


@dataclass(frozen=True)
class OperationTime:
    """Seconds of one operation by roof: all of the one that binds, of the other what is not overlapped."""

    memory_s: Array
    compute_s: Array

    @property
    def seconds(self) -> Array:
        """The sum of both."""
        return self.memory_s + self.compute_s


def bandwidth(profile: HardwareProfile, parameters: CostParameters, footprint_bytes: Number, chips: Number) -> Array:
    """Achieved bytes/s of one chip that streams ``footprint_bytes`` again and again.

    The time of a byte is interpolated in the logarithm of the footprint, because between two levels of memory it is the
    share of hits that moves; held constant beyond the ends of the curve. Devices of one host share its memory bus.
    """
    peak = profile.peaks.hbm_bandwidth.value_bytes_per_s
    share = np.asarray(chips, dtype=np.float64) if profile.shares_memory else 1.0
    curve = parameters.hbm_efficiency
    if not isinstance(curve, tuple):
        return np.asarray(peak * curve / share + 0.0 * np.asarray(footprint_bytes))
    sizes = np.log([point.footprint_bytes for point in curve])
    slowness = [1 / point.efficiency for point in curve]
    footprint = np.maximum(np.asarray(footprint_bytes, dtype=np.float64), 1.0)
    return np.asarray(peak / np.interp(np.log(footprint), sizes, slowness) / share)


def matmul_rate(
    profile: HardwareProfile, parameters: CostParameters, dtype: DType, rows: Number, chips: Number
) -> Array:
    """Achieved FLOP/s of one chip that multiplies ``rows`` rows, B x T, with weights."""
    return _rate(profile, parameters.matmul_efficiency, dtype, rows, chips)


def attention_rate(
    profile: HardwareProfile, parameters: CostParameters, dtype: DType, rows: Number, chips: Number
) -> Array:
    """The same of attention over cached keys and values."""
    curve = parameters.attention_efficiency
    return _rate(profile, parameters.matmul_efficiency if curve is None else curve, dtype, rows, chips)


def _rate(profile: HardwareProfile, curve: Rates, dtype: DType, rows: Number, chips: Number) -> Array:
    """Interpolated in the logarithm of the rows, constant beyond the ends. Devices of one host share its cores."""
    peak = profile.peaks.matmul[dtype].value_flop_per_s
    share = np.asarray(chips, dtype=np.float64) if profile.shares_memory else 1.0
    count = np.asarray(rows, dtype=np.float64)
    if not isinstance(curve, tuple):
        return np.asarray(peak * curve / share + 0.0 * count)
    at = np.log([float(point.rows) for point in curve])
    efficiency = np.interp(np.log(np.maximum(count, 1.0)), at, [point.efficiency for point in curve])
    return np.asarray(peak * efficiency / share)


def row_factor(parameters: CostParameters, rows: Number) -> Array:
    """T(n), time over the time at one row; 1 where no table was measured. Linear in the rows beyond its end."""
    table = parameters.row_factor
    if not table:
        return np.ones_like(np.asarray(rows, dtype=np.float64))
    at = [float(point.rows) for point in table]
    count = np.asarray(rows, dtype=np.float64)
    beyond = np.maximum(count / at[-1], 1.0)
    return np.asarray(np.interp(count, at, [point.factor for point in table]) * beyond)


def matmul_time(
    operation: Operation, bytes_per_s: Array, flop_per_s: Number, parameters: CostParameters
) -> OperationTime:
    """A weight-streaming matmul."""
    memory = operation.streamed_bytes / bytes_per_s
    if parameters.row_factor:
        return OperationTime(memory, memory * (row_factor(parameters, operation.rows) - 1))
    return _roof(memory, operation.flop / flop_per_s, parameters.overlap)


def attention_time(
    operation: Operation, bytes_per_s: Array, flop_per_s: Number, parameters: CostParameters
) -> OperationTime:
    """Attention over cached keys and values."""
    return _roof(operation.streamed_bytes / bytes_per_s, operation.flop / flop_per_s, parameters.overlap)


def _roof(memory: Array, compute: Array, overlap: float) -> OperationTime:
    """The longer of both, and of the shorter what the longer does not hide."""
    bound, exposed = memory >= compute, 1.0 - overlap
    return OperationTime(np.where(bound, memory, exposed * memory), np.where(bound, exposed * compute, compute))
