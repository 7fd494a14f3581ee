"""Does the command do what the README says: answers on stdout, the rest on stderr, the right exit code?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.cli.files import records_json
from tests.synthetic import QUICKSTART, ROOT, predicted_and_measured

CHINCHILLA = str(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml")
ONE_POINT = ("decoding.lookahead=4", "deployment.chips=4", "draft.model=quickstart-draft-wide")


def sps(*words: str) -> Result:
    """The command inside this process."""
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def process(*words: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, as a planner starts it."""
    command = [sys.executable, "-m", "simulator", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=120)


def width(text: str) -> int:
    return max(map(len, text.splitlines()))


@pytest.fixture(scope="module")
def records_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("records") / "all.json"
    file.write_text(records_json(predicted_and_measured()), encoding="utf-8")
    return file


class TestCheck:
    def test_a_good_file_is_told_in_a_line(self) -> None:
        result = sps("check", str(QUICKSTART))
        assert result.exit_code == 0
        assert "ok, quickstart-cpu, 12 points" in result.stdout
        assert result.stderr == ""

    def test_all_mistakes_of_all_files_come_at_once_with_their_lines(self, tmp_path: Path) -> None:
        files = []
        for name, key in (("a", "lookahed"), ("b", "temprature")):
            text = QUICKSTART.read_text(encoding="utf-8").replace("  lookahead: 4", f"  lookahead: 4\n  {key}: 1")
            files.append(tmp_path / f"{name}.yaml")
            files[-1].write_text(text, encoding="utf-8")
        result = sps("check", *map(str, files))
        assert result.exit_code == 2
        assert "did you mean 'lookahead'?" in result.stderr
        assert "did you mean 'temperature'?" in result.stderr
        assert result.stderr.splitlines()[-1] == "2 problems in 2 files. Nothing was run."

    def test_problems_are_data_too(self, tmp_path: Path) -> None:
        result = sps("check", "--json", str(tmp_path / "missing.yaml"))
        data = json.loads(result.stdout)
        assert result.exit_code == 2
        assert data["records"] == []
        assert data["problems"][0]["file"] == str(tmp_path / "missing.yaml")


