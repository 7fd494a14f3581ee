"""A step laid out in time: what one chip does between two meetings with the others.

The closed form adds up mechanisms over all layers; this cuts the same seconds into *spans* in the order in which they
happen, so that the discrete-event model can let them overlap, jitter and collide. A span streams weights, reads the
cache, computes, then meets the other chips in a collective. A layer has two: attention and feed-forward.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulator.cost.counted import Operation
from simulator.cost.roofline import OperationTime
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, TimedStep, timed


@dataclass(frozen=True)
class Span:
    """What one chip does between two collectives, in seconds, and the collective that ends it."""

    name: str
    weights_s: float
    """Streaming weights over the HBM channel; may be done ahead."""
    weights_bytes: float
    """How much that is: what on-chip memory must hold when it is done ahead."""
    kv_s: float = 0.0
    """Reading cached keys and values over the HBM channel; never ahead."""
    compute_s: float = 0.0
    """Arithmetic that is not hidden behind streaming."""
    overhead_s: float = 0.0
    """Fixed costs."""
    collective_s: float = 0.0
    """The collective at its end, on every chip's links at once."""

    def scaled(self, factor: float) -> Span:
        """The same bytes in ``factor`` times the seconds."""
        return replace(
            self,
            weights_s=factor * self.weights_s,
            kv_s=factor * self.kv_s,
            compute_s=factor * self.compute_s,
            overhead_s=factor * self.overhead_s,
            collective_s=factor * self.collective_s,
        )


def spans(
    shape: Shape, step: Pass, machine: Machine, footprint_bytes: float | None = None, sampled_rows: int = 0
) -> list[Span]:
    """The spans of one forward pass, in order; their seconds sum to ``step_cost`` of the same arguments."""
    parts = timed(shape, step, machine, footprint_bytes, sampled_rows)
    layers, routed = int(shape.layers), int(shape.expert_layers)
    wires = {part.name: _Wire(float(part.count), float(time.seconds)) for part, time in parts.collectives}
    kinds = [_Layer(routed=False, count=layers - routed), _Layer(routed=True, count=routed)]
    kinds = kinds if shape.has_layers else []
    laid_out = {kind.routed: _layer(kind, parts, wires, shape, step) for kind in kinds if kind.count}
    # Dense layers come first in every published mixture of experts.
    body = [span for kind in kinds if kind.count for span in laid_out[kind.routed] * kind.count]
    overhead_s = parts.step_overhead_s + (0.0 if kinds else float(parts.layer_overhead_s) * layers)
    return [
        Span("embedding", 0.0, 0.0, overhead_s=overhead_s, collective_s=wires["embedding"].once),
        *(_alone(op, time) for op, time in parts.matmuls if op.name in _BEFORE),
        *_staged(body, wires["stages"]),
        *(_alone(op, time) for op, time in parts.matmuls if op.name in _AFTER),
        replace(_alone(*parts.head), collective_s=wires["logits"].once + _once(wires, "logit_sums")),
        Span("sampling", 0.0, 0.0, compute_s=float(parts.sampling_s)),
    ]


def _alone(op: Operation, time: OperationTime) -> Span:
    """A matrix that is multiplied outside the layers."""
    return Span(op.name, float(time.memory_s), float(op.streamed_bytes), compute_s=float(time.compute_s))


@dataclass(frozen=True)
class _Wire:
    """A collective: how often in a step, and for how long."""

    count: float
    seconds: float

    @property
    def once(self) -> float:
        return self.seconds if self.count else 0.0


@dataclass(frozen=True)
class _Layer:
    """Layers of one kind: with experts or without."""

    routed: bool
    count: int


_ATTENTION = (
    *("qkv", "compress", "queries", "expand", "output"),
    *("recurrent_inputs", "recurrent_output", "encoder_queries", "encoder_outputs"),
)
_BEFORE, _AFTER = ("hidden_states", "wider_qkv", "residual_blocks"), ("encoder_keys",)
"""Operations before the layers and behind them, which belong to no layer."""
_INTO, _OUT = ("mean_squares", "inputs", "inner_sums"), ("inner_parts", "sums")
"""Collectives of a two-dimensional layout before and behind what is split over the columns."""
_ROUTED = ("router", "shared_experts", "experts")


def _layer(kind: _Layer, parts: TimedStep, wires: Mapping[str, _Wire], shape: Shape, step: Pass) -> list[Span]:
    """The two spans of one layer: attention and feed-forward, each with the collective that ends it."""
    layers = int(shape.layers)

    def matmuls(names: tuple[str, ...], count: int) -> tuple[float, float, float]:
        found = [(op, time) for op, time in parts.matmuls if op.name in names]
        return (
            sum(float(time.memory_s) for _, time in found) / count,
            sum(float(op.streamed_bytes) for op, _ in found) / count,
            sum(float(time.compute_s) for _, time in found) / count,
        )

    half = float(parts.layer_overhead_s) / 2
    sent = kind.routed and step.dispatch
    first, last = _ends(sent, wires, int(shape.all_reduces))
    first += sum(_once(wires, name) for name in ("keys", "queries", "attended"))
    weights_s, weights_bytes, compute_s = matmuls(_ATTENTION, layers)
    compute_s += sum(float(time.compute_s) for _, time in parts.cached) / layers
    kv_s = sum(float(time.memory_s) for _, time in parts.cached) / layers
    found = [Span("attention", weights_s, weights_bytes, kv_s, compute_s, half, first)]
    weights_s, weights_bytes, compute_s = matmuls(_ROUTED if kind.routed else ("feed_forward",), kind.count)
    return [*found, Span("feed_forward", weights_s, weights_bytes, 0.0, compute_s, half, last)]


def _ends(sent: bool, wires: Mapping[str, _Wire], all_reduces: int) -> tuple[float, float]:
    """Seconds of the collectives after attention and after the feed-forward."""
    if sent:
        dispatch = wires["dispatch"].once
        return wires["scatter"].once + dispatch, dispatch + wires["gather"].once
    if "layers" not in wires:
        # Of a parallel block half of the collectives stand before both, and are charged to attention.
        into, out = (sum(_once(wires, name) for name in names) for names in (_INTO, _OUT))
        return (into, out) if all_reduces == 1 else ((all_reduces - 1) * (into + out), into + out)
    each = wires["layers"].once
    return (all_reduces - 1) * each, each


def _once(wires: Mapping[str, _Wire], name: str) -> float:
    return wires[name].once if name in wires else 0.0


def _staged(body: list[Span], handed: _Wire) -> list[Span]:
    """The layers' spans, with a message between the stages of a pipeline, as evenly as the layers divide."""
    stages = int(handed.count) + 1
    if stages == 1:
        return body
    cuts = [round(len(body) / 2 * stage / stages) * 2 for stage in range(stages + 1)]
    message = Span("stage", 0.0, 0.0, collective_s=handed.seconds)
    found: list[Span] = []
    for start, end in itertools.pairwise(cuts):
        found += [*([message] if start else []), *body[start:end]]
    return found
