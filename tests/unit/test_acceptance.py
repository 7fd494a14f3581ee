"""Do the laws of acceptance imply what they say?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from simulator.spec.acceptance import Acceptance, ForcedAcceptance, PerPositionAcceptance, RateAcceptance

probabilities = st.floats(0, 1)
lookaheads = st.integers(0, 16)


def law(**data: Any) -> Any:
    return TypeAdapter(Acceptance).validate_python(data)


def test_kind_chooses_the_law() -> None:
    assert isinstance(law(kind="rate", acceptance_rate=0.7), RateAcceptance)
    assert isinstance(law(kind="per_position", acceptance_rates=(0.7,)), PerPositionAcceptance)
    assert isinstance(law(kind="forced", accepted=(1,)), ForcedAcceptance)


@given(probabilities, lookaheads)
def test_rate_is_the_same_at_every_position(rate: float, lookahead: int) -> None:
    assert law(kind="rate", acceptance_rate=rate).conditional(lookahead).tolist() == [rate] * lookahead


@given(st.lists(probabilities, min_size=1, max_size=8), lookaheads)
def test_last_position_repeats(rates: list[float], lookahead: int) -> None:
    conditional = law(kind="per_position", acceptance_rates=tuple(rates)).conditional(lookahead)
    assert conditional.tolist() == (rates + [rates[-1]] * 16)[:lookahead]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=50), lookaheads)
def test_forced_rates_have_the_mean_of_the_list(accepted: list[int], lookahead: int) -> None:
    conditional = law(kind="forced", accepted=tuple(accepted)).conditional(lookahead)
    kept = np.minimum(accepted, lookahead)
    assert np.cumprod(conditional).sum() == pytest.approx(kept.mean(), abs=1e-12)
    assert np.all((conditional >= 0) & (conditional <= 1))


@given(st.lists(st.integers(0, 8), min_size=1, max_size=20), st.lists(st.integers(0, 100), max_size=10))
def test_forced_replays_the_list_round_by_round(accepted: list[int], rounds: list[int]) -> None:
    drawn = law(kind="forced", accepted=tuple(accepted)).draw(
        8, np.array(rounds, dtype=np.int64), np.random.default_rng(0)
    )
    assert drawn.tolist() == [accepted[number % len(accepted)] for number in rounds]


@pytest.mark.parametrize(("rate", "lookahead", "kept"), [(0.0, 4, 0), (1.0, 4, 4), (0.5, 0, 0), (1.0, 0, 0)])
def test_certain_draws(rate: float, lookahead: int, kept: int) -> None:
    drawn = law(kind="rate", acceptance_rate=rate).draw(lookahead, np.arange(5), np.random.default_rng(0))
    assert drawn.tolist() == [kept] * 5


@given(st.lists(probabilities, min_size=1, max_size=6), lookaheads, st.integers(0, 2**32))
def test_draws_are_within_the_round_and_follow_the_seed(rates: list[float], lookahead: int, seed: int) -> None:
    acceptance = law(kind="per_position", acceptance_rates=tuple(rates))
    one, two = (acceptance.draw(lookahead, np.arange(20), np.random.default_rng(seed)) for _ in range(2))
    assert one.tolist() == two.tolist()
    assert one.dtype == np.int64
    assert np.all((one >= 0) & (one <= lookahead))
