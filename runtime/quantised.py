"""Weights kept as small integers with a scale for each group of them, multiplied in the type of the activations.

A group is ``weight_group`` consecutive weights of one column; its scale is its largest magnitude over the largest
integer (symmetric, no zero point), in the type of the activations. int4 weights lie two in a byte, of neighbouring
rows, the lower row in the lower half.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Float32, Int8

from runtime.arithmetic import pad
from runtime.shapes import Rows

LARGEST = {"int8": 127, "int4": 7}


def quantise(weight: Float32[jax.Array, "*E rows out"], dtype: str, group: int) -> tuple[jax.Array, jax.Array]:
    """Integers as they are stored, and a float32 scale for each group of each column, [*E, rows/group, out]."""
    *lead, rows, out = weight.shape
    grouped = weight.reshape(*lead, rows // group, group, out)
    largest = LARGEST[dtype]
    scale = jnp.maximum(jnp.max(jnp.abs(grouped), axis=-2, keepdims=True), 1e-30) / largest
    whole = jnp.clip(jnp.round(grouped / scale), -largest, largest).astype(jnp.int8).reshape(weight.shape)
    return (pack(whole) if dtype == "int4" else whole), jnp.squeeze(scale, -2)


def pack(whole: Int8[jax.Array, "*E rows out"]) -> jax.Array:
    """Two rows in a byte."""
    pairs = whole.astype(jnp.uint8).reshape(*whole.shape[:-2], -1, 2, whole.shape[-1])
    return (pairs[..., 0, :] & 0xF) | (pairs[..., 1, :] << 4)


def unpack(stored: jax.Array) -> Int8[jax.Array, "*E rows out"]:
    """The inverse of :func:`pack`; int8 weights as they are."""
    if stored.dtype == jnp.int8:
        return stored
    low, high = stored.astype(jnp.int8) << 4 >> 4, stored.astype(jnp.int8) >> 4
    return jnp.stack([low, high], axis=-2).reshape(*stored.shape[:-2], -1, stored.shape[-1])


def project_quantised(
    x: Rows, stored: jax.Array, scale: Float[jax.Array, "groups out"], min_rows: int
) -> Float32[jax.Array, "rows out"]:
    """``x @ (integers * scale)``: a sum for each group in float32, then the groups by their scales."""
    rows, groups = x.shape[0], scale.shape[0]
    whole = unpack(stored)
    by_group = pad(x, 0, min_rows).reshape(-1, groups, x.shape[1] // groups)
    weights = whole.reshape(groups, -1, whole.shape[1]).astype(x.dtype)
    sums = jnp.einsum("rgk,gko->rgo", by_group, weights, preferred_element_type=jnp.float32)
    return jnp.sum(sums * scale.astype(jnp.float32), axis=1)[:rows]
