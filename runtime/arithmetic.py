"""The operations of a transformer layer on one chip's share: norm, rotation, projection, attention.

Matmuls accumulate in float32 whatever the weights are; norms, angles and softmax are computed in float32.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Float32

from runtime.shapes import Distances, NewKeys, Queries, Rows, Visible
from simulator.errors import RefusedError
from simulator.spec.model import RotaryScaling

NORM_EPSILON = 1e-6
ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class Lowering:
    """How the same mathematics is written down for a compiler; results agree up to rounding."""

    min_rows: int = 1
    """Fewest rows of a matmul; fewer are padded with zeros that are dropped again. XLA turns a one-row bfloat16
    matmul into a float32 copy of the weights (CPU) or a multiply-reduce on the vector unit (TPU)."""
    split_attention: bool = False
    """Attend to the old cache and the new keys apart, so that the written cache is not read back. On a TPU it
    avoids a round trip of the cache through on-chip memory; on a CPU it is slower for batches."""
    scatter_append: bool = False
    """Write the cache by one scatter over batch and heads (CPU), not by an update slice (TPU)."""
    move_bits: bool = False
    """Keep bfloat16 that is indexed, the cache and the embedding, as integers. XLA:CPU converts all of it to float32
    for every gather, and for every update of a few positions there and back."""
    qkv_barrier: bool = False
    """Keep the layout that the heads want from leaking into the fused weight (TPU; helps some shapes, hurts others)."""
    scan_layers: bool = False
    """Run all layers by one loop over stacked weights: less to compile, and slower (on a CPU by half, and a TPU then
    prefetches no weights)."""

    min_new: int = 1
    """Fewest new keys for which attention is written down; fewer are padded with masked zeros. Eight fill the rows of a
    TPU tile: with fewer, XLA:TPU moves their few scores from one layout to another, a dozen operations a layer."""
    shift_distances: bool = False
    """Find the scores of relative positions by shifting those of all distances (TPU), not by a gather; splits
    attention."""

    def __post_init__(self) -> None:
        if self.shift_distances and not self.split_attention:
            raise RefusedError("shift_distances needs split_attention: it tells cached keys from new ones")

    @classmethod
    def on(cls, platform: str, dtype: str) -> Lowering:
        """What suits a JAX platform (``cpu``, ``gpu``, ``tpu``) and a type of weights."""
        cpu, tpu = platform == "cpu", platform == "tpu"
        padded = tpu or (cpu and dtype == "bfloat16")
        return cls(
            min_rows=2 if padded else 1,
            split_attention=tpu,
            min_new=8 if tpu else 1,
            scatter_append=cpu,
            move_bits=cpu,
            shift_distances=tpu,
        )


@dataclass(frozen=True)
class Attended:
    """Keys and values to attend to, and which of them each new token sees."""

    keys: NewKeys
    values: NewKeys
    visible: Visible
    bias: Float32[jax.Array, "B T N S"] | None = None
    """Scores of positions, to be added to those of the keys."""

    def padded(self, least: int) -> Attended:
        """The same with at least ``least`` keys, of which nobody sees those that are added."""
        bias = None if self.bias is None else pad(self.bias, 3, least)
        return Attended(pad(self.keys, 2, least), pad(self.values, 2, least), pad(self.visible, 2, least), bias)


def rms_norm(x: Rows, scale: Float[jax.Array, " D"], epsilon: float = NORM_EPSILON) -> Rows:
    """Root-mean-square norm (Zhang & Sennrich 2019) in float32; the result has the type of ``x``."""
    wide = x.astype(jnp.float32)
    normed = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + epsilon)
    return (normed * scale.astype(jnp.float32)).astype(x.dtype)


def rotary_frequencies(
    head_dim: int, base: float = ROTARY_BASE, scaling: RotaryScaling | None = None
) -> Float32[np.ndarray, " half"]:
    """Radians that each pair of a head's elements turns a position (Su et al. 2021), stretched as ``scaling`` says."""
    half = head_dim // 2
    frequencies = base ** (-np.arange(half) / half)
    if scaling is not None:
        low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
        turns = scaling.original_positions * frequencies / (2 * math.pi)
        kept = np.clip((turns - low) / (high - low), 0, 1)
        frequencies *= kept + (1 - kept) / scaling.factor
    return frequencies.astype(np.float32)


def rotary_angles(
    positions: jax.Array, head_dim: int, base: float = ROTARY_BASE, scaling: RotaryScaling | None = None
) -> Float32[jax.Array, "B T half"]:
    """Angles of rotary positions [B, T], one for each pair of a head's elements."""
    return positions.astype(jnp.float32)[:, :, None] * rotary_frequencies(head_dim, base, scaling)


def rotate(x: Queries, angles: Float32[jax.Array, "B T half"]) -> Queries:
    """Turn the pairs (i, i + H/2) of every head by their angles."""
    cos, sin = jnp.cos(angles)[:, :, None], jnp.sin(angles)[:, :, None]
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(x.dtype)


def project(x: Rows, weight: jax.Array, min_rows: int) -> Float32[jax.Array, "rows out"]:
    """``x @ weight``, accumulated in float32 over at least ``min_rows`` rows."""
    rows = x.shape[0]
    return jnp.einsum("rd,do->ro", pad(x, 0, min_rows), weight, preferred_element_type=jnp.float32)[:rows]


