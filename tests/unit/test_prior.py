"""The parts of the acceptance prior: laws, shape, sizes, and one's own points."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.errors import RefusedError
from simulator.prior.acceptance import AcceptancePrior, pinsker
from simulator.prior.curve import Pairs, fit_curve
from simulator.prior.fitted import shape
from simulator.prior.laws import LAWS
from simulator.prior.sizes import Sizes, published_tokens, sizes_of
from simulator.spec.library import MODELS
from simulator.spec.model import ModelSpec
from simulator.spec.prior import AcceptancePoint, LossPoint, PriorSpec
from simulator.spec.source import read

TARGET = Sizes.of(np.array([70e9]), 1.4e12, np.array([80]), np.array([8192]))


def model(name: str) -> ModelSpec:
    return ModelSpec.model_validate(read(MODELS / f"{name}.yaml").data)


def test_the_laws_give_the_losses_that_their_constants_give() -> None:
    # Chinchilla by hand, N = 70e9 and D = 1.4e12: 1.6934 + 0.0852 + 0.1423, and 1.8169 + 0.0815 + 0.0751.
    size, tokens = np.array([70e9]), np.array([1.4e12])
    assert LAWS["hoffmann-2022"].loss(size, tokens) == pytest.approx(1.9209, abs=5e-4)
    assert LAWS["besiroglu-2024"].loss(size, tokens) == pytest.approx(1.9735, abs=5e-4)


def test_drawn_laws_differ_least_in_the_middle_of_the_data() -> None:
    drawn = LAWS["besiroglu-2024"].drawn(2000, np.random.default_rng(1))
    sizes = np.array([1e7, 1e9, 1e11])
    spread = (np.log(drawn.a) - drawn.alpha * np.log(sizes)).std(axis=0)
    assert spread[1] < 1e-9
    # A published deviation of A of 124.52 in 482.01 is met by what follows from that of alpha.
    assert np.log(drawn.a).std() == pytest.approx(0.0154 * np.log(1e9), rel=0.05)
    assert np.log(drawn.a).std() == pytest.approx(124.52 / 482.01, rel=0.3)
    assert np.log(drawn.b).std() == pytest.approx(1293.28 / 2085.43, rel=0.3)


def test_own_losses_move_the_law() -> None:
    law = LAWS["besiroglu-2024"]
    truth = [
        LossPoint(parameters=n, tokens=d, loss=2.4 + 1.5 * law.a * n**-law.alpha + 0.7 * law.b * d**-law.beta)
        for n in (1e8, 1e9, 1e10)
        for d in (1e10, 1e11, 1e12)
    ]
    own = law.given(truth)
    assert own.floor == pytest.approx(2.4, abs=0.05)
    assert own.a / law.a == pytest.approx(1.5, rel=0.05)
    assert own.b / law.b == pytest.approx(0.7, rel=0.1)
    assert law.given([]) is law
    one = law.given(truth[:1])
    assert one.loss(np.array([1e8]), np.array([1e10]))[0] == pytest.approx(truth[0].loss, abs=0.02)


def test_four_layers_at_105_million_parameters_lose_what_they_lose() -> None:
    # Gadre et al. 2024, one grid: 768 x 4 3.2416, 512 x 16 3.0695. Within the spread of k between studies.
    own, law = shape(), LAWS["besiroglu-2024"]
    ks = own.strength * np.exp(1.645 * own.log_error * np.array([-1.0, 0.0, 1.0]))
    sizes, layers, width = np.array([106e6, 106e6]), np.array([4.0, 16.0]), np.array([768.0, 512.0])
    lost = [float(-np.diff(law.terms(sizes * own.factor(layers, width, k), 20 * sizes))[0]) for k in ks]
    assert lost[0] < 0.172 < lost[2]
    assert lost[1] == pytest.approx(0.172, abs=0.08)


def test_an_ordinary_or_unstated_shape_counts_as_it_is() -> None:
    own = shape()
    assert own.factor(None, None) == 1.0
    assert own.factor(np.array([32.0]), np.array([2048.0])) == pytest.approx(1.0)
    deep, shallow = own.factor(np.array([24.0, 4.0]), np.array([1024.0, 2048.0]))  # type: ignore[misc]
    assert deep > 1.0 > shallow


def test_sizes_of_models() -> None:
    both = sizes_of([model("llama-3.2-1b"), model("qwen2.5-0.5b")])
    assert both.parameters == pytest.approx([1.2358e9, 0.494e9], rel=1e-3)
    assert both.tokens == pytest.approx([9e12, 20 * 0.494e9], rel=1e-3)
    assert sizes_of([model("llama-3.2-1b")], 1e12).tokens == pytest.approx([1e12])
    with pytest.raises(RefusedError, match="experts"):
        sizes_of([model("mixtral-8x7b")])
    with pytest.raises(RefusedError, match="reads states of the target"):
        sizes_of([model("eagle3-llama-3.1-8b")])


def test_the_longest_name_says_the_tokens() -> None:
    assert published_tokens("llama-3.1-70b") == 1.5e13
    assert published_tokens("llama-3.2-1b") == 9e12
    assert published_tokens("my-own") is None


def test_one_own_point_gives_the_level_and_keeps_the_order() -> None:
    drafts = Sizes.of(np.array([1e8, 1e9, 7e9]), 1e12)
    prior = AcceptancePrior.of()
    gap = float(prior.loss_gap(TARGET, drafts)[1])
    own = AcceptancePrior.of(PriorSpec(points=(AcceptancePoint(loss_gap=gap, acceptance=0.9),)))
    before, after = prior.summary(TARGET, drafts), own.summary(TARGET, drafts)
    assert after.mean[1] == pytest.approx(0.9, abs=0.02)
    assert np.all(np.diff(after.mean) > 0)
    assert np.all(after.high - after.low < 0.6 * (before.high - before.low))
    assert "1 point of your own" in own.statement
    assert "1 point" not in prior.statement


def test_many_own_points_replace_the_slope_too() -> None:
    gaps = np.geomspace(0.05, 1.5, 40)
    points = tuple(AcceptancePoint(loss_gap=g, acceptance=float(np.exp(-0.426 * g**0.6))) for g in gaps)
    curve = AcceptancePrior.of(PriorSpec(points=points)).curve
    assert curve.state[1] == pytest.approx(0.6, abs=0.05)


def test_pinsker_bounds_where_the_law_is_that_of_own_losses() -> None:
    drafts = Sizes.of(np.array([1e7]), 1e9)
    losses = tuple(LossPoint(parameters=n, tokens=1e12, loss=2.0 + n**-0.3) for n in (1e8, 1e9, 1e10))
    own = AcceptancePrior.of(PriorSpec(losses=losses))
    near = Sizes.of(np.array([5e10]), 1.3e12)
    least = pinsker(own.loss_gap(TARGET, near))[0]
    assert own.mean(TARGET, near)[0] >= least
    greedy = own.draws(TARGET, near, "mixed", 2000, np.random.default_rng(0), temperature=0.0)
    assert greedy.min() < least
    assert pinsker(np.array([0.0, 0.5, 2.0, 9.0])).tolist() == [1.0, 0.5, 0.0, 0.0]
    assert own.mean(TARGET, drafts)[0] > 0
    assert "3 points of your own" in own.statement


def test_the_fit_finds_what_was_planted() -> None:
    rng = np.random.default_rng(5)
    family = np.repeat(np.arange(40), 6)
    task = np.tile(np.repeat([0, 1], 3), 40)
    gap = np.exp(rng.uniform(np.log(0.1), np.log(1.5), 240))
    levels, of_task = 0.3 * rng.standard_normal(40), 0.2 * rng.standard_normal((40, 2))
    z = -1.0 + 0.4 * np.log(gap) + levels[family] + of_task[family, task] + 0.1 * rng.standard_normal(240)
    pairs = Pairs(
        gap,
        np.exp(-np.exp(z)),
        np.full(240, 0.5),
        ("mixed",) * 240,
        tuple(map(str, family)),
        tuple(map(str, task)),
    )
    curve = fit_curve(pairs)
    assert curve.state[:2] == pytest.approx([-1.0, 0.4], abs=0.15)
    assert curve.state[1] == pytest.approx(0.4, abs=3 * np.sqrt(curve.covariance[1, 1]))
    assert curve.rest == pytest.approx(0.1, rel=0.15)
    assert curve.covariance[6, 6] == pytest.approx(0.3**2 + 0.2**2, rel=0.4)
    assert curve.freedom == 39
