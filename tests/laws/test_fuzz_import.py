"""Whatever stands in a configuration, importing it gives a model or a ConfigError that a person can read."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from simulator.cli import app
from simulator.errors import ConfigError
from simulator.importing import Asked, import_model
from simulator.importing.json_text import parse_json
from simulator.importing.words import report_lines, to_yaml
from simulator.spec.drafting import MedusaDraft
from simulator.spec.model import ModelSpec
from simulator.spec.source import parse
from tests import hf_configs as known

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}},
    "ignore": ["lm_head"],
    "kv_cache_scheme": {"num_bits": 8, "type": "float"},
}
BASES: list[dict[str, Any]] = [
    known.LLAMA_70B,
    known.MISTRAL,
    known.QWEN3_MOE,
    known.DEEPSEEK_V3,
    known.GEMMA3_27B,
    known.SCOUT,
    known.QWEN3_NEXT,
    known.QWEN3_5_27B,
    known.gpt_oss(24, 32),
    known.STARCODER,
    known.FALCON_7B,
    known.CHATGLM3,
    known.PUBLISHED["OPT-125M"][0],
    known.PUBLISHED["T5-3B"][0],
    known.PUBLISHED["BLOOM"][0],
    known.EAGLE3,
    known.DFLASH,
    known.MEDUSA,
    {"speculators_model_type": "eagle3", "draft_vocab_size": 32000, "transformer_layer_config": known.EAGLE},
    known.LLAMA_70B | {"quantization_config": GPTQ},
    known.QWEN3_MOE | {"quantization_config": COMPRESSED},
]
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    7,
    10**6,
    10**12,
    10**39,
    -(10**20),
    0.5,
    4096.0,
    1e308,
    -1e-300,
    "",
    "text",
    "4096",
    "fp8",
    "\N{PILE OF POO}",
    "x" * 5000,
    [],
    [1],
    [None],
    ["full_attention"],
    [[]],
    {},
    {"a": 1},
    {"rope_type": "llama3"},
]
ASKED = [
    Asked(),
    Asked(part="mtp"),
    Asked(draft_head="eagle"),
    Asked(draft_head="eagle3"),
    Asked(draft_head="dflash"),
    Asked(draft_head="none"),
    Asked(family="llama"),
    Asked(family="t5"),
    Asked(name="x y"),
]


def places(config: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path below ``config``."""
    items = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutated(config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """``config`` with one to three keys dropped, replaced, renamed or added."""
    changed = copy.deepcopy(config)
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(list(places(changed)) or [("model_type",)])
        parent: Any = changed
        for key in path[:-1]:
            parent = parent[key]
        key, odd = path[-1], copy.deepcopy(rng.choice(ODD))
        action = rng.choice(("drop", "replace", "replace", "scale", "add", "nest"))
        if action == "drop":
            del parent[key]
        elif action == "scale" and isinstance(parent[key], int) and not isinstance(parent[key], bool):
            parent[key] = parent[key] * rng.choice((-1, 2, 3, 1000)) + rng.choice((0, 1))
        elif action == "add" and isinstance(parent, dict):
            parent[rng.choice(ADDED)] = odd
        elif action == "nest":
            parent[key] = {"text_config": parent[key]} if rng.random() < 0.5 else [parent[key]]
        else:
            parent[key] = odd
    return changed


ADDED = sorted({str(path[-1]) for base in BASES for path in places(base) if isinstance(path[-1], str)} | {"alibi"})


def readable(error: ConfigError) -> None:
    """Every problem has a place and says what is accepted, in nobody's programming language."""
    assert error.problems
    for word in ("Traceback", "pydantic", "NoneType", "<class", "Error", "{'", "ModelSpec"):
        assert word not in str(error)
    for problem in error.problems:
        assert problem.accepts
        assert (problem.line > 0 and problem.column > 0) or problem.file.startswith("--"), problem


def check(file: Path, asked: Asked) -> bool:
    """Whether it was imported; anything but a model or readable problems fails."""
    try:
        found = import_model(file, asked)
    except ConfigError as error:
        readable(error)
        return False
    assert all(line.isprintable() for line in report_lines(found))
    data = parse(to_yaml(found), "imported.yaml").data
    if isinstance(found.made, ModelSpec):
        assert ModelSpec.model_validate(data) == found.made
        assert found.made.parameters > 0
    else:
        assert MedusaDraft.model_validate(data["draft"]) == found.made
    return True


def test_two_thousand_mutations_are_imported_or_explained(tmp_path: Path) -> None:
    rng = random.Random(20_251_130)
    file = tmp_path / "config.json"
    outcomes = []
    for _ in range(2000):
        file.write_text(json.dumps(mutated(rng.choice(BASES), rng)), encoding="utf-8")
        outcomes.append(check(file, rng.choice(ASKED) if rng.random() < 0.3 else Asked()))
    # Not one or the other alone: both ways are really walked.
    assert 200 < sum(outcomes) < 1800


def test_mutations_through_the_command(tmp_path: Path) -> None:
    rng = random.Random(7)
    file = tmp_path / "config.json"
    codes = set()
    for _ in range(60):
        file.write_text(json.dumps(mutated(rng.choice(BASES), rng)), encoding="utf-8")
        result = CliRunner().invoke(app, ["import", "model", str(file)], catch_exceptions=False)
        codes.add(result.exit_code)
        assert (result.stdout == "") == (result.exit_code == 2)
        assert "Traceback" not in result.stderr
        assert ("Nothing was run." in result.stderr) == (result.exit_code == 2)
    assert codes == {0, 2}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_as_python_reads_it(value: Any) -> None:
    text = json.dumps(value)
    with contextlib.suppress(ConfigError):  # integers of more than 40 digits
        assert json.loads(json.dumps(parse_json(text, "x").data)) == json.loads(text)


@given(st.text(max_size=60) | st.text(alphabet='{}[]":,0123456789.eE-+tfn \n\t\\u', max_size=60))
def test_any_text_is_json_or_a_located_problem(text: str) -> None:
    try:
        parse_json(text, "x")
    except ConfigError as error:
        readable(error)
        return
    if text.strip(" \t\r\n"):
        json.loads(text)


@pytest.mark.parametrize("name", known.PUBLISHED)
def test_every_key_of_a_size_is_read(tmp_path: Path, name: str) -> None:
    # A width, depth or vocabulary that is doubled is never without effect.
    config = known.PUBLISHED[name][0]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    before = import_model(file).made
    assert isinstance(before, ModelSpec)
    for key in ("vocab_size", "padded_vocab_size"):
        if key in config:
            file.write_text(json.dumps(config | {key: 2 * config[key]}), encoding="utf-8")
            after = import_model(file).made
            assert isinstance(after, ModelSpec)
            assert after.vocabulary == 2 * before.vocabulary
            assert after.parameters > before.parameters
