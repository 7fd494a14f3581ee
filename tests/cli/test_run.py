"""Does the main job go through its stages, keep what is done, and say where it is? On a machine that is made up."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import runtime
from runtime import host
from simulator import calibration
from simulator.cli import app
from simulator.errors import MeasurementError
from simulator.predict import predict
from simulator.spec.hardware import HardwareProfile, Range
from simulator.spec.load import Point
from simulator.spec.probe import HostDescription, ProbeRecord, Timing
from simulator.spec.record import RunRecord, Status
from tests.synthetic import QUICKSTART, ROOT, made_up, measured_like

Report = Callable[[str], None]
FEW = ("--set", "decoding.lookahead=2", "--set", "draft.model=quickstart-draft-wide")


def a_probe(platform: str = "cpu", chips: int = 1) -> ProbeRecord:
    described = HostDescription(platform=platform, device=platform, cores=2)
    return ProbeRecord(
        kind="decode_step", chips=chips, time=Timing(median=1e-3, low=9e-4, high=1.1e-3, windows=5), host=described
    )


def measure(points: Sequence[Point], report: Report) -> list[RunRecord]:
    report(f"1 of {len(points)}")
    return measured_like(predict(points))


class Machine:
    """Stands in for the runtime; whatever it is asked is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.probed: list[int] = []
        self._patch = monkeypatch
        self.install("probes", probe=self._probe)
        self.measures(measure)
        monkeypatch.setattr(host, "missing_flag", lambda _profile, _dtype: "")
        monkeypatch.setattr(calibration, "calibrate", lambda _probes, profile, name: made_up(profile, name))
        monkeypatch.setattr(calibration, "host_profile", lambda profile, _host: profile)

    def measures(self, how: Callable[[Sequence[Point], Report], list[RunRecord]], platform: str = "cpu") -> None:
        def both(points: Sequence[Point], report: Report) -> tuple[list[RunRecord], list[ProbeRecord]]:
            chips = points[0].scenario.deployment.chips
            self.probed.append(chips)
            return how(points, report), [a_probe(platform, chips)]

        self.install("executor", measure=how, probe_and_measure=both, refuse_elsewhere=lambda _points: None)

    def install(self, module: str, **functions: Any) -> None:
        fake = types.ModuleType(f"runtime.{module}")
        if how := functions.get("measure"):
            functions["measure"] = lambda points, report, **_: how(points, report)
        vars(fake).update(functions)
        self._patch.setitem(sys.modules, f"runtime.{module}", fake)
        self._patch.setattr(runtime, module, fake, raising=False)

    def _probe(self, device_counts: Sequence[int], report: Report, dtype: str) -> list[ProbeRecord]:
        assert dtype == "bfloat16"
        self.probed += device_counts
        report("probing 1 of 1")
        return [a_probe(chips=count) for count in device_counts]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    monkeypatch.chdir(tmp_path)
    return Machine(monkeypatch)


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def kinds(file: Path) -> list[str]:
    return [record["kind"] for record in json.loads(file.read_text(encoding="utf-8"))["records"]]


def test_run_probes_every_number_of_devices_and_keeps_all_it_made(machine: Machine) -> None:
    result = sps("run", str(QUICKSTART), *FEW)
    folder = Path("out/quickstart-cpu")
    assert result.exit_code == 0
    assert machine.probed == [1, 4]
    assert {file.name for file in folder.iterdir()} == {"predicted.json", "probe.json", "measured.json", "report.html"}
    assert kinds(folder / "predicted.json") == ["analytic", "simulated"] * 2
    assert kinds(folder / "measured.json") == ["measured"] * 2


def test_run_prints_the_table_then_the_path_of_the_report_and_a_line_a_stage(machine: Machine) -> None:
    result = sps("run", str(QUICKSTART), *FEW)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("quickstart-target-100m")
    assert [line.split()[:2] for line in lines if line.startswith(("1  2  ", "4  2  "))] == [["1", "2"], ["4", "2"]]
    assert lines[-1] == "report: out/quickstart-cpu/report.html"
    assert max(map(len, lines)) <= 100
    stages = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert stages == ["probe and measure", "probe and measure", "predict", "report"]


def test_run_as_json_prints_the_records_and_nothing_else(machine: Machine) -> None:
    result = sps("run", str(QUICKSTART), *FEW, "--json", "--out", "here")
    records = json.loads(result.stdout)["records"]
    assert [record["kind"] for record in records] == ["analytic", "simulated"] * 2 + ["measured"] * 2
    assert "report: here/report.html" in result.stderr


