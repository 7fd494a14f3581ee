"""Models that look their logits up: every distribution is known, and a million sequences take seconds.

The logits after a token depend on it and the ``REACH - 1`` before it, which are read from the model's cache, at the
positions before the cursor: a stale, missing or misplaced entry changes them, as in attention.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from runtime.sampling import likeliest
from runtime.shapes import Cursor, Logits, Tokens

REACH = 3
"""Tokens that the next one depends on."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TableModel:
    """A step model whose cache [B, S] holds the tokens that it read."""

    logits: jax.Array
    """[V, ..., V, V], one axis for each token of the reach and one for the next."""

    @property
    def vocabulary(self) -> int:
        """V."""
        return self.logits.shape[-1]

    def __call__(
        self, tokens: Tokens, cache: Tokens, cursor: Cursor, *, last_only: bool = False, fresh: bool = False
    ) -> tuple[Logits, Tokens]:
        """One step; see :meth:`runtime.step.StepModel.__call__`."""
        del fresh
        cache = _written(cache, tokens, cursor)
        new = jnp.arange(tokens.shape[1])[-1:] if last_only else jnp.arange(tokens.shape[1])
        at = cursor[:, None] + new
        rows = jnp.zeros_like(at)
        for back in reversed(range(REACH)):
            rows = rows * self.vocabulary + jnp.take_along_axis(cache, at - back, axis=1)
        return self.logits.reshape(-1, self.vocabulary)[rows], cache

    def likeliest(
        self, tokens: Tokens, cache: Tokens, cursor: Cursor, *, last_only: bool = False
    ) -> tuple[Tokens, Tokens]:
        """The likeliest token after each; see :meth:`runtime.step.StepModel.likeliest`."""
        logits, cache = self(tokens, cache, cursor, last_only=last_only)
        return likeliest(logits), cache

    def empty_cache(self, batch: int, positions: int) -> Tokens:
        """A cache for ``batch`` sequences of at most ``positions``."""
        return jnp.zeros((batch, positions), jnp.int32)


def _written(cache: Tokens, tokens: Tokens, cursor: Cursor) -> Tokens:
    written: Tokens = jax.vmap(lambda own, new, at: lax.dynamic_update_slice_in_dim(own, new, at, 0))(
        cache, tokens, cursor
    )
    return written


def table_model(vocabulary: int, seed: int, spread: float = 1.5) -> TableModel:
    """A model with logits of this spread."""
    shape = (vocabulary,) * (REACH + 1)
    return TableModel(spread * jax.random.normal(jax.random.key(seed), shape))


def disturbed(model: TableModel, seed: int, noise: float) -> TableModel:
    """A draft that agrees in part: the model with ``noise`` added to its logits."""
    return TableModel(model.logits + noise * jax.random.normal(jax.random.key(seed), model.logits.shape))
