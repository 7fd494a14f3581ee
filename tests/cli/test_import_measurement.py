"""Does a log that was imported stand beside the prediction of the same scenario?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from simulator.cli import app
from tests import measurement_files as files
from tests.builders import scenario


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    """A scenario over lookahead and batch; the files of the tests are at K 4 with 4 together."""
    data = json.loads(json.dumps(scenario().resolved())) | {
        "sweep": {"decoding.lookahead": [2, 4], "workload.batch": [1, 4]}
    }
    data["workload"]["batching"] = "continuous"
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return file


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    file = tmp_path / "bench_k4.json"
    file.write_text(files.VLLM_BENCH, encoding="utf-8")
    return file


def test_a_prediction_is_compared_with_what_the_server_logged(tmp_path: Path, swept: Path, bench: Path) -> None:
    out, predicted = tmp_path / "k4.json", tmp_path / "predicted.json"
    made = sps("import", "measurement", str(bench), "--scenario", str(swept), "--out", str(out))
    assert made.exit_code == 0, made.stderr
    assert made.stdout.splitlines()[0] == f"records: {out}"
    assert "acceptance 2.77 read as acceptance length with the bonus token (vLLM's definition)" in made.stderr
    predicted.write_text(sps("predict", str(swept), "--json").stdout, encoding="utf-8")
    page = tmp_path / "report.html"
    result = sps("compare", str(predicted), str(out), "--html", str(page))
    assert result.exit_code == 0, result.stderr
    assert "round of the log: from TPOT x acceptance length" in result.stdout
    missing = " ".join(result.stdout.split()).partition("(not in the log)")[0].rpartition("not compared:")[2]
    assert "draft step" in missing
    assert "verify step" in missing
    assert "from TPOT x acceptance length" in page.read_text(encoding="utf-8")


def test_the_rows_are_of_the_point_that_was_measured(tmp_path: Path, swept: Path, bench: Path) -> None:
    out, predicted = tmp_path / "k4.json", tmp_path / "predicted.json"
    assert sps("import", "measurement", str(bench), "--scenario", str(swept), "--out", str(out)).exit_code == 0
    predicted.write_text(sps("predict", str(swept), "--json").stdout, encoding="utf-8")
    compared = json.loads(sps("compare", str(predicted), str(out), "--json").stdout)["comparison"]
    rows = [row for row in compared["rows"] if row["reference_kind"] == "measured"]
    assert {row["lookahead"] for row in rows} == {4}
    assert {row["axes"]["workload.batch"] for row in rows} == {4}
    seen = {row["term"]: row["reference"]["value"] for row in rows}
    assert seen == pytest.approx(
        {
            "round_s": 20.775e-3,
            "tpot_s": 7.5e-3,
            "ttft_s": 30.5e-3,
            "acceptance_length": 2.77,
            "draft_acceptance_ratio": 0.4425,
        }
    )


def test_without_a_scenario_it_says_what_it_read_and_what_it_needs(tmp_path: Path, bench: Path) -> None:
    result = sps("import", "measurement", str(bench))
    assert result.exit_code == 0
    assert "needed: a record is about a scenario: --scenario FILE" in result.stderr
    (found,) = json.loads(result.stdout)["measurements"]
    assert found["stated"]["decoding.lookahead"] == 4
    assert found["metrics"]["tpot_s"] == pytest.approx(7.5e-3)
    out = tmp_path / "k4.json"
    refused = sps("import", "measurement", str(bench), "--out", str(out))
    assert refused.exit_code == 2
    assert "--scenario FILE beside it" in refused.stderr
    assert not out.exists()


def test_a_contradiction_names_the_field(tmp_path: Path, swept: Path, bench: Path) -> None:
    bench.write_text(files.VLLM_BENCH.replace('"max_concurrency": 4', '"max_concurrency": 16'), encoding="utf-8")
    out = tmp_path / "k4.json"
    result = sps("import", "measurement", str(bench), "--scenario", str(swept), "--out", str(out))
    assert result.exit_code == 2
    assert f"{bench}:5:3  workload.batch" in result.stderr
    assert not out.exists()


def test_set_picks_the_point_where_the_log_does_not(tmp_path: Path, swept: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(files.VLLM_V0_LOG, encoding="utf-8")
    refused = sps("import", "measurement", str(log), "--scenario", str(swept)).stderr
    assert "--set workload.batch=1 picks" in " ".join(refused.split())
    result = sps("import", "measurement", str(log), "--scenario", str(swept), "--set", "workload.batch=4")
    (record,) = json.loads(result.stdout)["records"]
    assert record["kind"] == "measured"
    assert record["metrics"]["acceptance_length"] == pytest.approx(2149 / 662)


def test_set_is_of_a_scenario(bench: Path) -> None:
    assert "--scenario FILE beside it" in sps("import", "measurement", str(bench), "--set", "workload.batch=4").stderr


def test_a_file_that_is_there_is_kept(tmp_path: Path, swept: Path, bench: Path) -> None:
    out = tmp_path / "k4.json"
    out.write_text("mine", encoding="utf-8")
    words = ("import", "measurement", str(bench), "--scenario", str(swept), "--out", str(out))
    assert sps(*words).exit_code == 2
    assert out.read_text(encoding="utf-8") == "mine"
    assert sps(*words, "--force").exit_code == 0
    assert json.loads(out.read_text(encoding="utf-8"))["records"]


def test_all_reduces_go_to_a_file_without_a_scenario(tmp_path: Path) -> None:
    table, out = tmp_path / "nccl.txt", tmp_path / "all_reduce.yaml"
    table.write_text(files.NCCL, encoding="utf-8")
    result = sps("import", "measurement", str(table), "--out", str(out))
    assert result.stdout == f"written: {out}\n"
    assert yaml.safe_load(out.read_text(encoding="utf-8"))["chips"] == 16


@pytest.mark.parametrize("content", [b"\xff\xfe\x00b", b"", b"\x00" * 50])
def test_what_is_no_text_is_told(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.log"
    file.write_bytes(content)
    result = sps("import", "measurement", str(file))
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "an existing file" in sps("import", "measurement", str(tmp_path / "none.json")).stderr
