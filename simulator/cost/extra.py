"""Operations that only some models have: recurrent layers, attention to an encoder, what draft heads add."""

from __future__ import annotations

import numpy as np

from simulator.cost.counted import Matrix, Operation
from simulator.cost.shape import Array, Number, Pass, Shape, in_rows, query_heads, split, tiled

STATE_BYTES = 4.0  # states are kept in float32


def recurrence(shape: Shape, step: Pass, tile: Number) -> list[Operation]:
    """Layers of linear attention (gated delta rule, Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464, equation 10).

    Queries, keys, values, their gate and two rates a head are projected; the state of every value head, key_dim x
    value_dim numbers, is read once, and written for each token that may be taken back, else once. A token costs three
    products with the state, ``6 x key_dim x value_dim`` FLOP a head: what the state holds at its key, the correction,
    and the output.
    """
    own = shape.recurrent
    if own is None:
        return []
    rows, width = step.rows, tiled(shape.d_model, tile)
    values, keys = split(own.value_heads, step.chips), split(own.key_heads, step.chips)
    into = 2 * keys * own.key_dim + 2 * values * own.value_dim + 2 * values
    whole = shape.d_model * (2 * own.key_width + 2 * own.value_width + 2 * own.value_heads)

    def matrix(name: str, contract: Number, out: Number, whole: Number) -> Operation:
        return Matrix(contract, out, whole, own.layers, rows, shape.weight_bytes).operation(name, step.chips)

    state = own.layers * own.key_dim * own.value_dim
    kept = 1 + (np.asarray(step.tokens, dtype=np.float64) if step.head_tokens is None else 1.0)
    return [
        matrix("recurrent_inputs", width, into, whole),
        Operation(
            "states",
            np.asarray(kept * step.batch * state * values * STATE_BYTES),
            np.asarray(6 * rows * state * values),
            np.asarray(6 * rows * state * own.value_heads / step.chips),
            rows,
        ),
        matrix("recurrent_output", values * own.value_dim, width, own.value_width * shape.d_model),
    ]


def encoder_attention(shape: Shape, step: Pass, tile: Number) -> list[Operation]:
    """A decoder layer's attention to the encoder's output, whose keys and values lie in the cache (Raffel et al. 2020).

    ``4 B T S N H`` FLOP for S encoded positions; queries and outputs are projected, keys and values are not.
    """
    if not shape.attends_encoder:
        return []
    heads, kv_heads = query_heads(shape, step.chips), split(shape.kv_heads, step.chips)
    size, width = shape.head_dim, shape.d_model
    whole = shape.d_model * shape.heads * shape.head_dim
    scores = 4 * step.rows * np.asarray(step.encoded, dtype=np.float64) * shape.layers

    def matrix(name: str, contract: Number, out: Number) -> Operation:
        weights = Matrix(contract, out, whole, shape.layers, step.rows, shape.weight_bytes, tile)
        return weights.operation(name, step.chips)

    read = np.asarray(step.batch, dtype=np.float64) * step.encoded * shape.layers
    return [
        matrix("encoder_queries", width, heads * size),
        Operation(
            "encoder_attention",
            np.asarray(read * 2 * kv_heads * in_rows(size, tile) * shape.kv_bytes),
            np.asarray(scores * heads * tiled(size, tile)),
            np.asarray(scores * shape.heads * shape.head_dim / step.chips),
            step.rows,
        ),
        matrix("encoder_outputs", heads * size, width),
    ]


def encoder_keys(shape: Shape, step: Pass, tile: Number) -> list[Operation]:
    """What an encoder hands on: keys and values of every layer of the decoder, made once of its output."""
    if np.all(np.asarray(shape.feeds) == 0):
        return []
    out = 2 * split(shape.kv_heads, step.chips) * shape.head_dim
    whole = 2 * shape.d_model * shape.kv_heads * shape.head_dim
    weights = Matrix(shape.d_model, out, whole, shape.feeds, step.rows, shape.weight_bytes, tile)
    return [weights.operation("encoder_keys", step.chips)]


def hidden_states(shape: Shape, step: Pass, tile: Number) -> list[Operation]:
    """The projection of the target's hidden states in a draft head, and the wider attention of its first layer.

    EAGLE (Li et al. 2024, arXiv 2401.15077, section 4.1) and EAGLE-3 (arXiv 2503.01840, figure 5). The projection is
    not sharded in the engines that run it: every chip reads all of it.
    """
    reads = shape.reads
    if reads is None:
        return []
    found, width = [], tiled(shape.d_model, tile)
    if reads.inputs and step.projects:
        weights = reads.inputs * _tiled_width(shape, tile) * width
        whole = reads.inputs * (reads.width or shape.d_model) * shape.d_model
        projection = Matrix(1, weights, whole, 1, step.rows, shape.weight_bytes)
        found.append(projection.operation("hidden_states", step.chips))
    if reads.attention_inputs > 1:
        heads = query_heads(shape, step.chips) + 2 * split(shape.kv_heads, step.chips)
        more = (reads.attention_inputs - 1) * shape.d_model
        whole = (reads.attention_inputs - 1) * shape.d_model * (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        wider = Matrix(more, heads * shape.head_dim, whole, 1, step.rows, shape.weight_bytes, tile)
        found.append(wider.operation("wider_qkv", step.chips))
    return found


def residual_blocks(shape: Shape, step: Pass, tile: Number) -> list[Operation]:
    """The D x D blocks before each head of Medusa (Cai et al. 2024, arXiv 2401.10774, section 2.1.1), not sharded."""
    width, count = tiled(shape.d_model, tile), shape.lm_heads * np.asarray(shape.layers, dtype=np.float64)
    blocks = Matrix(1, width * width, shape.d_model**2, count, step.rows, shape.weight_bytes)
    return [blocks.operation("residual_blocks", step.chips)]


def _tiled_width(shape: Shape, tile: Number) -> Array:
    reads = shape.reads
    return tiled(shape.d_model if reads is None or reads.width is None else reads.width, tile)
