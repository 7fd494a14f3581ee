"""Logits to distributions to tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.sampling import Sampling, draw, likeliest

PROBS = np.array([0.05, 0.4, 0.1, 0.25, 0.2])
LOGITS = jnp.asarray(np.log(PROBS)[None], jnp.float32)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(), {0, 1, 2, 3, 4}),
        (Sampling(top_p=0.9), {1, 2, 3, 4}),
        (Sampling(top_p=0.8), {1, 3, 4}),
        (Sampling(top_p=0.6), {1, 3}),
        (Sampling(top_p=1e-6), {1}),
        (Sampling(top_k=2), {1, 3}),
        (Sampling(top_k=9), {0, 1, 2, 3, 4}),
        (Sampling(min_p=0.3), {1, 3, 4}),
        # Of the three that top_k keeps, the first two hold 0.65 of 0.85.
        (Sampling(top_k=3, top_p=0.7), {1, 3}),
        (Sampling(top_p=0.8, min_p=0.6), {1, 3}),
    ],
)
def test_what_is_kept(sampling: Sampling, kept: set[int]) -> None:
    filtered = np.asarray(sampling.filter(LOGITS))[0]
    assert set(np.flatnonzero(np.isfinite(filtered))) == kept
    probs = np.asarray(jax.nn.softmax(filtered))
    wanted = np.where([token in kept for token in range(5)], PROBS, 0)
    np.testing.assert_allclose(probs, wanted / wanted.sum(), rtol=1e-5)


def test_temperature_comes_before_the_nucleus() -> None:
    # Squared and renormalised the likeliest token has 0.16 / 0.275 = 0.58 of the mass.
    filtered = np.asarray(Sampling(temperature=0.5, top_p=0.55).filter(LOGITS))[0]
    assert set(np.flatnonzero(np.isfinite(filtered))) == {1}


def test_ties_with_the_last_token_kept_are_kept() -> None:
    filtered = np.asarray(Sampling(top_k=1).filter(jnp.zeros((1, 4))))
    assert np.isfinite(filtered).all()


def test_the_likeliest_is_the_first_of_equals() -> None:
    logits = jnp.asarray([[0.0, 3.0, 3.0, 1.0], [-jnp.inf, -jnp.inf, -5.0, -jnp.inf]])
    np.testing.assert_array_equal(likeliest(logits), [1, 2])
    np.testing.assert_array_equal(Sampling(temperature=0.0).choose(jax.random.key(0), logits), [1, 2])


def test_what_is_ruled_out_is_never_drawn() -> None:
    logits = jnp.tile(jnp.asarray([0.0, -jnp.inf, 0.0, -jnp.inf]), (10_000, 1))
    assert set(np.unique(draw(jax.random.key(0), logits))) == {0, 2}
