"""Weights from a folder to a mesh, and from a model to a folder: one weight of one layer after the other.

The memory of the host holds no more than one weight beside what its devices keep, however large the model is.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding

from runtime.arithmetic import Lowering, from_bits
from runtime.llama import config_of, refuse_other_shapes, shapes_of, tensors_of
from runtime.mesh import axes_of, weight_specs
from runtime.quantised import LARGEST, quantise
from runtime.safetensors import Array, Made, write_made
from runtime.share import PADDING, SPLIT, Ints, order
from runtime.transformer import Decoder, share_out
from runtime.weights_folder import CONFIG, SINGLE, WeightsFolder
from simulator.errors import ConfigError, Problem, RefusedError
from simulator.spec.model import ModelSpec

MATRICES = ("qkv", "output", "up", "down")
"""The weights of a layer that may be quantised."""
SCALE = "_scale"
_BLOCK = 64


def load(spec: ModelSpec, folder: Path, mesh: Mesh, degree: int, *, lowering: Lowering | None = None) -> Decoder:
    """The model whose weights lie in ``folder``, on ``degree`` chips of the mesh.

    Weights of another type are rounded to that of ``spec``; to int8 and int4 as random ones are.

    Raises:
        ConfigError: the folder does not hold the weights of ``spec``; with everything that is wrong.
        RefusedError: ``spec`` is not executed, or is not like Llama.
    """
    refuse_other_shapes(spec)
    axes = axes_of(mesh, degree)

    def make(key: Any) -> Decoder:
        return share_out(Decoder(spec, rngs=nnx.Rngs(params=key), lowering=lowering), degree, axes)

    described = jax.eval_shape(make, jax.random.key(0))
    source = _Source(spec, WeightsFolder.open(folder, spec), degree)
    weights, _ = jax.tree_util.tree_flatten_with_path(described, is_leaf=lambda node: isinstance(node, nnx.Param))
    places = jax.tree.leaves(weight_specs(described))
    placed = [
        source.placed(_name_of(path), weight, NamedSharding(mesh, place))
        for (path, weight), place in zip(weights, places, strict=True)
    ]
    loaded: Decoder = jax.tree.unflatten(jax.tree.structure(described), placed)
    return loaded


def save(model: Decoder, folder: Path, *, positions: int) -> None:
    """Write a one-chip model for other engines: `model.safetensors`, then `config.json`.

    Args:
        model: a model that is not laid out for a mesh, nor quantised.
        folder: where to; made if need be.
        positions: how many positions the other engine may use.

    Raises:
        RefusedError: the model is not like Llama, is quantised or laid out.
        ConfigError: the folder cannot be written.
    """
    spec = model.spec
    refuse_other_shapes(spec)
    if spec.weight_dtype in LARGEST or model.share.chips > 1 or model.scanned is not None:
        raise RefusedError(f"{spec.name}: models on one chip that are neither quantised nor stacked can be saved")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_made(folder / SINGLE, dict(_parts(model)), {"format": "pt"})
        config = config_of(spec) | {"max_position_embeddings": positions, "torch_dtype": spec.compute_dtype}
        unfinished = folder / f".{CONFIG}.part"
        unfinished.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(folder / CONFIG)
    except OSError as error:
        accepts = f"a folder that can be written; {error.strerror}"
        raise ConfigError((Problem(str(folder), 0, 0, "", "", accepts),)) from None


@dataclass(frozen=True)
class _Source:
    """A folder, and how its weights lie on the chips."""

    spec: ModelSpec
    folder: WeightsFolder
    chips: int

    def placed(self, name: tuple[str, int | None], weight: nnx.Param[Any], sharding: NamedSharding) -> jax.Array:
        """One weight on its devices, each of which gets its part."""
        described = weight.get_value()
        axes, (word, layer) = weight.axes, name
        stacked = axes[0] == "L"
        places = [_places(self.spec, axis, self.chips) for axis in axes[stacked:]]
        make = functools.partial(self._made, word, dtype=described.dtype)
        whole = None if stacked else make(layer)

        def part(index: Any) -> Array:
            if whole is not None:
                return _cut(whole, places, index)
            layers = range(self.spec.layers)[index[0]]
            return np.stack([_cut(make(each), places, index[1:]) for each in layers])

        return jax.make_array_from_callback(described.shape, sharding, part)

    def _made(self, weight: str, layer: int | None, dtype: Any) -> Array:
        """One weight of the whole model, as ``dtype`` keeps it."""
        matrix = weight.removesuffix(SCALE)
        if self.spec.weight_dtype not in LARGEST or matrix not in MATRICES:
            bits = dtype == np.uint16
            made = self._read(weight, layer, np.dtype(jax.numpy.bfloat16) if bits else dtype)
            return made.view(np.uint16) if bits else made
        wide = self._read(matrix, layer, np.dtype(np.float32))
        stored, scale = quantise(jax.numpy.asarray(wide), self.spec.weight_dtype, self.spec.weight_group or len(wide))
        return np.asarray(stored if weight == matrix else scale.astype(dtype))

    def _read(self, weight: str, layer: int | None, dtype: np.dtype[Any]) -> Array:
        """One weight in memory of its own: its tensors turned to [in, out], side by side."""
        tensors = [self.folder[name] for name in tensors_of(self.spec, weight, layer)]
        if weight == "embedding" or tensors[0].ndim == 1:
            made: Array = np.array(tensors[0], dtype)
        else:
            made = _side_by_side(tensors, dtype)
        self.folder.forget()
        return made


def _side_by_side(tensors: list[Array], dtype: np.dtype[Any]) -> Array:
    """Matrices turned, and their columns beside each other; in blocks and as plain bits, three times as fast."""
    made: Array = np.empty((tensors[0].shape[1], sum(len(tensor) for tensor in tensors)), dtype)
    bits, column = np.dtype(f"u{dtype.itemsize}"), 0
    for tensor in tensors:
        for row in range(0, len(tensor), _BLOCK):
            block = np.ascontiguousarray(tensor[row : row + _BLOCK], dtype)
            made.view(bits)[:, column : column + len(block)] = block.view(bits).T
            column += len(block)
    return made


def _name_of(path: tuple[Any, ...]) -> tuple[str, int | None]:
    """``layers.3.qkv`` as its last word and the layer; no layer outside them, nor where they are stacked."""
    words = jax.tree_util.keystr(path, simple=True, separator=".").split(".")
    return words[-1], int(words[1]) if words[0] == "layers" else None


def _places(spec: ModelSpec, axis: str, chips: int) -> Ints | None:
    """The order along an axis as it is laid out; None where it stays as it is."""
    if chips == 1 or not SPLIT.issuperset(axis.partition("/")[0]):
        return None
    return order(spec, axis, chips)


def _cut(whole: Array, places: list[Ints | None], index: tuple[slice, ...]) -> Array:
    """What one device holds of a weight of the whole model."""
    for axis, (place, along) in enumerate(zip(places, index, strict=True)):
        if place is not None:
            wanted = place[along]
            whole = whole.take(np.maximum(wanted, 0), axis)
            if (wanted == PADDING).any():
                whole[(slice(None),) * axis + (wanted == PADDING,)] = 0
    return whole


def _parts(model: Decoder) -> list[tuple[str, Made]]:
    """Every tensor of a folder, to be made from the weights when its turn comes."""
    spec = model.spec
    found: list[tuple[str, Made]] = []
    shapes = shapes_of(spec)
    weights: list[tuple[str, int | None, Any]] = [("embedding", None, model), ("final_norm", None, model)]
    for layer, holder in enumerate(model.layers):
        weights += [(weight, layer, holder) for weight in ("attention_norm", "feed_forward_norm", *MATRICES)]
    if not spec.tied_embeddings:
        weights.append(("head", None, model))
    for weight, within, holder in weights:
        column = 0
        for name in tensors_of(spec, weight, within):
            rows = shapes[name][0]
            made = _turned_back(holder, weight, slice(column, column + rows))
            found.append((name, (np.dtype(spec.compute_dtype), shapes[name], made)))
            column += rows
    return found


def _turned_back(holder: Any, weight: str, columns: slice) -> Callable[[], Array]:
    def made() -> Array:
        if weight == "embedding":  # a tied one is the head
            tied = holder.embedding is None
            return np.asarray(holder.head[...]).T if tied else np.asarray(from_bits(holder.embedding[...]))
        return np.asarray(getattr(holder, weight)[..., columns]).T

    return made