def test_the_predictions_of_run_rest_on_the_probe_alone(machine: Machine) -> None:
    sps("run", str(QUICKSTART), *FEW)
    first = json.loads(Path("out/quickstart-cpu/predicted.json").read_text(encoding="utf-8"))["records"][0]
    assert first["scenario"]["deployment"]["calibration"] == "this-host"
    assert list(first["scenario"]["deployment"]["hardware"]["calibrations"]) == ["this-host"]


def test_a_probe_of_another_kind_of_device_calibrates_nothing(machine: Machine) -> None:
    machine.measures(measure, "cuda")
    result = sps("run", str(QUICKSTART), *FEW)
    assert result.exit_code == 3
    assert "a probe of the one says nothing of the other" in " ".join(result.stderr.split())


def test_outside_the_calibration_is_told_and_measured_all_the_same(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"weight_bytes_per_chip": Range(low=1.0, high=2.0)}

    def narrow(_probes: object, profile: HardwareProfile, name: str) -> HardwareProfile:
        fitted = made_up(profile, name).calibrations[name].model_copy(update={"validity": limits})
        return profile.model_copy(update={"calibrations": {name: fitted}})

    monkeypatch.setattr(calibration, "calibrate", narrow)
    result = sps("run", str(QUICKSTART), *FEW)
    assert result.exit_code == 0
    assert "! outside calibration: weight bytes per chip" in result.stdout
    assert kinds(Path("out/quickstart-cpu/measured.json")) == ["measured"] * 2


def test_ctrl_c_keeps_the_devices_that_are_done_and_says_so(machine: Machine) -> None:
    def stopped(points: Sequence[Point], report: Report) -> list[RunRecord]:
        if points[0].scenario.deployment.chips == 4:
            raise KeyboardInterrupt
        return measure(points, report)

    machine.measures(stopped)
    result = sps("run", str(QUICKSTART), *FEW)
    assert result.exit_code == 130
    assert "1 of 2 points are kept in out/quickstart-cpu/measured.json" in result.stderr
    assert kinds(Path("out/quickstart-cpu/measured.json")) == ["measured"]
    assert "Traceback" not in result.stderr


def test_a_measurement_that_cannot_be_made_exits_with_4(machine: Machine) -> None:
    def broken(_points: Sequence[Point], _report: Report) -> list[RunRecord]:
        raise MeasurementError("device 0 did not answer")

    machine.install("executor", measure=broken)
    result = sps("measure", str(QUICKSTART), *FEW)
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1] == "device 0 did not answer"


def test_measure_tells_times_with_their_spread_in_the_order_of_the_file(machine: Machine) -> None:
    result = sps("measure", str(QUICKSTART), *FEW[:2])
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith(("wide ", "deep "))]
    assert result.exit_code == 0
    assert [row[:3] for row in rows] == [[d, x, "2"] for x in "14" for d in ("wide", "deep")]
    assert "+-" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_no_measured_point_exits_with_4_and_says_where_the_reasons_are(machine: Machine) -> None:
    def unstable(points: Sequence[Point], report: Report) -> list[RunRecord]:
        state = Status(state="unstable", reason="another process was busy all the time")
        return [record.model_copy(update={"status": state}) for record in measure(points, report)]

    machine.install("executor", measure=unstable)
    result = sps("measure", str(QUICKSTART), *FEW)
    assert result.exit_code == 4
    assert "out/quickstart-cpu/measured.json" in result.stderr


@pytest.mark.slow
def test_a_tiny_scenario_is_really_measured_and_meets_its_prediction(tmp_path: Path) -> None:
    tiny = str(ROOT / "tests" / "cli" / "tiny.yaml")
    assert sps("measure", tiny, "--out", str(tmp_path)).exit_code == 0
    assert sps("predict", tiny, "--out", str(tmp_path)).exit_code == 0
    data = sps("compare", str(tmp_path / "predicted.json"), str(tmp_path / "measured.json"), "--json").stdout
    rows = json.loads(data)["comparison"]["rows"]
    met = {row["term"] for row in rows if row["reference_kind"] == "measured"}
    assert {"plain_step_s", "draft_step_s", "verify_step_s", "round_s", "speedup"} <= met


def test_a_scenario_of_other_hardware_is_not_run_here(machine: Machine) -> None:
    result = sps("run", str(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml"))
    assert result.exit_code == 3
    assert "not tpu_v4" in result.stderr
