"""Does `sps import model` write a file that the other verbs take, and say the rest on stderr?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.importing import import_model
from simulator.spec.load import load_scenario
from tests import hf_configs as known
from tests.builders import PROFILE, scenario

QUANTISED = {"value": "200 TFLOP/s", "source": "invented"}


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, ["import", *words], catch_exceptions=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "llama-70b.json"
    file.write_text(json.dumps(known.LLAMA_70B), encoding="utf-8")
    return file


def loaded(folder: Path, **parts: Any) -> Any:
    """The scenario of a folder with other parts, as the verbs load it."""
    data = json.loads(json.dumps(scenario().resolved())) | {"draft": {"kind": "none"}} | parts
    profile = json.loads(json.dumps(PROFILE))
    profile["peaks"]["matmul"] |= {"fp8": QUANTISED, "fp4": QUANTISED, "int8": QUANTISED, "float16": QUANTISED}
    data["deployment"] = {"hardware": profile, "calibration": "made-up", "chips": 1}
    data.pop("published", None)
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return load_scenario(file)[0].scenario


ROUND = {**{name: config for name, (config, _count, _source) in known.PUBLISHED.items()}, "Scout": known.SCOUT} | {
    "Qwen3-Next": known.QWEN3_NEXT,
    "Qwen3.5-27B": known.QWEN3_5_27B,
    "StarCoder": known.STARCODER,
    "Falcon-7B": known.FALCON_7B,
}


@pytest.mark.parametrize("name", ROUND)
def test_what_is_written_loads_as_the_same_target(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / "a-model.json", tmp_path / "a-model.yaml"
    source.write_text(json.dumps(ROUND[name]), encoding="utf-8")
    assert sps("model", str(source), "--out", str(out), "--tokenizer", "its-own").exit_code == 0
    from simulator.importing import Asked

    target = loaded(tmp_path, target="a-model.yaml").target
    assert target == import_model(source, Asked(tokenizer="its-own")).made


def test_medusa_is_a_base_of_a_scenario(tmp_path: Path) -> None:
    source = tmp_path / "heads.json"
    source.write_text(json.dumps(known.MEDUSA), encoding="utf-8")
    assert sps("model", str(source), "--out", str(tmp_path / "heads.yaml")).exit_code == 0
    data = loaded(tmp_path).resolved()
    del data["draft"]
    data["base"] = "heads.yaml"
    file = tmp_path / "with-heads.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    draft = load_scenario(file)[0].scenario.draft
    assert (draft.kind, draft.heads, draft.layers) == ("medusa", 5, 1)  # type: ignore[union-attr]


def test_the_file_is_on_stdout_and_the_report_on_stderr(config: Path) -> None:
    result = sps("model", str(config))
    assert result.exit_code == 0
    assert "\nlayers: 80\n" in result.stdout
    assert "parameters: 70,553,706,496 (70.55 B)" in result.stderr
    assert "parameters:" not in result.stdout


def test_out_is_not_overwritten_unless_forced(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    out.write_text("mine", encoding="utf-8")
    refused = sps("model", str(config), "--out", str(out))
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert out.read_text(encoding="utf-8") == "mine"
    forced = sps("model", str(config), "--out", str(out), "--force")
    assert forced.stdout.splitlines()[0] == f"model: {out}"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["llama-70b.json", "mine.yaml"]


def test_mistakes_are_located_and_exit_with_2(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{\n  "model_type": "nemotron_h"\n}', encoding="utf-8")
    result = sps("model", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f'{file}:2:3  model_type\n    found    "nemotron_h"\n    accepts  ')
    assert "Mamba layers" in " ".join(result.stderr.split())


def test_options_reach_the_import(config: Path, tmp_path: Path) -> None:
    quantisation = tmp_path / "q.json"
    quantisation.write_text('{"producer": {}, "quantization": {"quant_algo": "FP8"}}', encoding="utf-8")
    result = sps("model", str(config), "--name", "mine", "--quantization", str(quantisation), "--as", "mistral")
    assert "name: mine\n" in result.stdout
    assert "weight_dtype: fp8\n" in result.stdout
    assert "as mistral" in " ".join(result.stderr.split())
    assert sps("model", str(config), "--part", "mtp").exit_code == 2
    assert sps("model", str(config), "--draft-head", "eagle").exit_code == 2


def test_import_is_a_group() -> None:
    result = sps("--help")
    assert result.exit_code == 0
    assert "model" in result.stdout
