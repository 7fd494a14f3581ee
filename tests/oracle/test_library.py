"""Are the models, draft heads and scenarios that come with the toolkit what they say?"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.predict import predict_scenario
from simulator.spec import library
from simulator.spec.load import load_scenario
from simulator.spec.model import ModelSpec
from simulator.spec.named import known_models, may_draft

MODELS = {model.words: model.spec for model in known_models()}
HEADS = {name: spec for name, spec in MODELS.items() if spec.hidden_states is not None}
PAIRED = (
    *("llama-2-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen2.5-7b", "qwen2.5-72b", "qwen3-32b"),
    *("qwen3-235b-a22b", "gemma-2-27b", "gemma-3-27b", "opt-30b", "opt-66b", "deepseek-v3", "gpt-oss-120b", "t5-11b"),
)
"""Targets that people speculate with: each has a draft here."""


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_called_as_its_file_and_has_the_published_weights(name: str) -> None:
    spec = MODELS[name]
    assert spec.name == name
    assert len(spec.source) > 10
    if spec.published_parameters is not None and not name.startswith("chinchilla"):
        assert spec.parameters == pytest.approx(spec.published_parameters, rel=0.005)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_fits_its_target(name: str) -> None:
    head = HEADS[name]
    assert head.hidden_states is not None
    target = MODELS[head.hidden_states.of or ""]
    assert (head.hidden_states.width or head.d_model) == target.d_model
    assert head.vocabulary <= target.vocabulary
    assert head.tokenizer == target.tokenizer
    assert head.parameters < target.parameters / 5
    assert may_draft(head, target)


def drafts(target: ModelSpec) -> list[str]:
    return [name for name, spec in MODELS.items() if may_draft(spec, target)]


@pytest.mark.parametrize("name", PAIRED)
def test_common_targets_have_drafts_and_the_list_names_them(name: str) -> None:
    known = drafts(MODELS[name])
    assert known
    told = sps("list", "models", "--for", name)
    assert told.exit_code == 0
    assert {line.split()[0] for line in told.stdout.splitlines() if not line.startswith(" ")} == set(known)
    assert max(map(len, told.stdout.splitlines())) <= 100


def test_a_draft_of_another_tokenizer_or_of_another_target_is_not_among_them() -> None:
    assert "qwen3-0.6b" not in drafts(MODELS["qwen2.5-72b"])
    assert "eagle3-qwen3-8b" not in drafts(MODELS["llama-3.1-8b"])  # of the same width
    assert not drafts(MODELS["eagle3-qwen3-8b"])
    assert drafts(MODELS["qwen2.5-72b"])[0] == "qwen2.5-0.5b"  # with fewer tokens: padding


def test_lists_say_where_there_is_nothing_and_what_cannot_be_asked() -> None:
    none = sps("list", "models", "--for", "llama-3.2-1b")
    assert (none.exit_code, none.stdout.strip()) == (0, "")
    assert "sps import model" in none.stderr
    assert sps("list", "hardware", "--for", "llama-3.2-1b").exit_code == 2
    assert sps("list", "models", "--for", "llama-9").exit_code == 2


@pytest.mark.parametrize("file", sorted(library.SCENARIOS.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_scenario_is_answered_within_what_was_measured(file: Path) -> None:
    for point in load_scenario(file):
        assert predict_scenario(point.scenario).status.state == "ok" or point.scenario.deployment.hardware.name == "cpu"


def test_a_planner_with_a_70b_and_8_h100_has_an_answer_on_the_first_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = sps("init", "--model", "llama-3.1-70b", "--hardware", "h100_sxm", "--chips", "8")
    assert written.exit_code == 0
    Path("s.yaml").write_text(written.stdout, encoding="utf-8")
    assert sps("check", "s.yaml").exit_code == 0
    answer = sps("predict", "s.yaml")
    assert answer.exit_code == 0
    screen = answer.stdout.splitlines()[:40]
    labels = [line.split("  ")[0] for line in screen if line and not line.startswith(" ")]
    for asked in ("fits", "plain decoding", "floor", "first token", "pays above", "cost"):
        assert asked in labels
    assert any(label.startswith("a round, K=") for label in labels)
    table = screen[next(index for index, line in enumerate(screen) if line.startswith("draft")) :]
    assert [line.split()[2] for line in table[1:7]] == ["1", "2", "3", "4", "5", "7"]
    assert {"needs", "speedup"} <= set(table[0].split())
    assert sum(line.endswith("<- best") for line in table) == 1
    assert max(map(len, screen)) <= 100
