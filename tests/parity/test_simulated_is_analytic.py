"""The simulation against the closed forms that it must obey."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import speculation
from simulator.des.rounds import simulate_rounds
from simulator.predict import predict_scenario
from simulator.spec.record import Distribution
from tests.builders import scenario


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

    tokens = speculation.emission_law([alpha] * lookahead)
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
    assert set(prediction.components) == {"plain_step"}
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
