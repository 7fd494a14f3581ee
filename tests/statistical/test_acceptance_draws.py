"""Do drawn rounds keep as many tokens as their law says?

All checks of one test together raise a false alarm with probability at most 1e-6. Of n independent rounds, the number
that keep at least k tokens is binomial, so its tails are exact. Where rounds of a sequence belong together, Hoeffding's
inequality bounds the mean of n sequences that each give a number in an interval of length c:
P(|mean - expected| >= t) <= 2 exp(-2 n t^2 / c^2).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from simulator import speculation
from tests.acceptance_laws import EVERY_LAW, law

FALSE_ALARM = 1e-6
ROUNDS = 50_000


def binomial_tail(count: int, n: int, chance: float) -> float:
    """The smaller of P(at most ``count``) and P(at least ``count``)."""
    return float(min(binom.cdf(count, n, chance), binom.sf(count - 1, n, chance)))


def hoeffding(n: int, length: float, checks: int) -> float:
    """The t that ``checks`` means of n numbers in an interval of this length all keep to, but for the false alarm."""
    return float(length * np.sqrt(np.log(2 * checks / FALSE_ALARM) / (2 * n)))


@pytest.mark.parametrize(
    "data",
    [
        EVERY_LAW["rate"],
        {"kind": "rate", "acceptance_rate": 0.02},
        {"kind": "rate", "acceptance_rate": 0.99},
        EVERY_LAW["per_position"],
        {"kind": "per_position", "acceptance_rates": (1.0, 0.5)},
        EVERY_LAW["mixture"],
        EVERY_LAW["beta"],
        {"kind": "beta", "mean": 0.3, "concentration": 0.2},
        EVERY_LAW["markov"],
        EVERY_LAW["adversarial"],
    ],
)
def test_survival_of_every_position_in_first_rounds(data: dict[str, Any]) -> None:
    lookahead = 6
    drawn = law(**data).sequences(lookahead, ROUNDS, np.random.default_rng(20_251_129)).accepted()
    processes = law(**data).processes(lookahead)
    survival = np.sum([process.weight * process.survival(lookahead) for process in processes], axis=0)
    for position in range(1, lookahead + 1):
        kept, chance = int((drawn >= position).sum()), float(survival[position - 1])
        # Two tails at each of the positions share the false alarm.
        tail = binomial_tail(kept, ROUNDS, chance)
        assert tail >= FALSE_ALARM / (2 * lookahead), (
            f"{kept} of {ROUNDS} rounds kept {position}, expected {chance:.4f}"
        )


def test_rounds_are_independent_of_each_other() -> None:
    # Pairs of neighbouring rounds that both keep a token are binomial too, if rounds do not know of each other.
    sequences = law(kind="rate", acceptance_rate=0.7).sequences(4, ROUNDS, np.random.default_rng(7))
    both = int(((sequences.accepted() >= 1) & (sequences.accepted() >= 1)).sum())
    assert binomial_tail(both, ROUNDS, 0.49) >= FALSE_ALARM / 2


def test_neighbouring_rounds_share_their_stretch() -> None:
    sequences = law(**EVERY_LAW["markov"]).sequences(4, ROUNDS, np.random.default_rng(7))
    both = int(((sequences.accepted() >= 1) & (sequences.accepted() >= 1)).sum())
    stays = np.array([[7 / 8, 1 / 8], [1 / 3, 2 / 3]])
    rates = np.array([0.9, 0.3])
    assert binomial_tail(both, ROUNDS, float((np.array([8, 3]) / 11 * rates) @ stays @ rates)) >= FALSE_ALARM / 2


@pytest.mark.parametrize("kind", EVERY_LAW)
def test_survival_and_spread_over_twelve_rounds(kind: str) -> None:
    # n = 20,000 sequences; each gives the shares of its 12 rounds that keep 1, ..., 4 tokens, and its mean square.
    n, lookahead = 20_000, 4
    own = law(**EVERY_LAW[kind])
    sequences = own.sequences(lookahead, n, np.random.default_rng(11))
    drawn = np.stack([sequences.accepted() for _ in range(12)])
    processes = own.processes(lookahead)
    survival = np.sum([process.weight * process.survival(lookahead) for process in processes], axis=0)
    found = np.array([(drawn >= k).mean() for k in range(1, lookahead + 1)])
    assert np.abs(found - survival).max() <= hoeffding(n, 1.0, lookahead + 1)
    squares = float(((drawn + 1.0) ** 2).mean())
    expected = 1 + (2 * np.arange(1, lookahead + 1) + 1) @ survival
    assert squares == pytest.approx(expected, abs=hoeffding(n, lookahead * (lookahead + 2), lookahead + 1))


@pytest.mark.parametrize("kind", ["rate", "per_position", "mixture", "beta", "adversarial"])
def test_conditional_and_variance_are_those_of_all_rounds_of_whole_requests(kind: str) -> None:
    # n = 40,000 requests of N = 64 tokens. Where a request of process i takes R rounds, the sum over them of a function
    # f of the tokens has the mean E_i[f] E[R_i] (Wald), and that of f - m has (E_i[f] - m) E[R_i], whatever m is. Here
    # m is what the law says of all rounds of long outputs; f is "keeps k or more", for every k, and the square.
    n, wanted, lookahead = 40_000, 64, 4
    own = law(**EVERY_LAW[kind])
    survival = np.cumprod(own.conditional(lookahead))
    said = np.append(survival, own.variance_tokens(lookahead) + own.mean_tokens(lookahead) ** 2)
    expected = np.zeros(lookahead + 1)
    for process in own.processes(lookahead, wanted):
        alone = dataclasses.replace(process, weight=1.0)
        rounds = speculation.law_mean(speculation.rounds_to_tokens_law([alone], wanted))
        kept = process.survival(lookahead)
        square = 1 + (2 * np.arange(1, lookahead + 1) + 1) @ kept
        expected += process.weight * rounds * (np.append(kept, square) - said)

    sequences = own.sequences(lookahead, n, np.random.default_rng(5))
    emitted, sums = np.zeros(n), np.zeros(lookahead + 1)
    while (active := emitted < wanted).any():
        accepted = sequences.accepted(active)
        emitted += np.where(active, accepted + 1, 0)
        drawn = accepted[active]
        found = [(drawn >= k).sum() for k in range(1, lookahead + 1)] + [((drawn + 1) ** 2).sum()]
        sums += np.array(found) - said * len(drawn)
    # At most N rounds and N + K tokens: how long an interval each sum lies in.
    lengths = np.append(np.full(lookahead, wanted), (lookahead + 1) * (wanted + lookahead) + said[-1] * wanted)
    bounds = np.array([hoeffding(n, length, lookahead + 1) for length in lengths])
    assert (np.abs(sums / n - expected) <= bounds).all()
