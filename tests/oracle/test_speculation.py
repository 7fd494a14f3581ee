"""Closed forms against brute force, and against the formulas as printed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from simulator import speculation

RATES = (0.0, 0.3, 0.7, 1.0)


def enumerate_tokens(conditional: list[float]) -> float:
    """Mean tokens of a round by walking every pattern of accept and reject."""
    total = 0.0
    for pattern in itertools.product((True, False), repeat=len(conditional)):
        probability = float(np.prod([a if ok else 1 - a for a, ok in zip(conditional, pattern, strict=True)]))
        accepted = pattern.index(False) if False in pattern else len(pattern)
        total += probability * (accepted + 1)
    return total


@pytest.mark.parametrize("alpha", RATES)
@pytest.mark.parametrize("lookahead", range(17))
def test_tokens_per_round_is_the_polynomial(alpha: float, lookahead: int) -> None:
    polynomial = sum(alpha**k for k in range(lookahead + 1))
    assert speculation.tokens_per_round(alpha, lookahead) == pytest.approx(polynomial, rel=1e-12, abs=0)
    assert speculation.acceptance_length(np.full(lookahead, alpha)) == pytest.approx(polynomial, rel=1e-12, abs=0)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("lookahead", [1, 4, 7])
def test_leviathan_equation_1(alpha: float, lookahead: int) -> None:
    printed = (1 - alpha ** (lookahead + 1)) / (1 - alpha)
    assert speculation.tokens_per_round(alpha, lookahead) == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize("conditional", [[0.9], [0.9, 0.2], [0.5, 1.0, 0.0, 0.7], [0.3] * 8])
def test_acceptance_length_by_brute_force(conditional: list[float]) -> None:
    assert speculation.acceptance_length(conditional) == pytest.approx(enumerate_tokens(conditional), rel=1e-12)


def test_tokens_per_round_broadcasts_over_lookahead() -> None:
    alpha, depth = np.array([[0.2], [0.8]]), np.arange(5)
    expected = [[sum(a**k for k in range(d + 1)) for d in depth] for a in alpha[:, 0]]
    np.testing.assert_allclose(speculation.tokens_per_round(alpha, depth), expected, rtol=1e-13)


def test_best_lookahead_by_search() -> None:
    costs = 1.0 + 0.15 * np.arange(1, 17)
    for alpha in (0.0, 0.3, 0.6, 0.9, 0.99):
        gains = [1.0] + [speculation.tokens_per_round(alpha, k) / costs[k - 1] for k in range(1, 17)]
        assert speculation.best_lookahead(alpha, costs) == int(np.argmax(gains))


def test_rounds_to_tokens_law_by_enumeration() -> None:
    conditional, tokens = [0.7, 0.4], 5
    law = speculation.rounds_to_tokens_law(conditional, tokens)
    step = {1: 0.3, 2: 0.7 * 0.6, 3: 0.7 * 0.4}
    expected = np.zeros(len(law))

    def walk(done: int, rounds: int, probability: float) -> None:
        if done >= tokens:
            expected[rounds] += probability
            return
        for size, chance in step.items():
            walk(done + size, rounds + 1, probability * chance)

    walk(0, 0, 1.0)
    np.testing.assert_allclose(law, expected, atol=1e-14)


@pytest.mark.parametrize("batch", [1, 4, 32])
def test_a_batch_in_lockstep_ends_with_its_slowest(batch: int) -> None:
    one = np.cumsum(speculation.rounds_to_tokens_law([0.7] * 4, 64))
    many = np.cumsum(speculation.rounds_to_tokens_law([0.7] * 4, 64, batch))
    np.testing.assert_allclose(many, one**batch, atol=1e-12)
    assert many[-1] == pytest.approx(1.0, abs=1e-12)
