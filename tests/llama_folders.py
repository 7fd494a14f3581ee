"""Tiny Llamas for tests: folders of weights as Hugging Face writes them, and their formulas in float64 NumPy.

Written from the formulas of `transformers` (modeling_llama.py, modeling_rope_utils.py), not from the runtime.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from runtime.safetensors import write
from simulator.spec.model import ModelSpec
from tests.tiny_models import tiny

Array = npt.NDArray[Any]
Tensors = dict[str, Array]

STORED: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
LLAMA3 = {
    "factor": 8.0,
    "low_frequency_factor": 1.0,
    "high_frequency_factor": 4.0,
    "original_positions": 16,
}


def random_tensors(spec: ModelSpec, seed: int = 0, stored: str = "float32") -> Tensors:
    """Every tensor of a Llama of this shape, with random values."""
    rng = np.random.default_rng(seed)
    width, heads, keys = spec.d_model, spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (spec.vocabulary, width)}
    for layer in range(spec.layers):
        shapes |= {
            f"model.layers.{layer}.{name}.weight": shape
            for name, shape in {
                "self_attn.q_proj": (heads, width),
                "self_attn.k_proj": (keys, width),
                "self_attn.v_proj": (keys, width),
                "self_attn.o_proj": (width, heads),
                "mlp.gate_proj": (spec.d_ff, width),
                "mlp.up_proj": (spec.d_ff, width),
                "mlp.down_proj": (width, spec.d_ff),
                "input_layernorm": (width,),
                "post_attention_layernorm": (width,),
            }.items()
        }
    shapes["model.norm.weight"] = (width,)
    if not spec.tied_embeddings:
        shapes["lm_head.weight"] = (spec.vocabulary, width)
    found = {}
    for name, shape in shapes.items():
        values = rng.normal(size=shape) / np.sqrt(shape[-1]) if len(shape) > 1 else 1 + 0.2 * rng.normal(size=shape)
        found[name] = values.astype(STORED[stored])
    return found


def config(spec: ModelSpec, **changes: Any) -> dict[str, Any]:
    """The configuration of a Llama of this shape."""
    scaling = spec.rotary_scaling
    return {
        "model_type": "llama",
        "num_hidden_layers": spec.layers,
        "hidden_size": spec.d_model,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "intermediate_size": spec.d_ff,
        "vocab_size": spec.vocabulary,
        "rope_theta": spec.rotary_base,
        "rms_norm_eps": spec.norm_epsilon,
        "tie_word_embeddings": spec.tied_embeddings,
        "attention_bias": False,
        "hidden_act": "silu",
        "rope_scaling": scaling
        and {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_frequency_factor,
            "high_freq_factor": scaling.high_frequency_factor,
            "original_max_position_embeddings": scaling.original_positions,
        },
    } | changes


def folder_of(path: Path, tensors: Mapping[str, Array], configuration: Any = None, shards: int = 1) -> Path:
    """A folder with these tensors, over so many files."""
    path.mkdir(parents=True, exist_ok=True)
    if configuration is not None:
        (path / "config.json").write_text(json.dumps(configuration))
    if shards == 1:
        write(path / "model.safetensors", tensors)
        return path
    names = [f"model-{number + 1:05}-of-{shards:05}.safetensors" for number in range(shards)]
    places = {name: names[index * shards // len(tensors)] for index, name in enumerate(tensors)}
    for file in names:
        write(path / file, {name: tensors[name] for name, place in places.items() if place == file})
    index = {"metadata": {"total_size": 0}, "weight_map": places}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


def small(**changes: Any) -> ModelSpec:
    """A Llama of two layers whose norms and rotations are not those that the runtime has by default."""
    return tiny(**({"rotary_base": 500.0, "norm_epsilon": 1e-3} | changes))


def frequencies(spec: ModelSpec) -> Array:
    """`inv_freq`, case by case as `_compute_llama3_parameters` has it."""
    found = 1.0 / spec.rotary_base ** (np.arange(0, spec.head_dim, 2) / spec.head_dim)
    scaling = spec.rotary_scaling
    if scaling is None:
        return found
    low, high, old = scaling.low_frequency_factor, scaling.high_frequency_factor, scaling.original_positions
    for index, frequency in enumerate(found):
        wavelength = 2 * np.pi / frequency
        if wavelength > old / low:
            found[index] = frequency / scaling.factor
        elif wavelength >= old / high:
            smooth = (old / wavelength - low) / (high - low)
            found[index] = (1 - smooth) * frequency / scaling.factor + smooth * frequency
    return found


def rotate_half(x: Array) -> Array:
    """(first, second) halves of each head to (-second, first)."""
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return np.concatenate([-second, first], axis=-1)


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    """LlamaRMSNorm."""
    return weight * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)


def logits(spec: ModelSpec, tensors: Mapping[str, Array], tokens: Array) -> Array:
    """Logits after every token of one sequence: LlamaForCausalLM in float64."""
    t = {name: value.astype(np.float64) for name, value in tensors.items()}
    x = t["model.embed_tokens.weight"][tokens]
    angles = np.arange(len(tokens))[:, None] * frequencies(spec)
    cos, sin = (np.concatenate([f(angles)] * 2, axis=-1)[:, None] for f in (np.cos, np.sin))
    for layer in range(spec.layers):
        w = {n.split(".", 3)[3][:-7]: v for n, v in t.items() if n.startswith(f"model.layers.{layer}.")}
        h = rms_norm(x, w["input_layernorm"], spec.norm_epsilon)
        q = (h @ w["self_attn.q_proj"].T).reshape(len(tokens), spec.heads, spec.head_dim)
        k = (h @ w["self_attn.k_proj"].T).reshape(len(tokens), spec.kv_heads, spec.head_dim)
        v = (h @ w["self_attn.v_proj"].T).reshape(len(tokens), spec.kv_heads, spec.head_dim)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (np.repeat(kv, spec.heads // spec.kv_heads, axis=1) for kv in (k, v))
        scores = np.einsum("tnh,snh->nts", q, k) / np.sqrt(spec.head_dim)
        scores = np.where(np.tri(len(tokens), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        x = x + np.einsum("nts,snh->tnh", weights, v).reshape(len(tokens), -1) @ w["self_attn.o_proj"].T
        h = rms_norm(x, w["post_attention_layernorm"], spec.norm_epsilon)
        gate = h @ w["mlp.gate_proj"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["mlp.up_proj"].T)) @ w["mlp.down_proj"].T
    head = t["model.embed_tokens.weight" if spec.tied_embeddings else "lm_head.weight"]
    return rms_norm(x, t["model.norm.weight"], spec.norm_epsilon) @ head.T
