"""`sps calibrate` and `sps validate device` on a machine that never was: planted parameters, noise and drift."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from runtime import executor, probes
from simulator.cli import app
from simulator.errors import MeasurementError
from simulator.spec.probe import ProbeRecord
from tests import planted
from tests.synthetic import ROOT

NOISE, DRIFT = 0.02, 0.10
Sps = Callable[..., Result]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A planted machine whose processes drift; the processes that were timed, by name."""
    timed: list[str] = []

    def time(process: probes.Process, _words: str, _report: object) -> list[ProbeRecord]:
        timed.append(process.name)
        rng = np.random.default_rng(len(timed))
        slow = float(np.exp(DRIFT * rng.standard_normal()))
        records = planted.measured(process.points, rng, NOISE, process.name)
        return [_slower(record, slow) for record in records]

    monkeypatch.setattr(probes, "_timed_in_child", time)
    monkeypatch.setattr(executor, "host_in_child", lambda: planted.HOST)
    monkeypatch.chdir(tmp_path)
    return timed


def _slower(record: ProbeRecord, factor: float) -> ProbeRecord:
    if record.kind in ("all_reduce", "dispatch", "verification"):
        return record
    scaled = {name: getattr(record.time, name) * factor for name in ("median", "low", "high")}
    return record.model_copy(update={"time": record.time.model_copy(update=scaled)})


@pytest.fixture
def sps() -> Sps:
    """The command."""
    return lambda *words: CliRunner().invoke(app, list(words))


def test_calibrate_writes_a_profile_that_scenarios_use(machine: list[str], sps: Sps) -> None:
    result = sps("calibrate", "--name", "mine", "--out", "mine.yaml", "--quick")
    assert result.exit_code == 0, result.output
    assert "NOT VALIDATED" in result.stdout
    assert "fitted to" in result.stdout
    data = yaml.safe_load(Path("mine.yaml").read_text(encoding="utf-8"))
    known = data["calibrations"]["mine"]
    assert {one["chips"] for one in known["uncertainty"]} == {1, 4}
    assert set(known["validity"]) >= {"layers", "width", "rows", "positions", "weight_bytes_per_chip"}
    assert Path("mine_measurements/times.csv").read_text(encoding="utf-8").count("\n") > 50

    text = (ROOT / "scenarios" / "quickstart_cpu.yaml").read_text(encoding="utf-8")
    text = text.replace("  hardware: cpu\n", "  hardware: mine.yaml\n  calibration: mine\n")
    Path("asked.yaml").write_text(text, encoding="utf-8")
    types = ("--set", "target.weight_dtype=float32", "--set", "draft.model=quickstart-draft-wide")
    told = sps("predict", "asked.yaml", *types, "--set", "draft.model.weight_dtype=float32", "--json")
    assert told.exit_code == 0, told.output
    records = json.loads(told.stdout)["records"]
    assert told.exit_code == 0, told.output
    for record in records:
        assert record.get("validation", {}).get("state", "not_validated") == "not_validated"
        assert record["metrics"]["speedup_low"] < record["metrics"]["speedup"] < record["metrics"]["speedup_high"]
    shown = sps("predict", "asked.yaml", *types, "--set", "draft.model.weight_dtype=float32")
    assert "NOT VALIDATED" in shown.stdout

    wide = ("--set", "target.d_model=8192", "--set", "target.heads=128", "--set", "target.kv_heads=128")
    outside = sps("predict", "asked.yaml", *types, *wide, "--set", "draft.model.weight_dtype=float32")
    assert outside.exit_code == 3
    assert "OUTSIDE CALIBRATION" in outside.output
    assert "width 8,192" in outside.output


