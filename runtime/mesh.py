"""Devices -> mesh, weights -> devices.

A mesh has one axis, ``tp``, where target and draft are sharded over as many chips. Where one of them is sharded over
fewer, the mesh is ``replica x tp``: that model lies along ``tp`` and every replica computes all of it, which costs the
time of the smaller degree and saves the collective that would spread its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from runtime.arithmetic import Lowering
from runtime.kv_cache import KVCache
from runtime.shapes import PRNGKey
from runtime.share import SPLIT
from runtime.transformer import Decoder, share_out
from simulator.errors import RefusedError
from simulator.spec.model import ModelSpec

MADE_UP = 1_000_003
"""Random numbers that made-up weights repeat: a prime, so that rows of a matrix differ."""

Function = TypeVar("Function", bound=Callable[..., Any])


def chip_mesh(target_degree: int, draft_degree: int, devices: Sequence[Any] | None = None) -> Mesh:
    """The mesh on which both models run, the larger degree over all of it.

    Args:
        target_degree: chips over which the target is sharded.
        draft_degree: chips over which the draft is sharded; that of the target where there is none.
        devices: where to run; the first of ``jax.devices()`` unless given.

    Raises:
        RefusedError: too few devices, or a degree that does not divide the other.
    """
    large, small = max(target_degree, draft_degree), min(target_degree, draft_degree)
    if large % small:
        raise RefusedError(f"a draft over {draft_degree} chips beside a target over {target_degree} is not executed")
    available = list(jax.devices() if devices is None else devices)
    if len(available) < large:
        raise RefusedError(f"{large} devices are needed; JAX sees {len(available)}")
    shape, axes = ((large,), ("tp",)) if large == small else ((large // small, small), ("replica", "tp"))
    return Mesh(np.array(available[:large]).reshape(shape), axes, axis_types=(AxisType.Auto,) * len(axes))


def axes_of(mesh: Mesh, degree: int) -> tuple[str, ...]:
    """The mesh axes along which a model of this tensor parallel degree is split."""
    if degree == 1:
        return ()
    return tuple(mesh.axis_names) if degree == math.prod(mesh.shape.values()) else ("tp",)


def weight_specs(model: Decoder) -> Any:
    """The PartitionSpec of every weight, as a tree like ``model``."""

    def of(weight: nnx.Param[jax.Array]) -> PartitionSpec:
        split = [model.share.axes if SPLIT.issuperset(axis.partition("/")[0]) else None for axis in weight.axes]
        return PartitionSpec(*(axes or None for axes in split))

    return jax.tree.map(of, model, is_leaf=lambda node: isinstance(node, nnx.Param))


def cache_spec(model: Decoder) -> Any:
    """The PartitionSpecs of the model's cache: [B, G, S, H] buffers, and [N, S, H] products of distances."""
    axes, stacked = model.share.axes or None, (None,) * (model.scanned is not None)
    buffers: Any = PartitionSpec(*stacked, None, axes)
    relative = model.spec.positions == "relative"
    return KVCache(buffers, buffers, PartitionSpec(*stacked, axes) if relative else ())  # type: ignore[arg-type]


def place(model: Decoder, mesh: Mesh, degree: int) -> Decoder:
    """Lay the weights of a one-chip model out for ``degree`` chips and put them on the mesh."""
    laid_out = share_out(model, degree, axes_of(mesh, degree))
    placed: Decoder = jax.device_put(laid_out, _shardings(laid_out, mesh))
    return placed


def place_random(spec: ModelSpec, key: PRNGKey, mesh: Mesh, degree: int, lowering: Lowering | None = None) -> Decoder:
    """A model with random weights, made on the mesh: no device ever holds more than its part of the result.

    The same key gives the same model on any number of chips.
    """

    make = _maker(spec, mesh, degree, lowering)
    made: Decoder = jax.jit(make, out_shardings=_shardings(shapes(spec, mesh, degree, lowering), mesh))(key)
    return made


def shapes(spec: ModelSpec, mesh: Mesh, degree: int, lowering: Lowering | None = None) -> Decoder:
    """The model that :func:`place_random` makes, of shapes and types alone: it takes no memory."""

    shaped: Decoder = jax.eval_shape(_maker(spec, mesh, degree, lowering), jax.random.key(0))
    return shaped


def _maker(spec: ModelSpec, mesh: Mesh, degree: int, lowering: Lowering | None) -> Callable[[PRNGKey], Decoder]:
    def make(key: PRNGKey) -> Decoder:
        return share_out(Decoder(spec, rngs=nnx.Rngs(params=key), lowering=lowering), degree, axes_of(mesh, degree))

    return make


def place_made_up(spec: ModelSpec, seed: int, mesh: Mesh, degree: int) -> Decoder:
    """A model for timing alone: random numbers over and over, made on the host in no time, where nothing is compiled.

    Its weights have the usual sizes, so that no number overflows or vanishes, but they repeat, and every chip's count
    gives another model.
    """
    shaped = shapes(spec, mesh, degree)
    block = np.random.default_rng(seed).standard_normal(MADE_UP, np.float32)

    def filled(shape: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.Array:
        if jnp.issubdtype(shape.dtype, jnp.integer):
            values = np.resize(np.abs(block * 40).astype(np.int8), shape.shape).astype(shape.dtype)
        elif shape.ndim < 2:
            values = np.ones(shape.shape, shape.dtype)
        else:
            values = np.resize(block / np.sqrt(shape.shape[-2]), shape.shape).astype(shape.dtype)
        placed: jax.Array = jax.device_put(values, sharding)
        return placed

    leaves, structure = jax.tree.flatten(shaped)
    shardings = jax.tree.leaves(_shardings(shaped, mesh))
    made: Decoder = jax.tree.unflatten(structure, [filled(*both) for both in zip(leaves, shardings, strict=True)])
    return made


def on_chips(body: Function, mesh: Mesh, in_specs: Any, out_specs: Any) -> Function:
    """Run ``body`` on every chip on its own share; on one chip ``body`` itself.

    Outputs are not checked for being equal on all chips: the type of an all-gather says that they may differ.
    """
    if mesh.size == 1:
        return body
    return jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def _shardings(model: Decoder, mesh: Mesh) -> Any:
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), weight_specs(model))
