"""Greedy decoding from a vocabulary that is split over chips, without gathering the logits.

Each chip finds the likeliest token of its own part; only that token and its logit are exchanged, 8 bytes a row and chip
where the logits would be 4 V.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float32, Int32

from runtime.sampling import likeliest
from runtime.share import Share

PartRows = Float32[jax.Array, "rows V"]
"""A chip's own part of the logits, padding included."""


def likeliest_of_shards(part: PartRows, share: Share, vocabulary: int) -> Int32[jax.Array, " rows"]:
    """What :func:`runtime.sampling.likeliest` says of the gathered logits: the first of equals, by token id.

    Args:
        part: this chip's logits [rows, V share]; the last chips' may hold padding, which is never chosen.
        share: how the vocabulary is split; call it inside ``shard_map`` over ``share.axes``.
        vocabulary: V, tokens without padding.
    """
    token = share.index() * share.vocabulary + jnp.arange(share.vocabulary, dtype=jnp.int32)
    own = jnp.where(token < vocabulary, part, -jnp.inf)
    if share.chips == 1:
        return likeliest(own)
    peak, best = jnp.max(own, axis=-1), token[0] + likeliest(own)
    # One collective for both; the logit travels as its bits, since a small integer read as a float may become 0.
    bits = lax.bitcast_convert_type(peak, jnp.int32)
    pairs = lax.all_gather(jnp.stack([bits, best]), share.axes)
    peaks = lax.bitcast_convert_type(pairs[:, 0], jnp.float32)
    at_peak = peaks == jnp.max(peaks, axis=0)
    return jnp.min(jnp.where(at_peak, pairs[:, 1], vocabulary), axis=0)
