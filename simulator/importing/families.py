"""Families of models by `model_type`: what a configuration does not say because the code of the family says it.

Defaults are those of the configuration classes of Transformers 4.57.1 (transformers/models/*/configuration_*.py), the
rest is read off its modeling files: https://github.com/huggingface/transformers. Sizes that every published
configuration states have no default here: a file without them is incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Windows = Literal["none", "all", "alternate", "pattern", "flag", "flag_all", "chunked", "types"]


@dataclass(frozen=True)
class Family:
    """What the code of a family says.

    ``extras`` names weights that the schema has no place for: see :mod:`simulator.importing.extras`. A name alone is
    always there; `name: key` where `key` is true in the file, `name: !key` unless it is false.
    """

    tied: bool
    """Whether the LM head is the embedding where `tie_word_embeddings` is missing."""
    feed_forward: Literal["gated", "plain"] = "gated"
    positions: Literal["rotary", "learned", "none"] = "rotary"
    offset: int = 0
    """Rows of a table of learned positions that no position uses."""
    parallel: bool | str = False
    """Whether attention and feed-forward are added at once, or the key that says so; `!key` unless that is false."""
    windows: Windows = "none"
    """Which layers have a window: all; every other, the first among them; all but every n-th; those from
    `max_window_layers` on, or all, where `use_sliding_window` is true; chunks; what `layer_types` says."""
    kv_heads: Literal["heads", "falcon", "multi_query", "chatglm"] = "heads"
    """The rule where no number of KV heads is given."""
    experts_wide: bool = False
    """Whether the width of an expert is that of the feed-forward key."""
    shared_expert: bool = False
    """Whether each layer with experts has one that every token passes, as wide as the others."""
    gate: bool = False
    """Whether attention has an output gate."""
    recurrent: bool = False
    encoder: bool = False
    projected: bool = False
    """Whether the embedding may have a width of its own."""
    alibi: str = ""
    """What takes the place of positions that are not modelled."""
    note: str = ""
    """What else the report says."""
    extras: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


_LLAMA = Family(
    tied=False, extras={"qkv_bias": "attention_bias", "output_bias": "attention_bias", "ff_bias": "mlp_bias"}
)
_QWEN2 = Family(tied=False, windows="flag", extras={"qkv_bias": ""})
_QWEN3 = Family(
    tied=False,
    windows="flag",
    extras={"qk_norm": "", "qkv_bias": "attention_bias", "output_bias": "attention_bias"},
    defaults={"head_dim": 128},
)
_ALL_BIASES = {"qkv_bias": "", "output_bias": "", "ff_bias": "", "norm_bias": ""}
_PLAIN = Family(tied=True, feed_forward="plain", extras=_ALL_BIASES)
_DEEPSEEK = Family(tied=False, extras={"qkv_bias": "attention_bias"}, defaults={"moe_layer_freq": 1})
_GEMMA = Family(tied=True, defaults={"head_dim": 256, "vocab_size": 256000})
_QWEN3_NEXT = replace(
    _QWEN3,
    windows="types",
    gate=True,
    recurrent=True,
    extras={"qk_norm": "", "shared_gate": "", "recurrent_rates": ""},
    defaults={
        "head_dim": 256,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "decoder_sparse_step": 1,
    },
)
_T5 = Family(
    tied=True,
    feed_forward="plain",
    positions="none",
    encoder=True,
    extras={"position_buckets": "", "cross_norm": ""},
    defaults={"d_kv": 64},
)
_COHERE = Family(tied=True, parallel=True, extras={"qkv_bias": "attention_bias", "wide_qk_norm": "use_qk_norm"})
_GLM = Family(tied=False, extras={"qkv_bias": "!attention_bias"}, defaults={"head_dim": 128, "num_key_value_heads": 2})

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "llama4_text": replace(
        _LLAMA,
        windows="chunked",
        experts_wide=True,
        shared_expert=True,
        defaults={
            "head_dim": 128,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "num_local_experts": 16,
            "num_experts_per_tok": 1,
            "intermediate_size": 8192,
            "intermediate_size_mlp": 16384,
            "interleave_moe_layer_step": 1,
            "attention_chunk_size": 8192,
            "no_rope_layer_interval": 4,
            "vocab_size": 202048,
            "rope_theta": 500000.0,
        },
    ),
    "mistral": Family(tied=False, windows="all", defaults={"num_key_value_heads": 8, "sliding_window": 4096}),
    "mixtral": Family(
        tied=False,
        windows="all",
        experts_wide=True,
        defaults={"num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "rope_theta": 1e6},
    ),
    "qwen2": _QWEN2,
    "qwen2_moe": replace(
        _QWEN2,
        windows="flag_all",
        extras={"qkv_bias": "", "shared_gate": ""},
        defaults={"shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1, "num_experts_per_tok": 4},
    ),
    "qwen3": _QWEN3,
    "qwen3_moe": replace(
        _QWEN3, windows="flag_all", defaults={"decoder_sparse_step": 1, "num_key_value_heads": 4, "num_experts": 128}
    ),
    "qwen3_next": replace(
        _QWEN3_NEXT,
        defaults={**_QWEN3_NEXT.defaults, "shared_expert_intermediate_size": 512, "num_experts_per_tok": 10},
    ),
    "qwen3_5_text": _QWEN3_NEXT,
    "qwen3_5_moe_text": _QWEN3_NEXT,
    "mimo": replace(_QWEN2, extras={"qkv_bias": "!attention_bias"}),
    "gemma": _GEMMA,
    "gemma2": replace(
        _GEMMA,
        windows="alternate",
        extras={"post_norms": ""},
        defaults={**_GEMMA.defaults, "num_key_value_heads": 4, "sliding_window": 4096},
    ),
    "gemma3_text": replace(
        _GEMMA,
        windows="pattern",
        extras={"post_norms": "", "qk_norm": ""},
        defaults={
            "head_dim": 256,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "vocab_size": 262208,
            "sliding_window": 4096,
            "sliding_window_pattern": 6,
            "rope_theta": 1e6,
        },
    ),
    "phi": Family(
        tied=False,
        feed_forward="plain",
        parallel=True,
        extras={**_ALL_BIASES, "head_bias": "", "qk_norm": "qk_layernorm"},
    ),
    "phi3": Family(tied=False, windows="all"),
    "phimoe": Family(
        tied=False,
        windows="all",
        experts_wide=True,
        extras={
            "qkv_bias": "attention_bias",
            "output_bias": "attention_bias",
            "norm_bias": "",
            "head_bias": "lm_head_bias",
        },
        defaults={"num_key_value_heads": 8, "num_local_experts": 16, "num_experts_per_tok": 2, "rope_theta": 1e6},
    ),
    "opt": replace(_PLAIN, positions="learned", offset=2, projected=True, defaults={"max_position_embeddings": 2048}),
    "gpt2": replace(_PLAIN, positions="learned", defaults={"n_positions": 1024}),
    "gpt_bigcode": replace(_PLAIN, positions="learned", kv_heads="multi_query", defaults={"n_positions": 1024}),
    "gpt_neox": replace(
        _PLAIN, tied=False, parallel="!use_parallel_residual", extras={**_ALL_BIASES, "second_norm": ""}
    ),
    "gptj": replace(_PLAIN, tied=False, parallel=True, extras={"ff_bias": "", "norm_bias": "", "head_bias": ""}),
    "falcon": Family(
        tied=True,
        feed_forward="plain",
        parallel="!parallel_attn",
        kv_heads="falcon",
        extras={
            "qkv_bias": "bias",
            "output_bias": "bias",
            "ff_bias": "bias",
            "norm_bias": "",
            "second_norm": "new_decoder_architecture",
        },
    ),
    "bloom": replace(
        _PLAIN,
        positions="none",
        alibi="biases by distance (ALiBi)",
        extras={**_ALL_BIASES, "embedding_norm": ""},
    ),
    "starcoder2": replace(
        _PLAIN,
        windows="all",
        extras={"qkv_bias": "!use_bias", "output_bias": "!use_bias", "ff_bias": "!use_bias", "norm_bias": ""},
        defaults={"num_key_value_heads": 2},
    ),
    "stablelm": Family(
        tied=False,
        parallel="use_parallel_residual",
        extras={"qkv_bias": "use_qkv_bias", "norm_bias": "", "wide_qk_norm": "qk_layernorm"},
    ),
    "nemotron": Family(
        tied=False,
        feed_forward="plain",
        extras={"norm_bias": "", "qkv_bias": "attention_bias", "output_bias": "attention_bias", "ff_bias": "mlp_bias"},
    ),
    "arcee": replace(_LLAMA, feed_forward="plain"),
    "apertus": replace(_LLAMA, feed_forward="plain", extras={**_LLAMA.extras, "qk_norm": ""}),
    "hunyuan_v1_dense": replace(_LLAMA, extras={**_LLAMA.extras, "qk_norm": ""}),
    "olmo": replace(
        _LLAMA,
        note="its norms have no weights; they are counted as if they had",
        extras={"qkv_bias": "attention_bias", "output_bias": "attention_bias"},
    ),
    "olmo2": replace(_LLAMA, extras={"wide_qk_norm": ""}),
    "olmo3": replace(
        _LLAMA,
        windows="pattern",
        extras={"wide_qk_norm": ""},
        defaults={"sliding_window": 4096, "sliding_window_pattern": 4},
    ),
    "olmoe": replace(_LLAMA, experts_wide=True, extras={"wide_qk_norm": ""}),
    "granite": _LLAMA,
    "granitemoe": replace(_LLAMA, experts_wide=True),
    "smollm3": replace(_LLAMA, tied=True, windows="flag_all", defaults={"num_key_value_heads": 4, "rope_theta": 2e6}),
    "seed_oss": replace(
        _LLAMA, extras={"qkv_bias": "!attention_bias"}, defaults={"head_dim": 128, "num_key_value_heads": 8}
    ),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, windows="pattern", defaults={"sliding_window": 4096, "sliding_window_pattern": 4}),
    "exaone4": replace(_LLAMA, windows="pattern", extras={"qk_norm": ""}, defaults={"sliding_window_pattern": 4}),
    "glm": _GLM,
    "glm4": replace(_GLM, extras={**_GLM.extras, "post_norms": ""}),
    "glm4_moe": Family(
        tied=False,
        extras={"qkv_bias": "attention_bias", "qk_norm": "use_qk_norm"},
        defaults={"first_k_dense_replace": 1, "num_key_value_heads": 8, "n_shared_experts": 1},
    ),
    "chatglm": Family(tied=False, kv_heads="chatglm", extras={"qkv_bias": "add_qkv_bias"}),
    "deepseek_v2": replace(_DEEPSEEK, defaults={**_DEEPSEEK.defaults, "first_k_dense_replace": 0}),
    "deepseek_v3": replace(_DEEPSEEK, extras={"qkv_bias": "attention_bias", "router_bias": ""}),
    "gpt_oss": Family(
        tied=False,
        windows="alternate",
        experts_wide=True,
        extras={
            "qkv_bias": "!attention_bias",
            "output_bias": "!attention_bias",
            "expert_bias": "",
            "router_bias": "",
            "sinks": "",
        },
        defaults={
            "head_dim": 64,
            "num_key_value_heads": 8,
            "sliding_window": 128,
            "num_local_experts": 128,
            "num_experts_per_tok": 4,
            "rope_theta": 150000.0,
        },
    ),
    "ernie4_5": Family(
        tied=True,
        extras={"qkv_bias": "use_bias", "output_bias": "use_bias", "ff_bias": "use_bias"},
        defaults={"num_key_value_heads": 2, "head_dim": 128, "rope_theta": 500000.0},
    ),
    "ernie4_5_moe": Family(
        tied=True,
        extras={"qkv_bias": "use_bias", "output_bias": "use_bias", "ff_bias": "use_bias"},
        defaults={
            "num_key_value_heads": 4,
            "moe_layer_start_index": 1,
            "moe_layer_interval": 1,
            "rope_theta": 500000.0,
        },
    ),
    "t5": _T5,
    "mt5": replace(_T5, tied=False, defaults={"d_kv": 64, "feed_forward_proj": "gated-gelu"}),
    "umt5": replace(_T5, defaults={"d_kv": 64, "feed_forward_proj": "gated-gelu"}),
}
