"""What a serving engine changes of a calibration's parameters: fixed times, memory, rows, collectives, host time."""

from __future__ import annotations

from typing import Any

from simulator.spec.engine import Engine
from simulator.spec.hardware import CostParameters, EfficiencyPoint, RowPoint

Efficiencies = tuple[EfficiencyPoint, ...] | float
MANY_ROWS = 64
"""Rows to which the table T(n) of an engine reaches; it goes on in proportion beyond."""


def with_engine(parameters: CostParameters, engine: Engine, *, draft: bool) -> CostParameters:
    """The parameters of a pass of the target, or of the draft, under an engine."""
    fixed, host_s = engine.fixed_times, engine.draft_step_s if draft else engine.step_s
    changed: dict[str, Any] = {
        "step_overhead_s": fixed * parameters.step_overhead_s + host_s,
        "layer_overhead_s": fixed * parameters.layer_overhead_s,
        "layer_overhead_many_rows_s": fixed * parameters.layer_overhead_many_rows_s,
        "hbm_efficiency": _scaled(parameters.hbm_efficiency, engine.memory),
    }
    if parameters.kv_efficiency is not None:
        changed["kv_efficiency"] = engine.memory * parameters.kv_efficiency
    if engine.rows:
        last = RowPoint(rows=MANY_ROWS, factor=1 + engine.rows * (MANY_ROWS - 1))
        changed["row_factor"] = (RowPoint(rows=1, factor=1.0), last)
    if parameters.all_reduce is not None:
        changed["all_reduce"] = parameters.all_reduce.slower(engine.collective_s)
    return parameters.model_copy(update=changed)


def _scaled(efficiency: Efficiencies, factor: float) -> Efficiencies:
    """A number or a curve of efficiencies, times ``factor``."""
    if not isinstance(efficiency, tuple):
        return factor * efficiency
    return tuple(point.model_copy(update={"efficiency": factor * point.efficiency}) for point in efficiency)
