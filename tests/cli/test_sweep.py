"""Does `sps sweep` predict every point once, go on where it was stopped, and say what became of it?"""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.predict import predict_scenario
from simulator.spec.load import load_scenario
from simulator.spec.record import new_record
from simulator.sweep import points as sweep_points
from tests.synthetic import ROOT

CHINCHILLA = ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml"
AXES = {"decoding.lookahead": [0, 2, 4], "acceptance.acceptance_rate": [0.5, 0.7, 0.9], "workload.batch": [1, 8]}


def sps(*words: str) -> Result:
    """The command inside this process."""
    return CliRunner().invoke(app, ["sweep", *words], catch_exceptions=False)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """18 points."""
    path = tmp_path_factory.mktemp("scenario") / "sweep.yaml"
    text = CHINCHILLA.read_text("utf-8").partition("published:")[0]
    path.write_text(f"{text}sweep: {json.dumps(AXES)}\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def undisturbed(file: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    assert sps(file, "--out", str(out), "--jobs", "1").exit_code == 0
    return out


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "sweep.jsonl").read_text("utf-8").splitlines()]


def assert_same(out: Path, undisturbed: Path) -> None:
    for name in ("sweep.jsonl", "sweep.csv"):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes()


class TestResults:
    def test_rows_are_what_predict_says_in_the_order_of_the_sweep(self, file: str, undisturbed: Path) -> None:
        points = load_scenario(file)
        found = rows(undisturbed)
        assert [row["axes"] for row in found] == [point.axes for point in points]
        for row, point in zip(found, points, strict=True):
            told = predict_scenario(point.scenario)
            record = new_record("analytic", point.scenario, metrics=told.metrics, components=told.components)
            for name in ("scenario_hash", "kind", "metrics", "components"):
                assert row[name] == record.to_json()[name]
            assert row["status"]["state"] == told.status.state
        assert {row["status"]["state"] for row in found} == {"ok", "outside_calibration"}

    def test_the_table_has_a_column_an_axis_and_a_metric(self, undisturbed: Path) -> None:
        with (undisturbed / "sweep.csv").open(encoding="utf-8", newline="") as text:
            table = list(csv.DictReader(text))
        assert [row["decoding.lookahead"] for row in table] == [str(k) for k in (0, 2, 4) for _ in range(6)]
        for line, row in zip(table, rows(undisturbed), strict=True):
            assert float(line["tpot_s"]) == row["metrics"]["tpot_s"]
            assert (line["speedup"] == "") == ("speedup" not in row["metrics"])

    def test_simulated_rows_stand_beside_the_closed_form(self, file: str, undisturbed: Path, tmp_path: Path) -> None:
        settings = ("--set", "workload.batch=1", "--set", "acceptance.acceptance_rate=0.9")
        result = sps(file, "--out", str(tmp_path), "--simulate", "--jobs", "2", *settings)
        assert result.exit_code == 0
        found = rows(tmp_path)
        assert [row["kind"] for row in found] == ["analytic", "simulated"] * 3
        hashes = {row["scenario_hash"]: row["metrics"] for row in rows(undisturbed)}
        assert all(hashes[row["scenario_hash"]] == row["metrics"] for row in found[::2])
        assert "time_to_tokens_s.p99" in (tmp_path / "sweep.csv").read_text("utf-8").splitlines()[0]

    def test_the_answer_says_where_it_is_and_which_points_are_best(self, file: str, tmp_path: Path) -> None:
        result = sps(file, "--out", str(tmp_path))
        assert "18 points: 18 computed" in result.stdout
        assert f"rows: {tmp_path / 'sweep.jsonl'}" in result.stdout
        lines = result.stdout.splitlines()
        assert lines[3:5] == [
            "batch: 1",
            "lookahead  acceptance_rate  speedup     tpot  tokens per s  break even acceptance",
        ]
        assert lines[5].split()[:2] == ["4", "0.9"]
        assert max(map(len, result.stdout.splitlines())) <= 100 + len(str(tmp_path))

    def test_json_is_alone_on_stdout(self, file: str, undisturbed: Path) -> None:
        result = sps(file, "--out", str(undisturbed), "--json")
        data = json.loads(result.stdout)
        assert data["records"] == []
        assert (data["sweep"]["points"], data["sweep"]["computed"], data["sweep"]["reused"]) == (18, 0, 18)
        assert data["best"][0]["axes"] == dict(zip(AXES, (4, 0.9, 1), strict=True))
        assert "18 of 18 (18 were there)" in result.stderr


