"""What the profiles say of public kernels is what comes out of the committed rows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from simulator.calibration import tables
from simulator.spec.hardware import AllReduceCost, Calibration, CostParameters
from simulator.validation.machine import read_profile

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 5e-3


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "calibrations" / "public_kernels.py"))


@pytest.fixture(scope="module")
def found(script: dict[str, Any]) -> list[Any]:
    return list(script["fits"]())


def numbers(parameters: CostParameters) -> list[float]:
    """All that is fitted, in order."""
    curves = [parameters.matmul_efficiency, parameters.attention_efficiency]
    rates = [point.efficiency for curve in curves if isinstance(curve, tuple) for point in curve]
    wires: AllReduceCost | None = parameters.all_reduce
    parts = [] if wires is None else [cost for _, cost in wires.by_payload()]
    assert isinstance(parameters.hbm_efficiency, float)
    assert parameters.kv_efficiency is not None
    return [
        parameters.hbm_efficiency,
        parameters.kv_efficiency,
        *rates,
        parameters.step_overhead_s,
        parameters.layer_overhead_s,
        parameters.sampling.base_s,
        parameters.sampling.per_logit_s,
        *(number for cost in parts for number in (cost.base_s, cost.link_efficiency)),
    ]


def test_the_committed_numbers_are_those_of_the_fit(found: list[Any]) -> None:
    assert len(found) == 9
    for chip in dict.fromkeys(one.profile.name for one in found):
        own = [one for one in found if one.profile.name == chip]
        (parts,) = {one.name: [(o.dtype, o.data) for o in own if o.name == one.name] for one in own}.values()
        again: Calibration = tables.check(tables.joined(parts))
        committed = read_profile(chip).calibrations[own[0].name]
        assert [p.chips for p in committed.parameters] == [p.chips for p in again.parameters]
        for old, new in zip(committed.parameters, again.parameters, strict=True):
            assert numbers(old) == pytest.approx(numbers(new), rel=CLOSE)
        assert committed.residual == pytest.approx(again.residual, rel=0.02)
        assert committed.fitted_values == again.fitted_values
        assert committed.free_parameters == again.free_parameters
        assert committed.validity == again.validity


def test_the_committed_errors_are_those_of_the_fit(script: dict[str, Any], found: list[Any]) -> None:
    committed = (ROOT / "docs" / "calibrations" / "public" / "residuals.csv").read_text(encoding="utf-8").splitlines()
    again = script["residuals"](found).splitlines()
    assert [line.rsplit(",", 1)[0] for line in committed] == [line.rsplit(",", 1)[0] for line in again]
    errors = [[float(line.rsplit(",", 1)[1]) for line in lines[1:]] for lines in (committed, again)]
    assert errors[0] == pytest.approx(errors[1], abs=6e-3)
