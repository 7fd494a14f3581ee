"""FLOP, HBM bytes and collective bytes of each operation of one forward pass, on one chip.

Megatron sharding (Shoeybi et al. 2019): query heads N, KV heads G, feed-forward F and vocabulary V are split over
X chips, D is not. What does not divide is padded, and the padding is charged. Operations stand here in the order
in which `runtime/transformer.py` does them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.spec.model import ModelSpec

Array = npt.NDArray[np.float64]
Number = Any  # a float, an int or an array of them: everything here broadcasts

LOGIT_BYTES = 4.0  # logits are float32 whatever the weights are


@dataclass(frozen=True)
class Shape:
    """The numbers of a ModelSpec that cost anything; each may be an array."""

    layers: Number
    d_model: Number
    heads: Number
    kv_heads: Number
    head_dim: Number
    d_ff: Number
    feed_forward_matrices: Number
    vocabulary: Number
    weight_bytes: Number
    kv_bytes: Number
    activation_bytes: Number

    @classmethod
    def of(cls, model: ModelSpec) -> Shape:
        """The shape of one model."""
        own = {f.name: getattr(model, f.name) for f in fields(cls) if f.name != "feed_forward_matrices"}
        return cls(feed_forward_matrices=3 if model.feed_forward == "gated" else 2, **own)


@dataclass(frozen=True)
class Pass:
    """One forward pass: B sequences, T new tokens each, S positions read from the cache, X chips."""

    batch: Number
    tokens: Number
    positions: Number
    chips: Number
    head_tokens: Number | None = None
    """Tokens of each sequence whose logits are wanted; all T unless given. The draft and a prefill want the last."""

    @property
    def head_rows(self) -> Array:
        """Rows that the LM head multiplies."""
        wanted = self.tokens if self.head_tokens is None else self.head_tokens
        return np.asarray(np.asarray(self.batch, dtype=np.float64) * wanted)


@dataclass(frozen=True)
class Operation:
    """What one operation of a step moves and computes on one chip, all layers together.

    `streamed_bytes` are weights or cached keys and values; `flop` counts a multiply-add as two.
    """

    name: str
    streamed_bytes: Array
    flop: Array
    model_flop: Array


@dataclass(frozen=True)
class Collective:
    """`count` collectives of a step, each with `payload_bytes` on every chip."""

    name: str
    kind: str
    count: Array
    payload_bytes: Array


def split(amount: Number, chips: Number) -> Array:
    """What one chip holds of ``amount`` units that cannot be cut: rounded up, so that the padding is charged."""
    return np.asarray(np.ceil(np.asarray(amount, dtype=np.float64) / chips))


def query_heads(shape: Shape, chips: Number) -> Array:
    """Query heads of one chip, padding included: those of its KV heads stay together.

    Where there are more chips than KV heads, the chips that hold copies of one KV head share its query heads.
    """
    group = np.asarray(shape.heads, dtype=np.float64) / shape.kv_heads
    sharers = np.maximum(np.floor(np.asarray(chips, dtype=np.float64) / shape.kv_heads), 1.0)
    return np.asarray(split(shape.kv_heads, chips) * np.ceil(group / sharers))


def operations(shape: Shape, step: Pass) -> list[Operation]:
    """The operations of one forward pass on one chip, each summed over the layers.

    Source of the counts: Kaplan et al. 2020, table 1, for the projections and the feed-forward; causal attention of
    T new tokens over S cached ones costs ``4 B T (S + (T+1)/2) N H`` FLOP.
    """
    heads, kv_heads = query_heads(shape, step.chips), split(shape.kv_heads, step.chips)
    rows = np.asarray(step.batch, dtype=np.float64) * step.tokens
    width = np.asarray(shape.d_model, dtype=np.float64)
    attended = step.positions + (step.tokens + 1) / 2
    kv_row = 2 * kv_heads * shape.head_dim * shape.kv_bytes
    cached = np.asarray(step.batch * (step.positions + step.tokens) * kv_row)
    return [
        _matmul("qkv", shape, rows, width, (heads + 2 * kv_heads) * shape.head_dim, _whole_qkv(shape) / step.chips),
        Operation(
            "attention",
            cached * shape.layers,
            4 * rows * attended * heads * shape.head_dim * shape.layers,
            4 * rows * attended * shape.heads * shape.head_dim * shape.layers / step.chips,
        ),
        _matmul(
            "output", shape, rows, heads * shape.head_dim, width, shape.heads * shape.head_dim * width / step.chips
        ),
        _matmul(
            "feed_forward",
            shape,
            rows,
            shape.feed_forward_matrices * width,
            split(shape.d_ff, step.chips),
            shape.feed_forward_matrices * width * shape.d_ff / step.chips,
        ),
    ]


def _whole_qkv(shape: Shape) -> Array:
    return np.asarray(shape.d_model * (shape.heads + 2 * shape.kv_heads) * shape.head_dim, dtype=np.float64)


def _matmul(name: str, shape: Shape, rows: Array, contract: Number, out: Number, true_weights: Number) -> Operation:
    """A matmul of every layer: ``contract`` x ``out`` weights on a chip, of which ``true_weights`` are no padding."""
    weights = np.asarray(contract * out, dtype=np.float64)
    streamed = weights * shape.weight_bytes * shape.layers
    return Operation(name, streamed, 2 * rows * weights * shape.layers, 2 * rows * true_weights * shape.layers)


def head(shape: Shape, step: Pass) -> Operation:
    """The LM head: D x V weights, ``2 B T D V`` FLOP."""
    rows = step.head_rows
    weights = shape.d_model * split(shape.vocabulary, step.chips)
    true_flop = 2 * rows * shape.d_model * shape.vocabulary / step.chips
    return Operation("head", weights * shape.weight_bytes, 2 * rows * weights, true_flop)


def collectives(shape: Shape, step: Pass) -> list[Collective]:
    """The collectives of one forward pass on X > 1 chips: 2 a layer, one for the embedding, one for the logits.

    The embedding is split over the vocabulary, so each chip looks up its own rows and the sum is the embedding.
    """
    rows = np.asarray(step.batch, dtype=np.float64) * step.tokens
    many = np.asarray(step.chips) > 1
    activations = rows * shape.d_model * shape.activation_bytes
    logits = step.head_rows * split(shape.vocabulary, step.chips) * step.chips * LOGIT_BYTES
    return [
        Collective("layers", "all_reduce", np.where(many, 2.0 * shape.layers, 0.0), activations),
        Collective("embedding", "all_reduce", np.where(many, 1.0, 0.0), activations),
        Collective("logits", "all_gather", np.where(many, 1.0, 0.0), logits),
    ]


def weight_bytes_per_chip(shape: Shape, chips: Number) -> Array:
    """Weights that one step streams through one chip, padding included."""
    step = Pass(1, 1, 0, chips)
    ops = [op.streamed_bytes for op in operations(shape, step) if op.name != "attention"]
    return np.asarray(sum(ops) + head(shape, step).streamed_bytes, dtype=np.float64)
