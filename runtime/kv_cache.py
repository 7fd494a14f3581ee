"""The KV cache: a static buffer a layer, and a cursor a sequence that lives outside it.

The first ``cursor`` positions of a sequence are valid; what lies behind is stale and masked. Appending writes at the
cursor. Rolling back to an accepted length is setting the cursor lower: no byte moves.

The layout is [B, G, S, H]: on a CPU it is several times faster than [B, S, G, H], whose heads lie apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from runtime.arithmetic import as_bits
from runtime.shapes import Cursor, Distances, LayerCache, NewKeys
from simulator.errors import RefusedError

BLOCK = 64
"""Allocations are rounded up to this many positions, as ``Scenario.cache_positions`` does."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KVCache:
    """Cached keys and values of every layer, each [B, G, S, H]; of scanned layers one array, [L, B, G, S, H]."""

    keys: tuple[LayerCache, ...]
    values: tuple[LayerCache, ...]
    distances: tuple[Distances, ...] = ()
    """With relative positions, what every layer adds for each distance; never changed."""


def empty_cache(layers: int, shape: tuple[int, ...], dtype: jnp.dtype) -> KVCache:
    """A cache with nothing in it; ``shape`` is [B, G, S, H]."""
    return KVCache(
        tuple(jnp.zeros(shape, dtype) for _ in range(layers)),
        tuple(jnp.zeros(shape, dtype) for _ in range(layers)),
    )


def append(buffer: LayerCache, new: NewKeys, cursor: Cursor, *, scatter: bool) -> LayerCache:
    """Write T new positions of each sequence at its own cursor.

    ``lax.dynamic_update_slice`` moves a write that would run over the end to lower positions without a word, so the
    caller must have room: see :func:`room`.

    Args:
        buffer: [B, G, S, H], of scanned layers [L, B, G, S, H]; bfloat16 may be kept as its bits.
        new: [B, G, T, H], or [L, B, G, T, H].
        cursor: [B].
        scatter: one scatter over all B x G rows, which XLA:CPU leaves alone. A plain update slice it computes twice,
            once for the attention that reads it and once for the loop that carries it, and copies the whole buffer
            four times a step for that.
    """
    new = as_bits(new.astype(jnp.bfloat16)) if buffer.dtype == jnp.uint16 else new.astype(buffer.dtype)
    if scatter:
        batch, kv_heads = buffer.shape[:2]
        rows = (batch * kv_heads, -1, buffer.shape[3])
        written = _update_rows(buffer.reshape(rows), new.reshape(rows), jnp.repeat(cursor, kv_heads), axis=0)
        return written.reshape(buffer.shape)
    # One after the other: an update slice of many sequences at once is a scatter, of which XLA:TPU makes a loop.
    for sequence in range(len(cursor)):
        own = lax.slice_in_dim(new, sequence, sequence + 1, axis=new.ndim - 4)
        layers = (0,) * (buffer.ndim - 4)
        buffer = lax.dynamic_update_slice(buffer, own, (*layers, sequence, 0, cursor[sequence], 0))
    return buffer


def append_all(cache: KVCache, new: KVCache, cursor: Cursor, behind: jax.Array, *, scatter: bool) -> KVCache:
    """Append the ``new`` keys and values of every layer, but not before ``behind`` has been computed.

    XLA:TPU brings the cache into on-chip memory for the attention that reads it. Where an append follows at once it
    writes there, and then all of the buffer back; behind the last layer it writes the new positions to HBM alone.
    """
    _, at = lax.optimization_barrier((behind, cursor))
    keys, values = (
        tuple(append(buffer, own, at, scatter=scatter) for buffer, own in zip(buffers, news, strict=True))
        for buffers, news in ((cache.keys, new.keys), (cache.values, new.values))
    )
    return replace(cache, keys=keys, values=values)


def _update_rows(buffer: jax.Array, new: jax.Array, cursor: Cursor, axis: int) -> jax.Array:
    return jax.vmap(lambda own, rows, at: lax.dynamic_update_slice_in_dim(own, rows, at, axis))(buffer, new, cursor)


def room(prompt_tokens: int, output_tokens: int, lookahead: int, positions: int | None = None) -> int:
    """Positions to allocate so that no append can reach the end of the cache.

    Cursors stop at ``prompt_tokens + output_tokens - 1``, where a finished sequence stays frozen, and a verify step
    writes ``lookahead + 1`` positions from there.

    Raises:
        RefusedError: ``positions`` is given and too small.
    """
    needed = prompt_tokens + output_tokens + lookahead
    if positions is None:
        return -(-needed // BLOCK) * BLOCK
    if positions < needed:
        raise RefusedError(f"a cache of {positions} positions is too small: this decoding writes up to {needed}")
    return positions
