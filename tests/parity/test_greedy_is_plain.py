"""Greedy speculative output against the target's own greedy output, token by token."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from runtime.generate import generate, generate_plain
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.transformer import Decoder
from tests.tiny_models import decoder, noisy, prompts, tiny

GREEDY = Sampling(temperature=0.0)
LOOKAHEAD = 3
OUTPUT = 32
SEEDS = range(5)


def plainly(target: Decoder, asked: jax.Array, output: int = OUTPUT) -> np.ndarray:
    """What the target alone says, on one chip."""
    made = generate_plain(Pair.of(target, None), asked, output, GREEDY, jax.random.key(0))
    return np.asarray(made.tokens)


def drafts(target: Decoder, seed: int) -> dict[str, Decoder]:
    """A draft that never agrees with the target for long, and one that often does."""
    return {"other weights": decoder(target.spec, seed + 100), "noisy target": noisy(target, seed + 200, 0.15)}


@pytest.mark.parametrize("chips", [1, 4])
@pytest.mark.parametrize("batch", [1, 4])
def test_speculative_output_is_plain_output(batch: int, chips: int) -> None:
    accepted: dict[str, list[np.ndarray]] = {}
    for seed in SEEDS:
        target = decoder(tiny(), seed)
        asked, key = prompts(batch, 5, 64, seed), jax.random.key(seed)
        plain = plainly(target, asked)
        assert len(np.unique(plain)) > 3, "a constant output would prove nothing"
        for name, draft in drafts(target, seed).items():
            pair = Pair.of(target, draft, chips)
            speculative = generate(pair, asked, OUTPUT, LOOKAHEAD, GREEDY, key)
            np.testing.assert_array_equal(speculative.tokens, plain)
            counts = np.asarray(speculative.accepted)
            assert ((counts >= 0).sum(axis=1) == speculative.rounds).all()
            accepted.setdefault(name, []).append(counts[counts >= 0])
    often = np.concatenate(accepted["noisy target"])
    assert set(np.unique(often)) == set(range(LOOKAHEAD + 1)), "every count of accepted tokens must have occurred"
    assert np.concatenate(accepted["other weights"]).mean() < 0.5


def test_draft_and_target_on_different_numbers_of_chips() -> None:
    target = decoder(tiny(), 3)
    draft = noisy(target, 4, 0.15)
    asked, key = prompts(4, 5, 64), jax.random.key(0)
    one = generate(Pair.of(target, draft), asked, OUTPUT, LOOKAHEAD, GREEDY, key)
    for degree, draft_degree in ((4, 2), (1, 2)):
        mixed = generate(Pair.of(target, draft, degree, draft_degree), asked, OUTPUT, LOOKAHEAD, GREEDY, key)
        np.testing.assert_array_equal(mixed.tokens, one.tokens)
        np.testing.assert_array_equal(mixed.accepted, one.accepted)


@pytest.mark.parametrize("output", [1, 2])
def test_the_shortest_outputs(output: int) -> None:
    pair = Pair.of(decoder(tiny(layers=1), 0), decoder(tiny(layers=1), 1))
    asked, key = prompts(2, 1, 64), jax.random.key(0)
    speculative = generate(pair, asked, output, LOOKAHEAD, GREEDY, key)
    np.testing.assert_array_equal(speculative.tokens, plainly(pair.target, asked, output))
    np.testing.assert_array_equal(speculative.rounds, [output - 1] * 2)


def test_lookahead_of_one() -> None:
    target = decoder(tiny(), 5)
    asked, key = prompts(4, 5, 64), jax.random.key(0)
    pair = Pair.of(target, noisy(target, 6, 0.1))
    speculative = generate(pair, asked, OUTPUT, 1, GREEDY, key)
    np.testing.assert_array_equal(speculative.tokens, plainly(target, asked))
    assert (np.asarray(speculative.rounds) < OUTPUT - 1).all()
