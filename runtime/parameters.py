"""Random parameters of a model, each with its axes named by letters.

Letters of axes are those of ``runtime/shapes.py``, fused axes several of them: ``NGG`` is queries, keys and values.
``f`` and ``s`` are the widths of an expert and of the shared experts, ``E`` the experts, ``P`` learned positions, ``L``
layers stacked for a scan. ``N/64`` is an axis with one entry for each 64 of N.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from runtime.quantised import LARGEST, quantise
from simulator.spec.model import ModelSpec

Parameter = nnx.Param[jax.Array]
Matrix = tuple[Parameter | None, Parameter | None]
"""A weight as it is stored, and its scales."""


def normal(
    spec: ModelSpec, rngs: nnx.Rngs, axes: tuple[str, ...], shape: tuple[int, ...], fan_in: int = 0
) -> Parameter:
    """Random weights of variance 1 / fan-in, the first axis unless given, in the type of the activations."""
    drawn = jax.random.normal(rngs.params(), shape, jnp.float32) / (fan_in or shape[0]) ** 0.5
    return nnx.Param(drawn.astype(spec.compute_dtype), axes=axes)


def matrix(spec: ModelSpec, rngs: nnx.Rngs, axes: tuple[str, str], shape: tuple[int, int]) -> Matrix:
    """Random weights of a layer as they are stored, and the scales of their groups where they are quantised."""
    if spec.weight_dtype not in LARGEST:
        return normal(spec, rngs, axes, shape), None
    drawn = jax.random.normal(rngs.params(), shape, jnp.float32) / shape[0] ** 0.5
    group = spec.weight_group or shape[0]
    stored, scale = quantise(drawn, spec.weight_dtype, group)
    rows = f"{axes[0]}/2" if spec.weight_dtype == "int4" else axes[0]
    return (
        nnx.Param(stored, axes=(rows, axes[1])),
        nnx.Param(scale.astype(spec.compute_dtype), axes=(f"{axes[0]}/{group}", axes[1])),
    )


def ones(spec: ModelSpec) -> Parameter:
    """The scale of a norm."""
    return nnx.Param(jnp.ones((spec.d_model,), spec.compute_dtype), axes=("D",))
