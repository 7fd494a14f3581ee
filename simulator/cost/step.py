"""One forward pass of one model -> its time, explained by mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.cost.collectives import CollectiveTime, Links, collective_time
from simulator.cost.counted import Operation
from simulator.cost.layout import Collective, links_along
from simulator.cost.operations import CACHED, collectives, head, operations, weight_bytes_per_chip
from simulator.cost.roofline import OperationTime, attention_rate, attention_time, bandwidth, matmul_rate, matmul_time
from simulator.cost.shape import Array, Number, Pass, Shape
from simulator.spec.fields import DType
from simulator.spec.hardware import CostParameters, HardwareProfile, SamplingCost
from simulator.spec.terms import MECHANISMS

Wires = list[tuple[Collective, CollectiveTime]]
LOOPED = ("layers", "inputs", "inner_sums", "inner_parts", "sums")
"""Collectives that matrix multiplications of a layer can be looped with."""


@dataclass(frozen=True)
class Machine:
    """A profile with the calibration that holds for a number of chips, and their links."""

    profile: HardwareProfile
    parameters: CostParameters
    links: Links
    dtype: DType
    sorts: bool = False
    """Whether choosing a token needs the logits in order (nucleus sampling)."""

    def flop_per_s(self, rows: Number, chips: Number) -> Array:
        """Achieved matrix-multiply rate of one chip that multiplies ``rows`` rows with each weight."""
        return matmul_rate(self.profile, self.parameters, self.dtype, rows, chips)

    def attention_flop_per_s(self, rows: Number, chips: Number) -> Array:
        """The same of attention over cached keys and values."""
        return attention_rate(self.profile, self.parameters, self.dtype, rows, chips)


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


@dataclass(frozen=True)
class TimedStep:
    """Everything that a step does, each with its time: what both the closed form and the spans are made of."""

    matmuls: list[tuple[Operation, OperationTime]]
    cached: list[tuple[Operation, OperationTime]]
    """Attention, and with relative positions the scores of distances."""
    head: tuple[Operation, OperationTime]
    collectives: list[tuple[Collective, CollectiveTime]]
    sampling_s: Array
    step_overhead_s: float
    layer_overhead_s: Array

    @property
    def operations(self) -> Iterator[Operation]:
        """Every operation."""
        yield from (op for op, _ in self.matmuls)
        yield from (op for op, _ in self.cached)
        yield self.head[0]


def timed(
    shape: Shape, step: Pass, machine: Machine, footprint_bytes: Number | None = None, sampled_rows: Number = 0
) -> TimedStep:
    """Times of every operation and collective of one forward pass; arguments as of :func:`step_cost`."""
    parameters = machine.parameters
    if footprint_bytes is None:
        footprint_bytes = footprint(shape, step.chips, machine.profile)
    per_s = bandwidth(machine.profile, parameters, footprint_bytes, step.chips)

    def matmul(op: Operation) -> tuple[Operation, OperationTime]:
        return op, matmul_time(op, per_s, machine.flop_per_s(op.rows, step.chips), parameters)

    layer_ops = operations(shape, step, machine.profile.tile)
    kv_per_s = kv_bandwidth(machine, step, per_s)

    def cached(op: Operation) -> tuple[Operation, OperationTime]:
        return op, attention_time(op, kv_per_s, machine.attention_flop_per_s(op.rows, step.chips), parameters)

    drawn = np.asarray(sampled_rows, dtype=np.float64) * step.batch
    matmuls = [matmul(op) for op in layer_ops if op.name not in CACHED]
    wires = [(part, _collective(part, step, machine)) for part in collectives(shape, step)]
    return TimedStep(
        matmuls,
        [cached(op) for op in layer_ops if op.name in CACHED],
        matmul(head(shape, step, machine.profile.tile)),
        _overlapped(wires, matmuls, parameters.collective_overlap),
        sampling_time(parameters.sampling, shape.vocabulary, drawn, machine.sorts),
        parameters.step_overhead_s,
        parameters.layer_overhead_s + np.where(np.asarray(step.rows) > 1, parameters.layer_overhead_many_rows_s, 0.0),
    )


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
    parts = timed(shape, step, machine, footprint_bytes, sampled_rows)
    spent: dict[str, Array] = {name: np.zeros(()) for name in MECHANISMS}

    def spend(mechanism: str, seconds: Number) -> None:
        spent[mechanism] = np.asarray(spent[mechanism] + seconds, dtype=np.float64)

    for _, time in parts.matmuls:
        spend("weights", time.memory_s)
        spend("compute", time.compute_s)
    for _, time in parts.cached:
        spend("kv", time.memory_s)
        spend("compute", time.compute_s)
    spend("head_and_sampling", parts.head[1].seconds + parts.sampling_s)
    for part, wire in parts.collectives:
        spend("collective_latency", part.count * wire.latency_s)
        spend("collective_bandwidth", part.count * wire.bandwidth_s)
    spend("overhead", parts.step_overhead_s + parts.layer_overhead_s * np.asarray(shape.layers, dtype=np.float64))
    every = list(parts.operations)
    return StepCost(
        spent,
        np.asarray(sum(op.streamed_bytes for op in every)),
        np.asarray(sum(op.flop for op in every)),
        np.asarray(sum(op.model_flop for op in every)),
    )


def footprint(shape: Shape, chips: Number, profile: HardwareProfile) -> Array:
    """Bytes that one memory system streams for the model's weights: a chip's share, or all where memory is shared."""
    own = weight_bytes_per_chip(shape, chips, profile.tile)
    return np.asarray(own * chips) if profile.shares_memory else own


def sampling_time(cost: SamplingCost, vocabulary: Number, rows: Number, sorts: bool = False) -> Array:
    """Drawing a token from each of ``rows`` rows of V logits; nothing for no row."""
    drawn = np.asarray(rows, dtype=np.float64)
    each = cost.per_logit_s + (cost.sort_per_logit_s if sorts else 0.0)
    return np.where(drawn > 0, cost.base_s + each * drawn * vocabulary, 0.0)


def kv_bandwidth(machine: Machine, step: Pass, weights_per_s: Array) -> Array:
    """Achieved bytes/s of one chip that reads cached keys and values; that of the weights where none was measured."""
    if machine.parameters.kv_efficiency is None:
        return weights_per_s
    share = step.chips if machine.profile.shares_memory else 1
    peak = machine.profile.peaks.hbm_bandwidth.value_bytes_per_s
    return np.asarray(peak * machine.parameters.kv_efficiency / share, dtype=np.float64)


def _collective(part: Collective, step: Pass, machine: Machine) -> CollectiveTime:
    parameters = machine.parameters
    message, network = parameters.point_to_point, parameters.network
    links, chips = links_along(part, step, machine.links)
    return collective_time(part.kind, parameters.all_reduce, links, part.payload_bytes, chips, message, network=network)


def _overlapped(wires: Wires, matmuls: list[tuple[Operation, OperationTime]], overlap: float) -> Wires:
    """The collectives, those that are looped with a layer's matrix multiplications without what these hide.

    A looped collective einsum sends the next part while it multiplies the last (Wang et al. 2023; Pope et al. 2022,
    section 3.5): of the shorter of both, bytes on the wire and matrices, the share ``overlap`` is hidden.
    """
    if not overlap:
        return wires
    carried = sum(part.count * wire.bandwidth_s for part, wire in wires if part.name in LOOPED)
    work = sum(time.seconds for _, time in matmuls)
    hidden = overlap * np.minimum(carried, work) / np.maximum(carried, 1e-30)

    def exposed(part: Collective, wire: CollectiveTime) -> CollectiveTime:
        return CollectiveTime(wire.latency_s, wire.bandwidth_s * (1 - hidden)) if part.name in LOOPED else wire

    return [(part, exposed(part, wire)) for part, wire in wires]