def test_calibrate_stopped_half_way_writes_nothing_and_goes_on(
    machine: list[str], sps: Sps, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = probes._timed_in_child

    def dies(process: probes.Process, words: str, report: Callable[[str], None]) -> list[ProbeRecord]:
        if len(machine) == 1:
            raise MeasurementError("killed")
        return honest(process, words, report)

    monkeypatch.setattr(probes, "_timed_in_child", dies)
    stopped = sps("calibrate", "--name", "mine", "--out", "mine.yaml", "--quick")
    assert stopped.exit_code == 4
    assert not Path("mine.yaml").exists()
    first = list(machine)
    monkeypatch.setattr(probes, "_timed_in_child", honest)
    assert sps("calibrate", "--name", "mine", "--out", "mine.yaml", "--quick").exit_code == 0
    assert not set(first) & set(machine[1:])


def test_validate_passes_a_machine_that_the_model_describes(machine: list[str], sps: Sps) -> None:
    result = sps("validate", "device", "--quick", "--out", "found")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("PASSED")
    data = json.loads(Path("found/validation.json").read_text(encoding="utf-8"))
    assert data["verdict"].startswith("passed")
    assert sum(not criterion["met"] for criterion in data["criteria"]) <= 1
    page = Path("found/validation.html").read_text(encoding="utf-8")
    assert "NOT VALIDATED" not in page
    profile = yaml.safe_load(Path("found/profile.yaml").read_text(encoding="utf-8"))
    assert profile["calibrations"]["this-host"]["validation"]["passed"] is True


def test_drift_between_processes_is_taken_out(machine: list[str], sps: Sps) -> None:
    assert sps("validate", "device", "--quick", "--out", "found").exit_code == 0
    data = json.loads(Path("found/validation.json").read_text(encoding="utf-8"))
    (steps,) = [c for c in data["criteria"] if c["name"].startswith("step and round time, 1 device, median")]
    assert steps["value"] < 0.03
    assert max(data["drift"].values()) > 0.015


def test_validate_fails_a_machine_that_it_does_not(
    machine: list[str], sps: Sps, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = probes._timed_in_child

    def other(process: probes.Process, words: str, report: Callable[[str], None]) -> list[ProbeRecord]:
        found = honest(process, words, report)
        return [_slower(r, 1.4) if r.role == "test" and r.chips == 1 else r for r in found]

    monkeypatch.setattr(probes, "_timed_in_child", other)
    result = sps("validate", "device", "--quick", "--out", "found")
    assert result.exit_code == 1
    assert result.stdout.startswith("FAILED")
    assert "NOT VALIDATED" in result.stdout
    assert "NOT VALIDATED" in Path("found/validation.html").read_text(encoding="utf-8")
    profile = yaml.safe_load(Path("found/profile.yaml").read_text(encoding="utf-8"))
    assert profile["calibrations"]["this-host"]["validation"]["passed"] is False


def test_a_given_calibration_is_tested_and_not_refitted(
    machine: list[str], sps: Sps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "DRIFT", 0.0)  # between two runs no control tells how far the machine drifted
    assert sps("calibrate", "--name", "mine", "--out", "mine.yaml", "--quick").exit_code == 0
    before = yaml.safe_load(Path("mine.yaml").read_text(encoding="utf-8"))["calibrations"]["mine"]["parameters"]
    result = sps("validate", "device", "--quick", "--out", "found", "--calibration", "mine.yaml:mine")
    assert result.exit_code in {0, 1}, result.output
    after = yaml.safe_load(Path("found/profile.yaml").read_text(encoding="utf-8"))["calibrations"]["mine"]
    assert after["parameters"] == before
    assert after["validation"]["passed"] is (result.exit_code == 0)


def test_a_calibration_that_was_tested_on_some_devices_only_is_not_validated(machine: list[str], sps: Sps) -> None:
    assert sps("calibrate", "--name", "mine", "--out", "mine.yaml", "--quick").exit_code == 0
    sps("validate", "device", "--quick", "--out", "found", "--devices", "1", "--calibration", "mine.yaml:mine")
    claim = yaml.safe_load(Path("found/profile.yaml").read_text(encoding="utf-8"))["calibrations"]["mine"]["validation"]
    assert claim["passed"] is False
    assert claim["record"].endswith("not tested on 4 devices")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("calibrate", "--name", "x", "--out", "x.txt"), 2, ".yaml"),
        (("calibrate", "--name", "x", "--out", "x.yaml", "--devices", "0"), 2, "whole numbers"),
        (("calibrate", "--name", "x", "--out", "x.yaml", "--hardware", "tpu_v4x"), 2, "tpu_v4"),
        (("calibrate", "--name", "x", "--out", "x.yaml", "--hardware", "tpu_v4"), 3, "not tpu_v4"),
        (("validate", "device", "--calibration", "cpu:this"), 2, "name of a calibration"),
        (("validate", "device", "--calibration", "tpu_v4:chen-2023"), 3, "not the kind"),
        (("validate", "device", "--design", "none.yaml"), 2, "none.yaml"),
        (("validate", "devices"), 2, "device"),
    ],
)
def test_mistakes(machine: list[str], sps: Sps, words: tuple[str, ...], code: int, told: str) -> None:
    result = sps(*words)
    assert result.exit_code == code, result.output
    assert told in result.output
    assert not machine
