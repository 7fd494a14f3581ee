"""Do the laws of acceptance imply what they say?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.integrate import quad
from scipy.stats import beta

from simulator.errors import RefusedError
from simulator.spec.acceptance import ForcedAcceptance, PerPositionAcceptance, RateAcceptance
from simulator.spec.processes import beta_nodes
from tests.acceptance_laws import EVERY_LAW, law

probabilities = st.floats(0, 1)
lookaheads = st.integers(0, 16)
every_law = pytest.mark.parametrize("data", EVERY_LAW.values(), ids=EVERY_LAW)


def rounds_of(sequences: Any, count: int) -> np.ndarray:
    """``count`` rounds of every sequence; shape [count, B]."""
    return np.stack([sequences.accepted() for _ in range(count)])


def test_kind_chooses_the_law() -> None:
    assert isinstance(law(kind="rate", acceptance_rate=0.7), RateAcceptance)
    assert isinstance(law(kind="per_position", acceptance_rates=(0.7,)), PerPositionAcceptance)
    assert isinstance(law(kind="forced", accepted=(1,)), ForcedAcceptance)
    assert [law(**data).kind for data in EVERY_LAW.values()] == list(EVERY_LAW)


@given(probabilities, lookaheads)
def test_rate_is_the_same_at_every_position(rate: float, lookahead: int) -> None:
    assert law(kind="rate", acceptance_rate=rate).conditional(lookahead).tolist() == [rate] * lookahead


@given(st.lists(probabilities, min_size=1, max_size=8), lookaheads)
def test_last_position_repeats(rates: list[float], lookahead: int) -> None:
    conditional = law(kind="per_position", acceptance_rates=tuple(rates)).conditional(lookahead)
    assert conditional.tolist() == (rates + [rates[-1]] * 16)[:lookahead]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=50), lookaheads)
def test_forced_rates_have_the_mean_of_the_list(accepted: list[int], lookahead: int) -> None:
    forced = law(kind="forced", accepted=tuple(accepted))
    conditional, kept = forced.conditional(lookahead), np.minimum(accepted, lookahead)
    assert np.cumprod(conditional).sum() == pytest.approx(kept.mean(), abs=1e-12)
    assert np.all((conditional >= 0) & (conditional <= 1))
    assert forced.mean_tokens(lookahead) == pytest.approx(1 + kept.mean(), rel=1e-12)
    assert forced.variance_tokens(lookahead) == pytest.approx(kept.var(), abs=1e-9)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=20), st.integers(1, 60))
def test_forced_replays_the_list_round_by_round(accepted: list[int], rounds: int) -> None:
    sequences = law(kind="forced", accepted=tuple(accepted)).sequences(8, 2, np.random.default_rng(0))
    listed = [accepted[number % len(accepted)] for number in range(rounds)]
    assert rounds_of(sequences, rounds).T.tolist() == [listed, listed]


# --- moments ----------------------------------------------------------------------------------------------------------


@every_law
@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_moments_agree_with_each_other(data: dict[str, Any], lookahead: int) -> None:
    own = law(**data)
    processes, conditional = own.processes(lookahead), own.conditional(lookahead)
    shares = np.array([process.weight for process in processes])
    lengths = np.array([1 + process.survival(lookahead).sum() for process in processes])
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert conditional.shape == (lookahead,)
    assert np.all((conditional >= 0) & (conditional <= 1))
    # A sequence of N tokens takes N / tau rounds: over many sequences tokens per round are the harmonic mean.
    assert own.mean_tokens(lookahead) == pytest.approx(1 / (shares / lengths).sum(), rel=1e-12)
    assert own.mean_tokens(lookahead) == pytest.approx(1 + np.cumprod(conditional).sum(), rel=1e-12)


@every_law
def test_variance_is_that_of_the_tokens_of_all_rounds(data: dict[str, Any]) -> None:
    own, lookahead = law(**data), 4
    first, second, rounds = 0.0, 0.0, 0.0
    for process in own.processes(lookahead):
        survival = np.concatenate([[1.0], process.survival(lookahead)])
        part = process.weight / survival.sum()
        rounds += part
        first += part * survival.sum()
        second += part * (survival @ (2 * np.arange(1, lookahead + 2) - 1))
    assert own.mean_tokens(lookahead) == pytest.approx(first / rounds, rel=1e-12)
    assert own.variance_tokens(lookahead) == pytest.approx(second / rounds - (first / rounds) ** 2, rel=1e-10)


def test_two_domains_by_hand() -> None:
    halves = {"all": {"share": 0.5, "acceptance_rates": (1.0,)}, "none": {"share": 0.5, "acceptance_rates": (0.0,)}}
    mixed = law(kind="mixture", domains=halves)
    # Per token of output 1/4 round of the one and 1 round of the other: a fifth of the rounds keeps all three.
    assert mixed.mean_tokens(3) == pytest.approx(1.6, rel=1e-14)
    np.testing.assert_allclose(mixed.conditional(3), [0.2, 1, 1], rtol=1e-14)
    assert mixed.variance_tokens(3) == pytest.approx(0.2 * 16 + 0.8 * 1 - 1.6**2, rel=1e-12)


@pytest.mark.parametrize("lookahead", [1, 4, 64])
@pytest.mark.parametrize(("mean", "concentration"), [(0.7, 5.0), (0.5, 2.0), (0.8, 60.0), (0.6, 3.0)])
def test_beta_by_numerical_integration(mean: float, concentration: float, lookahead: int) -> None:
    density = beta(mean * concentration, (1 - mean) * concentration).pdf

    def rounds_per_token(rate: float) -> float:
        return float(density(rate) / sum(rate**k for k in range(lookahead + 1)))

    expected = 1 / quad(rounds_per_token, 0, 1, epsabs=1e-12, epsrel=1e-12, limit=200)[0]
    own = law(kind="beta", mean=mean, concentration=concentration)
    assert own.mean_tokens(lookahead) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(3.5, 1.5), (0.5, 0.5), (0.3, 0.7), (1e-5, 0.01), (5e5, 5e5), (700.0, 3.0)])
def test_beta_nodes_have_the_moments_of_the_distribution(a: float, b: float) -> None:
    nodes, weights = beta_nodes(a, b, 64)
    assert np.all((nodes >= 0) & (nodes <= 1))
    moment = 1.0
    for power in range(8):
        assert weights @ nodes**power == pytest.approx(moment, rel=1e-9)
        moment *= (a + power) / (a + b + power)


SAME = [
    ({"kind": "mixture", "domains": {"one": {"share": 1.0, "acceptance_rates": (0.9, 0.3, 0.8)}}}, "per_position"),
    ({"kind": "markov", "easy_rate": 0.7, "hard_rate": 0.7, "easy_rounds": 9.0, "hard_rounds": 2.0}, "rate"),
    ({"kind": "adversarial", "share": 0.0, "acceptance_rate": 0.7}, "rate"),
    ({"kind": "adversarial", "share": 1.0, "acceptance_rate": 1.0, "adversarial_rate": 0.7}, "rate"),
    ({"kind": "recorded", "recorded_lookahead": 6, "requests": ((4, 0, 2),)}, "forced"),
    ({"kind": "recorded", "recorded_lookahead": 4, "requests": ((4, 0, 2), (0, 2, 4))}, "forced"),
]


@pytest.mark.parametrize(("data", "kind"), SAME)
def test_a_law_without_its_own_part_is_a_simpler_one(data: dict[str, Any], kind: str) -> None:
    one, other = law(**data), law(**EVERY_LAW[kind])
    np.testing.assert_allclose(one.conditional(4), other.conditional(4), rtol=1e-12)
    assert one.variance_tokens(4) == pytest.approx(other.variance_tokens(4), rel=1e-12)


def test_beta_of_one_mind_is_a_rate() -> None:
    sure = law(kind="beta", mean=0.7, concentration=1e6)
    np.testing.assert_allclose(sure.conditional(4), 0.7, rtol=1e-5)


def test_unequal_sequences_emit_fewer_tokens_a_round_than_equal_ones() -> None:
    spread = [law(kind="beta", mean=0.7, concentration=c).mean_tokens(1) for c in (0.1, 1.0, 10.0, 1000.0)]
    assert spread == sorted(spread)
    assert spread[-1] < 1.7


# --- recordings -------------------------------------------------------------------------------------------------------


def test_a_recording_at_a_smaller_lookahead_is_cut() -> None:
    recorded = law(kind="recorded", recorded_lookahead=4, requests=((4, 0, 2),))
    assert rounds_of(recorded.sequences(3, 1, np.random.default_rng(0)), 4)[:, 0].tolist() == [3, 0, 2, 3]
    assert recorded.mean_tokens(1) == pytest.approx(1 + 2 / 3)


def test_a_recording_says_nothing_of_a_larger_lookahead() -> None:
    recorded = law(**EVERY_LAW["recorded"])
    for ask in (recorded.processes, recorded.conditional, recorded.mean_tokens):
        with pytest.raises(RefusedError, match="recorded at lookahead 4"):
            ask(5)
    with pytest.raises(RefusedError, match="recorded at lookahead 4"):
        recorded.sequences(5, 1, np.random.default_rng(0))


# --- draws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "lookahead", "kept"), [(0.0, 4, 0), (1.0, 4, 4), (0.5, 0, 0), (1.0, 0, 0)])
def test_certain_draws(rate: float, lookahead: int, kept: int) -> None:
    sequences = law(kind="rate", acceptance_rate=rate).sequences(lookahead, 5, np.random.default_rng(0))
    assert sequences.accepted().tolist() == [kept] * 5


@every_law
@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_draws_are_within_the_round_and_follow_the_seed(data: dict[str, Any], lookahead: int) -> None:
    one, two = (rounds_of(law(**data).sequences(lookahead, 50, np.random.default_rng(3)), 20) for _ in range(2))
    assert one.tolist() == two.tolist()
    assert one.dtype == np.int64
    assert np.all((one >= 0) & (one <= lookahead))


def test_a_sequence_keeps_its_domain_until_it_is_renewed() -> None:
    halves = {"all": {"share": 0.5, "acceptance_rates": (1.0,)}, "none": {"share": 0.5, "acceptance_rates": (0.0,)}}
    sequences = law(kind="mixture", domains=halves).sequences(3, 200, np.random.default_rng(1))
    before = rounds_of(sequences, 10)
    assert (before == before[0]).all()
    assert set(before[0]) == {0, 3}
    renewed = np.arange(200) < 100
    sequences.renew(renewed)
    after = rounds_of(sequences, 10)
    assert (after == after[0]).all()
    assert (after[0, 100:] == before[0, 100:]).all()
    assert 20 < (after[0, :100] != before[0, :100]).sum() < 80  # half of a hundred: 6 standard deviations either way


def test_a_recorded_request_advances_where_active_and_starts_over_where_renewed() -> None:
    sequences = law(kind="forced", accepted=(0, 1, 2, 3)).sequences(3, 3, np.random.default_rng(0))
    assert sequences.accepted(np.array([True, False, True])).tolist() == [0, 0, 0]
    assert sequences.accepted(np.array([True, True, False])).tolist() == [1, 0, 1]
    sequences.renew(np.array([True, False, False]))
    assert sequences.accepted().tolist() == [0, 1, 1]


def test_stretches_go_on_only_where_active() -> None:
    # Stretches of one round: easy and hard take turns, so that a round out of turn is seen.
    turns = law(kind="markov", easy_rate=1.0, hard_rate=0.0, easy_rounds=1.0, hard_rounds=1.0)
    sequences = turns.sequences(2, 100, np.random.default_rng(0))
    first = sequences.accepted()
    assert set(first) == {0, 2}
    active = np.arange(100) < 50
    assert sequences.accepted(active).tolist() == (2 - first).tolist()
    assert sequences.accepted().tolist() == np.where(active, first, 2 - first).tolist()


CERTAIN = [
    ({"kind": "rate", "acceptance_rate": 1.0}, True),
    ({"kind": "rate", "acceptance_rate": 0.5}, False),
    ({"kind": "per_position", "acceptance_rates": (1.0, 0.0, 0.5)}, True),
    ({"kind": "forced", "accepted": (1, 2)}, True),
    ({"kind": "recorded", "recorded_lookahead": 4, "requests": ((1, 2),)}, True),
    ({"kind": "adversarial", "share": 0.0, "acceptance_rate": 1.0}, True),
    ({"kind": "adversarial", "share": 0.5, "acceptance_rate": 1.0}, False),
    ({"kind": "markov", "easy_rate": 1.0, "hard_rate": 0.0, "easy_rounds": 1.0, "hard_rounds": 1.0}, False),
    *((EVERY_LAW[kind], False) for kind in ("mixture", "beta", "markov", "recorded")),
]


@pytest.mark.parametrize(("data", "certain"), CERTAIN)
def test_what_is_certain(data: dict[str, Any], certain: bool) -> None:
    assert law(**data).is_certain(4) == certain


# --- mistakes: where they are and how they are told stands in tests/bad_yaml ------------------------------------------

WRONG = [
    ("mixture", {"domains": {"one": {"share": 0.5, "acceptance_rates": (0.9,)}}}, "sum to 1"),
    ("mixture", {"domains": {}}, "at least 1"),
    ("beta", {"mean": 1.0}, "less than or equal to 0.999"),
    ("beta", {"concentration": 0.0}, "greater than or equal to 0.01"),
    ("markov", {"hard_rate": 0.95}, "at least hard_rate"),
    ("markov", {"easy_rounds": 0.5}, "greater than or equal to 1"),
    ("recorded", {"requests": ((1, 2), (3, 5))}, "request 2 has 5"),
    ("recorded", {"requests": ()}, "at least 1"),
    ("adversarial", {"adversarial_rate": 0.9}, "at most acceptance_rate"),
]


@pytest.mark.parametrize(("kind", "change", "said"), WRONG)
def test_impossible_laws_are_refused(kind: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        law(**(EVERY_LAW[kind] | change))


def test_shares_may_be_off_by_rounding() -> None:
    tenths = {f"d{i}": {"share": 0.1, "acceptance_rates": (0.5,)} for i in range(10)}
    shares = [process.weight for process in law(kind="mixture", domains=tenths).processes(2)]
    assert sum(shares) == pytest.approx(1, abs=1e-15)
