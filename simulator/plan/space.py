"""The shapes of drafts that a plan tries, as arrays of one length."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.cost.shape import Shape
from simulator.errors import RefusedError
from simulator.spec.fields import DTYPE_BYTES
from simulator.spec.model import ModelSpec
from simulator.spec.plan import DraftSpace

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Drafts:
    """Shapes of drafts; arrays of one length."""

    layers: Array
    d_model: Array
    heads: Array
    kv_heads: Array
    d_ff: Array
    vocabulary: Array
    space: DraftSpace
    target: ModelSpec

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def parameters(self) -> Array:
        """All weights of each, norms included; a tied head is counted once."""
        space, size = self.space, self.space.head_dim
        attention = self.d_model * size * 2 * (self.heads + self.kv_heads)
        matrices = 3 if space.feed_forward == "gated" else 2
        positions = self.d_model * self.heads * size if space.positions == "relative" else 0.0
        layer = attention + matrices * self.d_model * self.d_ff + 2 * self.d_model + positions
        embeddings = 1 if space.tied_embeddings else 2
        return np.asarray(self.layers * layer + self.d_model + embeddings * self.vocabulary * self.d_model)

    def shape(self, chosen: npt.NDArray[np.int64] | slice = slice(None)) -> Shape:
        """What the cost model counts, in the types of the target's activations."""
        each = DTYPE_BYTES[self.target.compute_dtype]
        return Shape(
            layers=self.layers[chosen],
            d_model=self.d_model[chosen],
            heads=self.heads[chosen],
            kv_heads=self.kv_heads[chosen],
            head_dim=float(self.space.head_dim),
            d_ff=self.d_ff[chosen],
            feed_forward_matrices=3.0 if self.space.feed_forward == "gated" else 2.0,
            vocabulary=self.vocabulary[chosen],
            weight_bytes=each,
            kv_bytes=each,
            activation_bytes=each,
            relative=self.space.positions == "relative",
        )

    def model(self, index: int) -> ModelSpec:
        """One of them as a model."""
        layers, width = int(self.layers[index]), int(self.d_model[index])
        dtype = self.target.compute_dtype
        return ModelSpec(
            name=self._name(index),
            source="a candidate of a plan",
            layers=layers,
            d_model=width,
            heads=int(self.heads[index]),
            kv_heads=int(self.kv_heads[index]),
            head_dim=self.space.head_dim,
            d_ff=int(self.d_ff[index]),
            feed_forward=self.space.feed_forward,
            vocabulary=int(self.vocabulary[index]),
            tokenizer=self.target.tokenizer,
            tied_embeddings=self.space.tied_embeddings,
            positions=self.space.positions,
            weight_dtype=dtype,
        )

    def _name(self, index: int) -> str:
        """Layers and width, and of the rest what more than one value is tried of."""
        space, layers, width = self.space, int(self.layers[index]), int(self.d_model[index])
        ratio = f"-ff{self.d_ff[index] / width:.3g}" if len(space.d_ff_ratio) > 1 else ""
        shared = f"-kv{int(self.kv_heads[index])}" if len(space.kv_share) > 1 else ""
        tokens = f"-v{int(self.vocabulary[index])}" if space.vocabulary and len(space.vocabulary) > 1 else ""
        return f"draft-{layers}x{width}{ratio}{shared}{tokens}"

    def at_the_edge(self, index: int) -> list[str]:
        """The axes of the search whose first or last value this one has, where they have more than two."""
        own = {
            "layers": (self.layers[index], self.space.layers),
            "d_model": (self.d_model[index], self.space.d_model),
            "d_ff_ratio": (self.d_ff[index] / self.d_model[index], self.space.d_ff_ratio),
        }
        return [
            f"{name} {value:g}, the {'smallest' if value <= min(known) * 1.01 else 'largest'} that was tried"
            for name, (value, known) in own.items()
            if len(known) > 2 and (value <= min(known) * 1.01 or value >= max(known) * 0.99)
        ]


def drafts_of(space: DraftSpace, target: ModelSpec) -> Drafts:
    """Every combination that is a model and within the largest size.

    Raises:
        RefusedError: none is.
    """
    vocabularies = space.vocabulary or (target.vocabulary,)
    axes = (space.layers, space.d_model, space.d_ff_ratio, space.kv_share, vocabularies)
    grid = np.array(list(itertools.product(*axes)), dtype=np.float64)
    layers, width, ratio, share, vocabulary = grid.T
    whole = (width % space.head_dim == 0) & (vocabulary <= target.vocabulary) & (share <= 1)
    heads = np.floor(width / space.head_dim)
    # KV heads must divide the heads: the nearest divisor below.
    wanted = np.maximum(np.round(heads * share), 1.0)
    kv_heads = np.array([_divisor(int(n), int(g)) for n, g in zip(heads, wanted, strict=True)], dtype=np.float64)
    found = Drafts(layers, width, heads, kv_heads, np.round(width * ratio), vocabulary, space, target)
    kept = whole & (found.parameters < target.parameters)
    if space.max_parameters is not None:
        kept &= found.parameters <= space.max_parameters
    if not kept.any():
        raise RefusedError(
            "no combination of plan.drafts is a model: d_model must be a multiple of head_dim, the vocabulary at most "
            "the target's, and the weights fewer than the target's and at most max_parameters"
        )
    grid = np.unique(np.stack([layers, width, heads, kv_heads, found.d_ff, vocabulary])[:, kept], axis=1)
    layers, width, heads, kv_heads, d_ff, vocabulary = grid
    return Drafts(layers, width, heads, kv_heads, d_ff, vocabulary, space, target)


def _divisor(heads: int, most: int) -> int:
    return next((g for g in range(max(most, 1), 0, -1) if heads and heads % g == 0), 1)
