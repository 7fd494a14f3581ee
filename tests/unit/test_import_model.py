"""Does each key of a configuration do what it says, and is each mistake in one told at its place?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import ConfigError, Problem
from simulator.importing import Asked, Imported, import_model
from simulator.importing.families import FAMILIES
from simulator.importing.family_names import ALIASES, REFUSED
from simulator.importing.keys import NAMES
from simulator.importing.words import report_lines, to_yaml
from simulator.spec.drafting import MedusaDraft
from simulator.spec.model import ModelSpec
from tests import hf_configs as known

SMALL = known.llama(4, 64, 4, 128, 1000, 2)
MOE = SMALL | {"num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
Import = Callable[..., Imported]


@pytest.fixture
def read(tmp_path: Path) -> Import:
    """Imports a configuration that is given as data."""

    def run(config: Any, file: str = "a-model.json", **asked: Any) -> Imported:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config if isinstance(config, str) else json.dumps(config, indent=2), encoding="utf-8")
        return import_model(path, Asked(**asked))

    return run


@pytest.fixture
def spec(read: Import) -> Callable[..., ModelSpec]:
    """The model that comes of a configuration."""

    def run(config: Any, **asked: Any) -> ModelSpec:
        made = read(config, **asked).made
        assert isinstance(made, ModelSpec)
        return made

    return run


@pytest.fixture
def refused(read: Import) -> Callable[..., dict[str, Problem]]:
    """The problems of a configuration by path."""

    def run(config: Any, **asked: Any) -> dict[str, Problem]:
        with pytest.raises(ConfigError) as caught:
            read(config, **asked)
        return {problem.path: problem for problem in caught.value.problems}

    return run


Spec = Callable[..., ModelSpec]
Refused = Callable[..., dict[str, Problem]]


class TestKeys:
    @pytest.mark.parametrize("other", NAMES["layers"])
    def test_any_name_of_a_key_will_do(self, spec: Spec, other: str) -> None:
        config = {key: value for key, value in SMALL.items() if key != "num_hidden_layers"}
        assert spec(config | {other: 4}).layers == 4

    def test_two_names_with_different_values_are_a_mistake(self, refused: Refused) -> None:
        problem = refused(SMALL | {"n_embd": 128})["n_embd"]
        assert problem.accepts == "the same as hidden_size, which is 64: both mean width"

    def test_two_names_with_one_value_are_not(self, spec: Spec) -> None:
        assert spec(MOE | {"experts_per_token": 2}).experts is not None

    def test_padding_counts(self, spec: Spec, read: Import) -> None:
        assert spec(SMALL | {"padded_vocab_size": 1024}).vocabulary == 1024
        result = read(SMALL | {"pad_vocab_size_multiple_of": 64})
        assert isinstance(result.made, ModelSpec)
        assert result.made.vocabulary == 1024
        assert "vocabulary" in {item.field for item in result.report.inferred}

    def test_a_padded_vocabulary_is_not_smaller(self, refused: Refused) -> None:
        assert "1,000" in refused(SMALL | {"padded_vocab_size": 999})["padded_vocab_size"].accepts

    def test_an_explicit_head_size_wins_over_width_by_heads(self, spec: Spec) -> None:
        assert spec(SMALL | {"head_dim": 32}).head_dim == 32
        assert spec(SMALL).head_dim == 16

    def test_null_is_as_good_as_nothing(self, spec: Spec) -> None:
        assert spec(SMALL | {"head_dim": None, "num_key_value_heads": None, "rope_scaling": None}).kv_heads == 4

    def test_rotary_scaling(self, spec: Spec, read: Import) -> None:
        scaled = spec(SMALL | {"rope_scaling": known.LLAMA3_ROPE, "rope_theta": 500000}).rotary_scaling
        assert scaled is not None
        assert (scaled.factor, scaled.original_positions) == (8.0, 8192)
        report = read(SMALL | {"rope_scaling": {"type": "yarn", "factor": 40}}).report
        assert [item.what for item in report.left_out] == ["rotary scaling of type yarn"]

    @pytest.mark.parametrize(
        ("config", "positions", "rows"),
        [
            (known.opt(2, 64, 4), "learned", 2050),
            (known.gpt2(2, 64, 4), "learned", 1024),
            (known.bloom(2, 64, 4), "none", None),
            (known.t5(2, 64, 4, 128, 16), "none", None),
            (known.FALCON_7B | {"alibi": True}, "none", None),
        ],
    )
    def test_positions(self, spec: Spec, config: Any, positions: str, rows: int | None) -> None:
        made = spec(config)
        assert (made.positions, made.max_positions) == (positions, rows)

    def test_parallel_blocks(self, spec: Spec) -> None:
        assert spec(known.FALCON_7B).block == spec(known.GPT_J).block == spec(known.PHI_2).block == "parallel"
        assert spec(known.pythia(2, 64, 4, 1000) | {"use_parallel_residual": False}).block == "serial"

    def test_an_encoder(self, spec: Spec) -> None:
        made = spec(known.t5(3, 64, 4, 128, 16, num_decoder_layers=5, feed_forward_proj="gated-gelu"))
        assert made.encoder is not None
        assert (made.encoder.layers, made.layers, made.feed_forward) == (3, 5, "gated")

    def test_the_vision_part_is_left_out_and_said_so(self, read: Import) -> None:
        report = read(known.SCOUT).report
        assert "what vision_config describes" in [item.what for item in report.left_out]
        assert any("upper bound" in note for note in report.notes)


class TestFamilies:
    @pytest.mark.parametrize("name", FAMILIES)
    def test_tied_embeddings_are_said_or_inferred(self, read: Import, name: str) -> None:
        config: dict[str, Any] = {
            **SMALL,
            "model_type": name,
            "multi_query_attention": True,
            "new_decoder_architecture": True,
            "shared_expert_intermediate_size": 32,
        }
        if name in ("qwen3_moe", "llama4_text", "mixtral", "phimoe", "gpt_oss", "olmoe"):
            config |= {"moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2}
        del config["tie_word_embeddings"]
        report = read(config).report
        assert {"tied_embeddings", "name"} <= {item.field for item in report.inferred}
        assert "tied_embeddings" not in {
            item.field for item in read(config | {"tie_word_embeddings": True}).report.inferred
        }

    @pytest.mark.parametrize(("family", "tied"), [("gemma2", True), ("opt", True), ("falcon", True), ("llama", False)])
    def test_each_family_has_its_default(self, spec: Spec, family: str, tied: bool) -> None:
        config = {key: value for key, value in SMALL.items() if key != "tie_word_embeddings"}
        assert spec(config | {"model_type": family, "new_decoder_architecture": True}).tied_embeddings is tied

    @pytest.mark.parametrize("name", REFUSED)
    def test_what_cannot_be_modelled_is_refused_by_name(self, refused: Refused, name: str) -> None:
        problem = refused(SMALL | {"model_type": name})["model_type"]
        assert f"of {name}: {REFUSED[name]}" in problem.accepts
        assert problem.line == 2

    def test_an_unknown_family_is_refused_with_the_nearest(self, refused: Refused, spec: Spec) -> None:
        problem = refused(SMALL | {"model_type": "lama"})["model_type"]
        assert "did you mean 'llama'?" in problem.accepts
        assert {name.removesuffix("_text") for name in FAMILIES} <= set(str(problem).split())
        assert "--as" in problem.accepts
        assert spec(SMALL | {"model_type": "lama"}, family="llama").layers == 4

    def test_without_model_type_the_class_decides(self, read: Import) -> None:
        config = {key: value for key, value in known.MIXTRAL.items() if key != "model_type"}
        assert read(config | {"architectures": ["MixtralForCausalLM"]}).family == "mixtral"

    def test_names_are_of_families(self) -> None:
        assert set(ALIASES.values()) <= set(FAMILIES)
        assert not set(REFUSED) & set(FAMILIES)


class TestExperts:
    @pytest.mark.parametrize("count", NAMES["experts"])
    @pytest.mark.parametrize("each", NAMES["experts_per_token"])
    def test_every_spelling(self, spec: Spec, count: str, each: str) -> None:
        made = spec(SMALL | {count: 8, each: 2, "moe_intermediate_size": 32}).experts
        assert made is not None
        assert (made.count, made.per_token, made.d_ff, made.layers) == (8, 2, 32, None)

    @pytest.mark.parametrize(
        ("more", "shared"),
        [
            ({"n_shared_experts": 2}, 64),
            ({"shared_expert_intermediate_size": 48}, 48),
            ({"n_shared_experts": None}, 0),
            ({"n_shared_experts": 0}, 0),
        ],
    )
    def test_shared_experts(self, spec: Spec, more: dict[str, Any], shared: int) -> None:
        made = spec(MOE | more).experts
        assert made is not None
        assert made.shared_d_ff == shared

    @pytest.mark.parametrize(
        ("more", "layers"),
        [
            ({}, None),
            ({"first_k_dense_replace": 1}, 3),
            ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, 1),  # of 0, 2 those from 1 on
            ({"moe_layer_freq": [0, 1, 1, 1]}, 3),
            ({"decoder_sparse_step": 2}, 2),
            ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 3]}, 2),
            ({"interleave_moe_layer_step": 2}, 2),
            ({"moe_layers": [1, 3]}, 2),
            ({"moe_layer_start_index": 1, "moe_layer_end_index": 2}, 2),
        ],
    )
    def test_layers_with_experts(self, spec: Spec, more: dict[str, Any], layers: int | None) -> None:
        made = spec(MOE | more).experts
        assert made is not None
        assert made.layers == layers

    def test_no_layer_with_experts_is_dense(self, read: Import) -> None:
        result = read(MOE | {"mlp_only_layers": [0, 1, 2, 3]})
        assert isinstance(result.made, ModelSpec)
        assert result.made.experts is None
        assert any("all layers are dense" in note for note in result.report.notes)

    def test_the_dense_width_of_llama_4(self, spec: Spec) -> None:
        made = spec(known.SCOUT)
        assert (made.d_ff, made.experts and made.experts.d_ff, made.experts and made.experts.shared_d_ff) == (
            16384,
            8192,
            8192,
        )

    def test_more_experts_a_token_than_there_are(self, refused: Refused) -> None:
        assert "8 experts" in refused(MOE | {"num_experts_per_tok": 9})["num_experts_per_tok"].accepts


class TestWindows:
    @pytest.mark.parametrize(
        ("family", "more", "layers"),
        [
            ("mistral", {}, 4),
            ("mistral", {"sliding_window": None}, 0),
            ("qwen2", {"use_sliding_window": False, "max_window_layers": 2}, 0),
            ("qwen2", {"use_sliding_window": True, "max_window_layers": 3}, 1),
            ("qwen3_moe", {"use_sliding_window": True}, 4),
            ("gemma2", {}, 2),
            ("gemma3_text", {"sliding_window_pattern": 2}, 2),
            ("gemma3_text", {"sliding_window_pattern": 6}, 4),
            ("exaone4", {"sliding_window_pattern": "LLLG"}, 3),
            ("llama", {"layer_types": ["sliding_attention", "full_attention"] * 2}, 2),
            ("llama", {}, 0),
        ],
    )
    def test_layers_with_a_window(self, spec: Spec, family: str, more: dict[str, Any], layers: int) -> None:
        experts = {"num_experts": 0} if family == "qwen3_moe" else {}
        made = spec(SMALL | {"model_type": family, "sliding_window": 16} | experts | more)
        assert made.window_layers == layers

    def test_an_unused_window_is_said(self, read: Import) -> None:
        assert any("sliding_window means nothing" in note for note in read(SMALL | {"sliding_window": 16}).report.notes)

    def test_chunks_are_an_upper_bound(self, spec: Spec) -> None:
        made = spec(known.SCOUT)
        assert made.window is not None
        assert (made.window.positions, made.window.layers) == (8192, 36)

    def test_recurrent_layers_and_the_gate(self, spec: Spec) -> None:
        made = spec(known.QWEN3_NEXT)
        assert made.recurrent is not None
        assert (made.recurrent.layers, made.recurrent.value_heads, made.attention_gate) == (36, 32, True)
        assert spec(known.QWEN3_5_27B).recurrent_layers == 48


def quantised(block: dict[str, Any], config: dict[str, Any] = SMALL) -> dict[str, Any]:
    return config | {"quantization_config": block}


class TestQuantisation:
    @pytest.mark.parametrize(
        ("block", "expected"),
        [
            (
                {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
                ("fp8", 16384, "float32", "bfloat16", "fp8", None),
            ),
            ({"quant_method": "gptq", "bits": 4, "group_size": 128}, ("int4", 128, "float16", "bfloat16", None, None)),
            ({"quant_method": "gptq", "bits": 8, "group_size": -1}, ("int8", None, None, "bfloat16", None, None)),
            ({"quant_method": "awq", "bits": 4, "group_size": 64}, ("int4", 64, "float16", "bfloat16", None, None)),
            ({"quant_method": "fbgemm_fp8"}, ("fp8", None, None, "bfloat16", "fp8", None)),
            ({"load_in_4bit": True}, ("int4", 64, "float32", "bfloat16", None, None)),
            (
                {"quant_method": "bitsandbytes", "load_in_8bit": True},
                ("int8", None, None, "bfloat16", "int8", None),
            ),
            (
                {
                    "quant_method": "compressed-tensors",
                    "config_groups": {
                        "group_0": {
                            "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                            "input_activations": {"num_bits": 8, "type": "float"},
                        }
                    },
                    "ignore": ["lm_head"],
                    "kv_cache_scheme": {"num_bits": 8, "type": "float"},
                },
                ("fp8", None, None, "bfloat16", "fp8", "fp8"),
            ),
            (
                {
                    "quant_method": "compressed-tensors",
                    "config_groups": {
                        "group_0": {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}
                    },
                    "ignore": ["lm_head"],
                },
                ("int4", 128, "bfloat16", "bfloat16", None, None),
            ),
            (
                {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
                ("fp4", 16, "fp8", "bfloat16", "fp4", None),
            ),
        ],
    )
    def test_formats(self, spec: Spec, block: dict[str, Any], expected: tuple[Any, ...]) -> None:
        made = spec(quantised(block))
        found = (made.weight_dtype, made.weight_group, made.weight_scale_dtype, made.head_dtype)
        assert (*found, made.matmul_dtype, made.kv_dtype) == expected
        assert made.activation_dtype == "bfloat16"

    def test_mxfp4_is_of_the_experts_alone(self, spec: Spec) -> None:
        made = spec(known.gpt_oss(4, 8))
        assert made.experts is not None
        assert (made.weight_dtype, made.experts.weight_dtype) == ("bfloat16", "fp4")
        # 4 bits and a byte for each 32: the 12.8 GiB of OpenAI's table 1 are mostly experts
        assert made.expert_bytes == 0.5 + 1 / 32

    def test_mxfp4_without_experts_is_a_mistake(self, refused: Refused) -> None:
        assert "experts" in refused(quantised({"quant_method": "mxfp4"}))["quantization_config.quant_method"].accepts

    def test_attention_that_is_kept_leaves_the_experts(self, spec: Spec) -> None:
        block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*self_attn*", "lm_head"]}
        made = spec(quantised(block, MOE))
        assert made.experts is not None
        assert (made.weight_dtype, made.experts.weight_dtype) == ("bfloat16", "fp4")

    def test_a_file_beside_it_is_taken_and_said_so(self, read: Import, tmp_path: Path) -> None:
        beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
        result = read(SMALL, file="config.json")
        assert isinstance(result.made, ModelSpec)
        assert (result.made.weight_dtype, result.made.kv_dtype, result.made.head_dtype) == ("fp8", "fp8", None)
        assert "hf_quant_config.json lies beside the file and was taken" in result.report.notes

    @pytest.mark.parametrize(
        ("block", "key"),
        [
            ({"quant_method": "aqlm"}, "quant_method"),
            ({}, "quant_method"),
            ({"quant_method": "gptq"}, "bits"),
            ({"quant_method": "gptq", "bits": 3}, "bits"),
            ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
            ({"quant_method": "compressed-tensors"}, "config_groups"),
            ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quant_algo"),
            ({"load_in_4bit": True, "load_in_8bit": True}, "load_in_8bit"),
        ],
    )
    def test_what_is_not_read_is_refused(self, refused: Refused, block: dict[str, Any], key: str) -> None:
        assert f"quantization_config.{key}" in refused(quantised(block))

    def test_the_quantisation_alone_is_not_a_model(self, refused: Refused) -> None:
        alone = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
        assert "--quantization" in refused(alone)["quantization"].accepts


class TestDrafts:
    def test_eagle_is_told_by_the_name_and_that_is_said(self, read: Import, spec: Spec) -> None:
        result = read(known.EAGLE, file="EAGLE-llama/config.json")
        assert isinstance(result.made, ModelSpec)
        assert result.made.hidden_states is not None
        assert "hidden_states" in {item.field for item in result.report.inferred}
        assert read(known.EAGLE, file="EAGLE-llama/config.json", draft_head="none").made.hidden_states is None  # type: ignore[union-attr]
        assert spec(known.EAGLE).hidden_states is None

    def test_eagle_3(self, spec: Spec) -> None:
        made = spec(known.EAGLE3 | {"target_hidden_size": 8192})
        reads = made.hidden_states
        assert reads is not None
        assert (reads.inputs, reads.projected, reads.attention_inputs, reads.width) == (3, "once_a_round", 2, 8192)
        assert (reads.shares_embedding, reads.shares_head, made.vocabulary) == (True, False, 32000)

    def test_block_drafters(self, spec: Spec) -> None:
        dflash, peagle = spec(known.DFLASH).hidden_states, spec(known.PEAGLE).hidden_states
        assert dflash is not None
        assert peagle is not None
        assert dflash.proposes == peagle.proposes == "block"
        assert (dflash.inputs, dflash.shares_head, peagle.shares_head) == (5, True, False)

    @pytest.mark.parametrize(("kind", "inputs", "proposes"), [("eagle3", 3, "one_by_one"), ("dflash", 5, "block")])
    def test_heads_of_speculators(self, spec: Spec, kind: str, inputs: int, proposes: str) -> None:
        layers = known.DFLASH if kind == "dflash" else known.EAGLE
        plain = {key: value for key, value in layers.items() if key not in ("dflash_config", "architectures")}
        config = {
            "speculators_model_type": kind,
            "draft_vocab_size": 32000,
            "aux_hidden_state_layer_ids": [1, 9, 17, 25, 33],
            "transformer_layer_config": plain,
            "torch_dtype": "bfloat16",
        }
        made = spec(config)
        assert made.hidden_states is not None
        assert (made.hidden_states.inputs, made.hidden_states.proposes) == (inputs, proposes)
        assert (made.vocabulary, made.hidden_states.shares_head) == (32000, False)

    def test_medusa_is_a_part_of_a_scenario(self, read: Import) -> None:
        result = read(known.MEDUSA)
        assert result.made == MedusaDraft(kind="medusa", heads=5, layers=1)
        assert to_yaml(result).splitlines()[-1] == "draft: {kind: medusa, heads: 5, layers: 1}"

    def test_a_model_says_that_it_has_a_module(self, read: Import) -> None:
        assert any("--part mtp" in note for note in read(known.DEEPSEEK_V3).report.notes)

    def test_a_module_that_is_not_quantised(self, spec: Spec) -> None:
        block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.61*"]}
        made = spec(quantised(block, known.DEEPSEEK_V3), part="mtp")
        assert (made.weight_dtype, made.weight_group) == ("bfloat16", None)

    def test_no_module_no_part(self, refused: Refused) -> None:
        assert "num_nextn_predict_layers" in refused(SMALL, part="mtp")


class TestMistakes:
    def test_all_come_at_once_in_file_order_with_their_places(self, read: Import) -> None:
        config = known.SCOUT | {"text_config": known.SCOUT["text_config"] | {"hidden_size": "5120"}}
        config["text_config"] |= {"num_key_value_heads": 7, "num_experts_per_tok": 17, "head_dim": -1}
        with pytest.raises(ConfigError) as caught:
            read(config)
        problems = caught.value.problems
        assert [problem.path for problem in problems] == [
            "text_config.hidden_size",
            "text_config.num_key_value_heads",
            "text_config.head_dim",
            "text_config.num_experts_per_tok",
        ]
        assert [problem.line for problem in problems] == sorted(problem.line for problem in problems)
        assert problems[0].found == '"5120"'
        assert problems[0].accepts == "a whole number from 1 to 1,000,000"

    def test_a_missing_size_is_named_with_its_other_names(self, refused: Refused) -> None:
        config = {key: value for key, value in SMALL.items() if key != "vocab_size"}
        problem = refused(config)["vocab_size"]
        assert "'vocab_size' (or vocabulary_size, n_vocab), which is missing" in problem.accepts
        assert "padded_vocab_size" in problem.accepts

    @pytest.mark.parametrize(
        ("more", "key", "accepts"),
        [
            (
                {"hidden_size": 66},
                "hidden_size",
                "a multiple of num_attention_heads, which is 4, or head_dim beside it",
            ),
            ({"num_key_value_heads": 3}, "num_key_value_heads", "a divisor of the 4 query heads"),
            ({"layer_types": ["full_attention"]}, "layer_types", "4 words, one for each of num_hidden_layers"),
            ({"layer_types": ["mamba"] * 4}, "layer_types[0]", "one of full_attention, sliding_attention"),
            ({"num_hidden_layers": 4.0}, "num_hidden_layers", "a whole number from 1 to 10,000; write 4"),
            ({"num_hidden_layers": True}, "num_hidden_layers", "a whole number"),
            ({"torch_dtype": "int3"}, "torch_dtype", "one of bfloat16"),
            ({"head_dim": 15}, "head_dim", "an even number where positions are rotary"),
            ({"tie_word_embeddings": "no"}, "tie_word_embeddings", "true or false"),
            ({"rope_scaling": {"rope_type": "llama3"}}, "rope_scaling.factor", "which is missing"),
            ({"word_embed_proj_dim": 32}, "word_embed_proj_dim", "embeddings of another width are not modelled"),
        ],
    )
    def test_each_is_told_by_its_key(self, refused: Refused, more: dict[str, Any], key: str, accepts: str) -> None:
        assert accepts in refused(SMALL | more)[key].accepts

    @pytest.mark.parametrize(
        ("text", "line", "accepts"),
        [
            ("", 1, "a mapping of keys"),
            ("[]", 1, "a mapping of keys"),
            ('{\n"a": 1,\n"a": 2}', 3, "each key once; 'a' was already given on line 2"),
            ('{"a": NaN}', 1, "JSON has neither NaN nor Infinity"),
            ('{"a": -Infinity}', 1, "JSON has neither NaN nor Infinity"),
            ('{"a": 1e999}', 1, "not too large for a computer"),
            ('{"a": ' + "9" * 50 + "}", 1, "a number of at most 40 digits"),
            ('{"a": 1', 1, "a comma or } here"),
            ('{"a": 1,}', 1, "another item after the comma"),
            ('{"a" 1}', 1, "a colon after the key"),
            ("{a: 1}", 1, "a key in double quotes"),
            ('{"a": tru}', 1, "a JSON value"),
            ('{"a": 1} {}', 1, "the end of the file"),
            ('{"a": "b\nc"}', 1, "text between double quotes"),
            ('{"a": "\\ud800"}', 1, "half a character"),
            ("[" * 100, 1, "nested at most 32 deep"),
        ],
    )
    def test_text_that_is_not_json(self, read: Import, text: str, line: int, accepts: str) -> None:
        with pytest.raises(ConfigError) as caught:
            read(text)
        assert [problem.line for problem in caught.value.problems] == [line]
        assert accepts in caught.value.problems[0].accepts

    def test_files_that_are_not_text(self, tmp_path: Path) -> None:
        file = tmp_path / "config.json"
        for content, accepts in ((b"\xff{}", "UTF-8"), (b" " * 2_000_000, "1,048,576 bytes")):
            file.write_bytes(content)
            with pytest.raises(ConfigError, match=accepts):
                import_model(file)
        with pytest.raises(ConfigError, match="an existing file"):
            import_model(tmp_path / "none.json")
        file.write_bytes(b"\xef\xbb\xbf" + json.dumps(SMALL).encode())
        assert isinstance(import_model(file).made, ModelSpec)

    def test_options_that_are_mistakes(self, refused: Refused) -> None:
        assert refused(SMALL, name="a b")[""].file == "--name a b"
        assert refused(SMALL, tokenizer="")[""].file == "--tokenizer "
        assert refused(SMALL, family="lama")[""].accepts.startswith("a known family; did you mean 'llama'?; known are")


class TestResult:
    def test_the_name_is_made_of_the_file_the_folder_or_what_the_file_says(self, spec: Spec) -> None:
        assert spec(SMALL, file="meta-llama--Llama 3 (8B).config.json").name == "llama-3-8b"
        assert spec(SMALL, file="My-Model/config.json").name == "my-model"
        assert spec(SMALL | {"_name_or_path": "/home/x/Other-7B/"}, file="config.json").name == "other-7b"
        assert spec(SMALL, name="Mine").name == "Mine"

    def test_the_file_says_what_was_inferred_and_left_out(self, read: Import) -> None:
        text = to_yaml(read(known.opt(2, 64, 4)))
        assert "max_positions: 2050" in text
        assert "# inferred: tie_word_embeddings is not given; the default of its family\ntied_embeddings: true" in text
        assert "# Left out: biases of queries, keys and values; biases of the attention output;" in text
        assert "No config.json names a tokenizer" in text
        assert "No config.json" not in to_yaml(read(SMALL, tokenizer="llama-3"))

    def test_the_report_counts(self, read: Import) -> None:
        lines = report_lines(read(known.LLAMA_70B))
        assert "parameters: 70,553,706,496 (70.55 B)" in lines
        assert "KV cache: 327,680 bytes a token" in lines
        assert "states: 150,994,944 bytes a sequence" in report_lines(read(known.QWEN3_5_27B))
        assert "KV cache beyond the window of 4,096: 0 bytes a token" in report_lines(read(known.MISTRAL))

    def test_nothing_that_is_not_in_the_file_is_silent(self, read: Import) -> None:
        # The fewest keys with which a Llama can be read: all else is listed.
        sizes = (
            "model_type",
            "num_hidden_layers",
            "hidden_size",
            "num_attention_heads",
            "intermediate_size",
            "vocab_size",
        )
        report = read({key: SMALL[key] for key in sizes}).report
        expected = {"name", "kv_heads", "head_dim", "tied_embeddings", "weight_dtype", "rotary_base", "norm_epsilon"}
        assert {item.field for item in report.inferred} == expected
