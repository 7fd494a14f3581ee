"""Which family a `model_type` or an architecture stands for, and which families are refused by name."""

from __future__ import annotations

from simulator.importing.families import FAMILIES

ALIASES = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "refinedweb": "falcon",
    "refinedwebmodel": "falcon",
    "rw": "falcon",
    "mistral3": "mistral",
    "ministral": "mistral",
    "pixtral": "mistral",
    "kimi_k2": "deepseek_v3",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "yi": "llama",
    "codegen": "gptj",
    "glm4_moe_lite": "glm4_moe",
}
"""Other words for the same family; the outer `model_type` of one that also sees stands for its text part."""

REFUSED: dict[str, str] = {
    "nemotron_h": "Mamba layers, and layers that are attention or feed-forward alone, are not modelled",
    "mamba": "Mamba layers are not modelled",
    "mamba2": "Mamba layers are not modelled",
    "falcon_mamba": "Mamba layers are not modelled",
    "falcon_h1": "Mamba layers are not modelled",
    "jamba": "Mamba layers are not modelled",
    "bamba": "Mamba layers are not modelled",
    "zamba": "Mamba layers are not modelled",
    "zamba2": "Mamba layers are not modelled",
    "granitemoehybrid": "Mamba layers are not modelled",
    "rwkv": "recurrences of RWKV are not modelled",
    "rwkv5": "recurrences of RWKV are not modelled",
    "rwkv6": "recurrences of RWKV are not modelled",
    "rwkv7": "recurrences of RWKV are not modelled",
    "recurrent_gemma": "layers of the RG-LRU are not modelled",
    "minimax": "lightning attention is not modelled",
    "minimax_text_01": "lightning attention is not modelled",
    "kimi_linear": "Kimi delta attention beside latent attention is not modelled",
    "deepseek_v32": "sparse attention behind an indexer is not modelled",
    "mllama": "cross-attention to an image is not modelled",
    "mllama_text_model": "cross-attention to an image is not modelled",
    "gemma3n": "AltUp and per-layer embeddings are not modelled",
    "gemma3n_text": "AltUp and per-layer embeddings are not modelled",
    "qwen": "its intermediate_size is twice the width of its feed-forwards, by remote code that is not read",
    "baichuan": "its 7B has rotary positions and its 13B none, which its configuration does not tell apart",
    "mpt": "its sizes stand in nested keys that are not read",
    "dbrx": "its sizes stand in nested keys that are not read",
    "gpt_neo": "local attention of every other layer is not modelled",
    "bert": "an encoder alone generates no tokens",
    "roberta": "an encoder alone generates no tokens",
    "xlm-roberta": "an encoder alone generates no tokens",
    "deberta": "an encoder alone generates no tokens",
    "deberta-v2": "an encoder alone generates no tokens",
    "distilbert": "an encoder alone generates no tokens",
    "modernbert": "an encoder alone generates no tokens",
    "bart": "an encoder-decoder with a width of its own in each half and learned positions in both is not modelled",
    "mbart": "an encoder-decoder with a width of its own in each half and learned positions in both is not modelled",
    "pegasus": "an encoder-decoder with a width of its own in each half and learned positions in both is not modelled",
    "whisper": "an encoder of sound is not modelled",
    "clip": "it generates no tokens",
    "siglip": "it generates no tokens",
}
"""Families that are known and cannot be modelled, with the reason."""


def name_of(word: str) -> str:
    """The name in :data:`FAMILIES` or :data:`REFUSED` that ``word`` stands for; ``word`` itself where it has none."""
    plain = word.strip().lower().replace("-", "_")
    for name in (word, plain, ALIASES.get(plain, "")):
        if name in FAMILIES or name in REFUSED:
            return name
    return word


def of_architecture(word: str) -> str:
    """The family whose class `word` is, such as llama of LlamaForCausalLM; empty where there is none."""
    stem = word.lower().split("for")[0].removesuffix("model").replace("_", "").replace("lmhead", "")
    known = {name.replace("_", "").removesuffix("text"): name for name in (*FAMILIES, *REFUSED)}
    known |= {alias.replace("_", ""): name for alias, name in ALIASES.items()}
    return known.get(stem, "")
