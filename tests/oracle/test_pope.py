"""What Pope et al. 2022 (arXiv 2211.05102) published of PaLM on TPU v4, what was fitted to it, and what was not."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.spec import library
from simulator.spec.hardware import Calibration, HardwareProfile
from simulator.spec.source import read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "calibrations" / "pope_2022.py"))


@pytest.fixture(scope="module")
def calibrations() -> dict[str, Calibration]:
    return HardwareProfile.model_validate(read(library.PROFILES / "tpu_v4.yaml").data).calibrations


def test_the_committed_numbers_are_those_of_the_fit(
    script: dict[str, Any], calibrations: dict[str, Calibration]
) -> None:
    for name in ("pope-2022", "tpu-v4-2022"):
        fitted, known = script["run"]()[name].values, calibrations[name]
        assert known.free_parameters == len(known.free_parameter_names) == len(fitted)
        committed = known.parameters[0].model_dump(mode="python", exclude_defaults=True)
        refit = script["parameters"](fitted).model_dump(mode="python", exclude_defaults=True)
        assert flat(committed) == pytest.approx(flat(refit), rel=0.01)
        used = [case for case in cases(script, name) if case.use == "fit"]
        assert known.fitted_values == len(used)
        missed = script["errors"](tuple(used), known.parameters[0])
        assert known.residual == pytest.approx(float(np.sqrt(np.mean(missed**2))), abs=1e-3)


def flat(data: dict[str, Any], before: str = "") -> dict[str, float]:
    """Numbers that are not 0, by their path."""
    found: dict[str, float] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            found |= flat(value, f"{before}{key}.")
        elif isinstance(value, float) and value:
            found[before + key] = value
    return found


def cases(script: dict[str, Any], name: str) -> tuple[Any, ...]:
    return (*script["pope"](), *(script["chen"]() if name == "tpu-v4-2022" else ()))


def test_the_62b_that_was_not_fitted(script: dict[str, Any], calibrations: dict[str, Calibration]) -> None:
    unseen = tuple(case for case in script["pope"]() if case.group[0] == "palm-62b")
    assert len(unseen) == 8
    assert {case.use for case in unseen} == {"test"}
    for name, median, worst in (("pope-2022", 0.077, 0.287), ("tpu-v4-2022", 0.078, 0.24)):
        missed = np.abs(script["errors"](unseen, calibrations[name].parameters[0]))
        assert np.median(missed) <= 0.12
        assert np.median(missed) == pytest.approx(median, abs=0.005)
        assert missed.max() == pytest.approx(worst, abs=0.01)


def test_another_family_with_many_kv_heads_and_a_serial_block(
    script: dict[str, Any], calibrations: dict[str, Calibration]
) -> None:
    unseen = tuple(case for case in script["pope"]() if case.group[0] == "mt-nlg-530b")
    assert len(unseen) == 27
    assert {case.use for case in unseen} == {"test"}
    for name, median, worst in (("pope-2022", 0.041, 0.132), ("tpu-v4-2022", 0.040, 0.146)):
        missed = np.abs(script["errors"](unseen, calibrations[name].parameters[0]))
        assert np.median(missed) == pytest.approx(median, abs=0.005)
        assert missed.max() == pytest.approx(worst, abs=0.01)


def test_one_calibration_of_six_numbers_for_both_sources(
    script: dict[str, Any], calibrations: dict[str, Calibration]
) -> None:
    known = calibrations["tpu-v4-2022"]
    assert known.free_parameters <= 6
    both = (*script["pope"](), *script["chen"]())
    missed = np.abs(script["errors"](both, known.parameters[0]))
    assert np.median(missed) <= 0.12
    assert missed.max() <= 0.30
    assert np.median(missed) == pytest.approx(0.028, abs=0.005)
    # Most rows are of the 540B: the other models of the family, and Chen's, by themselves.
    for group in {case.group for case in both if case.group[0] != "mt-nlg-530b"}:
        assert np.median([error for case, error in zip(both, missed, strict=True) if case.group == group]) <= 0.12


def test_each_row_has_its_place_and_every_row_left_out_its_reason(script: dict[str, Any]) -> None:
    rows = script["all_rows"]()
    assert len(rows) == 213
    for row in rows:
        assert row["where"]
        assert row["confidence"]
        assert row["use"] in ("fit", "test", "none")
        assert row["why"] or row["use"] != "none"
        if row["use"] != "none":
            assert row["use"] == ("fit" if row["model"] in ("palm-8b", "palm-540b") else "test")


def test_a_serial_block_costs_what_section_4_3_says(script: dict[str, Any]) -> None:
    found = {what: ratio for what, ratio in script["ratios"]().items() if "4.3" in what}
    ((predicted, published),) = found.values()
    assert published == 1.14
    assert predicted == pytest.approx(published, abs=0.05)


def test_everything_is_printed(script: dict[str, Any]) -> None:
    gap = runpy.run_path(str(ROOT / "docs" / "calibrations" / "pope_2022_gap.py"))["report"]
    values = {name: result.values for name, result in script["run"]().items()}
    text = "\n".join([*script["report"](), *gap(script["pope"](), script["chen"](), values, script["parameters"])])
    for words in ("palm-62b prefill       6 rows", "fitted on Pope, tested on Chen", "fitted on Chen (chen-2023"):
        assert words in text
    for term in ("one-dimensional weights", "attention by heads", "serial block"):
        assert term in text
