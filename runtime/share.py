"""What one chip holds of a model in tensor parallel, and the order in which the weights of all chips lie in memory.

Megatron sharding (Shoeybi et al. 2019): query heads N, KV heads G, feed-forward F and vocabulary V are split over X
chips, D is not. What does not divide is padded with zeros, which change nothing: a padded head has zero values and
zero output rows, a padded feed-forward column is act(0) = 0, and padded logits are cut off. Where there are fewer KV
heads than chips each is held by several chips, which then share its query heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from simulator.errors import RefusedError
from simulator.spec.model import ModelSpec

Ints = npt.NDArray[np.int64]

SPLIT = frozenset("NGFVfs")
"""Letters of the axes that are split over chips."""
PADDING = -1
"""Stands in an order of indices where a chip holds nothing."""


@dataclass(frozen=True)
class Share:
    """A chip's part of each split axis, padding included, and the mesh axes over which the parts are spread."""

    chips: int
    axes: tuple[str, ...]
    heads: int
    kv_heads: int
    d_ff: int
    vocabulary: int

    @classmethod
    def of(cls, spec: ModelSpec, chips: int = 1, axes: tuple[str, ...] = ()) -> Self:
        """The share of each of ``chips`` chips along the mesh axes ``axes``, whose sizes multiply to ``chips``."""
        heads, kv_heads = query_heads(spec, chips).shape[1], kv_heads_of_chips(spec, chips).shape[1]
        return cls(chips, axes, heads, kv_heads, -(-spec.d_ff // chips), -(-spec.vocabulary // chips))

    def all_reduce(self, partial: jax.Array) -> jax.Array:
        """The sum of all chips' partial results; on one chip nothing, not even a collective of one."""
        return lax.psum(partial, self.axes) if self.chips > 1 else partial

    def gather_last(self, part: jax.Array) -> jax.Array:
        """All chips' parts of the last axis, side by side."""
        if self.chips == 1:
            return part
        # Gathered along an axis of their own: XLA:TPU sums a row of zeros with each part in it where that is shorter.
        parts = lax.all_gather(part, self.axes)
        return jnp.moveaxis(parts, 0, -2).reshape(*part.shape[:-1], -1)

    def index(self) -> jax.Array:
        """This chip's number, 0 to X-1."""
        return lax.axis_index(self.axes) if self.chips > 1 else jnp.int32(0)


def kv_heads_of_chips(spec: ModelSpec, chips: int) -> Ints:
    """KV heads that each chip holds; shape [X, G share]."""
    if spec.kv_heads >= chips:
        return _consecutive(spec.kv_heads, chips)
    sharers = chips // spec.kv_heads
    held = np.arange(chips) // sharers
    return np.where(held < spec.kv_heads, held, PADDING)[:, None]


def query_heads(spec: ModelSpec, chips: int) -> Ints:
    """Query heads that each chip holds, those of one KV head side by side; shape [X, N share]."""
    group = spec.heads // spec.kv_heads
    kv_heads = kv_heads_of_chips(spec, chips)
    sharers = max(1, chips // spec.kv_heads)
    part = -(-group // sharers)
    within = (np.arange(chips) % sharers)[:, None] * part + np.arange(part)
    heads = kv_heads[:, :, None] * group + within[:, None, :]
    missing = (kv_heads[:, :, None] == PADDING) | (within >= group)[:, None, :]
    return np.where(missing, PADDING, heads).reshape(chips, -1)


def order(spec: ModelSpec, axis: str, chips: int) -> Ints:
    """For each place along a laid-out axis the index that belongs there, or PADDING; shape [X * share].

    ``axis`` names what lies along it, by letter: ``NGG`` is a fused axis of queries, keys and values. Each chip's
    parts lie together, so that an even split hands every chip its own queries, keys and values.
    """
    letters, _, block = axis.partition("/")
    experts = spec.experts
    sizes = {
        "N": spec.heads * spec.head_dim,
        "G": spec.kv_heads * spec.head_dim,
        "F": spec.d_ff,
        "f": experts.d_ff if experts is not None else 0,
        "s": experts.shared_d_ff if experts is not None else 0,
    }
    tables, offset = [], 0
    for letter in letters:
        table = _table(spec, letter, chips)
        tables.append(np.where(table == PADDING, PADDING, table + offset))
        offset += sizes.get(letter, 0)
    places = np.concatenate(tables, axis=1).reshape(-1)
    return _blocks(spec, places.reshape(chips, -1), int(block)) if block else places


def _blocks(spec: ModelSpec, places: Ints, size: int) -> Ints:
    """The same order of whole blocks of ``size`` neighbours; ``places`` is [X, share].

    Raises:
        RefusedError: a chip would hold part of a block.
    """
    cut = places.shape[1] % size != 0
    runs = places.reshape(-1, 1 if cut else size)
    first = runs[:, :1]
    whole = (first % size == 0) & (runs == first + np.arange(runs.shape[1]))
    if cut or not np.all(whole | np.all(runs == PADDING, axis=1, keepdims=True)):
        accepts = "one that divides head_dim and every chip's part of d_ff is executed"
        raise RefusedError(f"{spec.name}: a weight_group over two chips or heads is modelled; {accepts}")
    return np.where(first == PADDING, PADDING, first // size).reshape(-1)


def lay_out(weight: jax.Array, axes: tuple[str, ...], spec: ModelSpec, chips: int) -> jax.Array:
    """A weight of the whole model, its axes named by letters, in the order in which ``chips`` chips hold it."""
    for dimension, axis in enumerate(axes):
        if SPLIT.issuperset(axis.partition("/")[0]):
            places = order(spec, axis, chips)
            size = weight.shape[dimension]
            filled = jnp.asarray(np.where(places == PADDING, size, places))
            weight = jnp.take(weight, filled, axis=dimension, mode="fill", fill_value=0)
    return weight


def _table(spec: ModelSpec, letter: str, chips: int) -> Ints:
    """Indices along one axis that each chip holds; shape [X, share]."""
    match letter:
        case "N":
            return _elements(query_heads(spec, chips), spec.head_dim)
        case "G":
            return _elements(kv_heads_of_chips(spec, chips), spec.head_dim)
        case "F":
            return _consecutive(spec.d_ff, chips)
        case "f" | "s" if spec.experts is not None:
            return _consecutive(spec.experts.d_ff if letter == "f" else spec.experts.shared_d_ff, chips)
        case _:
            return _consecutive(spec.vocabulary, chips)


def _elements(heads: Ints, head_dim: int) -> Ints:
    elements = heads[:, :, None] * head_dim + np.arange(head_dim)
    return np.where(heads[:, :, None] == PADDING, PADDING, elements).reshape(len(heads), -1)


def _consecutive(amount: int, chips: int) -> Ints:
    share = -(-amount // chips)
    indices = np.arange(chips * share).reshape(chips, share)
    return np.where(indices < amount, indices, PADDING)