class TestSameBytes:
    def test_two_processes(self, file: str, undisturbed: Path, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr("simulator.sweep.running.BATCH", 3)
        assert sps(file, "--out", str(tmp_path), "--jobs", "2").exit_code == 0
        assert_same(tmp_path, undisturbed)

    def test_a_part_first_and_a_damaged_shard(self, file: str, undisturbed: Path, tmp_path: Path) -> None:
        assert sps(file, "--out", str(tmp_path), "--set", "decoding.lookahead=2").exit_code == 0
        (shard,) = (tmp_path / "points").glob("*.jsonl")
        result = sps(file, "--out", str(tmp_path))
        assert "12 computed, 6 were there" in result.stdout
        shard.write_bytes(shard.read_bytes()[:1000])
        result = sps(file, "--out", str(tmp_path))
        assert "1 damaged file of results removed; those points are computed again" in result.stderr
        assert "6 computed, 12 were there" in result.stdout
        assert_same(tmp_path, undisturbed)

    def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
        self, file: str, undisturbed: Path, tmp_path: Path, monkeypatch: Any
    ) -> None:
        def slow(scenario: Any) -> Any:
            if scenario.decoding.lookahead == 4:
                raise KeyboardInterrupt
            return closed_form(scenario)

        closed_form = sweep_points.closed_form
        slow.__module__, slow.__qualname__ = closed_form.__module__, closed_form.__qualname__
        with monkeypatch.context() as patched:
            patched.setattr(sweep_points, "closed_form", slow)
            patched.setattr("simulator.sweep.running.BATCH", 3)
            result = sps(file, "--out", str(tmp_path), "--jobs", "1")
        assert result.exit_code == 130
        assert f"stopped; 12 of 18 points are kept in {tmp_path}; the same command goes on from there" in result.stderr
        assert not (tmp_path / "sweep.csv").exists()
        assert "6 computed, 12 were there" in sps(file, "--out", str(tmp_path)).stdout
        assert_same(tmp_path, undisturbed)

    def test_ctrl_c_at_processes_is_quiet(self, tmp_path: Path) -> None:
        file = tmp_path / "long.yaml"
        text = CHINCHILLA.read_text("utf-8").partition("published:")[0]
        axes = AXES | {"workload.output_tokens": list(range(100, 600))}
        file.write_text(f"{text}sweep: {json.dumps(axes)}\n", encoding="utf-8")
        command = [sys.executable, "-m", "simulator", "sweep", str(file), "--out", str(tmp_path), "--jobs", "2"]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not list((tmp_path / "points").glob("*.jsonl")):
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 130
        assert "Traceback" not in err
        assert "of 9,000 points are kept in" in err


class TestWhatGoesWrong:
    def test_a_failing_point_is_told_with_its_key_and_the_others_are_kept(
        self, file: str, undisturbed: Path, tmp_path: Path, monkeypatch: Any
    ) -> None:
        def fragile(scenario: Any) -> Any:
            if scenario.decoding.lookahead == 2 and scenario.workload.batch == 8:
                raise ZeroDivisionError("a mistake of ours")
            return closed_form(scenario)

        closed_form = sweep_points.closed_form
        fragile.__module__, fragile.__qualname__ = closed_form.__module__, closed_form.__qualname__
        with monkeypatch.context() as patched:
            patched.setattr(sweep_points, "closed_form", fragile)
            result = sps(file, "--out", str(tmp_path), "--jobs", "1")
        assert result.exit_code == 5
        assert "3 of 18 points failed; the others are kept" in result.stderr
        words = "decoding.lookahead 2, acceptance.acceptance_rate 0.5, workload.batch 8"
        assert f"{words}: ZeroDivisionError: a mistake of ours" in " ".join(result.stderr.split())
        found = rows(tmp_path)
        assert len(found) == 18
        assert [row["status"]["state"] for row in found].count("failed") == 3
        assert [row for row in found if "kind" in row] == [
            row for row in rows(undisturbed) if row["axes"] not in [bad["axes"] for bad in found if "kind" not in bad]
        ]
        assert "3 computed, 15 were there" in sps(file, "--out", str(tmp_path)).stdout
        assert_same(tmp_path, undisturbed)

    @pytest.mark.parametrize("words", ["dask", "dask://nowhere", "spark://host:7077"])
    def test_an_unknown_executor(self, file: str, tmp_path: Path, words: str) -> None:
        result = sps(file, "--out", str(tmp_path / "out"), "--executor", words)
        assert result.exit_code == 2
        assert "accepts  local, or dask://HOST:PORT with the host and port of a Dask scheduler" in result.stderr
        assert not (tmp_path / "out").exists()

    def test_a_scheduler_that_does_not_answer(self, file: str, tmp_path: Path, monkeypatch: Any) -> None:
        pytest.importorskip("distributed", reason="needs Dask: the extra [dask], which make setup installs")
        monkeypatch.setattr("simulator.sweep.cluster.CONNECT_S", 1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        result = sps(file, "--out", str(tmp_path / "out"), "--executor", f"dask://127.0.0.1:{port}")
        assert result.exit_code == 2
        assert f"found    dask://127.0.0.1:{port}" in result.stderr
        assert "the address of a Dask scheduler that answers within 1 s" in result.stderr
        assert not (tmp_path / "out").exists()

    def test_no_point_with_an_answer_is_a_refusal(self, file: str, tmp_path: Path) -> None:
        result = sps(file, "--out", str(tmp_path), "--set", "deployment.chips=1", "--set", "deployment.slice=1x1x1")
        assert result.exit_code == 3
        assert str(tmp_path / "sweep.csv") in result.stderr
        assert {row["status"]["state"] for row in rows(tmp_path)} == {"does_not_fit"}
