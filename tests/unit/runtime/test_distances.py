"""Scores of relative positions by a shift are those that a gather finds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime import distances
from runtime.arithmetic import Lowering, distance_scores
from runtime.transformer import share_out
from simulator.spec.model import ModelSpec
from tests.tiny_models import KINDS, decoder, prompts, tiny

POSITIONS = 16


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_shifted_scores_are_the_gathered_ones(batch: int, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = jax.random.split(jax.random.key(0), 2)
    queries = jax.random.normal(keys[0], (batch, tokens, 4, 8))
    nearest_first = jax.random.normal(keys[1], (4, POSITIONS, 8))
    cursor = jnp.asarray([7, 0, POSITIONS - tokens][:batch], jnp.int32)
    at = cursor[:, None] + jnp.arange(tokens)
    by_distance = distances.scores_of_distances(queries, nearest_first[:, ::-1], 2)
    cached = jnp.broadcast_to(jnp.arange(POSITIONS), (batch, POSITIONS))
    for found, wanted_keys in (
        (distances.of_cached(by_distance, cursor), cached),
        (distances.among_new(by_distance), at),
    ):
        wanted = distance_scores(queries, nearest_first, at, wanted_keys)
        behind = (wanted_keys[:, None, None, :] <= at[:, :, None, None]) & jnp.ones_like(wanted, bool)
        assert bool(behind.any())
        np.testing.assert_allclose(jnp.where(behind, found, 0), jnp.where(behind, wanted, 0), atol=1e-5)
    apart = distances.of_cached(by_distance, cursor)
    # A large batch takes one slice of all sequences at once.
    monkeypatch.setattr(distances, "UNROLLED", 0)
    np.testing.assert_array_equal(distances.of_cached(by_distance, cursor), apart)


@pytest.mark.parametrize("kind", ["relative positions", "relative positions, GQA on 8 heads", "MQA"])
@pytest.mark.parametrize("scanned", [False, True])
def test_the_lowering_for_a_tpu_computes_the_same(kind: str, scanned: bool) -> None:
    spec = tiny(**KINDS[kind])
    tokens = prompts(2, 12, spec.vocabulary)
    plain = _decoded(spec, Lowering(), tokens)
    lowering = Lowering(min_rows=2, split_attention=True, min_new=8, shift_distances=True, scan_layers=scanned)
    np.testing.assert_allclose(_decoded(spec, lowering, tokens), plain, atol=2e-4)


def _decoded(spec: ModelSpec, lowering: Lowering, tokens: jax.Array) -> np.ndarray:
    """Logits of a prefill, a step of three tokens at other cursors, and one of one token."""
    model = share_out(decoder(spec, 0, lowering=lowering), 1, ())
    cache, zero = model.empty_cache(2, 64), jnp.zeros((2,), jnp.int32)
    first, cache = model(tokens[:, :8], cache, zero, fresh=True)
    cursor = jnp.asarray([8, 6], jnp.int32)
    second, cache = model(tokens[:, 8:11], cache, cursor)
    third, _ = model(tokens[:, 11:], cache, cursor + 3)
    return np.concatenate([first, second, third], axis=1)
