"""Folders of weights: every mistake in one is explained, all at once where that is possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.loading import load
from runtime.mesh import chip_mesh
from runtime.weights_folder import WeightsFolder
from simulator.errors import ConfigError, RefusedError
from simulator.spec.model import Experts, ModelSpec, RotaryScaling
from tests.llama_folders import LLAMA3, Tensors, config, folder_of, random_tensors, small

SPEC = small(layers=1)
GIVEN = random_tensors(SPEC)
Q, UP = "model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"


def without(*names: str) -> Tensors:
    return {name: tensor for name, tensor in GIVEN.items() if name not in names}


def said(path: Path, spec: ModelSpec = SPEC) -> list[tuple[str, str, str, str]]:
    """File name, path, found and accepted of every problem."""
    with pytest.raises(ConfigError) as caught:
        WeightsFolder.open(path, spec)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)
    return [(Path(p.file).name, p.path, p.found, p.accepts) for p in caught.value.problems]


def indexed(path: Path, change: Any) -> Path:
    """A folder of two files, its index changed."""
    folder_of(path, GIVEN, shards=2)
    index = json.loads((path / INDEX).read_text())
    index["weight_map"] = change(index["weight_map"])
    (path / INDEX).write_text(json.dumps(index))
    return path


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_sound_folder_opens(shards: int, tmp_path: Path) -> None:
    buffer = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    opened = WeightsFolder.open(folder_of(tmp_path, GIVEN | buffer, config(SPEC), shards), SPEC)
    for name, tensor in GIVEN.items():
        np.testing.assert_array_equal(opened[name], tensor)


def test_missing_extra_and_misshapen_tensors_are_told_together(tmp_path: Path) -> None:
    bias = {"model.layers.0.self_attn.q_proj.bias": np.zeros(32, np.float32)}
    path = folder_of(tmp_path, without(UP) | bias | {Q: GIVEN[Q].T[:16]}, config(SPEC, num_hidden_layers=3))
    assert said(path) == [
        ("config.json", "num_hidden_layers", "3", "1, as layers of tiny is"),
        (SINGLE, Q, "shape [16, 32]", "shape [32, 32], as tiny has it"),
        (path.name, UP, "no such tensor", "a tensor of shape [64, 32]"),
        (SINGLE, "model.layers.0.self_attn.q_proj.bias", "a tensor", "no such tensor in tiny"),
    ]


def test_a_model_of_more_layers_misses_all_of_the_next(tmp_path: Path) -> None:
    problems = said(folder_of(tmp_path, GIVEN), small(layers=2))
    assert len(problems) == 9
    assert all(name.startswith("model.layers.1.") for _, name, *_ in problems)


@pytest.mark.parametrize("tied", [False, True])
def test_the_head_is_there_unless_it_is_the_embedding(tied: bool, tmp_path: Path) -> None:
    spec, other = small(layers=1, tied_embeddings=tied), random_tensors(small(layers=1, tied_embeddings=not tied))
    found = "a tensor" if tied else "no such tensor"
    assert [(name, what) for _, name, what, _ in said(folder_of(tmp_path, other), spec)] == [("lm_head.weight", found)]


def test_what_is_no_folder_of_weights_is_explained(tmp_path: Path) -> None:
    assert said(tmp_path / "missing")[0][3] == "a folder that exists"
    assert said(tmp_path)[0][3] == f"a folder with {SINGLE} or {INDEX}"
    folder_of(tmp_path, GIVEN, shards=2)
    folder_of(tmp_path, GIVEN)
    assert said(tmp_path)[0][2:] == (f"{SINGLE} and {INDEX}", "one of the two")


def test_a_missing_and_a_truncated_shard_are_told_together(tmp_path: Path) -> None:
    folder_of(tmp_path, GIVEN, shards=3)
    (tmp_path / "model-00001-of-00003.safetensors").unlink()
    cut = tmp_path / "model-00003-of-00003.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1])
    problems = said(tmp_path)
    assert len(problems) == 2, "the tensors of the two files are not told to be missing as well"
    assert problems[0][1:3] == ("model-00001-of-00003.safetensors", "no such file")
    assert "the file is truncated" in problems[1][3]


@pytest.mark.parametrize(
    "name",
    ["../stolen", "/etc/passwd", "sub/../../stolen", "stolen", "sub/../x", "circle", "a\0b", "long" * 500, "", "."],
)
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    path = tmp_path / "inside"
    folder_of(tmp_path / "other", GIVEN)
    (tmp_path / "stolen").write_bytes((tmp_path / "other" / SINGLE).read_bytes())
    indexed(path, lambda places: places | {Q: name})
    (path / "stolen").symlink_to(tmp_path / "stolen")
    (path / "circle").symlink_to(path / "circle")
    problems = [problem for problem in said(path) if problem[1] == name]
    assert len(problems) == 1
    assert problems[0][2] in {"a name that leaves the folder", "no such file"}


def test_single_files_and_configurations_do_not_lead_out_either(tmp_path: Path) -> None:
    folder_of(tmp_path / "outside", GIVEN, config(SPEC))
    (tmp_path / "in").mkdir()
    for name in (SINGLE, "config.json"):
        (tmp_path / "in" / name).symlink_to(tmp_path / "outside" / name)
    problems = said(tmp_path / "in")
    assert [problem[1] for problem in problems] == ["config.json", SINGLE]
    assert "cp -rL" in problems[0][3]


def test_links_and_folders_inside_are_followed(tmp_path: Path) -> None:
    folder_of(tmp_path / "sub", GIVEN)
    (tmp_path / "link").symlink_to(tmp_path / "sub" / SINGLE)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(GIVEN, "link")}))
    assert set(WeightsFolder.open(tmp_path, SPEC).files) == set(GIVEN)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "null"),
        ('{"weight_map": [1]}', "[1]"),
        ('{"weight_map": {"x": 1}}', "1"),
        ('{"weight_map": {"x": "y", "x": "z"}}', "the same name 2 times"),
        ('{"weight_map": {}}', "no such tensor"),
    ],
)
def test_every_bad_index_is_explained(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(text)
    assert words in said(tmp_path)[0][2]


def test_tensors_lie_where_the_index_says(tmp_path: Path) -> None:
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    places = json.loads((indexed(tmp_path / "sound", dict) / INDEX).read_text())["weight_map"]
    moved = next(name for name, file in places.items() if file == first)
    problems = said(indexed(tmp_path / "moved", lambda places: places | {moved: second}))
    assert sorted(problem[:2] for problem in problems) == [(first, moved), (second, moved)]
    named = said(indexed(tmp_path / "more", lambda places: places | {"more": second}))
    assert [problem[:3] for problem in named] == [(second, "more", "no such tensor")]


@pytest.mark.parametrize(
    ("changes", "key", "found", "accepts"),
    [
        ({"hidden_size": 48}, "hidden_size", "48", "32, as d_model of tiny is"),
        ({"num_attention_heads": 8}, "num_attention_heads", "8", "4, as heads of tiny is"),
        ({"num_key_value_heads": None}, "num_key_value_heads", "4", "2, as kv_heads of tiny is"),
        ({"head_dim": 16}, "head_dim", "16", "8, as head_dim of tiny is"),
        ({"intermediate_size": 65}, "intermediate_size", "65", "64, as d_ff of tiny is"),
        ({"vocab_size": 65}, "vocab_size", "65", "64, as vocabulary of tiny is"),
        ({"rope_theta": 1e4}, "rope_theta", "10000.0", "500.0, as rotary_base of tiny is"),
        ({"rope_theta": None}, "rope_theta", "10000.0", "500.0, as rotary_base of tiny is"),
        ({"rope_parameters": {"rope_theta": 7}}, "rope_theta", "7", "500.0, as rotary_base of tiny is"),
        ({"rms_norm_eps": 1e-5}, "rms_norm_eps", "1e-05", "0.001, as norm_epsilon of tiny is"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings", "true", "false, as tied_embeddings of tiny is"),
        ({"num_hidden_layers": True}, "num_hidden_layers", "true", "1, as layers of tiny is"),
        ({"attention_bias": True}, "attention_bias", "true", "false; others are not executed"),
        ({"mlp_bias": True}, "mlp_bias", "true", "false; others are not executed"),
        ({"hidden_act": "gelu"}, "hidden_act", '"gelu"', '"silu"; others are not executed'),
        ({"sliding_window": 4096}, "sliding_window", "4096", "null; others are not executed"),
        ({"quantization_config": {}}, "quantization_config", "{}", "null; others are not executed"),
        ({"model_type": "mistral"}, "sliding_window", "4096", "null; others are not executed"),
        ({"model_type": "gemma"}, "model_type", '"gemma"', "llama or mistral"),
        ({"model_type": ["llama"]}, "model_type", '["llama"]', "llama or mistral"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling", '{"type": "linear", "factor": 2}', "null"),
        ({"rope_scaling": "linear"}, "rope_scaling", '"linear"', "null"),
    ],
)
def test_every_other_word_of_the_configuration_is_named(
    changes: dict[str, Any], key: str, found: str, accepts: str, tmp_path: Path
) -> None:
    (problem,) = said(folder_of(tmp_path, GIVEN, config(SPEC, **changes)))
    assert problem[:3] == ("config.json", key, found)
    assert problem[3].startswith(accepts)


@pytest.mark.parametrize(
    "changes",
    [
        {"head_dim": None, "mlp_bias": None, "rope_scaling": {}},
        {"rope_theta": None, "rope_parameters": {"rope_theta": 500, "rope_type": "default"}},
        {"rope_scaling": {"type": "default"}},
        {"model_type": "mistral", "sliding_window": None, "torch_dtype": "bfloat16", "unknown": [1]},
    ],
)
def test_other_ways_to_say_the_same_are_understood(changes: dict[str, Any], tmp_path: Path) -> None:
    WeightsFolder.open(folder_of(tmp_path, GIVEN, config(SPEC, **changes)), SPEC)


@pytest.mark.parametrize(
    "change", [{"factor": 4.0}, {"low_freq_factor": 2}, {"original_max_position_embeddings": 8}, {"rope_type": "yarn"}]
)
def test_stretched_frequencies_are_compared(change: dict[str, Any], tmp_path: Path) -> None:
    spec = small(layers=1, rotary_scaling=RotaryScaling(**LLAMA3))
    sound = config(spec)
    WeightsFolder.open(folder_of(tmp_path, GIVEN, sound), spec)
    assert said(tmp_path)[0][:2] == ("config.json", "rope_scaling")
    folder_of(tmp_path, GIVEN, sound | {"rope_scaling": sound["rope_scaling"] | change})
    assert said(tmp_path, spec)[0][:2] == ("config.json", "rope_scaling")
    folder_of(tmp_path, GIVEN, sound | {"rope_scaling": None})
    assert said(tmp_path, spec)[0][:3] == ("config.json", "rope_scaling", "null")


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"a": 1, "a": 2}'])
def test_a_configuration_that_is_no_json_is_explained(text: str, tmp_path: Path) -> None:
    folder_of(tmp_path, GIVEN)
    (tmp_path / "config.json").write_text(text)
    assert said(tmp_path)[0][0] == "config.json"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"feed_forward": "plain"}, "feed_forward plain"),
        ({"positions": "none"}, "positions none"),
        ({"block": "parallel"}, "block parallel"),
        ({"experts": Experts(count=4, per_token=2, d_ff=16)}, "experts"),
    ],
)
def test_models_unlike_llama_are_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=words):
        load(small(layers=1, **changes), folder_of(tmp_path, GIVEN), chip_mesh(1, 1), 1)
