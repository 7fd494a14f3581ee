"""The simulation against the closed forms that it must obey."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from simulator import speculation
from simulator.des.rounds import simulate_rounds
from simulator.predict import predict_scenario
from simulator.spec.processes import accepted_law
from simulator.spec.record import Distribution
from tests.acceptance_laws import EVERY_LAW, law
from tests.builders import scenario

FALSE_ALARM = 1e-6


def spread(value: object) -> Distribution:
    assert isinstance(value, Distribution)
    return value


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("lookahead", [1, 2, 4, 8])
@pytest.mark.parametrize("batch", [1, 4])
def test_tokens_per_round_and_time_follow_the_exact_law(alpha: float, lookahead: int, batch: int) -> None:
    small = scenario(
        acceptance={"kind": "rate", "acceptance_rate": alpha}, decoding__lookahead=lookahead, workload__batch=batch
    )
    parts = predict_scenario(small).components
    replications = 300
    metrics = simulate_rounds(small, parts, replications)

    law = speculation.rounds_to_tokens_law([alpha] * lookahead, 127, batch)
    count = np.arange(len(law))
    mean, deviation = law @ count, np.sqrt(max(law @ count**2 - (law @ count) ** 2, 0.0))
    assert metrics["rounds"] == pytest.approx(mean, abs=3 * deviation / np.sqrt(replications) + 1e-9)
    expected_s = mean * parts["round"]
    bound = 3 * deviation * parts["round"] / np.sqrt(replications)
    assert spread(metrics["time_to_tokens_s"]).mean == pytest.approx(expected_s, abs=bound + 1e-9)

    tokens = accepted_law([alpha] * lookahead)
    sizes = np.arange(1, len(tokens) + 1)
    per_round = np.sqrt(max(tokens @ sizes**2 - (tokens @ sizes) ** 2, 0.0))
    rounds = replications * batch * 127 / (tokens @ sizes)
    assert metrics["acceptance_length"] == pytest.approx(tokens @ sizes, abs=3 * per_round / np.sqrt(rounds) + 1e-9)


def test_quantiles_of_time_to_tokens_follow_the_exact_law() -> None:
    small = scenario()
    parts = predict_scenario(small).components
    metrics = simulate_rounds(small, parts, 2000)
    law = np.cumsum(speculation.rounds_to_tokens_law([0.7] * 4, 127))
    for name, level in (("p50", 0.5), ("p90", 0.9)):
        # 3 standard errors of the share of runs below a quantile, in rounds on either side.
        margin = 3 * np.sqrt(level * (1 - level) / 2000)
        low, high = np.searchsorted(law, [level - margin, level + margin])
        rounds = getattr(spread(metrics["time_to_tokens_s"]), name) / parts["round"]
        assert low - 1e-6 <= rounds <= high + 1e-6


def test_forced_acceptance_is_replayed_without_error() -> None:
    counts = (4, 0, 2, 1, 3)
    small = scenario(acceptance={"kind": "forced", "accepted": counts}, workload__output_tokens=30)
    parts = predict_scenario(small).components
    metrics = simulate_rounds(small, parts, 3)
    rounds, done = 0, 1
    while done < 30:
        done += counts[rounds % 5] + 1
        rounds += 1
    assert spread(metrics["time_to_tokens_s"]).mean == pytest.approx(rounds * parts["round"], rel=1e-12)
    assert metrics["rounds"] == rounds


def test_no_draft_is_plain_decoding() -> None:
    plain = scenario(draft={"kind": "none"}, workload__output_tokens=10)
    prediction = predict_scenario(plain)
    assert set(prediction.components) == {"prefill", "plain_step"}
    metrics = simulate_rounds(plain, prediction.components, 2)
    assert metrics["speedup"] == pytest.approx(1.0, rel=1e-12)
    assert spread(metrics["time_to_tokens_s"]).p99 == pytest.approx(9 * prediction.components["plain_step"], rel=1e-12)


def test_the_batch_ends_with_its_slowest_sequence() -> None:
    alone, together = scenario(), scenario(workload__batch=32)
    parts = predict_scenario(alone).components
    one = simulate_rounds(alone, parts, 100)["rounds"]
    many = simulate_rounds(together, parts, 100)["rounds"]
    assert isinstance(one, float)
    assert isinstance(many, float)
    assert 1.12 < many / one < 1.27  # some 19 % at 32 sequences, alpha 0.7, K = 4


def quantile_range(distribution: np.ndarray, n: int, level: float, checks: int) -> tuple[int, int]:
    """Between which rounds the empirical quantile of n draws lies, but for a false alarm that all checks share.

    It lies between two neighbours in order, the j-th and the next; the j-th smallest of n draws is at most r where at
    least j of them are, a number that is binomial.
    """
    chance = FALSE_ALARM / checks
    j = int((n - 1) * level) + 1
    low = int(np.argmax(binom.sf(j - 1, n, distribution) > chance))
    high = int(np.argmax(binom.cdf(min(j + 1, n) - 1, n, distribution) <= chance))
    return low, high


@pytest.mark.parametrize("batching", ["static", "continuous"])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("kind", EVERY_LAW)
def test_time_to_128_tokens_follows_the_exact_law_of_every_acceptance(kind: str, batch: int, batching: str) -> None:
    # n = 250 batches, or 250 requests in each slot; one of them where nothing is drawn.
    small = scenario(acceptance=EVERY_LAW[kind], workload__batch=batch, workload__batching=batching)
    parts = predict_scenario(small).components
    metrics = simulate_rounds(small, parts, 250)
    time = spread(metrics["time_to_tokens_s"])
    together = batch if batching == "static" else 1
    assert time.n == (1 if kind == "forced" else 250) * batch // together
    exact = speculation.rounds_to_tokens_law(law(**EVERY_LAW[kind]).processes(4, 127), 127, together)
    # p50 and p99 on both sides, for two batches, two ways and every law.
    checks = 4 * 4 * len(EVERY_LAW)
    for name, level in (("p50", 0.5), ("p99", 0.99)):
        low, high = quantile_range(np.cumsum(exact), time.n, level, checks)
        assert low - 1e-6 <= getattr(time, name) / parts["round"] <= high + 1e-6, name
        assert low <= speculation.law_quantile(exact, level) <= high
    # The mean: z = 6 standard errors, n = 250 and more.
    bound = 6 * np.sqrt(speculation.law_variance(exact) / time.n) + 1e-9
    assert metrics["rounds"] == pytest.approx(speculation.law_mean(exact), abs=bound)
    assert metrics["tokens_per_s"] == pytest.approx(batch * 127 / time.mean, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 0.95, 1.0])
def test_a_draft_that_works_ahead(alpha: float) -> None:
    ahead = scenario(
        deployment__chips=5,
        deployment__draft={"placement": "own_chips", "ahead": True},
        decoding__lookahead=3,
        acceptance={"kind": "rate", "acceptance_rate": alpha},
        workload__output_tokens=3001,
    )
    found = predict_scenario(ahead)
    metrics = simulate_rounds(ahead, found.components, 40)
    times = metrics["time_to_tokens_s"]
    assert isinstance(times, Distribution)
    # Rounds are a renewal process: the mean over 120,000 tokens is within 1 % far beyond six standard errors.
    assert times.mean / 3000 == pytest.approx(found.metrics["tpot_s"], rel=0.01)
    assert metrics["acceptance_length"] == pytest.approx(found.metrics["acceptance_length"], rel=0.01)
    assert metrics["ttft_s"] == found.metrics["ttft_s"]


def test_a_refilled_batch_without_chance_is_one_request_in_each_slot() -> None:
    plain = scenario(draft={"kind": "none"}, workload__output_tokens=10, workload__batch=3)
    refilled = scenario(
        draft={"kind": "none"}, workload__output_tokens=10, workload__batch=3, workload__batching="continuous"
    )
    parts = predict_scenario(plain).components
    one, other = simulate_rounds(plain, parts, 5), simulate_rounds(refilled, parts, 5)
    assert (spread(one["time_to_tokens_s"]).n, spread(other["time_to_tokens_s"]).n) == (1, 3)
    assert other["tokens_per_s"] == pytest.approx(one["tokens_per_s"], rel=1e-12)
    assert spread(other["emission_tokens"]).n == spread(one["emission_tokens"]).n == 27


def test_a_refilled_batch_is_faster_than_one_that_waits_and_follows_the_seed() -> None:
    waits, refilled, again = (
        simulate_rounds(small, predict_scenario(small).components, 60)
        for small in (
            scenario(acceptance=EVERY_LAW["adversarial"], workload__batch=8, workload__batching=batching)
            for batching in ("static", "continuous", "continuous")
        )
    )
    assert refilled == again
    assert isinstance(waits["tokens_per_s"], float)
    assert isinstance(refilled["tokens_per_s"], float)
    # 90 % of batches of eight have a crafted request in them, which takes twice the rounds of the mean request.
    assert refilled["tokens_per_s"] > 1.7 * waits["tokens_per_s"]


@pytest.mark.parametrize("batch", [1, 16])
def test_a_static_batch_of_unlike_sequences_is_as_slow_as_its_slowest(batch: int) -> None:
    asked = scenario(
        acceptance={"kind": "adversarial", "share": 0.2, "acceptance_rate": 0.83},
        workload__batch=batch,
        workload__output_tokens=8001,
    )
    metrics = predict_scenario(asked).metrics
    whole = metrics["e2e_s"] - metrics["ttft_s"]
    # The long-output TPOT is that of the whole request, but for the spread of its sequences' last rounds.
    assert metrics["tpot_s"] == pytest.approx(whole / 8000, rel=0.02)
