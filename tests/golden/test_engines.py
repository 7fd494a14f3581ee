"""Do the engines in the hardware profiles say what comes out of their fit?"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from simulator.spec.hardware import HardwareProfile
from simulator.validation.machine import read_profile

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ("fixed_times", "collective_s", "step_s", "draft_step_s", "round_s")


@pytest.fixture(scope="module")
def fits() -> list[Any]:
    return list(runpy.run_path(str(ROOT / "docs" / "calibrations" / "engines.py"))["fits"]())


def test_the_committed_engines_are_those_of_the_fit(fits: list[Any]) -> None:
    assert fits
    for one in fits:
        profile: HardwareProfile = read_profile(one.profile)
        committed = profile.engines[one.name]
        for name in NUMBERS:
            # Written to a microsecond.
            assert getattr(committed, name) == pytest.approx(getattr(one.engine, name), rel=0.01, abs=2e-6)
        assert committed.fitted_on == one.engine.fitted_on
        assert committed.free_parameters <= committed.fitted_values == len(one.fitted)
        assert committed.calibration in {*profile.calibrations, "datasheet"}


def test_what_an_engine_was_fitted_to_is_met_where_it_has_a_number_for_each(fits: list[Any]) -> None:
    for one in fits:
        if one.engine.free_parameters == one.engine.fitted_values:
            assert max(abs(row.error) for row in one.fitted) <= 0.02
