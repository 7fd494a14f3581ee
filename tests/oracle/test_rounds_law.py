"""The law of the rounds to N tokens: against enumeration, against plain recursion, and against what papers report."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from simulator import speculation
from simulator.spec.processes import Replay, RoundProcess
from tests.acceptance_laws import EVERY_LAW, law


def by_enumeration(process: RoundProcess, tokens: int) -> np.ndarray:
    """P(exactly r rounds), by walking every sequence of states and accepted counts."""
    found = np.zeros(tokens + 1)

    def walk(state: int, emitted: int, rounds: int, chance: float) -> None:
        if emitted >= tokens:
            found[rounds] += chance
            return
        for (count, kept), (after, moved) in itertools.product(
            enumerate(process.accepted[state]), enumerate(process.transition[state])
        ):
            walk(after, emitted + count + 1, rounds + 1, chance * kept * moved)

    for state, chance in enumerate(process.initial):
        walk(state, 0, 0, chance)
    return found


def by_recursion(process: RoundProcess, tokens: int) -> np.ndarray:
    """P(exactly r rounds), by the distribution over states and tokens after each round, one sum at a time."""
    now = np.zeros((len(process.initial), tokens))
    now[:, 0] = process.initial
    unfinished = [1.0]
    for _ in range(tokens):
        emitted = np.zeros_like(now)
        for count in range(min(process.accepted.shape[1], tokens - 1)):
            emitted[:, count + 1 :] += process.accepted[:, count, None] * now[:, : tokens - count - 1]
        now = process.transition.T @ emitted
        unfinished.append(float(now.sum()))
    return -np.diff(unfinished, prepend=1.0)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of the distribution functions of two laws over r = 0, 1, ..."""
    length = max(len(one), len(other))
    padded = [np.pad(law, (0, length - len(law))).cumsum() for law in (one, other)]
    return float(np.abs(padded[0] - padded[1]).max())


@pytest.mark.parametrize("tokens", [1, 2, 5])
@pytest.mark.parametrize("kind", ["rate", "per_position", "mixture", "markov", "adversarial"])
def test_by_enumeration(kind: str, tokens: int) -> None:
    processes = law(**EVERY_LAW[kind]).processes(2)
    expected = sum(process.weight * by_enumeration(process, tokens) for process in processes)
    assert apart(speculation.rounds_to_tokens_law(processes, tokens), expected) < 1e-13


@pytest.mark.parametrize("tokens", [3, 127, 1000])
@pytest.mark.parametrize("lookahead", [1, 4, 33])
@pytest.mark.parametrize("kind", ["rate", "mixture", "markov"])
def test_by_recursion(kind: str, lookahead: int, tokens: int) -> None:
    processes = law(**EVERY_LAW[kind]).processes(lookahead)
    expected = sum(process.weight * by_recursion(process, tokens) for process in processes)
    assert apart(speculation.rounds_to_tokens_law(processes, tokens), expected) < 1e-12


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.01, 0.5, 0.99, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("lookahead", [1, 5, 64])
def test_extreme_rates_by_recursion(rate: float, lookahead: int) -> None:
    processes = law(kind="rate", acceptance_rate=rate).processes(lookahead)
    assert apart(speculation.rounds_to_tokens_law(processes, 400), by_recursion(processes[0], 400)) < 1e-12


def test_long_stretches_by_recursion() -> None:
    sticky = law(kind="markov", easy_rate=0.95, hard_rate=0.05, easy_rounds=1e6, hard_rounds=10.0)
    (process,) = sticky.processes(5)
    assert apart(speculation.rounds_to_tokens_law([process], 300), by_recursion(process, 300)) < 1e-13


@pytest.mark.parametrize(("counts", "tokens", "rounds"), [((2, 0), 1, 1), ((2, 0), 4, 2), ((2, 0), 5, 3), ((0,), 9, 9)])
def test_replays_take_a_fixed_number_of_rounds(counts: tuple[int, ...], tokens: int, rounds: int) -> None:
    found = speculation.rounds_to_tokens_law([Replay(1.0, np.array(counts))], tokens)
    assert found.tolist() == [0.0] * rounds + [1.0]


