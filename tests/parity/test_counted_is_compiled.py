"""The FLOP and bytes that the cost model counts are those of the program that XLA compiles, on each device.

FLOP: an operation is taken out of the decoder's step, and what XLA's cost analysis of the compiled step loses is what
that operation costs. Where the two counts mean different things, these are the corrections, and there are no others:

- A dense kernel scores every allocated position and masks what may not be seen; the count has only what is seen.
  Counted attention is multiplied by the scores computed for each score visible, both taken from the runtime's masks.
- XLA counts element-wise work too, an operation an element: norms, rotation, softmax, activations, changes of type. It
  stays in; the widths here make it less than the tolerance of 2 %. That needs float32: on a CPU a bfloat16 cache is
  kept as integers, and reading all of them as bfloat16 counts 5 % of attention. No row is padded then either.
- XLA counts the body of a loop once, whether it knows the trip count or not. The layers are unrolled, so a step is
  counted whole; a program of ``runtime/programs.py``, which repeats a step, counts as one.

Bytes: arguments of the compiled step against the terms of the memory model, to the byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from runtime import arithmetic, programs, transformer
from runtime.arithmetic import Lowering, pad
from runtime.mesh import axes_of, cache_spec, chip_mesh, on_chips, weight_specs
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.step import Step
from runtime.transformer import Decoder, share_out
from simulator.cost.memory import memory_terms
from simulator.cost.operations import head, operations
from simulator.cost.shape import Pass, Shape
from simulator.spec.model import ModelSpec
from tests.builders import scenario
from tests.tiny_models import tiny

SAME = PartitionSpec()
LAYER = ("qkv", "output", "feed_forward", "feed_forward")
"""The operation that each projection of a layer belongs to, in their order."""
WIDE: dict[str, Any] = {"d_model": 512, "heads": 8, "kv_heads": 4, "head_dim": 256, "d_ff": 1536, "vocabulary": 4096}
"""Wide enough that element-wise work is small beside matmuls."""
NARROW = {"d_model": 32, "head_dim": 8, "d_ff": 64, "vocabulary": 64}


@dataclass(frozen=True)
class Case:
    """A step of ``spec``: T tokens behind a cache of 100 valid positions, or a prefill of T tokens."""

    chips: int
    tokens: int
    prefill: bool = False
    shape: dict[str, Any] = field(default_factory=dict)
    platform: str = "cpu"
    batch: int = 2
    cached: int = 100
    allocated: int = 256

    @property
    def spec(self) -> ModelSpec:
        return tiny(**({"layers": 1} | WIDE | self.shape))

    @property
    def lowering(self) -> Lowering:
        return Lowering.on(self.platform, self.spec.weight_dtype)

    @property
    def computed_per_visible(self) -> float:
        """Attention scores that the runtime computes for each that it does not mask."""
        cursor = jnp.full((self.batch,), 0 if self.prefill else self.cached)
        allocated = 0 if self.prefill else self.allocated
        step = Step.of(self.spec, (self.batch, self.tokens), cursor, allocated, self.lowering)
        masks = [step.among_new] if step.cached is None else [step.cached]
        if step.cached is not None and self.lowering.split_attention:
            masks.append(pad(step.among_new, 2, self.lowering.min_new))
        return sum(mask.size for mask in masks) / sum(int(mask.sum()) for mask in masks)

    def counted(self) -> dict[str, float]:
        """FLOP by operation on one chip, that of attention as a dense kernel computes it."""
        shape = Shape.of(self.spec)
        positions, wanted = (0, 1) if self.prefill else (self.cached, None)
        step = Pass(self.batch, self.tokens, positions, self.chips, wanted)
        flop = {op.name: float(op.flop) for op in (*operations(shape, step), head(shape, step))}
        return flop | {"attention": flop["attention"] * self.computed_per_visible}

    def compiled(self) -> jax.stages.Compiled:
        """The step, compiled for the devices of one host; no weight is ever made."""
        mesh = chip_mesh(self.chips, self.chips, jax.devices("cpu"))

        def make() -> Decoder:
            whole = Decoder(self.spec, rngs=nnx.Rngs(params=0), lowering=self.lowering)
            return share_out(whole, self.chips, axes_of(mesh, self.chips))

        def placed(spec: PartitionSpec, tree: Any) -> Any:
            sharding = NamedSharding(mesh, spec)
            return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)

        def by_part(specs: Any, tree: Any) -> Any:
            return jax.tree.map(placed, specs, tree)

        def step(model: Decoder, tokens: jax.Array, cache: Any, cursor: jax.Array) -> Any:
            return model(tokens, cache, cursor, last_only=self.prefill, fresh=self.prefill)

        model = jax.eval_shape(make)
        weights, split = weight_specs(model), cache_spec(model)
        tokens = jax.ShapeDtypeStruct((self.batch, self.tokens), jnp.int32)
        cursor = jax.ShapeDtypeStruct((self.batch,), jnp.int32)
        empty = on_chips(lambda: model.empty_cache(self.batch, self.allocated), mesh, (), split)
        cache = by_part(split, jax.eval_shape(empty))
        run = jax.jit(on_chips(step, mesh, (weights, SAME, split, SAME), (SAME, split)))
        arguments = (by_part(weights, model), placed(SAME, tokens), cache, placed(SAME, cursor))
        # The same HLO; its machine code, which nobody runs, is not optimised.
        return run.lower(*arguments).compile({"xla_backend_optimization_level": "0"})

    def flop(self, taken_out: str = "") -> float:
        """XLA's count for one device, without one of the operations."""
        with without(taken_out, self.spec.layers):
            return flop_of(self.compiled())


