"""Quantised weights, experts, distances and parallel blocks against what their formulas say, in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from runtime.arithmetic import distance_scores, sinusoids
from runtime.experts import RoutedFeedForward
from runtime.quantised import LARGEST, pack, project_quantised, quantise, unpack
from runtime.share import lay_out
from runtime.transformer import Decoder
from simulator.errors import RefusedError
from tests.tiny_models import KINDS, decoder, prompts, tiny


def drawn(*shape: int, seed: int = 0) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def test_two_small_integers_in_a_byte() -> None:
    whole = jnp.arange(-7, 9, dtype=jnp.int8).clip(-7, 7).reshape(4, 4)
    assert pack(whole).shape == (2, 4)
    np.testing.assert_array_equal(unpack(pack(whole)), whole)


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("group", [4, 16])
def test_quantised_weights_multiply_as_what_they_stand_for(dtype: str, group: int) -> None:
    weight, x = drawn(16, 6), drawn(3, 16, seed=1)
    stored, scale = quantise(weight, dtype, group)
    assert stored.nbytes == 16 * 6 * (1 if dtype == "int8" else 0.5)
    assert scale.shape == (16 // group, 6)
    meant = np.asarray(unpack(stored)) * np.repeat(np.asarray(scale), group, axis=0)
    assert np.abs(meant - weight).max() <= np.asarray(scale).max() / 2 + 1e-6
    np.testing.assert_allclose(project_quantised(x, stored, scale, 2), x @ meant, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 30])
@pytest.mark.parametrize("feed_forward", ["gated", "plain"])
def test_experts_are_mixed_by_the_softmax_of_the_best(rows: int, feed_forward: str) -> None:
    spec = tiny(feed_forward=feed_forward, experts={"count": 6, "per_token": 2, "d_ff": 12, "shared_d_ff": 10})
    assert spec.experts is not None
    module = RoutedFeedForward(spec, spec.experts, nnx.Rngs(params=1))
    x = drawn(rows, 32)

    def run(row: Any, up: Any, down: Any) -> Any:
        hidden = row @ up
        if spec.feed_forward == "gated":
            gate, linear = np.split(np.asarray(hidden), 2)
            return (gate / (1 + np.exp(-gate)) * linear) @ down
        return np.asarray(jax.nn.gelu(hidden)) @ down

    expected = []
    for row in np.asarray(x):
        scores = row @ np.asarray(module.router[...])
        best = np.argsort(-scores)[:2]
        shares = np.exp(scores[best]) / np.exp(scores[best]).sum()
        made = sum(s * run(row, module.up[...][e], module.down[...][e]) for s, e in zip(shares, best, strict=True))
        assert module.shared_up is not None
        assert module.shared_down is not None
        expected.append(made + run(row, module.shared_up[...], module.shared_down[...]))
    np.testing.assert_allclose(module(x, 1), np.asarray(expected), atol=1e-4)


def test_scores_of_distances() -> None:
    queries, products = drawn(2, 3, 4, 8), drawn(4, 16, 8, seed=1)
    positions = jnp.asarray([[5, 6, 7], [2, 3, 4]])
    keys = jnp.broadcast_to(jnp.arange(10), (2, 10))
    found = np.asarray(distance_scores(queries, products, positions, keys))
    for b in range(2):
        for t in range(3):
            for j in range(int(positions[b, t]) + 1):
                back = int(positions[b, t]) - j
                expected = np.einsum("nh,nh->n", queries[b, t], products[:, back])
                np.testing.assert_allclose(found[b, t, :, j], expected, atol=1e-5)


def test_waves_of_distances_are_those_of_vaswani() -> None:
    waves = np.asarray(sinusoids(50, 8))
    expected = np.arange(50)[:, None] / 10_000 ** (np.arange(4) / 4)
    np.testing.assert_allclose(waves, np.concatenate([np.sin(expected), np.cos(expected)], axis=1), atol=1e-5)


def test_relative_positions_depend_on_distance_alone() -> None:
    # The same tokens later in the cache, with nothing before them to see, give the same logits.
    model, tokens = decoder(tiny(positions="relative", layers=1), 0), prompts(1, 5, 64)
    cache = model.empty_cache(1, 64)
    here, _ = model(tokens, cache, jnp.zeros((1,), jnp.int32), fresh=True)
    there, _ = model(tokens, cache, jnp.full((1,), 20, jnp.int32), fresh=True)
    np.testing.assert_allclose(here, there, atol=1e-5)
    other = decoder(tiny(positions="none", layers=1), 0)
    assert np.abs(np.asarray(other(tokens, cache, jnp.zeros((1,), jnp.int32), fresh=True)[0]) - here).max() > 0.01


def test_learned_positions_are_a_row_of_the_table() -> None:
    model, tokens = decoder(tiny(positions="learned", max_positions=32, layers=1), 0), prompts(1, 3, 64)
    cache, at = model.empty_cache(1, 64), jnp.full((1,), 4, jnp.int32)
    found, _ = model(tokens, cache, at, fresh=True)
    assert model.positions is not None
    moved = model.positions[...].at[:3].set(model.positions[...][4:7])
    model.positions[...] = moved
    again, _ = model(tokens, cache, jnp.zeros((1,), jnp.int32), fresh=True)
    np.testing.assert_allclose(found, again, atol=1e-5)


def test_a_parallel_block_adds_both_at_once() -> None:
    model, tokens = decoder(tiny(block="parallel", layers=1, positions="none"), 0), prompts(1, 1, 64)
    layer = model.layers[0]
    x = np.asarray(model.embedding[...][tokens[0]], np.float64)
    normed = x / np.sqrt((x**2).mean() + 1e-6)
    value = (normed @ np.asarray(layer.qkv[...]))[:, -16:].reshape(2, 8).repeat(2, axis=0).reshape(1, 32)
    gate, linear = np.split(normed @ np.asarray(layer.up[...]), 2, axis=-1)
    x = x + value @ np.asarray(layer.output[...]) + (gate / (1 + np.exp(-gate)) * linear) @ np.asarray(layer.down[...])
    logits = x / np.sqrt((x**2).mean() + 1e-6) @ np.asarray(model.head[...])
    found, _ = model(tokens, model.empty_cache(1, 64), jnp.zeros((1,), jnp.int32), fresh=True)
    np.testing.assert_allclose(found[0], logits, atol=1e-4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("int")])
def test_it_has_the_parameters_that_its_shape_says(kind: str) -> None:
    spec = tiny(**KINDS[kind])
    assert sum(weight.size for weight in jax.tree.leaves(decoder(spec, 0))) == spec.parameters


def test_a_group_of_weights_lies_on_one_chip() -> None:
    spec = tiny(weight_dtype="int8", weight_group=16, head_dtype="float32", activation_dtype="float32")
    with pytest.raises(RefusedError, match="weight_group"):
        lay_out(jnp.zeros((2, 32)), ("N/16", "D"), spec, 4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"latent": {"kv_rank": 8, "rotary_dim": 4}, "kv_heads": 4}, "latent"),
        ({"window": {"positions": 16}}, "window"),
        ({"weight_dtype": "int8", "weight_group": 8}, "head_dtype int8"),
        ({"matmul_dtype": "int8"}, "matmul_dtype int8"),
        (KINDS["int8"] | {"experts": {"count": 4, "per_token": 2, "d_ff": 8}}, "experts of type int8"),
    ],
)
def test_what_is_modelled_and_not_executed_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        Decoder(tiny(**changes), rngs=nnx.Rngs(params=0))
