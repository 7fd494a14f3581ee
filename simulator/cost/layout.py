"""Collectives of a layer by how its weights and its attention lie on the chips.

One-dimensional: Megatron's (Shoeybi et al. 2019), the "1D weight-stationary" of Pope et al. 2022 (arXiv 2211.05102,
section 3.2.1): an all-reduce of B T D a bytes after attention and after the feed-forward, or one where both are added
at once; ``2 B L E / bandwidth`` there, whose L are our T tokens and whose E is our D.

Two-dimensional: "2D weight-stationary" (section 3.2.2 and appendix A.2). X of the chips, the first axis of the slice,
split D; the others, YZ, split heads and F. Activations are split over all chips between layers, so that

- an all-gather over YZ brings B T D/X of them together, after an all-reduce over X of each row's mean square;
- a reduce-scatter over X adds up what enters heads and feed-forward, B T (N H + F) / YZ, gated feed-forwards 2 F;
- an all-gather over X brings together what leaves them, B T (N H + F) / YZ;
- a reduce-scatter over YZ adds up B T D/X.

Without heads, with F = 4 D, X = sqrt(n)/2 and YZ = 2 sqrt(n) that is their ``8 B L E / (sqrt(n) bandwidth)``: numbers,
not bytes, and without the factor (K-1)/K. A serial block does all of it twice, for attention and for the feed-forward.
What they leave out of the formula stands in their program (google-research, scaling_transformer_inference_efficiency,
layers/two_d_parallel_xmap.py): the mean squares, keys and values added up over X, and logits.

Attention over sequences (section 3.3): the cache of a sequence lies on one chip, or on the chips of one group where
there are fewer sequences than chips. An all-to-all over the groups takes the queries from heads to sequences, another
takes what was attended to back; each chip spreads its B T N H / n numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from simulator.cost.collectives import Links
from simulator.cost.counted import LOGIT_BYTES
from simulator.cost.shape import Array, Number, Pass, Shape, split

SQUARE_BYTES = 4.0  # mean squares are float32 whatever the weights are
Along = Literal["all", "width", "columns", "groups"]


@dataclass(frozen=True)
class Collective:
    """`count` collectives of a step, each with `payload_bytes` on every chip."""

    name: str
    kind: str
    count: Array
    payload_bytes: Array
    along: Along = "all"
    """Over which chips: all; those that split the `width`; those that split the `columns`; the `groups` that attend to
    sequences of their own."""


def layer_collectives(shape: Shape, step: Pass, layers: Array) -> list[Collective]:
    """The collectives of ``layers`` layers, 0 on a single chip."""
    activations = step.rows * shape.d_model * shape.activation_bytes
    if not _two_dimensional(step):
        found = [Collective("layers", "all_reduce", shape.all_reduces * layers, np.asarray(activations))]
    else:
        found = [*_two_dimensional_collectives(shape, step, layers), *_keys(shape, step, layers)]
    return [*found, *_all_to_alls(shape, step, layers)]


def embedding_collectives(shape: Shape, step: Pass, once: Array) -> list[Collective]:
    """What brings together the parts of the vocabulary: of embeddings, and in two dimensions of logits too."""
    activations = step.rows * shape.d_model * shape.activation_bytes
    if not _two_dimensional(step):
        return [Collective("embedding", "all_reduce", once, np.asarray(activations))]
    logits = step.head_rows * split(shape.vocabulary, step.columns) * LOGIT_BYTES
    wanted = np.where(step.head_rows > 0, once, 0.0)
    return [
        Collective("embedding", "reduce_scatter", once, np.asarray(activations / step.width_parts), "columns"),
        Collective("logit_sums", "reduce_scatter", wanted, np.asarray(logits), "width"),
    ]


def links_along(part: Collective, step: Pass, links: Links) -> tuple[Links, Number]:
    """The links and the number of the chips that a collective is over: of a slice its first axis, or the others.

    Groups of sequences lie along the last axes; where those do not make them up, their links are taken as one ring.
    """
    if part.along == "all":
        return links, step.chips
    if part.along == "width":
        kept, chips = slice(0, 1), step.width_parts
    elif part.along == "columns":
        kept, chips = slice(1, None), step.columns
    else:
        chips = step.sequence_groups
        last = [first for first in range(len(links.axes)) if math.prod(links.axes[first:]) == chips]
        kept = slice(last[0], None) if last else slice(0, 0)
    return replace(links, axes=links.axes[kept], wraps=links.wraps[kept]), chips


def _two_dimensional(step: Pass) -> bool:
    return bool(np.any(np.asarray(step.width_parts) > 1))


def _two_dimensional_collectives(shape: Shape, step: Pass, layers: Array) -> list[Collective]:
    """Of a serial block each twice, with the mean of the payloads of attention and of the feed-forward."""
    times, each = shape.all_reduces, step.rows * shape.activation_bytes
    part = np.asarray(each * shape.d_model / step.width_parts)
    heads = shape.heads * shape.head_dim
    into = each * (shape.query_matrices * heads + (shape.feed_forward_matrices - 1) * shape.d_ff) / step.columns
    out = each * (heads + shape.d_ff) / step.columns
    count = times * layers
    return [
        Collective("mean_squares", "all_reduce", count, np.asarray(step.rows * SQUARE_BYTES), "width"),
        Collective("inputs", "all_gather", count, part, "columns"),
        Collective("inner_sums", "reduce_scatter", count, np.asarray(into / times), "width"),
        Collective("inner_parts", "all_gather", count, np.asarray(out / times), "width"),
        Collective("sums", "reduce_scatter", count, part, "columns"),
    ]


def _keys(shape: Shape, step: Pass, layers: Array) -> list[Collective]:
    """New keys and values added up over X: on every chip, or for a chip's own sequences alone."""
    held = 2 * split(shape.kv_heads, step.columns) * shape.head_dim * shape.activation_bytes
    groups = np.asarray(step.sequence_groups, dtype=np.float64)
    if not np.any(groups > 1):
        return [Collective("keys", "all_reduce", layers, np.asarray(step.rows * held), "width")]
    own = step.rows / np.minimum(groups, step.columns)
    return [Collective("keys", "reduce_scatter", layers, np.asarray(own * held), "width")]


def _all_to_alls(shape: Shape, step: Pass, layers: Array) -> list[Collective]:
    if not np.any(np.asarray(step.sequence_groups) > 1):
        return []
    spread = step.rows * shape.heads * shape.head_dim * shape.activation_bytes / step.chips
    return [Collective(name, "all_to_all", layers, np.asarray(spread), "groups") for name in ("queries", "attended")]
