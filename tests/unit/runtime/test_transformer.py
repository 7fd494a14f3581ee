"""The decoder on one chip."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.arithmetic import Lowering
from runtime.transformer import Decoder, share_out
from simulator.errors import RefusedError
from tests.tiny_models import decoder, prompts, tiny

VARIANTS = {
    "padded rows": Lowering(min_rows=2),
    "split attention": Lowering(split_attention=True),
    "scattered appends": Lowering(scatter_append=True),
    "all of a TPU": dataclasses.replace(Lowering.on("tpu", "bfloat16"), qkv_barrier=True),
}


def prefill_and_decode(model: Decoder, tokens: jax.Array) -> jax.Array:
    """Logits after a prefill of all but the last token of each sequence and a step of the last."""

    @jax.jit
    def both(model: Decoder, tokens: jax.Array) -> jax.Array:
        empty, zero = model.empty_cache(len(tokens), 16), jnp.zeros((len(tokens),), jnp.int32)
        first, cache = model(tokens[:, :-1], empty, zero)
        second, _ = model(tokens[:, -1:], cache, zero + tokens.shape[1] - 1)
        return jnp.concatenate([first, second], axis=1)

    return both(model, tokens)


def matmul_rows(jaxpr: Any) -> Iterator[int]:
    """Rows of the left operand of every matmul, those inside inner functions included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contract, _), (batch, _) = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            yield int(np.prod([size for axis, size in enumerate(shape) if axis not in (*contract, *batch)]))
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from matmul_rows(inner)


@pytest.mark.parametrize(
    "changes", [{}, {"tied_embeddings": True, "feed_forward": "plain"}, {"heads": 4, "kv_heads": 4}]
)
def test_it_has_the_parameters_that_its_shape_says(changes: dict[str, Any]) -> None:
    spec = tiny(**changes)
    assert sum(weight.size for weight in jax.tree.leaves(decoder(spec, 0))) == spec.parameters


@pytest.mark.parametrize("last_only", [False, True])
def test_decoding_continues_a_prefill(last_only: bool) -> None:
    model, tokens = decoder(tiny(), 0), prompts(2, 7, 64)
    empty, zero = model.empty_cache(2, 16), jnp.zeros((2,), jnp.int32)
    run = jax.jit(lambda model: model(tokens, empty, zero, last_only=last_only, fresh=True))
    whole, _ = run(model)
    decoded = prefill_and_decode(model, tokens)
    np.testing.assert_allclose(decoded[:, -1:] if last_only else decoded, whole, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_lowering_computes_the_same(variant: str) -> None:
    tokens = prompts(1, 6, 64)
    plain = prefill_and_decode(decoder(tiny(layers=1), 0, lowering=Lowering()), tokens)
    other = prefill_and_decode(decoder(tiny(layers=1), 0, lowering=VARIANTS[variant]), tokens)
    np.testing.assert_allclose(other, plain, atol=1e-5)


def test_padded_bfloat16_is_bfloat16() -> None:
    # Sums of 64 products rounded to 8 bits of mantissa: logits of spread 1 agree to some 2^-5.
    spec, tokens = tiny(layers=1, weight_dtype="bfloat16"), prompts(1, 6, 64)
    padded = prefill_and_decode(decoder(spec, 0, lowering=Lowering(min_rows=2)), tokens)
    unpadded = prefill_and_decode(decoder(spec, 0, lowering=Lowering()), tokens)
    assert padded.dtype == jnp.float32
    np.testing.assert_allclose(padded, unpadded, atol=0.05)


@pytest.mark.parametrize("tied", [False, True])
def test_bfloat16_that_is_moved_as_bits_is_bfloat16(tied: bool) -> None:
    spec, tokens = tiny(layers=1, weight_dtype="bfloat16", tied_embeddings=tied), prompts(2, 6, 64)
    bits = Lowering(min_rows=2, scatter_append=True, move_bits=True)
    placed = share_out(decoder(spec, 0, lowering=bits), 1, ())
    assert placed.embedding.dtype == placed.empty_cache(1, 8).keys[0].dtype == jnp.uint16
    moved = prefill_and_decode(placed, tokens)
    plain = prefill_and_decode(decoder(spec, 0, lowering=Lowering(min_rows=2)), tokens)
    np.testing.assert_allclose(moved, plain, atol=0.05)


@pytest.mark.parametrize(("min_rows", "fewest"), [(1, 1), (2, 2)])
def test_no_matmul_has_fewer_rows_than_asked_for(min_rows: int, fewest: int) -> None:
    spec = tiny(weight_dtype="bfloat16", kv_heads=4)
    model = decoder(spec, 0, lowering=Lowering(min_rows=min_rows))
    cache, cursor = model.empty_cache(1, 16), jnp.asarray([3], jnp.int32)
    traced = jax.make_jaxpr(lambda model, tokens: model(tokens, cache, cursor))(model, prompts(1, 1, 64))
    rows = list(matmul_rows(traced.jaxpr))
    assert len(rows) == 2 * 6 + 1, "four projections and two of attention a layer, and the head"
    assert min(rows) == fewest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight_dtype": "fp8", "head_dtype": "bfloat16"}, "weight_dtype fp8"),
        ({"weight_dtype": "float16"}, "weight_dtype float16"),
        ({"kv_dtype": "fp8"}, "kv_dtype fp8"),
        ({"activation_dtype": "bfloat16"}, "activation_dtype bfloat16"),
    ],
)
def test_what_is_modelled_and_not_executed_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        decoder(tiny(**changes), 0)
