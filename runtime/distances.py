"""Scores of relative positions without a gather: a shift of the scores of all distances.

What a token adds for a key depends on how far back that key lies, so its scores of keys are its scores of distances,
moved along by where it stands. Where products lie farthest distance first, both run the same way, and the move is one
slice at the cursor, or none among the new tokens. XLA:TPU would gather them number by number.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float32

from runtime.arithmetic import Attended, distance_scores, pad
from runtime.shapes import Cursor, Distances, Queries
from runtime.step import Step

UNROLLED = 16
"""Sequences up to which each has a slice of its own. A slice of all at once is a gather, of which XLA:TPU makes a loop
that takes twice as long, and with one of each a large batch would not compile in reasonable time."""
Scores = Float32[jax.Array, "B T N S"]
"""Of each distance, farthest first, or of each key."""


def with_distances(
    parts: tuple[Attended, ...], queries: Queries, products: Distances, step: Step
) -> tuple[Attended, ...]:
    """The parts with the scores of how far each of their keys lies back; new tokens are the last part, or the only."""
    if step.lowering.shift_distances:
        by_distance = scores_of_distances(queries, products, step.lowering.min_rows)
        shifted = [replace(part, bias=of_cached(by_distance, step.cursor)) for part in parts[:-1]]
        return *shifted, replace(parts[-1], bias=among_new(by_distance))

    def bias(part: Attended, *, new: bool) -> jax.Array:
        count = part.keys.shape[2]
        keys = step.at if new else jnp.broadcast_to(jnp.arange(count), (step.at.shape[0], count))
        return distance_scores(queries, products, step.at, keys)

    return tuple(replace(part, bias=bias(part, new=part.visible is step.among_new)) for part in parts)


def scores_of_distances(queries: Queries, products: Distances, min_rows: int) -> Scores:
    """Queries times the products of all distances; at least ``min_rows`` rows are multiplied.

    Args:
        queries: of the new tokens.
        products: [N, S, H], farthest distance first.
        min_rows: see ``Lowering.min_rows``.
    """
    batch, tokens, heads, head_dim = queries.shape
    rows = queries.reshape(batch * tokens, heads, head_dim).swapaxes(0, 1)
    padded = pad(rows, 1, min_rows).astype(products.dtype)
    raw = jnp.einsum("nrh,nsh->nrs", padded, products, preferred_element_type=jnp.float32)[:, : batch * tokens]
    return raw.reshape(heads, batch, tokens, -1).transpose(1, 2, 0, 3)


def among_new(by_distance: Scores) -> Scores:
    """Scores of T new tokens for each other, [B, T, N, T]; what lies ahead of a token gets any score.

    Token t looks t - j back to token j: row t starts T - 1 - t entries into the T nearest distances. One row of all
    entries, each T + 1 of them cut to T, moves each row by one more.
    """
    batch, tokens, heads, _ = by_distance.shape
    if tokens == 1:
        return by_distance[..., -1:]
    nearest = by_distance[..., -tokens:].swapaxes(1, 2)
    flat = jnp.pad(nearest, ((0, 0), (0, 0), (0, 0), (0, 1))).reshape(batch, heads, -1)
    moved = flat[:, :, tokens - 1 : tokens - 1 + tokens * tokens].reshape(batch, heads, tokens, tokens)
    return moved.swapaxes(1, 2)


def of_cached(by_distance: Scores, cursor: Cursor) -> Scores:
    """Scores of T new tokens at the cursor for all S positions; what lies ahead of a token gets any score.

    Token t looks ``cursor + t - s`` back to position s: row t starts S - 1 - cursor - t entries into the distances.
    """
    tokens, positions = by_distance.shape[1], by_distance.shape[3]
    wide = jnp.pad(by_distance, ((0, 0), (0, 0), (0, 0), (tokens - 1, positions)))
    start, length = positions - 1 - cursor, positions + tokens - 1

    def own(scores: jax.Array, at: jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(scores, at, length, axis=2)

    few = len(cursor) <= UNROLLED
    window = jnp.stack([own(wide[b], start[b]) for b in range(len(cursor))]) if few else jax.vmap(own)(wide, start)
    if tokens == 1:
        return window
    rows = [window[:, t, :, tokens - 1 - t : tokens - 1 - t + positions] for t in range(tokens)]
    return jnp.stack(rows, axis=1)
