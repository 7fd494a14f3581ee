"""Parameter counts and cache sizes of real models against what their authors publish."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.spec.model import ModelSpec


def spec(**values: Any) -> ModelSpec:
    common = {"name": "model", "feed_forward": "gated", "positions": "rotary"}
    return ModelSpec.model_validate(common | values)


LLAMA_70B = spec(layers=80, d_model=8192, heads=64, kv_heads=8, head_dim=128, d_ff=28672, vocabulary=128256)
MISTRAL_7B = spec(
    layers=32,
    d_model=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    d_ff=14336,
    vocabulary=32000,
    window={"positions": 4096},
)
MIXTRAL_8X7B = spec(
    layers=32,
    d_model=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    d_ff=14336,
    vocabulary=32000,
    experts={"count": 8, "per_token": 2, "d_ff": 14336},
)
DEEPSEEK_V3 = spec(
    layers=61,
    d_model=7168,
    heads=128,
    kv_heads=128,
    head_dim=128,
    d_ff=18432,
    vocabulary=129280,
    experts={"count": 256, "per_token": 8, "d_ff": 2048, "shared_d_ff": 2048, "layers": 58},
    latent={"kv_rank": 512, "rotary_dim": 64, "query_rank": 1536, "value_dim": 128},
)


@pytest.mark.parametrize(
    ("model", "published"),
    [
        (LLAMA_70B, 70.55e9),  # Llama 3 model card: 70.6 B
        (MISTRAL_7B, 7.24e9),  # Mistral 7B, model card: 7.24 B
        (MIXTRAL_8X7B, 46.7e9),  # Jiang et al. 2024 (arXiv 2401.04088): 46.7 B, table 1 says 47 B
        (DEEPSEEK_V3, 671e9),  # DeepSeek-AI 2024 (arXiv 2412.19437): 671 B, without the multi-token module
    ],
)
def test_parameters(model: ModelSpec, published: float) -> None:
    assert model.parameters == pytest.approx(published, rel=0.002)


@pytest.mark.parametrize(
    ("model", "published"),
    [(MIXTRAL_8X7B, 12.9e9), (DEEPSEEK_V3, 37e9)],  # the same papers; both count the embedding as well
)
def test_active_parameters(model: ModelSpec, published: float) -> None:
    assert model.active_parameters + model.head_parameters == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("model", "by_hand"),
    [
        (LLAMA_70B, 80 * 2 * 8 * 128 * 2),
        (MISTRAL_7B, 32 * 2 * 8 * 128 * 2),
        # DeepSeek-AI 2024, section 2.1.1: 512 + 64 numbers a layer; some 70 kB a token in bfloat16
        (DEEPSEEK_V3, 61 * (512 + 64) * 2),
    ],
)
def test_cache_bytes_of_a_token(model: ModelSpec, by_hand: float) -> None:
    assert model.kv_bytes_per_token == by_hand


def test_quantised_weights_carry_their_scales_and_the_head_its_own_type() -> None:
    changes = {"weight_dtype": "int4", "weight_group": 128, "head_dtype": "bfloat16"}
    small = spec(layers=2, d_model=512, heads=4, kv_heads=4, head_dim=128, d_ff=1024, vocabulary=1000, **changes)
    assert small.weight_bytes == 0.5 + 2 / 128
    assert small.head_bytes == 2
    assert small.kv_bytes == 2  # the cache is not quantised with the weights
    assert small.compute_dtype == small.rate_dtype == "bfloat16"
