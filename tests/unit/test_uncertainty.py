"""Intervals of predictions: exact in what is linear, wider with less known, gone where nobody said how sure it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from simulator.calibration import calibrate
from simulator.calibration.form import values_of
from simulator.fitting import NINE_IN_TEN
from simulator.predict import predict, predict_scenario
from simulator.spec.hardware import HardwareProfile
from simulator.spec.load import Point, load_scenario
from simulator.steps import Steps
from simulator.uncertainty import covariance, relative_spreads, with_intervals
from tests import planted
from tests.synthetic import QUICKSTART, calibrated_points

SMALL = ("deployment.chips=1", "draft.model=quickstart-draft-wide", "decoding.lookahead=4")


@pytest.fixture(scope="module")
def profile() -> HardwareProfile:
    """A profile calibrated to a made-up machine with noise of 3 %."""
    points = [point for point in planted.design("probe").points((1,)) if point.role == "fit"]
    return calibrate(planted.measured(points, np.random.default_rng(4), 0.03), planted.profile(), "made-up")


def asked(profile: HardwareProfile, *settings: str) -> Point:
    """The quickstart's wide draft at K = 4 on that machine, in float32."""
    types = ("target.weight_dtype=float32", "draft.model.weight_dtype=float32")
    point = load_scenario(QUICKSTART, (*SMALL, *types, *settings))[0]
    changed = {"hardware": profile, "calibration": "made-up"}
    deployment = point.scenario.deployment.model_copy(update=changed)
    return Point(point.scenario.model_copy(update={"deployment": deployment}), point.axes)


def test_every_component_and_ratio_has_an_interval(profile: HardwareProfile) -> None:
    analytic, simulated = predict([asked(profile)])
    for record in (analytic, simulated):
        for name in ("plain_step_s", "verify_step_s", "round_s", "round_cost", "speedup", "tpot_s", "tokens_per_s"):
            low, middle, high = (record.metrics[name + end] for end in ("_low", "", "_high"))
            assert low < middle < high, name
            assert middle**2 == pytest.approx(low * high)


def test_the_variance_is_that_of_drawn_parameters(profile: HardwareProfile) -> None:
    scenario = asked(profile).scenario
    steps = Steps.of(scenario)
    calibration = profile.calibrations["made-up"]
    sure = calibration.uncertainty[0].model_copy(update={"residual": {}})
    form, values = values_of(calibration.parameters[0])
    only = calibration.model_copy(update={"uncertainty": (sure,)})
    told = relative_spreads(Steps(scenario, "made-up", only))

    drawn: dict[str, list[float]] = {"plain_step": [], "verify_step": [], "round": []}
    rng = np.random.default_rng(0)
    # So tight, and so far from 0, that no draw leaves what parameters may be.
    tight = covariance(sure) * 1e-4
    middle = [max(values[n], 0.05 * e) for n, e in zip(sure.parameters, sure.standard_errors, strict=True)]
    for draw in rng.multivariate_normal(middle, tight, 400):
        moved = form.parameters(dict(zip(sure.parameters, np.maximum(draw, 0), strict=True)))
        one = calibration.model_copy(update={"parameters": (moved,)})
        for name, parts in Steps(scenario, "made-up", one).mechanisms().items():
            if name in drawn:
                drawn[name].append(sum(parts.values()))
    exact = {name: sum(parts.values()) for name, parts in steps.mechanisms().items()}
    for name, times in drawn.items():
        assert np.std(times) / exact[name] * 100 == pytest.approx(told[f"{name}_s"], rel=0.2), name


def test_a_ratio_is_surer_than_its_parts_were_they_independent(profile: HardwareProfile) -> None:
    spreads = relative_spreads(Steps.of(asked(profile).scenario))
    assert spreads["round_cost"] == pytest.approx(spreads["speedup"])
    assert spreads["speedup"] <= math.hypot(spreads["round_s"], spreads["plain_step_s"])


def test_more_noise_makes_wider_intervals() -> None:
    points = [point for point in planted.design("probe").points((1,)) if point.role == "fit"]
    found = []
    for noise in (0.01, 0.08):
        records = planted.measured(points, np.random.default_rng(4), noise)
        known = calibrate(records, planted.profile(), "made-up")
        found.append(relative_spreads(Steps.of(asked(known).scenario))["round_s"])
    assert found[1] > 3 * found[0]


def test_no_interval_where_the_calibration_does_not_say_how_sure_it_is() -> None:
    record = predict(calibrated_points(SMALL))[0]
    assert not any(name.endswith(("_low", "_high")) for name in record.metrics)


def test_an_interval_that_is_there_is_kept() -> None:
    metrics: dict[str, Any] = {"tpot_s": 2.0, "tpot_s_low": 1.0}
    assert with_intervals(metrics, {"tpot_s": 0.1})["tpot_s_low"] == 1.0
    found = with_intervals({"speedup": 2.0}, {"speedup": 0.1, "tpot_s": 0.1})
    assert found == {
        "speedup": 2.0,
        "speedup_low": 2 / math.exp(0.1 * NINE_IN_TEN),
        "speedup_high": 2 * math.exp(0.1 * NINE_IN_TEN),
    }


def test_a_measured_step_is_not_uncertain(profile: HardwareProfile) -> None:
    plain = predict_scenario(asked(profile, "measured.plain_step=11 ms").scenario)
    assert plain.spreads["plain_step_s"] == pytest.approx(0.0, abs=1e-6)
    assert plain.spreads["verify_step_s"] > 0


def test_only_a_passed_validation_validates(profile: HardwareProfile) -> None:
    from simulator.spec.confidence import ValidationClaim

    point = asked(profile)
    for passed in (None, False, True):
        claim = None if passed is None else ValidationClaim(passed=passed, record="a run")
        told = profile.calibrations["made-up"].model_copy(update={"validation": claim})
        hardware = profile.model_copy(update={"calibrations": {"made-up": told}})
        deployment = point.scenario.deployment.model_copy(update={"hardware": hardware})
        record = predict([Point(point.scenario.model_copy(update={"deployment": deployment}), {})])[0]
        assert record.validation.state == ("validated" if passed else "not_validated")
