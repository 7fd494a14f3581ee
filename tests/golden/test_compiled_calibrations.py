"""What the TPU profiles say of compiled programs is what comes out of the committed rows, with no compiler at hand."""

from __future__ import annotations

import csv
import io
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from simulator.calibration.tables import check
from simulator.spec.hardware import CostParameters
from simulator.validation.machine import read_profile
from simulator.validation.published import COMPILED

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 5e-3
NUMBER = re.compile(r"[-+]?\d+\.?\d*")
SECONDS = ("layer_overhead_s", "layer_overhead_many_rows_s", "step_overhead_s")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "calibrations" / "compiled.py"))


@pytest.fixture(scope="module")
def found(script: dict[str, Any]) -> list[Any]:
    return [script["FIT"]["fitted"](generation) for generation in script["PRICED"]]


def ratios(parameters: CostParameters) -> list[float]:
    """The fitted efficiencies."""
    known = (parameters.hbm_efficiency, parameters.matmul_efficiency)
    return [value for value in known if isinstance(value, float)]


def test_every_generation_that_the_compiler_knows_has_one(found: list[Any]) -> None:
    assert [one.profile.name for one in found] == ["tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7x"]


def test_the_committed_numbers_are_those_of_the_fit(script: dict[str, Any], found: list[Any]) -> None:
    for one in found:
        again, committed = check(script["calibration"](one)), read_profile(one.profile.name).calibrations[COMPILED]
        assert committed.fitted_values == len(one.rows)
        assert committed.free_parameters == len(committed.free_parameter_names) == len(one.steps.values)
        assert committed.residual == pytest.approx(again.residual, rel=0.02)
        assert committed.assumptions == again.assumptions
        assert [p.chips for p in committed.parameters] == [p.chips for p in again.parameters]
        for old, new in zip(committed.parameters, again.parameters, strict=True):
            assert ratios(old) == pytest.approx(ratios(new), rel=CLOSE)
            assert len(ratios(old)) == 2
            for name in SECONDS:
                assert getattr(old, name) == pytest.approx(getattr(new, name), rel=CLOSE, abs=1e-8)
            assert old.all_reduce == new.all_reduce


def test_the_rows_hold_the_whole_design_once(script: dict[str, Any], found: list[Any]) -> None:
    rows = script["ROWS"]
    for one in found:
        known = [row for row in rows["all_rows"]() if row["generation"] == one.generation]
        wanted = list(rows["design"](one.generation))
        assert [{key: row[key] for key in wanted[0]} for row in known] == wanted
        assert {row["use"] for row in one.rows} == {"fit"}


def test_a_row_is_its_parts_and_not_below_the_floor(found: list[Any]) -> None:
    for one in found:
        peak = one.profile.peaks.hbm_bandwidth.value_bytes_per_s
        devices = 2 if one.generation == "tpu7x" else 1
        for row in one.rows:
            parts = sum(float(row[f"{part}_us"]) for part in ("matmul", "attention", "other", "stall"))
            assert float(row["datasheet_us"]) == pytest.approx(parts, abs=0.05)
            # Every byte goes through one channel.
            assert float(row["datasheet_us"]) >= float(row["hbm_bytes"]) / (peak / devices) * 1e6 * 0.999
            assert float(row["compiler_us"]) >= float(row["datasheet_us"])


def test_the_errors_on_published_numbers_are_those_that_come_out(script: dict[str, Any], found: list[Any]) -> None:
    text = (ROOT / "docs" / "calibrations" / "compiled" / "published.csv").read_text(encoding="utf-8")
    again = script["PUBLISHED"]["table"](script["published"](found))
    old, new = (list(csv.DictReader(io.StringIO(each))) for each in (text, again))
    names = list(script["PUBLISHED"]["FITTED_TO"])
    assert [{k: v for k, v in row.items() if k not in names} for row in old] == [
        {k: v for k, v in row.items() if k not in names} for row in new
    ]
    for name in names:
        assert [bool(row[name]) for row in old] == [bool(row[name]) for row in new]
        errors = [[float(row[name]) for row in rows if row[name]] for rows in (old, new)]
        assert errors[0] == pytest.approx(errors[1], abs=6e-3)


def test_the_tables_of_the_page_are_those_that_come_out(script: dict[str, Any], found: list[Any]) -> None:
    page = (ROOT / "docs" / "calibrations" / "README.md").read_text(encoding="utf-8")
    tables = {
        "fits": script["FIT"]["table"](found),
        "published errors": script["PUBLISHED"]["markdown"](script["published"](found)),
    }
    for name, table in tables.items():
        assert script["between"](page, name, table).count("\n") == page.count("\n")
        committed = page.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]
        assert NUMBER.split(committed) == NUMBER.split(table)
        old, new = ([float(value) for value in NUMBER.findall(text)] for text in (committed, table))
        # Rounded to whole percents, the last digit may be another on another machine.
        assert old == pytest.approx(new, abs=1.01)
        assert len(old) > 30


@pytest.mark.tpu_compiler
def test_a_row_comes_out_again(script: dict[str, Any], found: list[Any], tmp_path: Path) -> None:
    from runtime.aot.store import Store, versions

    row = found[0].rows[0]
    if versions()["libtpu"] != row["libtpu"]:
        pytest.skip(f"the rows are of libtpu {row['libtpu']}, this is {versions()['libtpu']}")
    about = next(each for each in script["ROWS"]["design"](row["generation"]) if each.items() <= row.items())
    again = script["ROWS"]["compiled"](about, Store(tmp_path))
    # The runtime may write its programs down otherwise one day; far off, the rows must be compiled again.
    assert float(again["datasheet_us"]) == pytest.approx(float(row["datasheet_us"]), rel=0.1)
    assert float(again["hbm_bytes"]) == pytest.approx(float(row["hbm_bytes"]), rel=0.05)
