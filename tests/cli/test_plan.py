"""`sps plan` to its last stages: candidates played round by round, and really run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.spec.load import scenario_from

HERE = Path(__file__).resolve().parent
CHINCHILLA = HERE.parents[1] / "scenarios" / "plan_chinchilla_draft.yaml"
FEW = ("--set", "plan.drafts.layers=[2, 8]", "--set", "plan.drafts.d_model=[2048, 4096]")


def sps(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_the_first_candidates_are_played_with_their_tails(tmp_path: Path) -> None:
    result = sps(str(CHINCHILLA), *FEW, "--simulate", "2", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "played round by round" in result.stdout
    records = json.loads((tmp_path / "candidates.json").read_text("utf-8"))["records"]
    first, second = json.loads((tmp_path / "plan.json").read_text("utf-8"))["candidates"][:2]
    assert [r["axes"]["candidate"] for r in records[::2]] == [first["name"], second["name"]]
    assert [r["kind"] for r in records] == ["analytic", "simulated"] * 2
    again = scenario_from(records[0]["scenario"])
    assert again.decoding.lookahead == first["lookahead"]
    assert again.acceptance.acceptance_rate == pytest.approx(first["acceptance"][0], abs=1e-3)  # type: ignore[union-attr]
    # What simulation finds is what the closed form says of the same lookahead and the same acceptance.
    assert records[1]["metrics"]["tpot_s"] == pytest.approx(records[0]["metrics"]["tpot_s"], rel=0.03)
    tail = records[1]["metrics"]["time_to_tokens_s"]
    assert tail["p50"] < tail["p90"] < tail["p99"]
    assert f"{tail['p99']:.3g}" in result.stdout
    data = json.loads(sps(str(CHINCHILLA), *FEW, "--simulate", "2", "--json").stdout)
    assert data["records"] == records
    assert data["plan"]["candidates"][0]["name"] == first["name"]


def test_the_first_candidates_are_really_run(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    data: dict[str, Any] = yaml.safe_load((HERE / "tiny.yaml").read_text("utf-8"))
    data["draft"] = {"kind": "none"}
    space = {"layers": [1, 2], "d_model": [32, 64], "head_dim": 32, "max_parameters": 60_000}
    data["plan"] = {"drafts": space, "lookahead": [2]}
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(data), "utf-8")
    result = sps(str(file), "--confirm", "2", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "a floor, NOT a prediction" in " ".join(result.stdout.split())
    assert "really run here" in result.stdout
    records = json.loads((tmp_path / "out" / "measured.json").read_text("utf-8"))["records"]
    drafts = {one["name"]: one for one in json.loads((tmp_path / "out" / "plan.json").read_text("utf-8"))["candidates"]}
    assert len(records) == 2
    for record in records:
        planned = drafts[record["axes"]["candidate"]]
        assert record.get("status", {"state": "ok"})["state"] == "ok"
        assert record["scenario"]["draft"]["model"]["layers"] == planned["model"]["layers"]
        # Acceptance was forced to the mean of the prior: 1 + a + a^2 tokens a round, within the noise of few rounds.
        rate = planned["acceptance"][0]
        assert record["metrics"]["acceptance_length"] == pytest.approx(1 + rate + rate**2, rel=0.15)


def test_another_machine_s_plan_is_not_run_here(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    result = sps(str(CHINCHILLA), *FEW, "--confirm", "1", "--out", str(tmp_path))
    assert result.exit_code == 3, result.output
    assert not (tmp_path / "measured.json").exists()
