"""One forward pass of one model -> its time, explained by mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.cost.collectives import Links, all_gather_time, all_reduce_time
from simulator.cost.operations import (
    Array,
    Number,
    Pass,
    Shape,
    collectives,
    head,
    operations,
    weight_bytes_per_chip,
)
from simulator.cost.roofline import attention_time, bandwidth, matmul_rate, matmul_time
from simulator.spec.fields import DType
from simulator.spec.hardware import CostParameters, HardwareProfile, SamplingCost
from simulator.spec.terms import MECHANISMS


@dataclass(frozen=True)
class Machine:
    """A profile with the calibration that holds for a number of chips, and their links."""

    profile: HardwareProfile
    parameters: CostParameters
    links: Links
    dtype: DType

    def flop_per_s(self, step: Pass) -> Array:
        """Achieved matrix-multiply rate of one chip in a pass."""
        rows = np.asarray(step.batch, dtype=np.float64) * step.tokens
        return matmul_rate(self.profile, self.parameters, self.dtype, rows, step.chips)


@dataclass(frozen=True)
class StepCost:
    """Seconds by mechanism, and the counts behind them, on one chip."""

    mechanisms: dict[str, Array]
    streamed_bytes: Array
    executed_flop: Array
    model_flop: Array

    @property
    def seconds(self) -> Array:
        """The time of the step: the sum of its mechanisms."""
        return np.asarray(sum(self.mechanisms.values()), dtype=np.float64)


def step_cost(
    shape: Shape, step: Pass, machine: Machine, footprint_bytes: Number | None = None, sampled_rows: Number = 0
) -> StepCost:
    """The cost of one forward pass.

    Args:
        shape: the model.
        step: batch, new tokens, cached positions that attention reads, chips.
        machine: profile and calibration.
        footprint_bytes: what the memory that feeds a chip streams between two uses of the same weights; the model's
            own weights unless given. The first draft step of a round comes after the target ran, so its weights are
            no longer in any cache, and its footprint is both models'.
        sampled_rows: rows per sequence from which a token is drawn at the end of the step.
    """
    parameters = machine.parameters
    if footprint_bytes is None:
        footprint_bytes = footprint(shape, step.chips, machine.profile)
    per_s = bandwidth(machine.profile, parameters, footprint_bytes, step.chips)
    rows, flop_per_s = np.asarray(step.batch, dtype=np.float64) * step.tokens, machine.flop_per_s(step)
    spent = {name: np.zeros(np.broadcast(rows, np.asarray(step.positions), per_s).shape) for name in MECHANISMS}
    layer_ops, head_op = operations(shape, step), head(shape, step)
    for op in layer_ops:
        if op.name == "attention":
            time, roof = attention_time(op, kv_bandwidth(machine, step, per_s), flop_per_s), "kv"
        else:
            time, roof = matmul_time(op, per_s, flop_per_s, parameters, rows), "weights"
        spent[roof] = spent[roof] + time.memory_s
        spent["compute"] = spent["compute"] + time.compute_s
    head_s = matmul_time(head_op, per_s, flop_per_s, parameters, rows).seconds
    drawn = np.asarray(sampled_rows, dtype=np.float64) * step.batch
    spent["head_and_sampling"] = spent["head_and_sampling"] + head_s + sampling_time(parameters.sampling, shape, drawn)
    _add_collectives(spent, shape, step, machine)
    overhead = parameters.step_overhead_s + parameters.layer_overhead_s * np.asarray(shape.layers, dtype=np.float64)
    spent["overhead"] = spent["overhead"] + overhead
    every = [*layer_ops, head_op]
    return StepCost(
        spent,
        np.asarray(sum(op.streamed_bytes for op in every)),
        np.asarray(sum(op.flop for op in every)),
        np.asarray(sum(op.model_flop for op in every)),
    )


def footprint(shape: Shape, chips: Number, profile: HardwareProfile) -> Array:
    """Bytes that one memory system streams for the model's weights: a chip's share, or all where memory is shared."""
    own = weight_bytes_per_chip(shape, chips)
    return np.asarray(own * chips) if profile.shares_memory else own


def sampling_time(cost: SamplingCost, shape: Shape, rows: Number) -> Array:
    """Drawing a token from each of ``rows`` rows of V logits; nothing for no row."""
    drawn = np.asarray(rows, dtype=np.float64)
    return np.where(drawn > 0, cost.base_s + cost.per_logit_s * drawn * shape.vocabulary, 0.0)


def kv_bandwidth(machine: Machine, step: Pass, weights_per_s: Array) -> Array:
    """Achieved bytes/s of one chip that reads cached keys and values; that of the weights where none was measured."""
    if machine.parameters.kv_efficiency is None:
        return weights_per_s
    share = step.chips if machine.profile.shares_memory else 1
    peak = machine.profile.peaks.hbm_bandwidth.value_bytes_per_s
    return np.asarray(peak * machine.parameters.kv_efficiency / share, dtype=np.float64)


def _add_collectives(spent: dict[str, Array], shape: Shape, step: Pass, machine: Machine) -> None:
    cost = machine.parameters.all_reduce
    if cost is None:  # refused earlier wherever a step runs on more than one chip
        return
    for part in collectives(shape, step):
        time_of = all_reduce_time if part.kind == "all_reduce" else all_gather_time
        time = time_of(cost, machine.links, part.payload_bytes, step.chips)
        spent["collective_latency"] = spent["collective_latency"] + part.count * time.latency_s
        spent["collective_bandwidth"] = spent["collective_bandwidth"] + part.count * time.bandwidth_s
