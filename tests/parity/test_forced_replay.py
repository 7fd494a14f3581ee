"""A recorded list of accepted counts against what the loop really kept."""

from __future__ import annotations

import jax
import numpy as np
import numpy.testing as npt
import pytest

from runtime.forcing import Forcing
from runtime.generate import generate, generate_plain
from runtime.pair import Pair
from runtime.sampling import Sampling
from simulator.errors import RefusedError
from simulator.spec.acceptance import Acceptance, ForcedAcceptance, RateAcceptance
from tests.acceptance_laws import EVERY_LAW, law
from tests.tiny_models import decoder, prompts, tiny

LOOKAHEAD, OUTPUT = 3, 24
PAIR = Pair.of(decoder(tiny(layers=1), 0), decoder(tiny(layers=1), 1))


def made(forced: Acceptance, sampling: Sampling, batch: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Accepted counts [B, N-1] and rounds [B]."""
    asked = prompts(batch, 5, 64)
    result = generate(PAIR, asked, OUTPUT, LOOKAHEAD, sampling, jax.random.key(1), forced=forced)
    return np.asarray(result.accepted), np.asarray(result.rounds)


@pytest.mark.parametrize(
    ("listed", "sampling"),
    [
        ((0, 3, 1), Sampling()),
        ((0, 3, 1), Sampling(temperature=0.0)),
        ((3, 3, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3), Sampling()),
    ],
    ids=["wraps around", "greedy", "longer than the output"],
)
def test_the_list_is_replayed(listed: tuple[int, ...], sampling: Sampling) -> None:
    counts, rounds = made(ForcedAcceptance(kind="forced", accepted=listed), sampling)
    numbers = np.arange(OUTPUT - 1)
    wanted = np.array(listed)[numbers % len(listed)]
    # The first token comes from prefill; rounds go on until the others are there.
    needed = int(np.searchsorted(np.cumsum(wanted + 1), OUTPUT - 1)) + 1
    npt.assert_array_equal(rounds, needed)
    npt.assert_array_equal(counts, np.tile(np.where(numbers < needed, wanted, -1), (len(counts), 1)))


EVERY_OTHER = ["mixture", "beta", "markov", "recorded", "adversarial"]


@pytest.mark.parametrize("kind", EVERY_OTHER)
def test_sequences_follow_what_was_drawn_for_each(kind: str) -> None:
    forced = law(**EVERY_LAW[kind])
    counts, rounds = made(forced, Sampling(), batch=6)
    forcing = Forcing.of(forced, LOOKAHEAD, 6, OUTPUT, jax.random.key(1))
    table = np.asarray(forcing.counts)
    assert table.shape == (6, OUTPUT)
    for own, listed, needed in zip(counts, table, rounds, strict=True):
        assert needed == int(np.searchsorted(np.cumsum(listed + 1), OUTPUT - 1)) + 1
        npt.assert_array_equal(own[:needed], listed[:needed])
    assert len({tuple(listed) for listed in table}) > 1
    other = Forcing.of(forced, LOOKAHEAD, 6, OUTPUT, jax.random.key(2)).counts
    assert (np.asarray(other) != table).any()


def test_recorded_requests_are_replayed_whole_and_cut_to_the_lookahead() -> None:
    requests = ((4, 4, 0), (1, 2))
    recorded = law(kind="recorded", recorded_lookahead=4, requests=requests)
    table = np.asarray(Forcing.of(recorded, 3, 40, 6, jax.random.key(0)).counts)
    assert {tuple(row) for row in table.tolist()} == {(3, 3, 0, 3, 3, 0), (1, 2, 1, 2, 1, 2)}


def test_a_law_that_belongs_to_sequences_needs_to_know_them() -> None:
    with pytest.raises(RefusedError, match="kind 'beta' is drawn for a known batch"):
        Forcing.of(law(**EVERY_LAW["beta"]), LOOKAHEAD)
    with pytest.raises(RefusedError, match="recorded at lookahead 4"):
        Forcing.of(law(**EVERY_LAW["recorded"]), 5, 2, 8, jax.random.key(0))


def test_all_or_nothing() -> None:
    everything, _ = made(RateAcceptance(kind="rate", acceptance_rate=1.0), Sampling())
    nothing, rounds = made(RateAcceptance(kind="rate", acceptance_rate=0.0), Sampling())
    assert set(everything[everything >= 0]) == {LOOKAHEAD}
    assert set(nothing[nothing >= 0]) == {0}
    npt.assert_array_equal(rounds, OUTPUT - 1)


def test_forced_to_nothing_greedy_output_is_still_the_targets() -> None:
    nothing = ForcedAcceptance(kind="forced", accepted=(0, 0, 0))
    asked, greedy, key = prompts(3, 5, 64), Sampling(temperature=0.0), jax.random.key(1)
    forced = generate(PAIR, asked, OUTPUT, LOOKAHEAD, greedy, key, forced=nothing)
    npt.assert_array_equal(forced.tokens, generate_plain(PAIR, asked, OUTPUT, greedy, key).tokens)


def test_what_the_models_would_have_kept_is_counted() -> None:
    asked, key = prompts(3, 5, 64), jax.random.key(1)
    free = generate(PAIR, asked, OUTPUT, LOOKAHEAD, Sampling(), key)
    counts = np.asarray(free.accepted)
    npt.assert_array_equal(free.unforced_accepted, np.where(counts >= 0, counts, 0).sum(axis=1))
