"""Tiny transformers for tests of the runtime: random weights, logits of a spread that makes greedy output vary."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from runtime.transformer import Decoder
from simulator.spec.model import ModelSpec

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all")


def tiny(**changes: Any) -> ModelSpec:
    """A float32 transformer of two layers, four query heads and two KV heads."""
    shape: dict[str, Any] = {
        "name": "tiny",
        "layers": 2,
        "d_model": 32,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 8,
        "d_ff": 64,
        "feed_forward": "gated",
        "vocabulary": 64,
        "weight_dtype": "float32",
    }
    return ModelSpec(**(shape | changes))


KINDS: dict[str, dict[str, Any]] = {
    "MHA, plain, tied": {"kv_heads": 4, "feed_forward": "plain", "tied_embeddings": True},
    "MQA": {"kv_heads": 1},
    "parallel blocks": {"block": "parallel"},
    "learned positions": {"positions": "learned", "max_positions": 1200},
    "relative positions": {"positions": "relative"},
    "relative positions, GQA on 8 heads": {"positions": "relative", "heads": 8, "kv_heads": 2},
    "bfloat16": {"weight_dtype": "bfloat16"},
    "int8": {"weight_dtype": "int8", "weight_group": 8, "head_dtype": "float32", "activation_dtype": "float32"},
    "int4": {"weight_dtype": "int4", "weight_group": 4, "head_dtype": "float32", "activation_dtype": "float32"},
    "experts": {"experts": {"count": 8, "per_token": 2, "d_ff": 48}},
    "shared experts, dense first": {
        "experts": {"count": 4, "per_token": 2, "d_ff": 24, "shared_d_ff": 16, "layers": 1},
        "feed_forward": "plain",
    },
}
"""Every kind of model that is executed, as changes of the tiny one."""


def decoder(spec: ModelSpec, seed: int, **options: Any) -> Decoder:
    """A model of its own for every seed."""
    return Decoder(spec, rngs=nnx.Rngs(params=seed), **options)


def noisy(model: Decoder, seed: int, noise: float) -> Decoder:
    """A draft that mostly agrees: the model with its weights disturbed by ``noise`` times their spread."""
    leaves, structure = jax.tree.flatten(model)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    moved = [w + noise * jnp.std(w) * jax.random.normal(k, w.shape) for w, k in zip(leaves, keys, strict=True)]
    result: Decoder = jax.tree.unflatten(structure, moved)
    return result


def prompts(batch: int, length: int, vocabulary: int, seed: int = 0) -> jax.Array:
    """Random token ids [batch, length]."""
    return jax.random.randint(jax.random.key(seed), (batch, length), 0, vocabulary, jnp.int32)


def collectives(compiled: Any) -> dict[str, int]:
    """Collectives by kind in a compiled program, each counted once wherever it stands; asynchronous ones too."""
    words = Counter(re.findall(r" ([a-z-]+?)(?:-start)?\(", compiled.as_text()))
    return {kind: words[kind] for kind in COLLECTIVES if words[kind]}
