"""`sps plan --confirm compile`: the last candidates as the TPU compiler makes them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from runtime.aot import compiler
from runtime.aot.recipe import Recipe
from simulator.cli import app
from simulator.spec.record import RunRecord
from tests.cli.test_compile import compiler_that_makes
from tests.synthetic import ROOT

__all__ = ["compiler_that_makes"]

CHINCHILLA = str(ROOT / "scenarios" / "plan_chinchilla_draft.yaml")
FEW = (
    *("--set", "plan.drafts.layers=[2, 8]", "--set", "plan.drafts.d_model=[2048, 4096]"),
    *("--set", "plan.draft_tensor_parallel=[4]", "--set", "plan.existing=[]", "--set", "target.layers=2"),
    *("--set", "target.d_model=8192", "--set", "deployment.chips=4", "--set", "deployment.slice=2x2x1"),
)


def sps(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", CHINCHILLA, *arguments])


def test_candidates_are_told_beside_what_the_plan_said(
    compiler_that_makes: Callable[[str], list[Recipe]], tmp_path: Path
) -> None:
    asked = compiler_that_makes("right")
    result = sps(*FEW, "--confirm", "compile:2", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "candidates.json").read_text("utf-8"))["records"]
    records = [RunRecord.model_validate(record) for record in kept]
    assert [record.kind for record in records] == ["compiled"] * 2
    assert json.loads((tmp_path / "compiled.json").read_text("utf-8"))["records"] == kept
    first, second = json.loads((tmp_path / "plan.json").read_text("utf-8"))["candidates"][:2]
    assert [record.axes["candidate"] for record in records] == [first["name"], second["name"]]
    # Each candidate's own draft; the target's plain step is the same question twice.
    drafts = [recipe.draft.name for recipe in asked if recipe.draft is not None]
    assert set(drafts) == {first["name"], second["name"]}
    assert {recipe.program for recipe in asked} == {"plain_step", "draft_step", "verify_step"}
    draft_ms = 1e3 * records[0].metrics["draft_step_replay_with_collectives_s"]  # type: ignore[operator]
    row = [line for line in result.stdout.splitlines() if line.startswith(first["name"].removeprefix("draft-"))][-1]
    assert f"{draft_ms:.3f}" in row
    assert f"{1e3 * first['draft_step_s']:.3f}" in row


@pytest.mark.parametrize("words", ["0", "21", "two", "compile:", "compile:0", "compiled", "-1", "compile:99"])
def test_what_cannot_be_confirmed_is_refused_before_anything_is_searched(words: str) -> None:
    result = sps(f"--confirm={words}")
    assert result.exit_code == 2
    assert "1 to 20, how many are really run here, or compile or compile:N" in " ".join(result.stderr.split())


def test_without_the_compiler_it_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name, *_: None if name == "libtpu" else real(name))
    result = sps(*FEW, "--confirm", "compile", "--out", str(tmp_path))
    assert result.exit_code == 3
    assert "the TPU compiler is not installed" in result.stderr


def test_a_chip_that_is_no_tpu_is_refused(tmp_path: Path) -> None:
    loads = str(ROOT / "scenarios" / "plan_llama70b_loads.yaml")
    one = ("--set", "workload.batch=1", "--set", "workload.prompt_tokens=512")
    result = CliRunner().invoke(app, ["plan", loads, *one, "--confirm", "compile", "--out", str(tmp_path)])
    assert result.exit_code == 3
    assert "the TPU compiler compiles for TPUs alone" in result.stderr
