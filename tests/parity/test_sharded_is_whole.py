"""A model sharded over chips against the same model on one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing as npt
import pytest
from jax.sharding import PartitionSpec

from runtime.mesh import cache_spec, chip_mesh, on_chips, place, place_random, weight_specs
from runtime.transformer import Decoder
from tests.tiny_models import KINDS, collectives, decoder, prompts, tiny

SHAPES: dict[str, dict[str, Any]] = {
    "everything divides": {"heads": 8, "kv_heads": 4},
    "heads, widths and vocabulary do not": {"heads": 6, "kv_heads": 3, "d_ff": 50, "vocabulary": 101},
    "fewer KV heads than chips": {"heads": 8, "kv_heads": 2, "tied_embeddings": True},
    "one KV head, seven query heads": {"heads": 7, "kv_heads": 1, "feed_forward": "plain", "positions": "none"},
    "KV heads that do not divide the chips": {"heads": 9, "kv_heads": 3, "tied_embeddings": True, "vocabulary": 67},
}
SHAPES |= {kind: changes for kind, changes in KINDS.items() if kind != "bfloat16"}
SAME = PartitionSpec()


def two_steps(model: Decoder, tokens: jax.Array, later: jax.Array, cursor: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Logits of a prefill, and of three more tokens at ragged cursors inside it."""
    empty = model.empty_cache(len(tokens), 16)
    first, cache = model(tokens, empty, jnp.zeros_like(cursor), fresh=True)
    second, _ = model(later, cache, cursor)
    return first, second


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_one_chip(shape: str) -> None:
    whole = decoder(tiny(**({"layers": 1} | SHAPES[shape])), 0)
    tokens, later, cursor = prompts(3, 6, 64), prompts(3, 3, 64, seed=1), jnp.asarray([6, 4, 1], jnp.int32)
    wanted = jax.jit(two_steps)(whole, tokens, later, cursor)
    for chips in (2, 4) if shape == "heads, widths and vocabulary do not" else (4,):
        mesh = chip_mesh(chips, chips)
        model = place(whole, mesh, chips)
        run = on_chips(two_steps, mesh, (weight_specs(model), SAME, SAME, SAME), SAME)
        for got, one in zip(jax.jit(run)(model, tokens, later, cursor), wanted, strict=True):
            npt.assert_allclose(got, one, atol=1e-4)


def test_the_same_key_gives_the_same_model_on_any_number_of_chips() -> None:
    spec, key, mesh = tiny(layers=1, heads=6, kv_heads=3), jax.random.key(4), chip_mesh(4, 4)
    made = place_random(spec, key, mesh, 4)
    laid_out = place(place_random(spec, key, chip_mesh(1, 1), 1), mesh, 4)
    for random, moved in zip(jax.tree.leaves(made), jax.tree.leaves(laid_out), strict=True):
        npt.assert_array_equal(random, moved)
        assert random.sharding == moved.sharding


@pytest.mark.parametrize("chips", [1, 2, 4])
def test_collectives_of_a_step(chips: int) -> None:
    # Two all-reduces a layer, one for the vocabulary-sharded embedding, one all-gather of the logits.
    mesh = chip_mesh(chips, chips)
    model = place(decoder(tiny(layers=3), 0), mesh, chips)

    def step(model: Decoder, tokens: jax.Array, cache: Any, cursor: jax.Array) -> tuple[jax.Array, Any]:
        return model(tokens, cache, cursor)

    specs = (weight_specs(model), SAME, cache_spec(model), SAME)
    run = jax.jit(on_chips(step, mesh, specs, (SAME, cache_spec(model))))
    cache = jax.device_put(
        decoder(tiny(layers=3, kv_heads=4 if chips == 4 else 2), 0).empty_cache(2, 16),
        jax.tree.map(lambda spec: jax.sharding.NamedSharding(mesh, spec), cache_spec(model)),
    )
    compiled = run.lower(model, prompts(2, 3, 64), cache, jnp.zeros((2,), jnp.int32)).compile()
    assert collectives(compiled) == ({} if chips == 1 else {"all-reduce": 2 * 3 + 1, "all-gather": 1})


def test_weights_lie_where_they_belong() -> None:
    mesh = chip_mesh(4, 4)
    model = place_random(tiny(layers=1, kv_heads=4), jax.random.key(0), mesh, 4)
    layer = model.layers[0]
    for weight, share in (
        (layer.qkv, (32, 24)),
        (layer.output, (8, 32)),
        (layer.up, (32, 32)),
        (layer.down, (16, 32)),
        (model.head, (32, 16)),
        (layer.attention_norm, (32,)),
    ):
        assert weight[...].addressable_shards[0].data.shape == share
    assert np.prod(model.embedding[...].addressable_shards[0].data.shape) == 64 * 32 / 4