def test_recorded_requests_by_replaying_each() -> None:
    recorded, wanted = law(**EVERY_LAW["recorded"]), 40
    expected = np.zeros(wanted + 1)
    for counts in recorded.requests:
        rounds, emitted = 0, 0
        while emitted < wanted:
            emitted += counts[rounds % len(counts)] + 1
            rounds += 1
        expected[rounds] += 1 / len(recorded.requests)
    assert apart(speculation.rounds_to_tokens_law(recorded.processes(4), wanted), expected) < 1e-14


def test_beta_by_integrating_over_the_rate() -> None:
    own, tokens, lookahead = law(**EVERY_LAW["beta"]), 24, 3
    found = np.cumsum(speculation.rounds_to_tokens_law(own.processes(lookahead, tokens), tokens))
    density = beta(*own.shape).pdf

    def weighted(rate: float, rounds: int) -> float:
        one = np.cumsum(speculation.rounds_to_tokens_law(np.full(lookahead, rate), tokens))
        return float(density(rate) * one[min(rounds, len(one) - 1)])

    for rounds in (7, 9, 12):
        expected = quad(weighted, 0, 1, args=(rounds,), epsabs=1e-9, epsrel=1e-9, limit=100)[0]
        assert found[rounds] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("mean", "concentration"), [(0.7, 5.0), (0.5, 0.5), (0.9, 100.0)])
@pytest.mark.parametrize(("tokens", "lookahead"), [(127, 4), (127, 64), (1000, 4), (1000, 7)])
def test_nodes_of_the_quadrature_are_enough(mean: float, concentration: float, tokens: int, lookahead: int) -> None:
    # r rounds that emit fewer than N tokens accept A < N - r and reject at most r times: their chance is a polynomial
    # in the rate of degree below N, for which N / 2 nodes are exact. 32 + 4 sqrt(N) are used.
    own = law(kind="beta", mean=mean, concentration=concentration)
    chosen, exact = (own.processes(lookahead, many) for many in (tokens, (tokens // 8 + 1) ** 2))
    both = [speculation.rounds_to_tokens_law(processes, tokens) for processes in (chosen, exact)]
    assert apart(*both) < 1e-10


# --- batches and slots ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY_LAW)
def test_a_batch_in_lockstep_ends_with_its_slowest(kind: str) -> None:
    processes = law(**EVERY_LAW[kind]).processes(4)
    one, many = (np.cumsum(speculation.rounds_to_tokens_law(processes, 64, batch)) for batch in (1, 7))
    np.testing.assert_allclose(many, one**7, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY_LAW)
def test_a_refilled_slot_approaches_the_mean_of_long_outputs(kind: str) -> None:
    own, tokens, lookahead = law(**EVERY_LAW[kind]), 2000, 4
    # A last round has at most K tokens too many, which are dropped.
    slot = speculation.refilled_tokens_per_round(own.processes(lookahead, tokens), tokens)
    assert 0 <= own.mean_tokens(lookahead) / slot - 1 <= 1.01 * lookahead / tokens


def test_moments_and_quantiles_of_a_law() -> None:
    dice = np.array([0.0, *[1 / 6] * 6])
    assert speculation.law_mean(dice) == pytest.approx(3.5)
    assert speculation.law_variance(dice) == pytest.approx(35 / 12)
    assert [speculation.law_quantile(dice, q) for q in (0.0, 0.01, 1 / 6, 0.17, 0.5, 0.51, 0.99, 1.0)] == [
        0, 1, 1, 2, 3, 4, 6, 6,
    ]  # fmt: skip


def test_the_variance_of_the_latency_rises_with_the_lookahead() -> None:
    # As Chen et al. 2023 report. Their target step takes 14.1 ms, their draft step 1.8 ms; here at a rate of 0.7.
    laws = [speculation.rounds_to_tokens_law([0.7] * k, 127) for k in range(1, 8)]
    rounds = np.array([speculation.law_variance(found) for found in laws])
    times = rounds * (14.1 + 1.8 * np.arange(1, 8)) ** 2
    assert (np.diff(rounds) > 0).all()
    assert (np.diff(times) > 0).all()
    assert np.sqrt(times[[0, -1]]) == pytest.approx([37.2, 119.4], abs=0.1)
