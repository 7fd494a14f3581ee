"""The fit finds parameters that were planted, and its intervals hold them as often as they say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simulator.calibration import Predictor
from simulator.calibration.fit import FITTED, solve, solve_linear
from simulator.fitting import NINE_IN_TEN, fit_linear
from simulator.spec.probe import ProbePoint
from tests import planted

DRAWS, NOISE = 200, 0.05


def points(chips: int) -> list[ProbePoint]:
    """What the committed design fits to, each twice, as its replicates time it."""
    known = planted.design()
    return [p for p in known.points((chips,)) if p.role == "fit" and p.kind in FITTED] * known.replicates


@pytest.mark.parametrize("chips", [1, 2, 4])
def test_planted_parameters_are_found_without_noise(chips: int) -> None:
    asked = points(chips)
    form = planted.form(asked)
    truth = planted.truth(form)
    exact = planted.times(asked, form, truth)
    records = [planted.record(point, float(seconds), spread=0.0) for point, seconds in zip(asked, exact, strict=True)]
    found = dict(zip(form.names, solve(records, Predictor(planted.profile()), form).values, strict=True))
    assert found == {name: pytest.approx(value, rel=0.01) for name, value in truth.items()}


@pytest.mark.parametrize("chips", [1, 4])
def test_intervals_hold_the_planted_parameters(chips: int) -> None:
    asked = points(chips)
    form = planted.form(asked)
    truth = planted.truth(form)
    matrix, constant = Predictor(planted.profile()).linear(asked, form)
    exact = matrix @ np.array([truth[name] for name in form.names]) + constant
    kinds = np.array([point.kind for point in asked])
    rng = np.random.default_rng(2026)
    held: Counter[str] = Counter()
    for _ in range(DRAWS):
        noisy = exact * (1 + NOISE * rng.standard_normal(len(exact)))
        fit = solve_linear(matrix, constant, noisy, form, kinds)
        errors = NINE_IN_TEN * np.sqrt(np.diag(fit.covariance))
        held.update(n for n, v, e in zip(form.names, fit.values, errors, strict=True) if abs(v - truth[n]) <= e)
    assert {name: held[name] for name in form.names if held[name] < 0.85 * DRAWS} == {}


def test_one_bad_measurement_does_not_bend_the_rest() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.uniform(0.2, 1.0, (60, 3))
    truth = np.array([1.0, 2.0, 0.5])
    wanted = matrix @ truth * (1 + 0.01 * rng.standard_normal(60))
    clean = fit_linear(matrix, wanted)
    wanted[7] *= 2
    bent = fit_linear(matrix, wanted)
    assert bent.values == pytest.approx(clean.values, rel=0.02)
    assert np.linalg.lstsq(matrix, wanted, rcond=None)[0] != pytest.approx(clean.values, rel=0.02)


def test_numbers_stay_at_or_above_zero() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.uniform(0.2, 1.0, (40, 2))
    found = fit_linear(matrix, matrix @ np.array([1.0, -0.05]))
    assert found.values.min() >= 0
