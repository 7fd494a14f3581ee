"""What Chen et al. 2023 (arXiv 2302.01318) published, and what of it the calibration was fitted to."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from simulator.predict import predict, predict_scenario
from simulator.spec.load import load_scenario
from simulator.spec.record import RunRecord

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"


@pytest.fixture(scope="module")
def by_lookahead() -> dict[int, RunRecord]:
    records = predict(load_scenario(SCENARIOS / "chinchilla_70b_tpu_v4.yaml"))
    return {int(r.axes["decoding.lookahead"]): r for r in records if r.kind == "analytic"}


def value(record: RunRecord, name: str) -> float:
    found = record.metric(name)
    assert found is not None
    return found


def test_plain_and_draft_step(by_lookahead: dict[int, RunRecord]) -> None:
    record = by_lookahead[4]
    assert value(record, "plain_step_s") == pytest.approx(14.1e-3, rel=0.03)
    assert value(record, "draft_step_s") == pytest.approx(1.8e-3, rel=0.03)
    assert value(record, "nominal_floor_s") == pytest.approx(7.29e-3, rel=0.001)


def test_weights_are_64_7e9_numbers_over_16_chips(by_lookahead: dict[int, RunRecord]) -> None:
    # 80 x (4 x 8192 x 8192 + 2 x 8192 x 32768) + 32000 x 8192, two bytes each, at 1.2 TB/s a chip
    streamed = (80 * (4 * 8192 * 8192 + 2 * 8192 * 32768) + 32000 * 8192) * 2 / 16 / 1.2e12
    # keys, values, and the products of distances with each layer's projection, as large as the keys
    kv = 80 * 3 * 8192 * 2 * (1024 + 64 + 1) / 16 / 1.2e12
    assert value(by_lookahead[4], "bandwidth_floor_s") == pytest.approx(streamed + kv, rel=1e-3)


def test_loop_time_is_near_linear_in_the_lookahead(by_lookahead: dict[int, RunRecord]) -> None:
    depth = np.array(sorted(by_lookahead))
    times = np.array([value(by_lookahead[int(k)], "round_s") for k in depth])
    slope = np.polyfit(depth, times, 1)[0]
    assert slope == pytest.approx(2.07e-3, rel=0.05)
    assert slope > value(by_lookahead[4], "draft_step_s")


def test_latency_at_k_4_with_acceptance_from_figure_1(by_lookahead: dict[int, RunRecord]) -> None:
    assert value(by_lookahead[4], "tpot_s") == pytest.approx(5.73e-3, rel=0.06)  # HumanEval, alpha 0.886
    xsum = load_scenario(
        SCENARIOS / "chinchilla_70b_tpu_v4.yaml", ["acceptance.acceptance_rate=0.750", "decoding.lookahead=4"]
    )
    tpot = value(predict(xsum)[0], "tpot_s")
    assert 7.0e-3 <= tpot <= 7.6e-3


def test_best_lookahead(by_lookahead: dict[int, RunRecord]) -> None:
    gains = {k: value(r, "speedup") for k, r in by_lookahead.items()}
    assert max(gains, key=lambda k: gains[k]) == 7  # HumanEval still gains to K = 7
    xsum = predict(load_scenario(SCENARIOS / "chinchilla_70b_tpu_v4.yaml", ["acceptance.acceptance_rate=0.750"]))
    gains = {int(r.axes["decoding.lookahead"]): value(r, "speedup") for r in xsum if r.kind == "analytic"}
    assert max(gains, key=lambda k: gains[k]) in (3, 4)  # XSum is best near K = 3


def test_a_7b_is_slower_on_16_chips_than_on_4() -> None:
    records = predict(load_scenario(SCENARIOS / "chinchilla_7b_draft_tpu_v4.yaml"))
    four, sixteen = (value(r, "plain_step_s") for r in records if r.kind == "analytic")
    assert four == pytest.approx(5.0e-3, rel=0.10)
    assert sixteen > four


def test_the_record_says_what_it_was_fitted_on(by_lookahead: dict[int, RunRecord]) -> None:
    calibration = by_lookahead[4].provenance["calibration"]
    assert calibration["name"] == "chen-2023"
    assert calibration["free_parameters"] == 4 == len(calibration["free_parameter_names"])
    assert calibration["fitted_values"] == 4 == len(calibration["fitted_on"])
    assert by_lookahead[4].validation.state == "not_validated"


def test_the_committed_numbers_are_those_of_the_fit() -> None:
    fitted = runpy.run_path(str(ROOT / "docs" / "calibrations" / "chen_2023.py"))["run"]().values
    scenario = load_scenario(SCENARIOS / "chinchilla_70b_tpu_v4.yaml")[0].scenario
    parameters = scenario.deployment.hardware.calibrations["chen-2023"].parameters[0]
    assert parameters.all_reduce is not None
    assert parameters.all_reduce.hop_latency_s == pytest.approx(fitted["hop_latency"], rel=0.01)
    assert parameters.layer_overhead_s == pytest.approx(fitted["layer_overhead"], rel=0.01)
    assert parameters.step_overhead_s == pytest.approx(fitted["step_overhead"], rel=0.01)
    assert parameters.sampling.sort_per_logit_s == pytest.approx(fitted["sorting_per_logit"], rel=0.01)


def test_deep_against_wide_at_equal_parameters() -> None:
    def step(chips: int, **shape: int) -> float:
        settings = [f"target.{key}={number}" for key, number in shape.items()]
        settings += [f"deployment.chips={chips}", "draft={kind: none}", "decoding.lookahead=0"]
        slices = {1: "1x1x1", 16: "2x2x4"}
        point = load_scenario(
            SCENARIOS / "chinchilla_70b_tpu_v4.yaml", [*settings, f"deployment.slice={slices[chips]}"]
        )[0]
        return predict_scenario(point.scenario).components["plain_step"]

    wide = {"layers": 8, "d_model": 6144, "heads": 48, "kv_heads": 48, "d_ff": 24576}
    deep = {"layers": 32, "d_model": 3072, "heads": 24, "kv_heads": 24, "d_ff": 12288}
    assert 32 * 3072**2 == 8 * 6144**2  # the same weights in the layers
    assert step(16, **deep) / step(16, **wide) >= 1.3
    assert step(1, **deep) / step(1, **wide) <= 1.10
