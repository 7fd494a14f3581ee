"""Sizes of models as the laws count them, and the tokens that known models were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.errors import RefusedError
from simulator.prior.laws import TOKENS_PER_PARAMETER
from simulator.spec.model import ModelSpec
from simulator.spec.prior import PriorSpec

Array = npt.NDArray[np.float64]

PUBLISHED_TOKENS = {
    "chinchilla": 1.4e12,  # Hoffmann et al. 2022, arXiv 2203.15556, section 4
    "opt": 1.8e11,  # Zhang et al. 2022, arXiv 2205.01068, section 2
    "llama-2": 2e12,  # Touvron et al. 2023, arXiv 2307.09288, table 1
    "llama-3": 1.5e13,  # model card of meta-llama/Llama-3.1-70B: over 15T
    "llama-3.2": 9e12,  # model card of meta-llama/Llama-3.2-1B: up to 9T
    "tinyllama": 3e12,  # Zhang et al. 2024, arXiv 2401.02385
}
"""By the beginning of a model's name, the longest that fits. Of other families nobody here has read a number."""


@dataclass(frozen=True)
class Sizes:
    """One or many models: arrays of one length, or of length 1."""

    parameters: Array
    """All weights, embeddings included, as the laws count them."""
    tokens: Array
    """Tokens that each is or was trained on."""
    layers: Array | None = None
    width: Array | None = None
    """D; with the layers, the shape. Where they are not given a model is of ordinary shape."""

    @classmethod
    def of(
        cls,
        parameters: Array,
        tokens: Array | float | None = None,
        layers: Array | None = None,
        width: Array | None = None,
    ) -> Sizes:
        """Models by their sizes; 20 tokens for each parameter unless told."""
        size = np.atleast_1d(np.asarray(parameters, dtype=np.float64))
        trained = TOKENS_PER_PARAMETER * size if tokens is None else np.atleast_1d(np.asarray(tokens, dtype=np.float64))
        shape = [
            None if part is None else np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in (layers, width)
        ]
        return cls(size, trained, *shape)


def published_tokens(name: str) -> float | None:
    """Tokens that a model of this name was trained on, where its makers say."""
    known = [start for start in PUBLISHED_TOKENS if name.startswith((f"{start}-", f"{start}."))]
    return PUBLISHED_TOKENS[max(known, key=len)] if known else None


def target_sizes(target: ModelSpec, spec: PriorSpec) -> Sizes:
    """Size of the target: its own, or that of a dense model that the prior says is as good.

    Raises:
        RefusedError: it has experts and the prior does not say.
    """
    if spec.target_parameters is not None:
        own = spec.target_tokens or published_tokens(target.name)
        return Sizes.of(np.array([spec.target_parameters]), own)
    if target.experts is not None:
        key = "plan.prior.target_parameters says how large a dense model as good as it would be"
        raise RefusedError(f"{target.name} has experts, and the scaling laws are of dense models: {key}")
    return sizes_of([target], spec.target_tokens)


def sizes_of(models: Sequence[ModelSpec], tokens: float | None = None) -> Sizes:
    """Sizes of models that are spelled out, each trained on ``tokens``, else its published number, else 20 a parameter.

    Raises:
        RefusedError: a model is no dense language model of its own: no law here is of such.
    """
    for model in models:
        if model.hidden_states is not None:
            raise RefusedError(f"{model.name} reads states of the target: no scaling law here is of such heads")
        if model.experts is not None:
            raise RefusedError(f"{model.name} has experts: the scaling laws are of dense models")
    size = np.array([float(model.parameters) for model in models])
    trained = [
        tokens or published_tokens(m.name) or TOKENS_PER_PARAMETER * n for m, n in zip(models, size, strict=True)
    ]
    return Sizes.of(
        size,
        np.array(trained),
        np.array([float(model.layers) for model in models]),
        np.array([float(model.d_model) for model in models]),
    )
