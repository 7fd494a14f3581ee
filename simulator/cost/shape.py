"""What the cost model counts: a model's sizes, and one forward pass of it; each number may be an array."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.spec.model import HiddenStates, ModelSpec, RecurrentAttention

Array = npt.NDArray[np.float64]
TILE_ROWS = 8
Number = Any  # a float, an int or an array of them: everything here broadcasts


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
    head_bytes: Number | None = None
    """Bytes of a weight of the LM head; those of the other weights unless given."""
    all_reduces: Number = 2
    """All-reduces of a layer: 1 where attention and feed-forward are added at once, 3 where the layer attends to an
    encoder too."""
    experts: Experts | None = None
    latent: Latent | None = None
    recurrent: RecurrentAttention | None = None
    """Sizes of the layers that keep a state in place of a cache."""
    reads: HiddenStates | None = None
    """What a draft head reads of the target."""
    query_matrices: Number = 1
    """2 where each head's output has a gate."""
    attends_encoder: bool = False
    """Whether every layer attends to the output of an encoder."""
    feeds: Number = 0
    """Layers of a decoder whose keys and values are made of this encoder's output."""
    causal: bool = True
    """Whether a token attends to those before it alone; all of them in an encoder."""
    window: Number = np.inf
    """Positions that a windowed layer attends to."""
    window_layers: Number = 0
    relative: bool = False
    """Whether attention adds scores of distances (Dai et al. 2019)."""

    @classmethod
    def of(cls, model: ModelSpec) -> Shape:
        """The shape of one model."""
        own = ("layers", "d_model", "heads", "kv_heads", "head_dim", "d_ff", "vocabulary")
        sizes = ("weight_bytes", "kv_bytes", "activation_bytes", "head_bytes", "window_layers")
        return cls(
            **{name: getattr(model, name) for name in (*own, *sizes)},
            feed_forward_matrices=model.matrices,
            all_reduces=(1 if model.block == "parallel" else 2) + (model.encoder is not None),
            experts=Experts.of(model),
            latent=Latent.of(model),
            recurrent=model.recurrent,
            reads=model.hidden_states,
            query_matrices=2 if model.attention_gate else 1,
            attends_encoder=model.encoder is not None,
            window=model.window.positions if model.window is not None else np.inf,
            relative=model.positions == "relative",
        )

    @classmethod
    def of_encoder(cls, model: ModelSpec) -> Shape:
        """The shape of a model's encoder, and of the projections that hand its output to the decoder."""
        decoder, layers = cls.of(model), model.encoder.layers if model.encoder is not None else 0
        apart = replace(decoder, layers=layers, all_reduces=decoder.all_reduces - 1, attends_encoder=False)
        return replace(apart, feeds=decoder.layers, causal=False)

    @property
    def expert_layers(self) -> Number:
        """Layers whose feed-forward is routed."""
        return 0 if self.experts is None else self.experts.layers

    @property
    def recurrent_layers(self) -> Number:
        """Layers that keep a state in place of a cache."""
        return 0 if self.recurrent is None else self.recurrent.layers

    @property
    def has_layers(self) -> bool:
        """Whether it has layers with attention and feed-forward: all but Medusa's heads."""
        return self.reads is None or self.reads.proposes != "heads"

    @property
    def lm_heads(self) -> int:
        """LM heads that a row is multiplied with: more than one in Medusa."""
        return 1 if self.reads is None else self.reads.lm_heads


@dataclass(frozen=True)
class Experts:
    """The routed feed-forwards of a Shape."""

    layers: Number
    count: Number
    per_token: Number
    d_ff: Number
    shared_d_ff: Number
    correlation: Number
    weight_bytes: Number | None = None
    """Bytes of a weight of a routed expert; those of the other weights unless given."""

    @classmethod
    def of(cls, model: ModelSpec) -> Experts | None:
        """Those of one model, or None."""
        own = model.experts
        if own is None:
            return None
        sizes = (own.count, own.per_token, own.d_ff, own.shared_d_ff, own.correlation)
        return cls(model.expert_layers, *sizes, model.expert_bytes)


