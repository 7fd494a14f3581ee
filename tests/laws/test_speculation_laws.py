"""What must hold for any acceptance and any round cost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator import speculation
from simulator.spec.processes import accepted_law

rates = st.floats(0, 1)
depths = st.integers(0, 24)


@given(st.lists(rates, max_size=24))
def test_a_round_emits_one_to_k_plus_one(conditional: list[float]) -> None:
    assert 1.0 <= speculation.acceptance_length(conditional) <= len(conditional) + 1
    law = accepted_law(conditional)
    assert law.min() >= -1e-15
    np.testing.assert_allclose(law.sum(), 1.0, atol=1e-12)
    mean = law @ np.arange(1, len(law) + 1)
    np.testing.assert_allclose(mean, speculation.acceptance_length(conditional), rtol=1e-12)


@given(rates, depths)
def test_the_ends(alpha: float, depth: int) -> None:
    assert speculation.tokens_per_round(1.0, depth) == depth + 1
    assert speculation.tokens_per_round(0.0, depth) == 1
    assert speculation.tokens_per_round(alpha, 0) == 1


@given(st.floats(0.01, 30), st.integers(1, 24))
def test_break_even_solves_its_equation_or_is_absent(cost: float, depth: int) -> None:
    even = speculation.break_even_acceptance(cost, depth)
    if cost < 1 or cost > depth + 1:
        assert np.isnan(even)
    else:
        np.testing.assert_allclose(speculation.tokens_per_round(even, depth), cost, rtol=1e-9)


@given(st.lists(rates, min_size=1, max_size=8), st.integers(1, 60))
def test_rounds_to_tokens_is_a_law_with_the_right_support(conditional: list[float], tokens: int) -> None:
    law = speculation.rounds_to_tokens_law(conditional, tokens)
    np.testing.assert_allclose(law.sum(), 1.0, atol=1e-9)
    fewest = -(-tokens // (len(conditional) + 1))
    assert (law[:fewest] <= 1e-12).all()
    assert len(law) <= tokens + 1
