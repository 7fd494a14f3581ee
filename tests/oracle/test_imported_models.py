"""Do imported models have the weights and the caches that are published of them?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import ConfigError
from simulator.importing import Asked, import_model
from simulator.spec.drafting import MedusaDraft
from simulator.spec.model import ModelSpec
from tests import hf_configs as known

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference" / "hf_configs"
FILES = sorted([*REFERENCE.glob("*.json"), *REFERENCE.glob("oddities/*.json")])
# What is refused, and the key that the reason names: sizes that are not there, families that cannot be modelled.
REFUSED = {
    "calculon-chinchilla.json": "vocab_size",
    "calculon-gopher-280b.json": "vocab_size",
    "calculon-lamda.json": "vocab_size",
    "calculon-megatron-1t.json": "vocab_size",
    "calculon-palm-540b.json": "vocab_size",
    "calculon-turing-530b.json": "vocab_size",
    "gemma-2-2b.json": "model_type",
    "gemma-2-9b.json": "model_type",
    "nvidia--DeepSeek-V3.1-NVFP4.hf_quant_config.json": "quantization",
    "nvidia--Llama-3.1-70B-Instruct-FP8.hf_quant_config.json": "quantization",
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.config.json": "model_type",
    "opt-350m.json": "word_embed_proj_dim",
    "qwen2.5-1.5b.json": "model_type",
    "qwen3-4b.json": "model_type",
    "reduced-bloom-175b.json": "model_type",
    "reduced-facebook-opt-175b.json": "model_type",
    "reduced-megatron-lm-530b.json": "model_type",
    "reduced-mt-nlg-530b.json": "model_type",
    "vicuna-7b-v1.5.json": "vocab_size",
}
# Those that name no family say enough once they are told one.
TOLD = {
    "gemma-2-2b.json": ("gemma2", 2.614e9),
    "gemma-2-9b.json": ("gemma2", 9.242e9),
    "qwen2.5-1.5b.json": ("qwen2", 1.5437e9),
    "qwen3-4b.json": ("qwen3", 4.0225e9),
    "reduced-facebook-opt-175b.json": ("opt", 175e9),
    "reduced-bloom-175b.json": ("bloom", 177e9),
}


def imported(tmp_path: Path, config: dict[str, Any], **asked: Any) -> ModelSpec:
    file = tmp_path / "a-model.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    made = import_model(file, Asked(**asked)).made
    assert isinstance(made, ModelSpec)
    return made


@pytest.mark.parametrize("name", known.PUBLISHED)
def test_parameters_are_those_published(tmp_path: Path, name: str) -> None:
    config, published, _source = known.PUBLISHED[name]
    assert imported(tmp_path, config).parameters == pytest.approx(published, rel=0.005)


# Published with fewer digits, or, for GPT-J, counted in another way on its card.
ROUNDED = ("gpt-oss-20b", "gpt-oss-120b", "GPT-J-6B")


@pytest.mark.parametrize("name", [name for name in known.PUBLISHED if name not in ROUNDED])
def test_what_the_report_leaves_out_is_all_the_difference(tmp_path: Path, name: str) -> None:
    # Weight by weight: a checkpoint is what is modelled and what is listed as left out.
    config, published, _source = known.PUBLISHED[name]
    file = tmp_path / "a-model.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    result = import_model(file)
    assert isinstance(result.made, ModelSpec)
    assert result.made.parameters + sum(item.weights for item in result.report.left_out) == published


@pytest.mark.parametrize(
    ("layers", "experts", "active", "gibibytes"), [(24, 32, 3.61e9, 12.8), (36, 128, 5.13e9, 60.8)]
)
def test_gpt_oss_as_in_its_model_card(
    tmp_path: Path, layers: int, experts: int, active: float, gibibytes: float
) -> None:
    # OpenAI 2025 (arXiv 2508.10925), table 1: active weights with the head and without the embedding, and the size of
    # the checkpoint, whose experts take 4 bits and a byte for each 32 of them.
    spec = imported(tmp_path, known.gpt_oss(layers, experts))
    assert spec.experts is not None
    assert spec.active_parameters == pytest.approx(active, rel=0.002)
    routed = layers * experts * 3 * spec.d_model * spec.experts.d_ff
    size = routed * spec.expert_bytes + (spec.parameters - routed) * spec.weight_bytes
    assert size / 2**30 == pytest.approx(gibibytes, rel=0.005)


@pytest.mark.parametrize(
    ("config", "near", "far"),
    [
        (known.LLAMA_70B, 327_680, 327_680),  # 2 x 80 layers x 8 heads x 128 x 2 bytes
        (known.PUBLISHED["Llama-2-7B"][0], 524_288, 524_288),  # 2 x 32 x 32 x 128 x 2, as many heads as queries
        (known.PUBLISHED["Qwen2.5-7B"][0], 57_344, 57_344),  # 2 x 28 x 4 x 128 x 2, the window is off
        (known.PUBLISHED["Gemma-2B"][0], 18_432, 18_432),  # 2 x 18 x 1 x 256 x 2, one head
        (known.STARCODER, 20_480, 20_480),  # 2 x 40 x 1 x 128 x 2, one head
        (known.FALCON_7B, 8_192, 8_192),  # 2 x 32 x 1 x 64 x 2, one head by a rule of the family
        (known.CHATGLM3, 28_672, 28_672),  # 2 x 28 x 2 x 128 x 2, by multi_query_group_num
        (known.DEEPSEEK_V3, 70_272, 70_272),  # 61 x (512 + 64) x 2, compressed
        (known.DEEPSEEK_V2_LITE, 31_104, 31_104),  # 27 x (512 + 64) x 2
        (known.MISTRAL, 131_072, 0),  # 2 x 32 x 8 x 128 x 2, a window in each layer
        (known.GEMMA2_27B, 376_832, 188_416),  # 2 x 46 x 16 x 128 x 2, a window in 23 of 46
        (known.GEMMA3_27B, 507_904, 81_920),  # 2 x 62 x 16 x 128 x 2, all but 62 // 6 = 10 have a window
        (known.gpt_oss(36, 128), 73_728, 36_864),  # 2 x 36 x 8 x 64 x 2, a window in 18 of 36
        (known.SCOUT, 196_608, 49_152),  # 2 x 48 x 8 x 128 x 2, chunks in 36 of 48
        (known.QWEN3_NEXT, 24_576, 24_576),  # 2 x 12 x 2 x 256 x 2: 36 of 48 layers have a state instead
        (known.QWEN3_5_27B, 65_536, 65_536),  # 2 x 16 x 4 x 256 x 2: 48 of 64 have a state instead
        (known.PUBLISHED["GPT-2"][0], 36_864, 36_864),  # 2 x 12 x 12 x 64 x 2
        (known.PUBLISHED["T5-11B"][0], 1_572_864, 1_572_864),  # 2 x 24 x 128 x 128 x 2, the decoder's own
    ],
)
def test_kv_bytes_a_token(tmp_path: Path, config: dict[str, Any], near: int, far: int) -> None:
    spec = imported(tmp_path, config)
    assert (spec.kv_bytes_per_token, spec.kv_bytes_per_far_token) == (near, far)


def test_states_of_recurrent_layers(tmp_path: Path) -> None:
    # 36 layers x 32 heads x 128 x 128 numbers x 4 bytes
    assert imported(tmp_path, known.QWEN3_NEXT).state_bytes_per_sequence == 75_497_472
    # 48 layers x 48 heads x 128 x 128 numbers x 4 bytes
    assert imported(tmp_path, known.QWEN3_5_27B).state_bytes_per_sequence == 150_994_944


@pytest.mark.parametrize(
    ("config", "asked", "weights"),
    [
        # fc 2 x 4096 x 4096, attention 4096 x 128 x 80, three of 4096 x 14336, norms 3 x 4096
        (known.EAGLE, {"draft_head": "eagle"}, 33_554_432 + 41_943_040 + 176_160_768 + 12_288),
        # fc 3 x 4096 x 4096, attention with 2 x 4096 in, the same feed-forward, head 4096 x 32000
        (known.EAGLE3, {}, 50_331_648 + 67_108_864 + 176_160_768 + 131_072_000 + 12_288),
        # as EAGLE-3 with three more layers of plain attention
        (known.PEAGLE, {}, 424_685_568 + 3 * (41_943_040 + 176_160_768 + 8_192)),
        # fc 5 x 4096 x 4096, five layers of 4096 x 128 x 80 and three of 4096 x 12288, norms; head of the target
        (known.DFLASH, {}, 83_886_080 + 5 * (41_943_040 + 150_994_944 + 8_192) + 4_096),
    ],
)
def test_weights_of_draft_heads(tmp_path: Path, config: dict[str, Any], asked: dict[str, Any], weights: int) -> None:
    assert imported(tmp_path, config, **asked).parameters == weights


@pytest.mark.parametrize("name", known.EAGLE_HEADS)
def test_eagle_heads_are_as_large_as_their_authors_say(tmp_path: Path, name: str) -> None:
    config, published = known.EAGLE_HEADS[name]
    assert round(imported(tmp_path, config, draft_head="eagle").parameters / 1e9, 2) == published


def test_multi_token_prediction_module(tmp_path: Path) -> None:
    # README_WEIGHTS.md of DeepSeek-V3: 11.5 B of its own, without the shared embedding and head: a layer with 256
    # experts, and 2 x 7168 x 7168 to read two vectors.
    spec = imported(tmp_path, known.DEEPSEEK_V3, part="mtp")
    assert spec.parameters == pytest.approx(11.5e9, rel=0.02)
    assert (spec.layers, spec.kv_bytes_per_token) == (1, 1152)


@pytest.mark.skipif(not FILES, reason="the reference configurations are not here")
class TestReferenceFiles:
    @pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
    def test_every_file_is_imported_or_refused_by_name(self, file: Path) -> None:
        if file.name not in REFUSED:
            assert isinstance(import_model(file).made, ModelSpec | MedusaDraft)
            return
        with pytest.raises(ConfigError) as caught:
            import_model(file)
        assert REFUSED[file.name] in {problem.path for problem in caught.value.problems}
        assert all(problem.line for problem in caught.value.problems)

    @pytest.mark.parametrize("name", TOLD)
    def test_told_the_family_it_is_enough(self, name: str) -> None:
        family, published = TOLD[name]
        made = import_model(REFERENCE / name, Asked(family=family)).made
        assert isinstance(made, ModelSpec)
        assert made.parameters == pytest.approx(published, rel=0.02)

    def test_a_quantisation_beside_it_is_taken(self) -> None:
        file = REFERENCE / "deepseek-v3.json"
        beside = REFERENCE / "oddities" / "nvidia--DeepSeek-V3.1-NVFP4.hf_quant_config.json"
        made = import_model(file, Asked(quantization=beside)).made
        assert isinstance(made, ModelSpec)
        assert (made.weight_dtype, made.weight_group, made.kv_dtype) == ("fp4", 16, "fp8")
        assert made.kv_bytes_per_token == 35_136
