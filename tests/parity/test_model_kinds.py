"""Every kind of model that is executed: speculative output is plain output, and a decode continues a prefill.

Tokens must be equal. Where two programs round differently and the two likeliest tokens are closer than 1e-4, either may
come out; such a token is counted and printed, and what follows it is not compared.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.arithmetic import Lowering
from runtime.generate import generate, generate_plain
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.transformer import Decoder
from tests.tiny_models import KINDS, decoder, noisy, prompts, tiny

GREEDY = Sampling(temperature=0.0)
MARGIN = {"float32": 1e-4, "bfloat16": 0.05}


def margins(model: Decoder, sequence: np.ndarray) -> np.ndarray:
    """By how much the likeliest token beats the next, after each token of sequences [B, T]."""
    batch, length = sequence.shape

    @jax.jit
    def logits(model: Decoder, tokens: jax.Array) -> jax.Array:
        empty = model.empty_cache(batch, -(-length // 64) * 64)
        return model(tokens, empty, jnp.zeros((batch,), jnp.int32), fresh=True)[0]

    top = jax.lax.top_k(logits(model, jnp.asarray(sequence)), 2)[0]
    return np.asarray(top[..., 0] - top[..., 1])


def told(words: str) -> None:
    """Say what a passing test found, where pytest shows it (`-rA` or `-s`)."""
    sys.stdout.write(f"{words}\n")


def compare(target: Decoder, asked: jax.Array, plain: jax.Array, made: jax.Array) -> int:
    """How many sequences part ways where the choice hung on rounding; any other difference fails."""
    expected, found = np.asarray(plain), np.asarray(made)
    parted = 0
    for row in range(len(expected)):
        differing = np.flatnonzero(expected[row] != found[row])
        if differing.size:
            first = int(differing[0])
            read = np.concatenate([np.asarray(asked)[row], expected[row, :first]])[None]
            margin = float(margins(target, read)[0, -1])
            assert margin < MARGIN[target.spec.compute_dtype], f"token {first} of sequence {row} by {margin:.2g}"
            parted += 1
    return parted


@pytest.mark.parametrize("kind", KINDS)
def test_speculative_output_is_plain_output(kind: str) -> None:
    target, asked = decoder(tiny(**KINDS[kind]), 7), prompts(4, 5, 64)
    plain = generate_plain(Pair.of(target, None), asked, 40, GREEDY, jax.random.key(0)).tokens
    assert len(np.unique(plain)) > 3, "a constant output would prove nothing"
    quantised = target.spec.weight_dtype.startswith("int")
    draft = decoder(tiny(), 8) if quantised else noisy(target, 9, 0.1)
    found = generate(Pair.of(target, draft), asked, 40, 3, GREEDY, jax.random.key(1))
    parted = compare(target, asked, plain, found.tokens)
    told(f"{kind}: {parted} of 4 sequences parted within the margin")
    if target.spec.compute_dtype == "float32":  # in bfloat16 any may, and what decides is the margin
        assert parted <= 1
    if not quantised:
        assert np.asarray(found.rounds).mean() < 35, "some drafted token must have been kept"


@pytest.mark.parametrize("chips", [1, 2, 4, 8])
def test_a_long_run(chips: int) -> None:
    spec = tiny(heads=8, kv_heads=4, positions="rotary")
    target, asked = decoder(spec, 3), prompts(2, 5, 64)
    plain = generate_plain(Pair.of(target, None), asked, 1000, GREEDY, jax.random.key(0)).tokens
    found = generate(Pair.of(target, noisy(target, 4, 0.1), chips), asked, 1000, 4, GREEDY, jax.random.key(1)).tokens
    parted = compare(target, asked, plain, found)
    told(f"{chips} chips: {parted} of 2 sequences of 1,000 tokens parted within the margin")
    assert len(np.unique(plain)) > 3
    assert parted <= 1


@pytest.mark.parametrize("kind", ["MQA", "relative positions", "int4", "experts"])
def test_scanned_layers_compute_what_unrolled_ones_do(kind: str) -> None:
    spec = tiny(layers=3, **KINDS[kind])
    lowering = Lowering.on("cpu", spec.compute_dtype)
    asked, key = prompts(2, 5, 64), jax.random.key(0)
    whole, scanned = (decoder(spec, 1, lowering=replace(lowering, scan_layers=scan)) for scan in (False, True))
    wanted, found = (generate_plain(Pair.of(model, None), asked, 20, GREEDY, key).tokens for model in (whole, scanned))
    assert compare(whole, asked, wanted, found) <= 1
    sharded = generate(Pair.of(scanned, scanned, 4), asked, 20, 3, GREEDY, key)
    assert compare(whole, asked, wanted, sharded.tokens) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_continues_a_prefill(kind: str) -> None:
    model, tokens = decoder(tiny(**KINDS[kind]), 0), prompts(2, 9, 64)

    @jax.jit
    def whole(model: Decoder, tokens: jax.Array) -> jax.Array:
        return model(tokens, model.empty_cache(2, 64), jnp.zeros((2,), jnp.int32), fresh=True)[0]

    @jax.jit
    def parts(model: Decoder, tokens: jax.Array) -> jax.Array:
        cache, cursor = model.empty_cache(2, 64), jnp.zeros((2,), jnp.int32)
        made: list[Any] = []
        for start, end in ((0, 4), (4, 5), (5, 9)):
            logits, cache = model(tokens[:, start:end], cache, cursor + start)
            made.append(logits)
        return jnp.concatenate(made, axis=1)

    tolerance = 1e-4 if model.spec.compute_dtype == "float32" else 0.1
    np.testing.assert_allclose(parts(model, tokens), whole(model, tokens), atol=tolerance)
