"""Configurations of known models, our own: only the keys that matter, with what is published about them.

Sizes are facts of the models; the published numbers stand beside them with their source, and were looked up apart.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

HUB = "weights in the checkpoint, as its page on Hugging Face counts them"
_BF16 = {"torch_dtype": "bfloat16"}


def _gpt(layers: int, width: int, heads: int, ff: int) -> Config:
    """The four sizes that every family has."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": ff,
        **_BF16,
    }


def llama(layers: int, width: int, heads: int, ff: int, vocabulary: int, kv_heads: int, **more: Any) -> Config:
    """A Llama, or another family with the same keys."""
    sizes = _gpt(layers, width, heads, ff) | {"vocab_size": vocabulary, "num_key_value_heads": kv_heads}
    return {"model_type": "llama", "tie_word_embeddings": False} | sizes | more


def qwen2(layers: int, width: int, heads: int, ff: int, vocabulary: int, kv_heads: int, tied: bool = False) -> Config:
    """A Qwen 2.5: a window that the file names and does not use."""
    off = {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": layers}
    more = {"model_type": "qwen2", "tie_word_embeddings": tied}
    return llama(layers, width, heads, ff, vocabulary, kv_heads, **more, **off)


def qwen3(layers: int, width: int, heads: int, ff: int, kv_heads: int = 8, **more: Any) -> Config:
    """A Qwen 3: heads of 128 whatever the width."""
    return llama(layers, width, heads, ff, 151936, kv_heads, model_type="qwen3", head_dim=128, **more)


def opt(layers: int, width: int, heads: int) -> Config:
    """An OPT, with the keys that its own configuration has."""
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "ffn_dim": 4 * width}
    more = {"max_position_embeddings": 2048, "vocab_size": 50272, "word_embed_proj_dim": width}
    return {"model_type": "opt", "torch_dtype": "float16"} | sizes | more


def gpt2(layers: int, width: int, heads: int) -> Config:
    """A GPT-2: no width of the feed-forward, no type."""
    sizes = {"n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": 1024, "vocab_size": 50257}
    return {"model_type": "gpt2"} | sizes


def pythia(layers: int, width: int, heads: int, vocabulary: int) -> Config:
    """A GPT-NeoX with a parallel block."""
    more = {"vocab_size": vocabulary, "use_parallel_residual": True, "tie_word_embeddings": False, "rotary_pct": 0.25}
    return {"model_type": "gpt_neox", "max_position_embeddings": 2048} | _gpt(layers, width, heads, 4 * width) | more


def gemma3(layers: int, width: int, heads: int, ff: int, kv_heads: int, size: int) -> Config:
    """The text part of a Gemma 3."""
    more = {"head_dim": size, "sliding_window": 1024, "sliding_window_pattern": 6, "vocab_size": 262144}
    return {"model_type": "gemma3_text", "num_key_value_heads": kv_heads} | _gpt(layers, width, heads, ff) | more


def t5(layers: int, width: int, heads: int, ff: int, size: int, **more: Any) -> Config:
    """A T5: as many layers in each half."""
    sizes = {"num_layers": layers, "d_model": width, "num_heads": heads, "d_ff": ff, "d_kv": size}
    return {"model_type": "t5", "vocab_size": 32128} | sizes | more


def bloom(layers: int, width: int, heads: int) -> Config:
    """A BLOOM."""
    return {"model_type": "bloom", "n_layer": layers, "hidden_size": width, "n_head": heads, "vocab_size": 250880}


def gpt_oss(layers: int, experts: int) -> Config:
    """A gpt-oss: experts in MXFP4."""
    sizes = _gpt(layers, 2880, 64, 2880) | {
        "num_local_experts": experts,
        "num_experts_per_tok": 4,
        "experts_per_token": 4,
    }
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    return {
        **sizes,
        "model_type": "gpt_oss",
        "vocab_size": 201088,
        "head_dim": 64,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        "attention_bias": True,
        "tie_word_embeddings": False,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": kept},
    }


LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA_70B = llama(80, 8192, 64, 28672, 128256, 8, rope_theta=500000.0, rope_scaling=LLAMA3_ROPE)
MISTRAL = llama(32, 4096, 32, 14336, 32000, 8, model_type="mistral", sliding_window=4096)
MIXTRAL = llama(
    32, 4096, 32, 14336, 32000, 8, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2, sliding_window=None
)
QWEN3_MOE = qwen3(
    48, 2048, 32, 6144, 4, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, mlp_only_layers=[]
) | {"model_type": "qwen3_moe", "decoder_sparse_step": 1}
DEEPSEEK_V3: Config = llama(
    61,
    7168,
    128,
    18432,
    129280,
    128,
    model_type="deepseek_v3",
    kv_lora_rank=512,
    q_lora_rank=1536,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    first_k_dense_replace=3,
    moe_layer_freq=1,
    num_nextn_predict_layers=1,
    quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
)
DEEPSEEK_V2_LITE: Config = llama(
    27,
    2048,
    16,
    10944,
    102400,
    16,
    model_type="deepseek_v2",
    kv_lora_rank=512,
    q_lora_rank=None,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    n_routed_experts=64,
    n_shared_experts=2,
    num_experts_per_tok=6,
    moe_intermediate_size=1408,
    first_k_dense_replace=1,
)
GEMMA2_27B = {
    **_gpt(46, 4608, 32, 36864),
    "model_type": "gemma2",
    "head_dim": 128,
    "num_key_value_heads": 16,
    "vocab_size": 256000,
    "sliding_window": 4096,
}
GEMMA3_27B = gemma3(62, 5376, 32, 21504, 16, 128)
SCOUT: Config = {
    "model_type": "llama4",
    "tie_word_embeddings": False,
    "vision_config": {"hidden_size": 1408},
    "text_config": {
        **_gpt(48, 5120, 40, 8192),
        "model_type": "llama4_text",
        "intermediate_size_mlp": 16384,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1,
        "attention_chunk_size": 8192,
        "vocab_size": 202048,
        "rope_scaling": LLAMA3_ROPE | {"low_freq_factor": 1.0, "high_freq_factor": 1.0},
    },
}
QWEN3_NEXT: Config = qwen3(
    48,
    2048,
    16,
    5120,
    2,
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    full_attention_interval=4,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
) | {"model_type": "qwen3_next", "head_dim": 256}
QWEN3_5_27B: Config = {
    "model_type": "qwen3_5",
    "tie_word_embeddings": False,
    "text_config": {
        **_gpt(64, 5120, 24, 17408),
        "model_type": "qwen3_5_text",
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 248320,
        "attn_output_gate": True,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "mtp_num_hidden_layers": 1,
        "rope_parameters": {"rope_theta": 10000000, "rope_type": "default", "partial_rotary_factor": 0.25},
    },
}
STARCODER = {"model_type": "gpt_bigcode", "multi_query": True, "vocab_size": 49152, "n_positions": 8192} | {
    "n_layer": 40,
    "n_embd": 6144,
    "n_head": 48,
    "n_inner": 24576,
}
FALCON_7B = {
    "model_type": "falcon",
    "num_hidden_layers": 32,
    "hidden_size": 4544,
    "num_attention_heads": 71,
    "multi_query": True,
    "new_decoder_architecture": False,
    "parallel_attn": True,
    "vocab_size": 65024,
    "torch_dtype": "bfloat16",
}
CHATGLM3 = {
    "model_type": "chatglm",
    "num_layers": 28,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "ffn_hidden_size": 13696,
    "kv_channels": 128,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "padded_vocab_size": 65024,
    "add_qkv_bias": True,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
GPT_J = {"model_type": "gptj", "n_layer": 28, "n_embd": 4096, "n_head": 16, "rotary_dim": 64, "vocab_size": 50400} | {
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
PHI_2 = _gpt(32, 2560, 32, 10240) | {"model_type": "phi", "vocab_size": 51200, "tie_word_embeddings": False}
OLMOE = llama(16, 2048, 16, 1024, 50304, 16, model_type="olmoe", num_experts=64, num_experts_per_tok=8)
QWEN2_MOE = qwen2(24, 2048, 16, 5632, 151936, 16) | {
    "model_type": "qwen2_moe",
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "decoder_sparse_step": 1,
}

# name: configuration, published number of weights, where it is published
PUBLISHED: dict[str, tuple[Config, float, str]] = {
    "Llama-2-7B": (llama(32, 4096, 32, 11008, 32000, 32), 6_738_415_616, HUB),
    "Llama-2-13B": (llama(40, 5120, 40, 13824, 32000, 40), 13_015_864_320, HUB),
    "Llama-2-70B": (llama(80, 8192, 64, 28672, 32000, 8), 68_976_648_192, HUB),
    "Llama-3.1-8B": (llama(32, 4096, 32, 14336, 128256, 8), 8_030_261_248, HUB),
    "Llama-3.1-70B": (LLAMA_70B, 70_553_706_496, HUB),
    "Llama-3.1-405B": (llama(126, 16384, 128, 53248, 128256, 8), 405_853_388_800, HUB),
    "Llama-3.2-1B": (llama(16, 2048, 32, 8192, 128256, 8, head_dim=64, tie_word_embeddings=True), 1_235_814_400, HUB),
    "Llama-3.2-3B": (llama(28, 3072, 24, 8192, 128256, 8, head_dim=128, tie_word_embeddings=True), 3_212_749_824, HUB),
    "CodeLlama-34B": (llama(48, 8192, 64, 22016, 32000, 8), 33_743_970_304, HUB),
    "TinyLlama-1.1B": (llama(22, 2048, 32, 5632, 32000, 4), 1_100_048_384, HUB),
    "Yi-34B": (llama(60, 7168, 56, 20480, 64000, 8), 34_388_917_248, HUB),
    "Mistral-7B-v0.1": (MISTRAL, 7_241_732_096, HUB),
    "Mistral-Nemo-12B": (
        llama(40, 5120, 32, 14336, 131072, 8, model_type="mistral", head_dim=128),
        12_247_782_400,
        HUB,
    ),
    "Mixtral-8x7B": (MIXTRAL, 46_702_792_704, HUB),
    "Mixtral-8x22B": (
        MIXTRAL | {"num_hidden_layers": 56, "hidden_size": 6144, "num_attention_heads": 48, "intermediate_size": 16384},
        140_620_634_112,
        HUB,
    ),
    "Qwen2.5-0.5B": (qwen2(24, 896, 14, 4864, 151936, 2, tied=True), 494_032_768, HUB),
    "Qwen2.5-1.5B": (qwen2(28, 1536, 12, 8960, 151936, 2, tied=True), 1_543_714_304, HUB),
    "Qwen2.5-3B": (qwen2(36, 2048, 16, 11008, 151936, 2, tied=True), 3_085_938_688, HUB),
    "Qwen2.5-7B": (qwen2(28, 3584, 28, 18944, 152064, 4), 7_615_616_512, HUB),
    "Qwen2.5-14B": (qwen2(48, 5120, 40, 13824, 152064, 8), 14_770_033_664, HUB),
    "Qwen2.5-32B": (qwen2(64, 5120, 40, 27648, 152064, 8), 32_763_876_352, HUB),
    "Qwen2.5-72B": (qwen2(80, 8192, 64, 29568, 152064, 8), 72_706_203_648, HUB),
    "Qwen1.5-MoE-A2.7B": (QWEN2_MOE, 14_315_784_192, HUB),
    "Qwen3-0.6B": (qwen3(28, 1024, 16, 3072, tie_word_embeddings=True), 596_049_920, "counted once, without the copy"),
    "Qwen3-1.7B": (
        qwen3(28, 2048, 16, 6144, tie_word_embeddings=True),
        1_720_574_976,
        "counted once, without the copy",
    ),
    "Qwen3-4B": (qwen3(36, 2560, 32, 9728, tie_word_embeddings=True), 4_022_468_096, HUB),
    "Qwen3-8B": (qwen3(36, 4096, 32, 12288), 8_190_735_360, HUB),
    "Qwen3-14B": (qwen3(40, 5120, 40, 17408), 14_768_307_200, HUB),
    "Qwen3-32B": (qwen3(64, 5120, 64, 25600), 32_762_123_264, HUB),
    "Qwen3-30B-A3B": (QWEN3_MOE, 30_532_122_624, HUB),
    "Qwen3-235B-A22B": (
        QWEN3_MOE
        | {"num_hidden_layers": 94, "hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 12288}
        | {"moe_intermediate_size": 1536},
        235_093_634_560,
        HUB,
    ),
    "Gemma-2B": (
        _gpt(18, 2048, 8, 16384)
        | {"model_type": "gemma", "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000},
        2_506_172_416,
        HUB,
    ),
    "Gemma-7B": (
        _gpt(28, 3072, 16, 24576) | {"model_type": "gemma", "num_key_value_heads": 16, "vocab_size": 256000},
        8_537_680_896,
        HUB,
    ),
    "Gemma-2-2B": (
        GEMMA2_27B | _gpt(26, 2304, 8, 9216) | {"num_key_value_heads": 4, "head_dim": 256},
        2_614_341_888,
        HUB,
    ),
    "Gemma-2-9B": (
        GEMMA2_27B | _gpt(42, 3584, 16, 14336) | {"num_key_value_heads": 8, "head_dim": 256},
        9_241_705_984,
        HUB,
    ),
    "Gemma-2-27B": (GEMMA2_27B, 27_227_128_320, HUB),
    "Gemma-3-1B": (gemma3(26, 1152, 4, 6912, 1, 256), 999_885_952, HUB),
    "Gemma-3-4B, text": (gemma3(34, 2560, 8, 10240, 4, 256), 3_880_099_328, "the text part, as its GGUF counts it"),
    "Gemma-3-12B, text": (gemma3(48, 3840, 16, 15360, 8, 256), 11_765_788_416, "the text part, as its GGUF counts it"),
    "Gemma-3-27B, text": (GEMMA3_27B, 27_009_002_240, "the text part, as its GGUF counts it"),
    "StarCoder": (STARCODER, 15_517_456_384, "the checkpoint's own count"),
    "OPT-125M": (opt(12, 768, 12), 125_239_296, "the checkpoint's own count"),
    "OPT-1.3B": (opt(24, 2048, 32), 1_315_758_080, "the checkpoint's own count"),
    "GPT-2": (gpt2(12, 768, 12), 124_439_808, "the checkpoint's own count"),
    "GPT-2 XL": (gpt2(48, 1600, 25), 1_557_611_200, "the checkpoint's own count"),
    "GPT-J-6B": (GPT_J, 6_053_381_344, "its model card"),
    "GPT-NeoX-20B": (pythia(44, 6144, 64, 50432), 20_554_567_680, "its model card"),
    "Pythia-6.9B": (pythia(32, 4096, 32, 50432), 6_857_302_016, "table in the README of Pythia"),
    "Pythia-12B": (pythia(36, 5120, 40, 50688), 11_846_072_320, "table in the README of Pythia"),
    "BLOOM": (bloom(70, 14336, 112), 176_247_271_424, "its model card"),
    "BLOOM-7B1": (bloom(30, 4096, 32), 7_069_016_064, "its model card"),
    "Phi-2": (PHI_2, 2_779_683_840, HUB),
    "Phi-3-mini": (llama(32, 3072, 32, 8192, 32064, 32, model_type="phi3", sliding_window=2047), 3_821_079_552, HUB),
    "Phi-4": (llama(40, 5120, 40, 17920, 100352, 10, model_type="phi3", sliding_window=None), 14_659_507_200, HUB),
    "DeepSeek-V2-Lite": (DEEPSEEK_V2_LITE, 15_706_484_224, HUB),
    "DeepSeek-V3": (
        DEEPSEEK_V3,
        671_026_419_200,
        "without the module for multi-token prediction; arXiv 2412.19437: 671 B",
    ),
    "gpt-oss-20b": (gpt_oss(24, 32), 20.91e9, "OpenAI 2025 (arXiv 2508.10925), table 1"),
    "gpt-oss-120b": (gpt_oss(36, 128), 116.83e9, "OpenAI 2025 (arXiv 2508.10925), table 1"),
    "OLMoE-1B-7B": (OLMOE, 6_919_161_856, HUB),
    "OLMo-2-7B": (llama(32, 4096, 32, 11008, 100352, 32, model_type="olmo2"), 7_298_617_344, HUB),
    "SmolLM3-3B": (
        llama(36, 2048, 16, 11008, 128256, 4, model_type="smollm3", tie_word_embeddings=True),
        3_075_098_624,
        HUB,
    ),
    "ChatGLM3-6B": (CHATGLM3, 6_243_584_000, "the checkpoint's own count"),
    "T5-large": (t5(24, 1024, 16, 4096, 64), 737_668_096, "the checkpoint's own count"),
    "T5-3B": (t5(24, 1024, 32, 16384, 128), 2_851_598_336, "the checkpoint's own count"),
    "T5-11B": (t5(24, 1024, 128, 65536, 128), 11_307_321_344, "the checkpoint's own count"),
}

# EAGLE heads: configuration of the one layer, and billions of weights in the table of SafeAILab/EAGLE's README.
EAGLE_HEADS: dict[str, tuple[Config, float]] = {
    "Vicuna-7B": (llama(1, 4096, 32, 11008, 32000, 32), 0.24),
    "Vicuna-13B": (llama(1, 5120, 40, 13824, 32000, 40), 0.37),
    "Vicuna-33B": (llama(1, 6656, 52, 17920, 32000, 13), 0.56),
    "LLaMA2-Chat-70B": (llama(1, 8192, 64, 28672, 32000, 8), 0.99),
    "Mixtral-8x7B": (llama(1, 4096, 32, 14336, 32000, 32), 0.28),
    "LLaMA3-8B": (llama(1, 4096, 32, 14336, 128256, 8), 0.25),
}
# Draft heads, and what they are of.
EAGLE = llama(1, 4096, 32, 14336, 128256, 8)
EAGLE3 = EAGLE | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000}
PEAGLE = EAGLE3 | {"architectures": ["PEagleDraftModel"], "num_hidden_layers": 4}
DFLASH = qwen3(5, 4096, 32, 12288) | {
    "architectures": ["DFlashDraftModel"],
    "block_size": 16,
    "dflash_config": {"target_layer_ids": [1, 9, 17, 25, 33], "mask_token_id": 151669},
    "num_target_layers": 36,
}
MEDUSA = {"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": "vicuna"}
