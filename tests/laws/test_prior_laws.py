"""What holds of the acceptance prior for every draft."""

from __future__ import annotations

from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.prior.acceptance import AcceptancePrior
from simulator.prior.sizes import Sizes
from simulator.spec.prior import Domain, LawName, PriorSpec

Array = npt.NDArray[np.float64]
PRIORS = {law: AcceptancePrior.of(PriorSpec(law=law)) for law in get_args(LawName)}
TARGET = Sizes.of(np.array([70e9]), 1.4e12, np.array([80]), np.array([8192]))

laws = st.sampled_from(sorted(PRIORS))
domains = st.sampled_from(get_args(Domain))
temperatures = st.sampled_from([0.0, 0.6, 1.0, 2.0])
logs = st.floats(6.0, 10.5)


@given(laws, domains, temperatures, st.lists(logs, min_size=2, max_size=30), st.floats(8.0, 13.0))
def test_more_parameters_never_lower_the_mean(
    law: str, domain: str, temperature: float, sizes: list[float], tokens: float
) -> None:
    drafts = Sizes.of(10.0 ** np.sort(sizes), 10.0**tokens)
    assert np.all(np.diff(PRIORS[law].mean(TARGET, drafts, domain, temperature)) >= 0)


@given(laws, domains, temperatures, st.lists(st.floats(7.0, 13.5), min_size=2, max_size=30), logs)
def test_more_tokens_never_lower_the_mean(
    law: str, domain: str, temperature: float, tokens: list[float], size: float
) -> None:
    trained = 10.0 ** np.sort(tokens)
    drafts = Sizes.of(np.full(len(trained), 10.0**size), trained)
    assert np.all(np.diff(PRIORS[law].mean(TARGET, drafts, domain, temperature)) >= 0)


@given(laws, st.integers(1, 60), st.integers(64, 8000))
def test_a_layer_or_a_column_more_never_lowers_the_mean(law: str, layers: int, width: int) -> None:
    depth, wide = np.array([layers, layers + 1, layers]), np.array([width, width, width + 64])
    drafts = Sizes.of(12.0 * depth * wide**2 + 32000.0 * wide, 1e12, depth, wide)
    mean = PRIORS[law].mean(TARGET, drafts)
    assert mean[0] <= mean[1]
    assert mean[0] <= mean[2]


@given(laws, domains, temperatures, st.lists(st.tuples(logs, st.floats(6.0, 14.0)), min_size=1, max_size=8))
def test_acceptance_is_a_probability(
    law: str, domain: str, temperature: float, models: list[tuple[float, float]]
) -> None:
    sizes, tokens = 10.0 ** np.array(models).T
    drafts = Sizes.of(sizes, tokens)
    drawn = PRIORS[law].draws(TARGET, drafts, domain, 50, np.random.default_rng(0), temperature)
    mean = PRIORS[law].mean(TARGET, drafts, domain, temperature)
    for values in (drawn, mean):
        assert np.all((values >= 0) & (values <= 1))
        assert not np.isnan(values).any()


@pytest.mark.parametrize("law", PRIORS)
def test_a_target_accepts_itself(law: str) -> None:
    prior = PRIORS[law]
    assert prior.mean(TARGET, TARGET) == pytest.approx([1.0])
    assert prior.draws(TARGET, TARGET, "chat", 100, np.random.default_rng(3)).min() == 1.0
    almost = Sizes.of(np.array([69.99e9]), 1.4e12, np.array([80]), np.array([8192]))
    assert prior.mean(TARGET, almost)[0] > 0.95


@given(st.integers(0, 2**32 - 1))
def test_a_seed_gives_the_same_draws(seed: int) -> None:
    drafts = Sizes.of(np.array([1e8, 1e9]), 1e11, np.array([8, 16]), np.array([1024, 2048]))
    prior = PRIORS["besiroglu-2024"]
    one, two = (prior.draws(TARGET, drafts, "code", 20, np.random.default_rng(seed)) for _ in range(2))
    assert np.array_equal(one, two)


def test_the_mean_is_that_of_the_draws_but_for_the_law() -> None:
    drafts = Sizes.of(np.array([1e8, 1e9, 8e9]), 1e12, np.array([8, 16, 32]), np.array([1024, 2048, 4096]))
    prior = PRIORS["besiroglu-2024"]
    drawn = prior.draws(TARGET, drafts, "prose", 20_000, np.random.default_rng(7), 0.0).mean(axis=0)
    assert prior.mean(TARGET, drafts, "prose", 0.0) == pytest.approx(drawn, abs=0.015)


def test_drafts_of_one_draw_share_what_is_not_known_of_the_target() -> None:
    drafts = Sizes.of(np.array([1e9, 1.5e9]), 1e12)
    drawn = PRIORS["besiroglu-2024"].draws(TARGET, drafts, "chat", 4000, np.random.default_rng(2))
    assert np.corrcoef(drawn.T)[0, 1] > 0.8
    assert np.mean(drawn[:, 1] > drawn[:, 0]) < 0.9  # a draft has something of its own all the same
