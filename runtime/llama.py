"""Llama as Hugging Face writes it down: names and shapes of tensors, and what `config.json` says of a model.

Its projections are [out, in], ours [in, out] and fused. Its rotary pairs (i, i + H/2) are ours
(``runtime.arithmetic.rotate``), so that no row has to move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runtime.safetensors import shown
from simulator.errors import Problem, RefusedError
from simulator.spec.model import ModelSpec

EMBEDDING, FINAL_NORM, HEAD = "model.embed_tokens", "model.norm", "lm_head"
LAYER = {
    "attention_norm": ("input_layernorm",),
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "feed_forward_norm": ("post_attention_layernorm",),
    "up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""For each weight of our layers the tensors of which it is made, side by side."""

MODEL_TYPES: dict[str, dict[str, Any]] = {"llama": {}, "mistral": {"num_key_value_heads": 8, "sliding_window": 4096}}
"""Model types with these tensors and formulas (others of the same names scale embeddings or shift norms), and what each
of them takes where its configuration says nothing."""

_PLAIN = {"attention_bias": False, "mlp_bias": False, "hidden_act": "silu", "sliding_window": None}
_ABSENT = {"quantization_config": None, "partial_rotary_factor": 1.0}
_SPEC_KEYS = {
    "num_hidden_layers": "layers",
    "hidden_size": "d_model",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "intermediate_size": "d_ff",
    "vocab_size": "vocabulary",
    "rope_theta": "rotary_base",
    "rms_norm_eps": "norm_epsilon",
    "tie_word_embeddings": "tied_embeddings",
}
_SCALING_KEYS = {
    "factor": "factor",
    "low_freq_factor": "low_frequency_factor",
    "high_freq_factor": "high_frequency_factor",
    "original_max_position_embeddings": "original_positions",
}
_DEFAULTS = {"rope_theta": 10_000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": False}


def refuse_other_shapes(spec: ModelSpec) -> None:
    """Refuse models that Llama's tensors do not describe.

    Raises:
        RefusedError: ``spec`` is no Llama.
    """
    parts = {
        f"feed_forward {spec.feed_forward}": spec.feed_forward != "gated",
        f"positions {spec.positions}": spec.positions != "rotary",
        f"block {spec.block}": spec.block != "serial",
        "experts": spec.experts is not None,
        "latent": spec.latent is not None,
        "window": spec.window is not None,
    }
    if found := [words for words, other in parts.items() if other]:
        raise RefusedError(f"{spec.name}: weights are loaded into models like Llama, without {', '.join(found)}")


def tensors_of(spec: ModelSpec, weight: str, layer: int | None) -> tuple[str, ...]:
    """The tensors of which one of our weights is made.

    Raises:
        RefusedError: Llama has no such weight.
    """
    if layer is not None and weight in LAYER:
        return tuple(f"model.layers.{layer}.{name}.weight" for name in LAYER[weight])
    head = EMBEDDING if spec.tied_embeddings else HEAD
    outer = {"embedding": EMBEDDING, "final_norm": FINAL_NORM, "head": head}
    if layer is not None or weight not in outer:
        raise RefusedError(f"{spec.name}: models like Llama have no {weight}")
    return (f"{outer[weight]}.weight",)


def shapes_of(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model, with its shape."""
    width, queries, keys = spec.d_model, spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    in_layer = {
        "input_layernorm": (width,),
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "post_attention_layernorm": (width,),
        "mlp.gate_proj": (spec.d_ff, width),
        "mlp.up_proj": (spec.d_ff, width),
        "mlp.down_proj": (width, spec.d_ff),
    }
    vocabulary = (spec.vocabulary, width)
    found: dict[str, tuple[int, ...]] = {f"{EMBEDDING}.weight": vocabulary}
    for layer in range(spec.layers):
        found |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in in_layer.items()}
    found[f"{FINAL_NORM}.weight"] = (width,)
    return found if spec.tied_embeddings else found | {f"{HEAD}.weight": vocabulary}


def config_of(spec: ModelSpec) -> dict[str, Any]:
    """What `config.json` says of ``spec``."""
    kind = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    said = {key: getattr(spec, ours) for key, ours in _SPEC_KEYS.items()}
    return kind | _PLAIN | said | {"rope_scaling": _rope(spec)}


def config_problems(spec: ModelSpec, config: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Everything that ``config`` says otherwise than ``spec``; what it leaves out has Llama's defaults."""
    kind = config.get("model_type", "llama")
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        yield Problem(str(path), 0, 0, "model_type", shown(kind), f"{' or '.join(MODEL_TYPES)}")
        return
    rope = config.get("rope_scaling") or config.get("rope_parameters")
    given = _with_defaults({**MODEL_TYPES[kind], **config}, rope)
    for key, wanted in (_PLAIN | _ABSENT).items():
        if key in given and not _same(given[key], wanted):
            yield Problem(str(path), 0, 0, key, shown(given[key]), f"{shown(wanted)}; others are not executed")
    for key, ours in _SPEC_KEYS.items():
        wanted = getattr(spec, ours)
        if key in given and not _same(given[key], wanted):
            yield Problem(str(path), 0, 0, key, shown(given[key]), f"{shown(wanted)}, as {ours} of {spec.name} is")
    if not _same_scaling(rope, _rope(spec)):
        accepts = f"{shown(_rope(spec))}, as rotary_scaling of {spec.name} is"
        yield Problem(str(path), 0, 0, "rope_scaling", shown(rope), accepts)


def _rope(spec: ModelSpec) -> dict[str, Any] | None:
    if spec.rotary_scaling is None:
        return None
    return {"rope_type": "llama3"} | {key: getattr(spec.rotary_scaling, ours) for key, ours in _SCALING_KEYS.items()}


def _same_scaling(found: Any, wanted: dict[str, Any] | None) -> bool:
    """Whether two descriptions of rotary frequencies say the same; `default` says as little as none."""
    if not found:
        return wanted is None
    if not isinstance(found, dict):
        return False
    kind = found.get("rope_type", found.get("type", "default"))
    if kind == "default" or wanted is None:
        return bool(kind == "default") and wanted is None
    return kind == "llama3" and all(_same(found.get(key), wanted[key]) for key in _SCALING_KEYS)


def _with_defaults(config: Mapping[str, Any], rope: Any) -> dict[str, Any]:
    """``config`` with what Llama takes where it says nothing, or null; newer ones state theta beside the scaling."""
    given = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    if isinstance(rope, dict) and "rope_theta" in rope:
        given["rope_theta"] = rope["rope_theta"]
    heads, width = given.get("num_attention_heads"), given.get("hidden_size")
    if type(heads) is int and type(width) is int and heads > 0:
        given.setdefault("head_dim", width // heads)
        given.setdefault("num_key_value_heads", heads)
    return given


def _same(found: Any, wanted: Any) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)
