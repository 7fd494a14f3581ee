"""What the TPU compiler makes today, where it is installed, beside what it made of the same programs before."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.aot.hlo import parse
from runtime.aot.known import known
from runtime.aot.lints import Expected, findings
from simulator.cli.files import read_records
from simulator.compare import chosen
from simulator.spec.record import RunRecord
from tests.compiled_texts import CHIPS, FOLDER, LAYERS, NAMES, facts
from tests.synthetic import ROOT

pytestmark = [pytest.mark.tpu_compiler, pytest.mark.slow]
EXPECTED = Expected(LAYERS, 2 * LAYERS)
# Two layers as wide as those of the 70B and of its draft, on four chips.
NARROW = ("deployment.chips=4", "deployment.slice=2x2x1", "target.layers=2", "draft.model.layers=2")


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    done = run(str(FOLDER / "make.py"), str(folder), folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_same_programs_have_the_same_faults(made: Path, name: str) -> None:
    text = gzip.decompress((made / f"{name}.hlo.gz").read_bytes()).decode()
    anew = known(parse(text), CHIPS, {"target": 1})
    assert [f.lint for f in findings(anew, EXPECTED)] == [f.lint for f in findings(facts(name), EXPECTED)]
    assert anew.floor_bytes == facts(name).floor_bytes
    assert anew.count("all-reduce") == facts(name).count("all-reduce")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    folder = tmp_path_factory.mktemp("compiled")
    settings = [word for setting in NARROW for word in ("--set", setting)]
    steps = [word for name in ("plain_step", "draft_step", "verify_step") for word in ("--program", name)]
    scenario = str(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml")
    done = run("-m", "simulator", "compile", scenario, *settings, *steps, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["records"]
    return RunRecord.model_validate(found)


@pytest.mark.parametrize("program", ["plain_step", "draft_step", "verify_step"])
def test_the_runtimes_own_steps_are_what_they_should_be(record: RunRecord, program: str) -> None:
    metrics = record.metrics
    assert metrics[f"{program}_layer_all_reduces"] == 2 * 2
    assert metrics[f"{program}_vector_matmuls"] == 0
    assert 1.0 <= metrics[f"{program}_hbm_bytes"] / metrics[f"{program}_floor_bytes"] < 1.2  # type: ignore[operator]
    assert metrics[f"{program}_replay_s"] >= metrics[f"{program}_floor_bytes"] / 1.2e12  # type: ignore[operator]
    assert metrics[f"{program}_replay_s"] <= metrics[f"{program}_replay_scanned_s"]  # type: ignore[operator]


def test_arguments_are_weights_and_cache_and_nothing_else(record: RunRecord) -> None:
    for each in record.provenance["programs"]:
        memory = each["known"]["memory"]
        assert memory["arguments_bytes"] == pytest.approx(sum(memory["argument_parts_bytes"].values()), rel=1e-3)


def test_narrow_heads_lie_in_memory_as_the_readings_say(tmp_path: Path) -> None:
    folder = ROOT / "tests" / "compiled_readings"
    scenario = str(folder / "grouped.yaml")
    done = run("-m", "simulator", "compile", scenario, "--program", "plain_step", "--out", ".", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    new, old = (
        {each["program"]: each["known"] for record in read_records([str(file)]) for each in chosen(record)}
        for file in (tmp_path / "compiled.json", folder / "grouped.json")
    )
    assert new["plain_step"]["memory"]["arguments_bytes"] == old["plain_step"]["memory"]["arguments_bytes"]
    for part in ("qkv", "output", "feed_forward", "head"):
        assert new["plain_step"]["moved_bytes"][part] == old["plain_step"]["moved_bytes"][part]