def attend(queries: Queries, parts: tuple[Attended, ...], min_rows: int) -> Float32[jax.Array, "B T N H"]:
    """Softmax attention over all ``parts`` together; query heads share KV heads in groups (Ainslie et al. 2023)."""
    batch, tokens, heads, head_dim = queries.shape
    kv_heads = parts[0].keys.shape[1]
    group = heads // kv_heads
    # [B, G, T * N/G, H]: all queries of a KV head are the rows of one matmul against its keys.
    rows = queries.reshape(batch, tokens, kv_heads, group, head_dim).transpose(0, 2, 1, 3, 4)
    rows = rows.reshape(batch, kv_heads, tokens * group, head_dim)
    scores = [_scores(rows, part, min_rows) for part in parts]
    peak = jnp.max(jnp.stack([s.max(axis=-1) for s in scores]), axis=0)[..., None]
    weights = [jnp.exp(s - peak) for s in scores]
    total = jnp.sum(jnp.stack([w.sum(axis=-1, keepdims=True) for w in weights]), axis=0)
    mixed = functools.reduce(jnp.add, (_mix(w, part, min_rows) for w, part in zip(weights, parts, strict=True)))
    mixed = mixed / total
    mixed = mixed.reshape(batch, kv_heads, tokens, group, head_dim).transpose(0, 2, 1, 3, 4)
    return mixed.reshape(batch, tokens, heads, head_dim)


def as_bits(x: jax.Array) -> jax.Array:
    """bfloat16 as the integers that it is stored as; anything else as it is."""
    return jax.lax.bitcast_convert_type(x, jnp.uint16) if x.dtype == jnp.bfloat16 else x


def from_bits(x: jax.Array) -> jax.Array:
    """The inverse of :func:`as_bits`."""
    return jax.lax.bitcast_convert_type(x, jnp.bfloat16) if x.dtype == jnp.uint16 else x


def activate(hidden: jax.Array, *, gated: bool) -> jax.Array:
    """SiLU of the first half times the second (Shazeer 2020), or GELU."""
    if not gated:
        return jax.nn.gelu(hidden)
    gate, linear = jnp.split(hidden, 2, axis=-1)
    return jax.nn.silu(gate) * linear


def sinusoids(count: int, width: int) -> Float32[jax.Array, "S D"]:
    """Sine and cosine waves of each whole number below ``count`` (Vaswani et al. 2017, section 3.5)."""
    half = width // 2
    frequencies = ROTARY_BASE ** (-jnp.arange(half, dtype=jnp.float32) / max(half, 1))
    angles = jnp.arange(count, dtype=jnp.float32)[:, None] * frequencies
    return jnp.pad(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1), ((0, 0), (0, width - 2 * half)))


def distance_scores(
    queries: Queries, products: Distances, positions: jax.Array, keys: jax.Array
) -> Float32[jax.Array, "B T N S"]:
    """Scores of how far each key lies back (Dai et al. 2019, their term (b), without global biases).

    Args:
        queries: of the new tokens.
        products: the layer's projection of every distance.
        positions: [B, T], where the new tokens stand.
        keys: [B, S], where the keys stand; a key that lies ahead gets any score, and must be masked.
    """
    by_distance = jnp.einsum("btnh,nsh->btns", queries, products, preferred_element_type=jnp.float32)
    back = jnp.clip(positions[:, :, None] - keys[:, None, :], 0, products.shape[1] - 1)
    return jnp.take_along_axis(by_distance, back[:, :, None, :], axis=-1)


def pad(x: jax.Array, axis: int, least: int) -> jax.Array:
    """``x`` with zeros behind, so that ``axis`` has at least ``least`` entries."""
    missing = least - x.shape[axis]
    if missing <= 0:
        return x
    widths = [(0, missing if dimension == axis % x.ndim else 0) for dimension in range(x.ndim)]
    return jnp.pad(x, widths)


def _scores(rows: jax.Array, part: Attended, min_rows: int) -> Float32[jax.Array, "B G rows S"]:
    count, head_dim = rows.shape[2:]
    tokens = part.visible.shape[1]
    padded = pad(rows.astype(part.keys.dtype), 2, min_rows)
    raw = jnp.einsum("bgrh,bgsh->bgrs", padded, part.keys, preferred_element_type=jnp.float32)[:, :, :count]
    by_token = raw.reshape(*raw.shape[:2], tokens, count // tokens, raw.shape[3])
    if part.bias is not None:
        batch, kv_heads = raw.shape[:2]
        bias = part.bias.reshape(batch, tokens, kv_heads, count // tokens, -1)
        by_token = by_token + bias.transpose(0, 2, 1, 3, 4)
    by_token = by_token / math.sqrt(head_dim)
    return jnp.where(part.visible[:, None, :, None, :], by_token, -jnp.inf).reshape(raw.shape)


def _mix(weights: jax.Array, part: Attended, min_rows: int) -> Float32[jax.Array, "B G rows H"]:
    count = weights.shape[2]
    padded = pad(weights.astype(part.values.dtype), 2, min_rows)
    return jnp.einsum("bgrs,bgsh->bgrh", padded, part.values, preferred_element_type=jnp.float32)[:, :, :count]
