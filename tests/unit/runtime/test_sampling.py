"""Logits to distributions to tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.sampling import Sampling, draw, likeliest
from simulator.spec.scenario import Decoding

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
        (Sampling(top_k=3, min_p=0.6), {1, 3}),
        # Squared: 0.009, 0.582, 0.036, 0.227, 0.145.
        (Sampling(temperature=0.5, top_k=4, top_p=0.9, min_p=0.3), {1, 3}),
    ],
)
def test_what_is_kept(sampling: Sampling, kept: set[int]) -> None:
    filtered = np.asarray(sampling.filter(LOGITS))[0]
    assert set(np.flatnonzero(np.isfinite(filtered))) == kept
    probs = np.asarray(jax.nn.softmax(filtered))
    wanted = np.where([token in kept for token in range(5)], PROBS ** (1 / sampling.temperature), 0)
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


@pytest.mark.parametrize(
    "sampling", [Sampling(0.7), Sampling(top_k=3), Sampling(top_p=0.6), Sampling(min_p=0.2), Sampling(0.7, 4, 0.9, 0.1)]
)
def test_probabilities_are_float32_whatever_the_logits_are(sampling: Sampling) -> None:
    # Divided in bfloat16, a logit of 2.9 would move by up to 0.008.
    logits = jax.random.normal(jax.random.key(0), (3, 50), jnp.bfloat16)
    filtered = sampling.filter(logits)
    assert filtered.dtype == jnp.float32
    np.testing.assert_array_equal(filtered, sampling.filter(logits.astype(jnp.float32)))


def test_the_nucleus_of_a_long_row_is_that_of_a_slow_sort() -> None:
    # The bits of probabilities are sorted, as integers: zeros and the smallest numbers included.
    logits = np.random.default_rng(0).normal(size=(4, 5000)).astype(np.float32) * 20
    probs = np.asarray(jax.nn.softmax(logits, axis=-1))
    assert (probs == 0).any()
    for top_p in (0.3, 0.9, 0.999):
        kept = np.isfinite(Sampling(top_p=top_p).filter(jnp.asarray(logits)))
        for row, mine in zip(probs, kept, strict=True):
            falling = np.sort(row)[::-1]
            count = int(np.searchsorted(np.cumsum(falling, dtype=np.float64), top_p)) + 1
            np.testing.assert_array_equal(mine, row >= falling[count - 1])


def test_a_scenarios_rule_is_the_one_executed() -> None:
    decoding = Decoding(lookahead=4, temperature=0.7, top_p=0.9, top_k=5, min_p=0.1)
    assert Sampling.of(decoding) == Sampling(temperature=0.7, top_k=5, top_p=0.9, min_p=0.1)
    assert Sampling.of(Decoding(lookahead=4)) == Sampling()


@pytest.mark.parametrize(
    ("data", "sorts"),
    [
        ({}, False),
        ({"min_p": 0.1}, False),
        ({"top_p": 0.9}, True),
        ({"top_k": 5}, True),
        ({"top_k": 5, "top_p": 0.9, "temperature": 0}, False),
    ],
)
def test_which_rules_need_the_logits_in_order(data: dict[str, float], sorts: bool) -> None:
    assert Decoding.model_validate({"lookahead": 4} | data).sorts == sorts
