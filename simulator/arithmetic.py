"""The arithmetic behind a predicted number, down to bytes, link hops and fixed costs: ``sps predict --explain``.

Every line ends in seconds, and the lines of a component sum to it; the factors of a line multiply to its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from simulator.anchoring import Anchor
from simulator.cost.collectives import CollectiveTime
from simulator.cost.counted import Operation
from simulator.cost.experts import busiest_group
from simulator.cost.extra import STATE_BYTES
from simulator.cost.layout import Collective, links_along
from simulator.cost.operations import CACHED, cached_positions, operations
from simulator.cost.roofline import OperationTime, bandwidth, row_factor
from simulator.cost.shape import Pass, Shape, in_rows, query_heads, split, stored, wide
from simulator.cost.step import LOOPED, footprint, kv_bandwidth
from simulator.spec.hardware import AllReduceCost, SamplingCost
from simulator.steps import Step, Steps
from simulator.units import human_bytes, human_time

Factors = list[tuple[float, str]]


@dataclass(frozen=True)
class Line:
    """One term of a component: what it is for, how it comes about, and how long it takes."""

    mechanism: str
    what: str
    words: str
    seconds: float
    factors: tuple[float, ...] = ()
    """What multiplies to the bytes of the term, where it streams any."""
    streamed_bytes: float = 0.0


def explained(steps: Steps, component: str) -> list[Line]:
    """The lines of one component of a scenario; empty where the scenario has no such component."""
    if component in steps.passes:
        lines = list(_of_step(steps.passes[component]))
        return [*lines, *_anchored(lines, steps.anchors[component])] if component in steps.anchors else lines
    parts = steps.mechanisms()
    if component not in parts:
        return []
    if component in ("round", "round_ahead"):
        return list(_of_round(steps, parts, component))
    if component == "sampling":
        return [_accepting(steps)]
    words = {
        "shipping": "one message in flight at the end of drafting, and what is slower than a draft step; ids back",
        "round_overhead": "fixed time of a round beside its steps",
    }
    return [Line(name, component, words[component], seconds) for name, seconds in parts[component].items()]


def _anchored(lines: Sequence[Line], anchor: Anchor) -> Iterator[Line]:
    """What each mechanism gets more, or less, so that the step meets what was measured."""
    how = anchor.how
    if anchor.measured_s is not None:
        how = f"measured {_time(anchor.measured_s)} / {_time(anchor.predicted_s)} by the model alone"
    for mechanism in dict.fromkeys(line.mechanism for line in lines):
        alone = sum(line.seconds for line in lines if line.mechanism == mechanism)
        words = f"{_time(alone)} x ({anchor.factor:.5g} - 1), {how}"
        yield Line(mechanism, "anchored", words, (anchor.factor - 1) * alone)


def _of_round(steps: Steps, parts: Mapping[str, Mapping[str, float]], component: str) -> Iterator[Line]:
    whole = sum(parts[component].values())
    times = {"draft_first_step": 1, "draft_step": steps.scenario.lookahead - 1, "shipping": 1}
    verified = {"verify_step": 1, "sampling": 1, "round_overhead": 1}
    chosen = times | verified
    if component == "round_ahead":  # the longer side hides the other
        chosen = next(side for side in (times, verified) if abs(_seconds(parts, side) - whole) <= 1e-12 * whole)
    for name, count in chosen.items():
        if name in parts and count:
            each = sum(parts[name].values())
            yield Line(name, name, f"{count} x {_time(each)}", count * each)


def _seconds(parts: Mapping[str, Mapping[str, float]], times: Mapping[str, int]) -> float:
    return sum(count * sum(parts.get(name, {}).values()) for name, count in times.items())


def _accepting(steps: Steps) -> Line:
    scenario = steps.scenario
    parameters = steps.passes["verify_step"].machine.parameters
    rows = scenario.workload.batch * (scenario.lookahead + 1)
    cost = parameters.verification or parameters.sampling
    words = _sampling_words(cost, rows, scenario.target.vocabulary, scenario.decoding.sorts)
    return Line("head_and_sampling", "acceptance", words, steps.acceptance_s)


def _of_step(step: Step) -> Iterator[Line]:
    parts, shape, forward = step.timed(), step.shape, step.forward
    for op, time in parts.matmuls:
        yield from _of_matmul(step, op, time, "weights")
    for op, time in parts.cached:
        yield from _of_cached(step, op, time)
    yield from _of_matmul(step, *parts.head, "head_and_sampling")
    if parts.sampling_s > 0:
        rows = step.sampled_rows * forward.batch
        words = _sampling_words(step.machine.parameters.sampling, rows, shape.vocabulary, step.machine.sorts)
        yield Line("head_and_sampling", "sampling", words, float(parts.sampling_s))
    for part, wire in parts.collectives:
        yield from _of_collective(step, part, wire)
    if parts.step_overhead_s:
        yield Line("overhead", "step", "fixed time of a step", parts.step_overhead_s)
    if parts.layer_overhead_s:
        words = f"{shape.layers:,} layers x {_time(float(parts.layer_overhead_s))}"
        yield Line("overhead", "layers", words, float(parts.layer_overhead_s) * shape.layers)


def _of_matmul(step: Step, op: Operation, time: OperationTime, mechanism: str) -> Iterator[Line]:
    factors = _FACTORS[op.name](step.shape, step.forward, step.machine.profile.tile)
    size = step.footprint_bytes
    if size is None:
        size = float(footprint(step.shape, step.forward.chips, step.machine.profile))
    per_s = float(bandwidth(step.machine.profile, step.machine.parameters, size, step.forward.chips))
    memory, compute = float(time.memory_s), float(time.compute_s)
    if memory > 0:
        yield _streams(mechanism, op, factors, per_s, step, memory)
    if compute > 0 and memory > 0:
        factor = float(row_factor(step.machine.parameters, op.rows))
        words = f"{float(op.rows):,.4g} rows take {factor:.3g} times one row, by the measured T(n)"
        yield Line("compute" if mechanism == "weights" else mechanism, op.name, words, compute)
    elif compute > 0:
        yield _computes("compute" if mechanism == "weights" else mechanism, op, step, compute)


def _of_cached(step: Step, op: Operation, time: OperationTime) -> Iterator[Line]:
    size = float(footprint(step.shape, step.forward.chips, step.machine.profile))
    size = size if step.footprint_bytes is None else step.footprint_bytes
    weights = bandwidth(step.machine.profile, step.machine.parameters, size, step.forward.chips)
    if time.memory_s > 0:
        factors = _FACTORS[op.name](step.shape, step.forward, step.machine.profile.tile)
        per_s = float(kv_bandwidth(step.machine, step.forward, weights))
        yield _streams("kv", op, factors, per_s, step, float(time.memory_s))
    if time.compute_s > 0:
        yield _computes("compute", op, step, float(time.compute_s))


def _streams(mechanism: str, op: Operation, factors: Factors, per_s: float, step: Step, seconds: float) -> Line:
    peak = step.machine.profile.peaks.hbm_bandwidth.value_bytes_per_s
    product = " x ".join(f"{_number(value)}{f' {unit}' if unit else ''}" for value, unit in factors)
    words = f"{product} = {_bytes(float(op.streamed_bytes))} / ({peak / 1e9:,.6g} GB/s x {per_s / peak:.3g})"
    return Line(mechanism, op.name, words, seconds, tuple(value for value, _ in factors), float(op.streamed_bytes))


def _number(value: float) -> str:
    """Six digits, but all of a whole number: weights are counted, not measured."""
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.6g}"


def _computes(mechanism: str, op: Operation, step: Step, seconds: float) -> Line:
    peak = step.machine.profile.peaks.matmul[step.machine.dtype].value_flop_per_s
    cached, machine = op.name in CACHED, step.machine
    rate = float((machine.attention_flop_per_s if cached else machine.flop_per_s)(op.rows, step.forward.chips))
    flop = float(op.flop)
    words = f"{flop / 1e9:,.5g} GFLOP of {float(op.rows):,.4g} rows / ({peak / 1e12:,.4g} TFLOP/s x {rate / peak:.3g})"
    return Line(mechanism, op.name, words, seconds)


def _of_collective(step: Step, part: Collective, wire: CollectiveTime) -> Iterator[Line]:
    count = float(part.count)
    if not count:
        return
    kind, chips = part.kind.replace("_", "-"), int(links_along(part, step.forward, step.machine.links)[1])
    over = "" if part.kind == "point_to_point" else f" over {chips} chips"
    cost = step.machine.parameters.all_reduce
    how = f", {_algorithm(cost, float(part.payload_bytes))}" if cost is not None and over else ""
    local = step.machine.links.chips_per_host
    how += f" in hosts of {local}, then the network" if local and over and chips > local else ""
    for mechanism, each in (("latency", float(wire.latency_s)), ("bandwidth", float(wire.bandwidth_s))):
        if each:
            carried = f" of {_bytes(float(part.payload_bytes))}" if mechanism == "bandwidth" else ""
            if carried and part.name in LOOPED and step.machine.parameters.collective_overlap:
                carried += ", less what multiplying hides,"
            words = f"{count:g} {kind}{'s' * (count != 1)}{carried}{over}{how} x {_time(each)}"
            yield Line(f"collective_{mechanism}", part.name, words, count * each)


def _algorithm(cost: AllReduceCost, payload_bytes: float) -> str:
    """What the collectives of such a payload are done by."""
    held = [known for start, known in cost.by_payload() if payload_bytes >= start]
    return held[-1].algorithm.replace("_", "-")


def _sampling_words(cost: SamplingCost, rows: float, vocabulary: float, sorts: bool) -> str:
    each = cost.per_logit_s + (cost.sort_per_logit_s if sorts else 0.0)
    fixed = f"{_time(cost.base_s)} + " if cost.base_s else ""
    return f"{fixed}{rows:,} row{'s' * (rows != 1)} x {vocabulary:,} logits x {_time(each)}"


def _qkv(shape: Shape, step: Pass, tile: int) -> Factors:
    heads = float(shape.query_matrices * query_heads(shape, step.columns) + 2 * split(shape.kv_heads, step.columns))
    columns = [(heads, "heads"), (float(shape.head_dim), "")]
    return [_attending(shape), *_laid_out(_width(shape, step), columns, tile), _weight(shape)]


def _output(shape: Shape, step: Pass, tile: int) -> Factors:
    if shape.latent is not None:
        return _whole("output")(shape, step, tile)
    columns = [(float(query_heads(shape, step.columns)), "heads"), (float(shape.head_dim), "")]
    return [_attending(shape), *_laid_out(_width(shape, step), columns, tile), _weight(shape)]


def _kv(shape: Shape, step: Pass, tile: int) -> Factors:
    if shape.latent is not None:
        row = float(in_rows(shape.latent.kv_rank + shape.latent.rotary_dim, tile))
        kept = [(row, "compressed")]
    else:
        kept = [
            (2.0, ""),
            (float(split(shape.kv_heads, step.attending)), "KV heads"),
            (float(in_rows(shape.head_dim, tile)), ""),
        ]
    attending = _attending(shape)
    positions = float(cached_positions(shape, step) / (step.batch * attending[0]))
    return [
        attending,
        (float(step.batch / step.sequence_groups), "sequences"),
        (positions, "positions"),
        *kept,
        (float(shape.kv_bytes), "B"),
    ]


def _distances(shape: Shape, step: Pass, tile: int) -> Factors:
    heads = float(query_heads(shape, step.chips))
    reach = (float(step.positions + step.tokens), "distances")
    bytes_each = (float(shape.activation_bytes), "B")
    return [*_layers(shape), reach, (heads, "heads"), (float(in_rows(shape.head_dim, tile)), ""), bytes_each]


def _feed_forward(shape: Shape, step: Pass, tile: int) -> Factors:
    return _dense(shape, step, tile, shape.d_ff, shape.layers - shape.expert_layers)


def _shared(shape: Shape, step: Pass, tile: int) -> Factors:
    return _dense(shape, step, tile, shape.experts.shared_d_ff if shape.experts else 0, shape.expert_layers)


def _dense(shape: Shape, step: Pass, tile: int, size: float, layers: float) -> Factors:
    columns = [(float(split(size, step.columns)), "inner")]
    count = (float(shape.feed_forward_matrices), "matrices")
    return [(float(layers), "layers"), count, *_laid_out(_width(shape, step), columns, tile), _weight(shape)]


def _router(shape: Shape, step: Pass, tile: int) -> Factors:
    count = float(shape.experts.count) if shape.experts else 0.0
    bytes_each = (float(shape.activation_bytes), "B")
    width = float(wide(shape, step, tile))
    return [(float(shape.expert_layers), "layers"), (width, "wide"), (count, "experts"), bytes_each]


def _experts(shape: Shape, step: Pass, tile: int) -> Factors:
    experts = shape.experts
    if experts is None:
        return []
    groups = step.expert_groups
    touched = float(busiest_group(experts, step.rows, groups))
    columns = [(float(split(experts.d_ff, step.chips / groups)), "inner")]
    return [
        (float(experts.layers), "layers"),
        (touched, "experts touched" if groups == 1 else "experts touched in the busiest group"),
        (float(shape.feed_forward_matrices), "matrices"),
        *_laid_out(float(shape.d_model), columns, tile),
        (float(shape.weight_bytes if experts.weight_bytes is None else experts.weight_bytes), "B"),
    ]


def _encoded(shape: Shape, step: Pass, tile: int) -> Factors:
    kv_heads, size = float(split(shape.kv_heads, step.chips)), float(in_rows(shape.head_dim, tile))
    read = [(float(step.batch), "sequences"), (float(step.encoded), "encoded positions"), (2.0, "")]
    return [*_layers(shape), *read, (kv_heads, "KV heads"), (size, ""), (float(shape.kv_bytes), "B")]


def _states(shape: Shape, step: Pass, _tile: int) -> Factors:
    own = shape.recurrent
    if own is None:
        return []
    moved = 1.0 + (step.tokens if step.head_tokens is None else 1.0)
    heads = float(split(own.value_heads, step.chips))
    states = [(float(step.batch), "sequences"), (heads, "heads"), (float(own.key_dim * own.value_dim), "numbers")]
    return [(float(own.layers), "layers"), (moved, "states read and written"), *states, (STATE_BYTES, "B")]


def _head(shape: Shape, step: Pass, tile: int) -> Factors:
    columns = [(float(split(shape.vocabulary, step.columns)), "tokens")]
    each = shape.weight_bytes if shape.head_bytes is None else shape.head_bytes
    heads = [(float(shape.lm_heads), "heads")] if shape.lm_heads > 1 else []
    return [*heads, *_laid_out(_width(shape, step), columns, tile), (float(each), "B")]


def _attending(shape: Shape) -> tuple[float, str]:
    return (float(shape.layers - shape.recurrent_layers), "layers")


def _matrix(name: str) -> Callable[[Shape, Pass, int], Factors]:
    """A matrix outside the layers, or in some of them: its weights on a chip."""

    def factors(shape: Shape, step: Pass, tile: int) -> Factors:
        op = next(op for op in operations(shape, step, tile) if op.name == name)
        return [(float(op.streamed_bytes) / float(shape.weight_bytes), "weights"), _weight(shape)]

    return factors


def _whole(name: str) -> Callable[[Shape, Pass, int], Factors]:
    """A matrix whose sizes have no names of their own: its weights on a chip, counted together."""

    def factors(shape: Shape, step: Pass, tile: int) -> Factors:
        op = next(op for op in operations(shape, step, tile) if op.name == name)
        each = float(op.streamed_bytes) / (shape.layers * shape.weight_bytes)
        return [*_layers(shape), (each, "weights"), _weight(shape)]

    return factors


def _layers(shape: Shape) -> Factors:
    return [(float(shape.layers), "layers")]


def _width(shape: Shape, step: Pass) -> float:
    """D as one chip has it."""
    return float(split(shape.d_model, step.width_parts))


def _laid_out(width: float, columns: Factors, tile: int) -> Factors:
    """A matrix of ``width`` rows: its sides, or all of its numbers together where they are padded in memory."""
    out = math.prod(value for value, _ in columns)
    kept = float(stored(width, out, tile))
    return [(width, "wide"), *columns] if kept == width * out else [(kept, "weights, padding included")]


def _weight(shape: Shape) -> tuple[float, str]:
    return (float(shape.weight_bytes), "B")


_FACTORS: dict[str, Callable[[Shape, Pass, int], Factors]] = {
    "qkv": _qkv,
    "attention": _kv,
    "distances": _distances,
    "output": _output,
    "feed_forward": _feed_forward,
    "shared_experts": _shared,
    "router": _router,
    "experts": _experts,
    "head": _head,
    "compress": _whole("compress"),
    "queries": _whole("queries"),
    "expand": _whole("expand"),
    "encoder_attention": _encoded,
    "states": _states,
    **{
        name: _matrix(name)
        for name in (
            *("recurrent_inputs", "recurrent_output", "encoder_queries", "encoder_outputs", "encoder_keys"),
            *("hidden_states", "wider_qkv", "residual_blocks"),
        )
    },
}


def _time(seconds: float) -> str:
    return human_time(seconds, 4)


def _bytes(size: float) -> str:
    return human_bytes(size, 4)
