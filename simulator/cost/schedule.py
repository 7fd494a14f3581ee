"""A step laid out in time: what one chip does between two meetings with the others.

The closed form adds up mechanisms over all layers; this cuts the same seconds into *spans* in the order in which they
happen, so that the discrete-event model can let them overlap, jitter and collide. A span streams weights, reads the
cache, computes, then meets the other chips in a collective. A layer has two: attention and feed-forward.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.cost.collectives import all_gather_time, all_reduce_time
from simulator.cost.operations import Pass, Shape, collectives, head, operations
from simulator.cost.roofline import attention_time, bandwidth, matmul_time
from simulator.cost.step import Machine, footprint, kv_bandwidth, sampling_time


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


def spans(
    shape: Shape, step: Pass, machine: Machine, footprint_bytes: float | None = None, sampled_rows: int = 0
) -> list[Span]:
    """The spans of one forward pass, in order; their seconds sum to ``step_cost`` of the same arguments."""
    parameters, layers = machine.parameters, int(shape.layers)
    size = footprint(shape, step.chips, machine.profile) if footprint_bytes is None else footprint_bytes
    per_s = bandwidth(machine.profile, parameters, size, step.chips)
    rows, flop_per_s = step.batch * step.tokens, machine.flop_per_s(step)
    times = {op.name: (op, matmul_time(op, per_s, flop_per_s, parameters, rows)) for op in operations(shape, step)}
    attention = times["attention"][0]
    kv = attention_time(attention, kv_bandwidth(machine, step, per_s), flop_per_s)
    wires = {
        part.name: _collective_s(part.kind, part.payload_bytes, step, machine) for part in collectives(shape, step)
    }
    each = parameters.layer_overhead_s

    def matmuls(*names: str) -> tuple[float, float, float]:
        found = [times[name] for name in names]
        return (
            sum(float(time.memory_s) for _, time in found) / layers,
            sum(float(op.streamed_bytes) for op, _ in found) / layers,
            sum(float(time.compute_s) for _, time in found) / layers,
        )

    weights_s, weights_bytes, compute_s = matmuls("qkv", "output")
    compute_s += float(kv.compute_s) / layers
    first = Span(
        "attention", weights_s, weights_bytes, float(kv.memory_s) / layers, compute_s, each / 2, wires["layers"]
    )
    weights_s, weights_bytes, compute_s = matmuls("feed_forward")
    second = Span("feed_forward", weights_s, weights_bytes, 0.0, compute_s, each / 2, wires["layers"])
    last = head(shape, step)
    head_time = matmul_time(last, per_s, flop_per_s, parameters, rows)
    sampling = float(sampling_time(parameters.sampling, shape, sampled_rows * step.batch))
    return [
        Span("embedding", 0.0, 0.0, overhead_s=parameters.step_overhead_s, collective_s=wires["embedding"]),
        *([first, second] * layers),
        Span(
            "head",
            float(head_time.memory_s),
            float(last.streamed_bytes),
            compute_s=float(head_time.compute_s),
            collective_s=wires["logits"],
        ),
        Span("sampling", 0.0, 0.0, compute_s=sampling),
    ]


def _collective_s(kind: str, payload_bytes: object, step: Pass, machine: Machine) -> float:
    cost = machine.parameters.all_reduce
    if cost is None or step.chips == 1:
        return 0.0
    time_of = all_reduce_time if kind == "all_reduce" else all_gather_time
    time = time_of(cost, machine.links, payload_bytes, step.chips)
    return float(time.latency_s + time.bandwidth_s)