class TestPredict:
    def test_two_processes_print_the_same_bytes_and_nothing_but_records(self) -> None:
        words = ("predict", CHINCHILLA, "--json", "--set", "decoding.lookahead=4")
        first, second = process(*words), process(*words)
        assert first.returncode == 0
        assert first.stdout == second.stdout
        assert [r["kind"] for r in json.loads(first.stdout)["records"]] == ["analytic", "simulated"]
        assert first.stderr == b"predict: 1 point\n"

    def test_the_answer_says_what_was_asked_whether_it_fits_and_what_next(self) -> None:
        result = sps("predict", CHINCHILLA)
        lines = result.stdout.splitlines()
        assert result.exit_code == 0
        assert lines[0].startswith("chinchilla-70b bf16 + chinchilla-draft-4b bf16 on 16 x tpu_v4 (TP 16)")
        starts = [line.split("  ")[0] for line in lines]
        order = [starts.index(word) for word in ("fits", "plain decoding", "floor", "a round, K=7", "pays above")]
        assert order == sorted(order)
        assert "calibration chen-2023" in result.stdout
        assert "NOT VALIDATED" in result.stdout
        assert lines[-1].startswith(("next: ", "    "))
        assert width(result.stdout) <= 100

    def test_the_sweep_has_a_row_a_point_and_published_values_beside_it(self) -> None:
        out = sps("predict", CHINCHILLA).stdout
        assert out.count("chinchilla-draft-4b  16") == 7
        assert any("test" in line and "5.73 ms" in line for line in out.splitlines())
        assert out.count("<- best") == 1

    def test_without_a_calibration_it_is_a_floor_and_no_prediction(self) -> None:
        out = sps("predict", str(QUICKSTART), *(word for s in ONE_POINT for word in ("--set", s))).stdout
        assert "no calibration: datasheet peaks without any overhead. These times are a floor, NOT a prediction." in out

    def test_with_an_engine_that_was_fitted_beside_the_datasheet_it_is_a_prediction(self, tmp_path: Path) -> None:
        file = tmp_path / "apple.yaml"
        made = sps("init", "--model", "llama-3.2-1b", "--hardware", "apple_m4", "--chips", "1", "--draft", "none")
        file.write_text(made.stdout, encoding="utf-8")
        out = " ".join(sps("predict", str(file), "--set", "deployment.engine=llama.cpp-b10450").stdout.split())
        assert "NOT a prediction" not in out
        assert "engine llama.cpp-b10450: 2 numbers fitted to 2 values" in out
        assert "EXTRAPOLATED: rows 1,024 (the engine's T(n) goes to 64)" in out
        assert "engine llama.cpp: not known" in sps("predict", str(file), "--set", "deployment.engine=llama.cpp").stdout

    def test_the_first_token_of_an_encoder_decoder_is_a_step_more(self, tmp_path: Path) -> None:
        file = tmp_path / "t5.yaml"
        made = sps("init", "--model", "t5-v1.1-large", "--hardware", "a100_sxm", "--chips", "1", "--lookahead", "2")
        file.write_text(made.stdout, encoding="utf-8")
        assert "+ a plain step" in sps("predict", str(file), "--explain", "ttft").stdout
        # Its published count is of encoder and decoder: no floor of a step of the decoder alone.
        assert "by the published parameter count" not in " ".join(sps("predict", str(file)).stdout.split())

    def test_a_published_count_is_not_that_of_a_model_that_was_changed(self) -> None:
        whole = sps("predict", CHINCHILLA, "--set", "decoding.lookahead=4").stdout
        assert "by the published parameter count" in " ".join(whole.split())
        fewer = sps("predict", CHINCHILLA, "--set", "decoding.lookahead=4", "--set", "target.layers=8").stdout
        assert "published parameter count" not in " ".join(fewer.split())

    def test_out_keeps_what_json_prints(self, tmp_path: Path) -> None:
        words = ("predict", CHINCHILLA, "--set", "decoding.lookahead=4", "--json", "--out", str(tmp_path / "new"))
        result = sps(*words)
        assert (tmp_path / "new" / "predicted.json").read_text(encoding="utf-8") == result.stdout.rstrip("\n")
        assert [file.name for file in (tmp_path / "new").iterdir()] == ["predicted.json"]

    def test_a_wrong_setting_is_named(self) -> None:
        result = sps("predict", CHINCHILLA, "--set", "decoding.lookahed=4")
        assert result.exit_code == 2
        assert "--set decoding.lookahed=4" in result.stderr
        assert result.stdout == ""

    def test_no_point_that_fits_is_a_refusal_with_its_reason_and_the_records_are_printed(self) -> None:
        settings = (
            "decoding.lookahead=4",
            "deployment.chips=1",
            "deployment.slice=1x1x1",
            "deployment.calibration=null",
        )
        result = sps("predict", CHINCHILLA, "--json", *(word for s in settings for word in ("--set", s)))
        assert result.exit_code == 3
        assert "does not fit" in result.stderr
        assert json.loads(result.stdout)["records"][0]["status"]["state"] == "does_not_fit"

    def test_what_does_not_fit_is_told_in_the_units_of_what_does_and_without_its_cost(self) -> None:
        words = ("--set", "decoding.lookahead=4", "--set", "deployment.price=3 USD/h")
        fits = sps("predict", CHINCHILLA, *words).stdout
        assert "\ncost " in fits
        (limit,) = (line for line in fits.splitlines() if line.startswith("fits "))
        large = sps("predict", CHINCHILLA, *words, "--set", "workload.batch=10000").stdout
        (told,) = (line for line in large.splitlines() if line.startswith("DOES NOT FIT "))
        assert limit.split(" of ")[1].split(" a chip")[0] == told.split(" of ")[1].split(" a chip")[0]
        assert "\ncost " not in large

    def test_a_folder_that_cannot_be_written_is_a_mistake_in_words(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("", encoding="utf-8")
        result = sps("predict", CHINCHILLA, "--set", "decoding.lookahead=4", "--out", str(tmp_path / "file" / "below"))
        assert result.exit_code == 2
        assert "a folder that can be written" in result.stderr


class TestMeasuredSteps:
    HERE = ("--set", "measured.plain_step=15 ms", "--set", "measured.verify_step={5: 15.2 ms}")

    def test_the_answer_says_what_it_is_anchored_to_and_how_far_the_model_was(self) -> None:
        out = sps("predict", CHINCHILLA, "--set", "decoding.lookahead=4", *self.HERE).stdout
        told = " ".join(out.split())
        assert "anchored to measured plain step 15.0 ms (model alone 14.1 ms, x 1.06), verify step (T 5) 15.2" in told
        assert "plain decoding 15.0 ms a token" in told
        assert "far from the model" not in told
        assert width(out) <= 100

    def test_far_from_the_model_is_said(self) -> None:
        out = sps("predict", CHINCHILLA, "--set", "decoding.lookahead=4", "--set", "measured.plain_step=40 ms").stdout
        assert "x 2.83, far from the model: check that both mean the same step)" in " ".join(out.split())

    def test_explained_the_factor_is_a_line(self) -> None:
        words = ("predict", CHINCHILLA, "--set", "decoding.lookahead=4", *self.HERE, "--explain", "verify_step")
        out = sps(*words).stdout
        assert "verify step = 15.20 ms" in out
        assert "measured 15.20 ms / 14.17 ms by the model alone" in " ".join(out.split())
        lines = json.loads(sps(*words, "--json").stdout)["parts"]["verify_step"]
        assert sum(line["seconds"] for line in lines) == pytest.approx(15.2e-3, rel=1e-12)
        assert width(out) <= 100

    def test_a_sweep_over_what_was_measured_once_is_flagged(self, tmp_path: Path) -> None:
        file = tmp_path / "batches.yaml"
        swept = "measured: {plain_step: 20 ms}\nsweep: {workload.batch: [1, 2], decoding.lookahead: [2]}\n"
        file.write_text(f"base: {CHINCHILLA}\n{swept}", encoding="utf-8")
        out = sps("predict", str(file)).stdout
        assert "! measured plain step: the same for every workload.batch of the sweep." in " ".join(out.split())
        assert "! measured" not in sps("predict", str(file), "--set", "workload.batch=2").stdout

    def test_a_step_that_cannot_be_is_refused_with_its_floor(self) -> None:
        result = sps("predict", CHINCHILLA, "--set", "measured.plain_step=5 ms")
        assert result.exit_code == 3
        assert "measured.plain_step cannot be 5.00 ms" in result.stderr
        assert "takes at least 6.96 ms, to read 8.35 GB" in result.stderr

    def test_a_trace_is_shifted_too(self, tmp_path: Path) -> None:
        words = ("trace", CHINCHILLA, "--set", "decoding.lookahead=4", *self.HERE, "--part", "plain_step")
        out = sps(*words, "--out", str(tmp_path / "trace.json")).stdout
        assert "anchored to measured steps" in " ".join(out.split())
        assert "closed form      15.0 ms" in out
        assert "simulated        15.0 ms" in out

    def test_a_run_predicts_from_the_probe_alone(self) -> None:
        pytest.importorskip("jax")
        result = sps("run", str(QUICKSTART), "--set", "measured.plain_step=7 ms")
        assert result.exit_code == 3
        assert "--set measured=null" in result.stderr


class TestCompare:
    def test_one_row_a_point_within_100_columns(self, records_file: Path) -> None:
        result = sps("compare", str(records_file))
        assert result.exit_code == 0
        assert width(result.stdout) <= 100
        rows = [line for line in result.stdout.splitlines() if line.startswith(("wide ", "deep "))]
        assert len(rows) == 12
        assert "order of the drafts by draft step: right in 3 of 3 at X 1, 3 of 3 at X 4" in result.stdout
        assert "not compared: " in result.stdout

    def test_a_single_point_is_told_term_by_term(self, tmp_path: Path) -> None:
        file = tmp_path / "one.json"
        file.write_text(records_json(predicted_and_measured(ONE_POINT)), encoding="utf-8")
        out = sps("compare", str(file)).stdout
        assert any(line.startswith("verify step") and line.count(" ms") >= 2 for line in out.splitlines())
        assert width(out) <= 100

    def test_json_has_the_records_and_the_comparison(self, records_file: Path) -> None:
        result = sps("compare", "--json", str(records_file))
        data = json.loads(result.stdout)
        assert len(data["records"]) == 36
        assert data["comparison"]["rows"]

    def test_html_is_written_and_its_path_is_told(self, records_file: Path, tmp_path: Path) -> None:
        result = sps("compare", "--html", str(tmp_path / "r.html"), str(records_file))
        assert f"report: {tmp_path / 'r.html'}" in result.stdout
        assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")

    def test_records_that_have_nothing_in_common_are_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "one.json"
        file.write_text(records_json(predicted_and_measured(ONE_POINT)[:1]), encoding="utf-8")
        result = sps("compare", str(file))
        assert result.exit_code == 3
        assert "nothing could be compared" in result.stderr
        assert "no record asks the same question" in result.stdout


class TestBadRecords:
    @pytest.mark.parametrize(
        ("text", "place", "words"),
        [
            ("", ":1:1", "Expecting value"),
            ('{"records": [\n  {"kind": }]}', ":2:12", "Expecting value"),
            ('{"records": 3}', ":1:13", '{"records": [...]}'),
            ('{"records": [\n 1]}', ":2:2", "a mapping"),
            ('{"records": [NaN]}', "", "NaN is no number in JSON"),
            ("[" * 100_000, "", '{"records": [...]}'),
            ('{"records": [{"kind": "guessed", "scenario": {}, "scenario_hash": ""}]}', ":1:23", "one of analytic"),
        ],
    )
    def test_the_place_and_what_is_accepted(self, tmp_path: Path, text: str, place: str, words: str) -> None:
        file = tmp_path / "bad.json"
        file.write_text(text, encoding="utf-8")
        result = sps("compare", str(file))
        assert result.exit_code == 2
        assert f"{file}{place}  " in result.stderr or f"{file}{place}\n" in result.stderr
        assert words in result.stderr

    def test_a_mistake_deep_in_a_scenario_has_its_line(self, tmp_path: Path) -> None:
        record = predicted_and_measured(ONE_POINT)[0].to_json()
        record["scenario"]["workload"]["batch"] = 0
        file = tmp_path / "bad.json"
        file.write_text(json.dumps({"records": [record]}, indent=1), encoding="utf-8")
        line = 1 + next(i for i, words in enumerate(file.read_text().splitlines()) if '"batch": 0' in words)
        result = sps("compare", str(file))
        assert result.exit_code == 2
        assert f"{file}:{line}:" in result.stderr
        assert "  workload.batch\n    found    0\n" in result.stderr

    def test_a_missing_file_and_a_folder(self, tmp_path: Path) -> None:
        result = sps("compare", str(tmp_path / "none.json"), str(tmp_path))
        assert result.exit_code == 2
        assert "2 problems in 2 files. Nothing was run." in result.stderr
        assert "an existing file; there is none of this name" in result.stderr
        assert "a file; this is a folder" in result.stderr

    def test_the_folder_of_a_prediction_leads_to_its_records(self, tmp_path: Path) -> None:
        (tmp_path / "predicted.json").write_text("{}", encoding="utf-8")
        told = " ".join(sps("compare", str(tmp_path)).stderr.split())
        assert f"a file; this is a folder; did you mean '{tmp_path / 'predicted.json'}'?" in told

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        file = tmp_path / "bad.json"
        file.write_bytes(b"\xff\xfe\x00")
        assert sps("compare", str(file)).exit_code == 2


def test_help_needs_no_planning_library() -> None:
    heavy = ("numpy", "scipy", "simpy", "plotly", "pydantic", "jax", "rich.progress")
    code = f"import sys, simulator.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_verb_shows_the_help_and_an_unknown_one_the_nearest() -> None:
    assert "Commands:" in sps("--help").stdout
    assert "predict" in sps("predit").stderr


class TestKnown:
    def test_explain_says_what_a_key_means(self) -> None:
        result = sps("explain", "decoding.lookahead")
        assert result.exit_code == 0
        assert "K, draft tokens proposed per round" in result.stdout
        assert sps("explain", "decoding.lookahed").exit_code == 2

    @pytest.mark.parametrize(
        ("what", "name"),
        [("hardware", "tpu_v4"), ("models", "chinchilla-70b"), ("scenarios", "quickstart_cpu")],
    )
    def test_list_has_a_line_or_two_for_each(self, what: str, name: str) -> None:
        result = sps("list", what)
        assert result.exit_code == 0
        assert any(line.startswith(name) for line in result.stdout.splitlines())
        assert width(result.stdout) <= 100
        assert name in {item["name"] for item in json.loads(sps("list", what, "--json").stdout)[what]}

    def test_chips_are_listed_with_rate_memory_link_price_and_calibrations(self) -> None:
        head, *rows = sps("list", "hardware").stdout.splitlines()
        assert head.split("  ")[0] == "chip"
        (v4,) = (row.split() for row in rows if row.startswith("tpu_v4"))
        told = "tpu_v4 275 TF/s 32 GiB 1,200 GB/s 3-D torus, 45 GB/s 3.22 USD/h chen-2023,"
        assert v4[: len(told.split())] == told.split()