@dataclass(frozen=True)
class Latent:
    """The sizes of multi-head latent attention; ``query_rank`` is 0 where queries are not compressed."""

    kv_rank: Number
    rotary_dim: Number
    query_rank: Number
    value_dim: Number

    @classmethod
    def of(cls, model: ModelSpec) -> Latent | None:
        """Those of one model, or None."""
        own = model.latent
        if own is None:
            return None
        return cls(own.kv_rank, own.rotary_dim, own.query_rank or 0, own.value_dim or model.head_dim)


@dataclass(frozen=True)
class Pass:
    """One forward pass: B sequences, T new tokens each, S positions read from the cache, X chips."""

    batch: Number
    tokens: Number
    positions: Number
    chips: Number
    head_tokens: Number | None = None
    """Tokens of each sequence whose logits are wanted; all T unless given. The draft and a prefill want the last."""
    expert_groups: Number = 1
    """Groups of chips over which experts are spread."""
    dispatch: bool = False
    """Whether tokens are sent to their experts, instead of every chip having all of them."""
    stages: Number = 1
    """Pipeline stages, each on X chips of its own."""
    greedy: bool = False
    """Whether only each chip's likeliest token and its logit are gathered, not the logits."""
    encoded: Number = 0
    """Positions of an encoder's output that every layer attends to."""
    width_parts: Number = 1
    """X of a two-dimensional layout: parts into which the rows of every matrix, D wide, are split; 1 in Megatron's."""
    sequence_groups: Number = 1
    """Groups of chips that attend to sequences of their own; heads are split over the chips of a group."""
    projects: bool = True
    """Whether a draft head projects hidden states of the target: in EAGLE-3 in the first pass of a round alone."""

    @property
    def rows(self) -> Array:
        """Rows that a weight is multiplied with, B x T."""
        return np.asarray(np.asarray(self.batch, dtype=np.float64) * self.tokens)

    @property
    def columns(self) -> Number:
        """Parts into which heads, F and V are split: the chips, but for those that split the width."""
        return np.asarray(self.chips) / self.width_parts

    @property
    def attending(self) -> Number:
        """Chips over which the heads of a group's sequences are split."""
        return np.asarray(self.chips) / self.sequence_groups

    @property
    def head_rows(self) -> Array:
        """Rows that the LM head multiplies."""
        wanted = self.tokens if self.head_tokens is None else self.head_tokens
        return np.asarray(np.asarray(self.batch, dtype=np.float64) * wanted)


def split(amount: Number, chips: Number) -> Array:
    """What one chip holds of ``amount`` units that cannot be cut: rounded up, so that the padding is charged."""
    return np.asarray(np.ceil(np.asarray(amount, dtype=np.float64) / chips))


def tiled(size: Number, tile: Number) -> Array:
    """``size`` columns padded to whole tiles of the hardware."""
    return np.asarray(split(size, tile) * tile)


def in_rows(size: Number, tile: Number) -> Array:
    """``size`` entries along an axis that lies across the rows of tiles, which are eight."""
    return tiled(size, np.minimum(tile, TILE_ROWS))


def stored(rows: Number, columns: Number, tile: Number) -> Array:
    """Numbers that a matrix takes in memory, padding included.

    Memory is cut into tiles of 8 x ``tile``, and the matrix is turned so that it needs less padding. So the XLA:TPU
    compiler of libtpu 0.0.52 lays out arguments: a bfloat16 [8192, 2000] as ``{0,1:T(8,128)(2,1)}``, its 2,000 columns
    along the rows of tiles, and keys of 64 numbers a head with their positions along the columns.
    """
    return np.minimum(in_rows(rows, tile) * tiled(columns, tile), tiled(rows, tile) * in_rows(columns, tile))


def wide(shape: Shape, step: Pass, tile: Number) -> Array:
    """D as one chip has it: a part of it in a two-dimensional layout, padded to whole tiles."""
    return tiled(split(shape.d_model, step.width_parts), tile)


def query_heads(shape: Shape, chips: Number) -> Array:
    """Query heads of one chip, padding included: those of its KV heads stay together.

    Where there are more chips than KV heads, the chips that hold copies of one KV head share its query heads.
    """
    group = np.asarray(shape.heads, dtype=np.float64) / shape.kv_heads
    sharers = np.maximum(np.floor(np.asarray(chips, dtype=np.float64) / shape.kv_heads), 1.0)
    return np.asarray(split(shape.kv_heads, chips) * np.ceil(group / sharers))