def flop_of(compiled: jax.stages.Compiled) -> float:
    """XLA's count for one device."""
    analysis: Any = compiled.cost_analysis()
    return float(analysis["flops"])


@contextmanager
def without(taken_out: str, layers: int) -> Iterator[None]:
    """The decoder with one operation replaced by next to nothing that still needs all that the operation reads."""
    upcoming = iter([*LAYER * layers, "head"])

    def project(x: jax.Array, weight: jax.Array, min_rows: int) -> jax.Array:
        if next(upcoming) != taken_out:
            return arithmetic.project(x, weight, min_rows)
        return jnp.broadcast_to(jnp.sum(x, axis=1, keepdims=True), (len(x), weight.shape[1]))

    def attend(queries: jax.Array, *parts_and_rows: Any) -> jax.Array:
        return queries if taken_out == "attention" else arithmetic.attend(queries, *parts_and_rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformer, "project", project)
        patch.setattr(transformer, "attend", attend)
        yield
    assert next(upcoming, None) is None, "the decoder has other projections than are told apart here"


CASES = {
    "decode, one sequence, three layers": Case(1, 1, shape={"layers": 3}, batch=1),
    "verify, MHA": Case(1, 5, shape={"kv_heads": 8, "tied_embeddings": True}),
    "prefill": Case(1, 64, prefill=True),
    "decode, 4 chips, plain": Case(4, 1, shape={"feed_forward": "plain", "tied_embeddings": True}),
    "verify, 4 chips": Case(4, 5),
    "verify, 4 chips, cache and new keys apart": Case(4, 5, platform="tpu"),
    "verify, 4 chips, padded": Case(4, 5, shape={"heads": 12, "kv_heads": 3, "d_ff": 1501, "vocabulary": 4001}),
    "prefill, 4 chips, fewer KV heads": Case(4, 64, prefill=True, shape={"kv_heads": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_flop_of_each_operation(name: str) -> None:
    case, whole = CASES[name], CASES[name].flop()
    counted = case.counted()
    assert set(counted) == {*LAYER, "attention", "head"}
    lost = {operation: whole - case.flop(operation) for operation in counted}
    assert lost == pytest.approx(counted, rel=0.02)
    assert whole == pytest.approx(sum(counted.values()), rel=0.02)


def test_flop_of_a_larger_step() -> None:
    # The program as it is, with nothing taken out: what one more of something costs.
    small = Case(4, 5)
    shapes = ({"d_ff": 3072}, {"vocabulary": 8192}, {"kv_heads": 8}, {"heads": 16}, {"layers": 3})
    for large in (*(Case(4, 5, shape=shape) for shape in shapes), replace(small, allocated=512)):
        more = sum(large.counted().values()) - sum(small.counted().values())
        assert large.flop() - small.flop() == pytest.approx(more, rel=0.02), large


def test_a_measured_program_is_one_step() -> None:
    case = Case(4, 5)
    pair = Pair.random(case.spec, None, jax.random.key(0), case.chips)
    bench = programs.Bench(pair, case.batch, case.cached, 2, 4, Sampling(), positions=case.allocated)
    assert flop_of(programs.verify_steps(bench).compiled) == pytest.approx(sum(case.counted().values()), rel=0.02)


def test_a_loop_counts_once_though_its_length_is_known() -> None:
    x = jnp.ones((128, 128))
    loop = jax.jit(lambda x: lax.fori_loop(0, 10, lambda _, carry: carry @ x, x)).lower(x).compile()
    assert "known_trip_count" in str(loop.as_text())
    assert flop_of(loop) == pytest.approx(2 * 128**3, rel=1e-3)


def argument_bytes(compiled: jax.stages.Compiled) -> int:
    """XLA's own total for one device."""
    analysis: Any = compiled.memory_analysis()
    return int(analysis.argument_size_in_bytes)


def bytes_on_a_device(avals: Any, shardings: Any) -> int:
    """Bytes of compiled arguments on one device."""
    pairs = zip(jax.tree.leaves(avals), jax.tree.leaves(shardings), strict=True)
    return sum(math.prod(sharding.shard_shape(aval.shape)) * aval.dtype.itemsize for aval, sharding in pairs)


def counted_bytes(case: Case, draft: dict[str, Any], **changes: Any) -> tuple[dict[str, float], int]:
    """The terms of the memory model, and the positions that a cache has in them."""
    own = {"target": case.spec.model_dump(), "draft": draft, "deployment__chips": case.chips}
    small = scenario(**own, workload__batch=case.batch, workload__prompt_tokens=case.cached, **changes)
    return memory_terms(small), small.cache_positions


SHAPES: dict[str, dict[str, Any]] = {
    "everything divides": {"heads": 8, "kv_heads": 4},
    "nothing divides": {"heads": 12, "kv_heads": 3, "d_ff": 51, "vocabulary": 101, "feed_forward": "plain"},
    "fewer KV heads than chips": {"heads": 10, "kv_heads": 2, "vocabulary": 67},
}


@pytest.mark.parametrize(("dtype", "platform"), [("float32", "cpu"), ("bfloat16", "cpu"), ("bfloat16", "tpu")])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("chips", "shape"), [(1, "nothing divides"), *((4, shape) for shape in SHAPES)])
def test_bytes_of_a_step(chips: int, shape: str, dtype: str, tied: bool, platform: str) -> None:
    own = NARROW | SHAPES[shape] | {"weight_dtype": dtype, "tied_embeddings": tied}
    case = Case(chips, 5, shape=own, platform=platform)
    counted, positions = counted_bytes(case, {"kind": "none"})
    compiled = replace(case, allocated=positions).compiled()
    weights, _, cache, _ = map(bytes_on_a_device, compiled.in_avals[0], compiled.input_shardings[0])
    # On a CPU the embedding of a tied bfloat16 model is a second copy of the head, kept as integers: see `share_out`.
    copied = tied and case.lowering.move_bits and dtype == "bfloat16"
    assert weights == counted["target weights"] + copied * math.ceil(case.spec.vocabulary / chips) * 32 * 2
    assert cache == counted["target KV cache"]
    tokens_and_cursors = 4 * case.batch * (5 + 1)
    assert argument_bytes(compiled) == weights + cache + tokens_and_cursors


def test_bytes_of_whole_rounds() -> None:
    case, batch, output, lookahead = Case(4, 5, shape=NARROW | SHAPES["nothing divides"]), 2, 12, 4
    draft = tiny(layers=1, vocabulary=101, kv_dtype="bfloat16")
    drafting = {"kind": "model", "model": draft.model_dump()}
    counted, positions = counted_bytes(case, drafting, workload__output_tokens=output)
    pair = Pair.random(case.spec, draft, jax.random.key(0), case.chips)
    bench = programs.Bench(pair, batch, case.cached, output, lookahead, Sampling(), positions=positions)
    compiled = programs.rounds(bench, None).compiled
    models = sum(counted[f"{model} {kind}"] for model in ("target", "draft") for kind in ("weights", "KV cache"))
    # Emitted tokens with scratch, last two, accepted counts, five counters a sequence; repetitions; a key of 8 bytes.
    rest = 4 * (batch * ((output + lookahead + 1) + 2 + (output - 1) + 5) + 1) + 8
    assert argument_bytes(compiled) == models + rest
