"""FLOP, HBM bytes and collective bytes of each operation of one forward pass, on one chip.

Megatron sharding (Shoeybi et al. 2019): query heads N, KV heads G, feed-forward F and vocabulary V are split over
X chips, D is not. What does not divide is padded, and the padding is charged, as is the hardware's tile. Experts are
split over groups of chips, and over the chips of a group. Operations stand here in the order in which
`runtime/transformer.py` does them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.cost import extra
from simulator.cost.counted import LOGIT_BYTES, Matrix, Operation
from simulator.cost.experts import busiest_group, touched_experts
from simulator.cost.layout import Collective, embedding_collectives, layer_collectives
from simulator.cost.shape import (
    Array,
    Experts,
    Latent,
    Number,
    Pass,
    Shape,
    in_rows,
    query_heads,
    split,
    stored,
    tiled,
    wide,
)

PICK_BYTES = 8.0  # a logit and a token
CACHED = ("attention", "distances", "encoder_attention", "states")
"""Operations that read what belongs to the sequences, not weights."""


def operations(shape: Shape, step: Pass, tile: Number = 1) -> list[Operation]:
    """The operations of one forward pass on one chip, each summed over the layers; without the LM head.

    Source of the counts: Kaplan et al. 2020, table 1, for the projections and the feed-forward; causal attention of
    T new tokens over S cached ones costs ``4 B T (S + (T+1)/2) N H`` FLOP.
    """
    if not shape.has_layers:
        return extra.residual_blocks(shape, step, tile)
    attention = _attention(shape, step, tile) if shape.latent is None else _latent(shape, shape.latent, step, tile)
    return [
        *extra.hidden_states(shape, step, tile),
        *attention,
        *extra.recurrence(shape, step, tile),
        *extra.encoder_attention(shape, step, tile),
        *_feed_forward(shape, step, tile),
        *extra.encoder_keys(shape, step, tile),
    ]


def _attention(shape: Shape, step: Pass, tile: Number) -> list[Operation]:
    heads, kv_heads = query_heads(shape, step.columns), split(shape.kv_heads, step.columns)
    # Heads lie side by side in a matrix, so that only their sum is padded; in the matrix units each is, for attention.
    size, width, multiplied = shape.head_dim, split(shape.d_model, step.width_parts), tiled(shape.head_dim, tile)
    # Attention over the cache may be split otherwise than the matrices: over sequences.
    asking, kept = query_heads(shape, step.attending), split(shape.kv_heads, step.attending)
    rows, each, layers = step.rows, shape.weight_bytes, shape.layers - shape.recurrent_layers
    queries = shape.query_matrices
    whole = shape.d_model * shape.heads * shape.head_dim
    whole_qkv = shape.d_model * (queries * shape.heads + 2 * shape.kv_heads) * shape.head_dim
    scores = 4 * rows * _attended(shape, step)
    distances = [_distances(shape, step, heads, tile)] if shape.relative else []
    out = (queries * heads + 2 * kv_heads) * size
    return [
        Matrix(width, out, whole_qkv, layers, rows, each, tile).operation("qkv", step.chips),
        Operation(
            "attention",
            np.asarray(
                cached_positions(shape, step) / step.sequence_groups * 2 * kept * in_rows(size, tile) * shape.kv_bytes
            ),
            np.asarray(scores / step.sequence_groups * asking * multiplied),
            np.asarray(scores * shape.heads * shape.head_dim / step.chips),
            rows,
        ),
        *distances,
        Matrix(heads * size, width, whole, layers, rows, each, tile).operation("output", step.chips),
    ]


def _distances(shape: Shape, step: Pass, heads: Array, tile: Number) -> Operation:
    """Scores of distances: every query times the product of each layer's projection with every distance.

    The products, N H numbers for each of S + T distances, are the same for all sequences and do not change: they are
    read once a step, and D x N x H weights are not.
    """
    reach = np.asarray(step.positions, dtype=np.float64) + step.tokens
    products = shape.layers * reach * heads
    whole = shape.layers * reach * shape.heads * shape.head_dim / step.chips
    return Operation(
        "distances",
        np.asarray(products * in_rows(shape.head_dim, tile) * shape.activation_bytes),
        np.asarray(2 * step.rows * products * tiled(shape.head_dim, tile)),
        np.asarray(2 * step.rows * whole),
        step.rows,
    )


def _attended(shape: Shape, step: Pass) -> Array:
    """Positions that one new token attends to on average, summed over the layers."""
    tokens = np.asarray(step.tokens, dtype=np.float64)
    causal = step.positions + ((tokens + 1) / 2 if shape.causal else tokens)
    # The first tokens see fewer positions than the window, all behind them see as many.
    growing = np.clip(shape.window - step.positions, 0.0, tokens)
    capped = np.where(tokens > growing, (tokens - growing) * np.minimum(shape.window, 1e18), 0.0)
    windowed = (growing * step.positions + growing * (growing + 1) / 2 + capped) / tokens
    return np.asarray(_unbounded(shape) * causal + shape.window_layers * windowed)


def _unbounded(shape: Shape) -> Number:
    """Layers that attend to all positions."""
    return shape.layers - shape.window_layers - shape.recurrent_layers


def cached_positions(shape: Shape, step: Pass) -> Array:
    """Positions of the cache that are read and written, summed over sequences and layers."""
    full = np.asarray(step.positions, dtype=np.float64) + step.tokens
    windowed = np.minimum(step.positions, shape.window) + step.tokens
    return np.asarray(step.batch * (_unbounded(shape) * full + shape.window_layers * windowed))


def _latent(shape: Shape, latent: Latent, step: Pass, tile: Number) -> list[Operation]:
    """Multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1).

    Compressed keys and values are not sharded: every chip reads all of them, and the matrices that compress. With
    positions in the cache the expansion is absorbed into queries and outputs, so that heads attend to the compressed
    form; a prefill expands its own tokens.
    """
    heads = split(shape.heads, step.chips)
    key, rank = shape.head_dim + latent.rotary_dim, latent.kv_rank
    rows, each, layers, chips = step.rows, shape.weight_bytes, shape.layers, step.chips

    def matrix(name: str, contract: Number, out: Number, whole: Number) -> Operation:
        return Matrix(contract, out, whole, layers, rows, each, tile).operation(name, chips)

    compressed = np.asarray(latent.query_rank > 0)
    into = np.where(compressed, latent.query_rank, shape.d_model)
    down = rank + latent.rotary_dim
    per_head = np.where(np.asarray(step.positions) > 0, 2 * rank + latent.rotary_dim, key + latent.value_dim)
    scores = 2 * rows * _attended(shape, step) * per_head
    return [
        # Compression lies on every chip whole: what it repeats is executed, and no part of the model.
        matrix("compress", shape.d_model, latent.query_rank + down, shape.d_model * (latent.query_rank + down)),
        matrix("queries", into, heads * key, into * shape.heads * key),
        matrix(
            "expand",
            rank,
            heads * (shape.head_dim + latent.value_dim),
            rank * shape.heads * (shape.head_dim + latent.value_dim),
        ),
        Operation(
            "attention",
            np.asarray(cached_positions(shape, step) * in_rows(down, tile) * shape.kv_bytes),
            np.asarray(scores * heads),
            np.asarray(scores * shape.heads / chips),
            rows,
        ),
        matrix("output", heads * latent.value_dim, shape.d_model, shape.heads * latent.value_dim * shape.d_model),
    ]


def _feed_forward(shape: Shape, step: Pass, tile: Number) -> list[Operation]:
    width, count = split(shape.d_model, step.width_parts), shape.feed_forward_matrices
    found: list[Operation] = []

    def dense(name: str, size: Number, layers: Number) -> None:
        whole, out = count * shape.d_model * size, split(size, step.columns)
        part = Matrix(width, out, whole, layers, step.rows, shape.weight_bytes, tile, count)
        found.append(part.operation(name, step.chips))

    if shape.experts is None or np.any(np.asarray(shape.layers) > shape.expert_layers):
        dense("feed_forward", shape.d_ff, shape.layers - shape.expert_layers)
    if shape.experts is not None:
        router = Matrix(
            wide(shape, step, tile),
            shape.experts.count,
            shape.d_model * shape.experts.count,
            shape.experts.layers,
            step.rows,
            shape.activation_bytes,
        )
        found.append(router.operation("router", step.chips))
        dense("shared_experts", shape.experts.shared_d_ff, shape.experts.layers)
        found.append(_routed(shape, shape.experts, step, tile))
    return found


def _routed(shape: Shape, experts: Experts, step: Pass, tile: Number) -> Operation:
    """The routed experts: streamed once each where touched; every token is multiplied with k of them."""
    groups = np.asarray(step.expert_groups, dtype=np.float64)
    touched = busiest_group(experts, step.rows, groups)
    out = split(experts.d_ff, np.asarray(step.chips) / groups)
    count = shape.feed_forward_matrices * experts.layers
    expert = count * stored(shape.d_model, out, tile)
    # What the busiest group computes: its share of the touched experts is that of the tokens.
    every = touched_experts(experts, step.rows)
    assigned = step.rows * experts.per_token * touched / every
    whole = shape.feed_forward_matrices * shape.d_model * experts.d_ff * experts.layers
    return Operation(
        "experts",
        np.asarray(touched * expert * (shape.weight_bytes if experts.weight_bytes is None else experts.weight_bytes)),
        np.asarray(2 * assigned * count * tiled(shape.d_model, tile) * tiled(out, tile)),
        np.asarray(2 * step.rows * experts.per_token * whole / step.chips),
        np.asarray(np.maximum(step.rows * experts.per_token / every, 1.0)),
    )


def head(shape: Shape, step: Pass, tile: Number = 1) -> Operation:
    """The LM head: D x V weights, ``2 B T D V`` FLOP; all of them, where a row has several."""
    each = shape.weight_bytes if shape.head_bytes is None else shape.head_bytes
    out, width = split(shape.vocabulary, step.columns), split(shape.d_model, step.width_parts)
    # Where nobody wants logits, as of a draft that reads a prompt, nothing is read or multiplied.
    used = np.where(step.head_rows > 0, float(shape.lm_heads), 0.0)
    part = Matrix(width, out, shape.d_model * shape.vocabulary, used, step.head_rows, each, tile)
    return part.operation("head", step.chips)


def collectives(shape: Shape, step: Pass) -> list[Collective]:
    """The collectives of one forward pass on X > 1 chips: those of the layers, one for the embedding, one for logits.

    In greedy decoding the last gathers the likeliest token of each chip's part instead of the logits.

    The embedding is split over the vocabulary, so each chip looks up its own rows and the sum is the embedding. A layer
    has two all-reduces, or one where attention and feed-forward are added at once. Where tokens are sent to their
    experts, the all-reduce after attention is a reduce-scatter, two all-to-alls carry k copies of each token there and
    back, and an all-gather ends the layer. Stages of a pipeline hand activations on from chip to chip. Other layouts of
    weights and of attention have the collectives of :mod:`simulator.cost.layout`.
    """
    many = np.asarray(step.chips) > 1
    logits_rows = step.head_rows * shape.lm_heads
    activations = step.rows * shape.d_model * shape.activation_bytes
    sent = np.asarray(shape.expert_layers * step.dispatch, dtype=np.float64)
    layers = (np.asarray(shape.layers, dtype=np.float64) - sent) * shape.has_layers
    found = layer_collectives(shape, step, np.where(many, layers, 0.0))
    if shape.experts is not None and step.dispatch:
        # The chips of a group share each of its experts, so each of them needs the token.
        each = activations / step.expert_groups * shape.experts.per_token
        found += [
            Collective("scatter", "reduce_scatter", np.where(many, sent, 0.0), activations),
            Collective("dispatch", "all_to_all", np.where(many, 2 * sent, 0.0), each),
            Collective("gather", "all_gather", np.where(many, sent, 0.0), activations),
        ]
    part = PICK_BYTES if step.greedy else split(shape.vocabulary, step.chips) * LOGIT_BYTES
    logits = logits_rows * part * step.chips
    handed = np.asarray(step.stages, dtype=np.float64) - 1
    return [
        *found,
        *embedding_collectives(shape, step, np.where(many & shape.has_layers, 1.0, 0.0)),
        Collective("logits", "all_gather", np.where(many & (step.head_rows > 0), 1.0, 0.0), logits),
        Collective("stages", "point_to_point", handed, activations),
    ]


def streamed_bytes(shape: Shape, step: Pass, tile: Number = 1) -> Array:
    """Weights and cached keys and values that one pass moves through one chip."""
    every = [*operations(shape, step, tile), head(shape, step, tile)]
    return np.asarray(sum(op.streamed_bytes for op in every), dtype=np.float64)


def weight_bytes_per_chip(shape: Shape, chips: Number, tile: Number = 1) -> Array:
    """Weights that one step of one token streams through one chip, padding included."""
    step = Pass(1, 1, 0, chips)
    ops = [op.streamed_bytes for op in operations(shape, step, tile) if op.name not in CACHED]
    return np.asarray(sum(ops) + head(shape, step, tile).streamed_bytes, dtype=np.float64)


def resident_weight_bytes(
    shape: Shape, chips: Number, tile: Number = 1, expert_groups: Number = 1, width_parts: Number = 1
) -> Array:
    """Weights of all layers on one chip, padding included: what streams where every expert is touched.

    Norms, the LM head, embeddings and projections of distances are not among them.
    """
    if shape.experts is not None:
        every = replace(shape.experts, per_token=shape.experts.count, correlation=0.0)
        shape = replace(shape, experts=every)
    step = Pass(1, 1, 0, chips, expert_groups=expert_groups, width_parts=width_parts)
    ops = operations(shape, step, tile)
    return np.asarray(sum(op.streamed_bytes for op in ops if op.name not in CACHED), dtype=np.float64)
