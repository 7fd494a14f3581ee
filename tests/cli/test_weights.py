"""Measuring with weights from folders: are they used, and is a wrong folder told before anything runs?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from runtime import executor
from runtime.asked import Asked
from runtime.cli import main
from runtime.weights import Weights
from simulator.cli import app
from simulator.predict import predict
from simulator.spec.load import Point, load_scenario
from tests.llama_folders import config, folder_of, random_tensors
from tests.synthetic import ROOT, measured_like

TINY = str(ROOT / "tests" / "cli" / "tiny.yaml")


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    """Folders with the weights of the tiny target and draft."""
    scenario = load_scenario(TINY)[0].scenario
    assert scenario.draft_model is not None
    made = []
    for name, spec in (("big", scenario.target), ("little", scenario.draft_model)):
        made.append(str(folder_of(tmp_path / name, random_tensors(spec), config(spec), shards=2)))
    return made[0], made[1]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Weights]:
    """The weights that measurements were asked for; nothing is measured."""
    found: list[Weights] = []

    def measure(points: Sequence[Point], _report: Any, asked: Asked) -> Any:
        found.append(asked.weights)
        return measured_like(predict(points))

    monkeypatch.setattr(executor, "measure", measure)
    return found


def test_measure_hands_the_folders_on(folders: tuple[str, str], asked: list[Weights], tmp_path: Path) -> None:
    big, little = folders
    weights = ("--target-weights", big, "--draft-weights", little)
    assert sps("measure", TINY, *weights, "--out", str(tmp_path)).exit_code == 0
    assert main(["measure", TINY, *weights, "--out", str(tmp_path / "measured.json")]) == 0
    assert asked == [Weights(Path(big), Path(little))] * 2
    assert [Weights.of(one.to_json()) for one in asked] == asked


def test_both_folders_are_checked_before_anything_runs(
    folders: tuple[str, str], asked: list[Weights], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big, little = folders
    swapped = ("--target-weights", little, "--draft-weights", big)
    result = sps("measure", TINY, *swapped, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "found    1\n    accepts  2, as layers of tiny-target is" in result.stderr
    assert "found    2\n    accepts  1, as layers of tiny-draft is" in result.stderr
    assert "model.layers.1.mlp.up_proj.weight" in result.stderr
    assert "Nothing was run." in result.stderr
    assert main(["measure", TINY, *swapped]) == 2
    assert "as layers of tiny-draft is" in capsys.readouterr().err
    assert asked == []


def test_weights_of_a_draft_need_a_draft(folders: tuple[str, str], asked: list[Weights], tmp_path: Path) -> None:
    scenario = tmp_path / "plain.yaml"
    text = Path(TINY).read_text(encoding="utf-8")
    start, end = text.index("draft:"), text.index("deployment:")
    scenario.write_text(f"{text[:start]}draft: {{kind: none}}\n{text[end:]}", encoding="utf-8")
    result = sps("measure", str(scenario), "--draft-weights", folders[1], "--set", "decoding.lookahead=0")
    assert (result.exit_code, asked) == (2, [])
    assert "a scenario whose draft is a model" in result.stderr


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = sps("measure", TINY, "--target-weights", str(tmp_path / "missing"), "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "a folder that exists" in result.stderr


@pytest.mark.slow
def test_loaded_models_are_really_measured(folders: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "measured.json"
    assert main(["measure", TINY, "--target-weights", folders[0], "--out", str(out)]) == 0
    (record,) = json.loads(out.read_text(encoding="utf-8"))["records"]
    assert record["provenance"]["weights"] == "target big, draft random"
    assert record["metrics"]["plain_step_s"] > 0
