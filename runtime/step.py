"""One forward pass: what the decoding loop needs of a model, and what all layers of a step share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Int32

from runtime.arithmetic import Lowering, rotary_angles
from runtime.shapes import Cursor, Logits, Tokens, Visible
from simulator.spec.model import ModelSpec

Cache = TypeVar("Cache")


class StepModel(Protocol[Cache]):
    """What the decoding loop needs of a model; :class:`runtime.transformer.Decoder` is one."""

    def __call__(
        self, tokens: Tokens, cache: Cache, cursor: Cursor, *, last_only: bool = False, fresh: bool = False
    ) -> tuple[Logits, Cache]:
        """Read T tokens of each sequence at its cursor: logits after each of them, and the cache with them in it.

        Args:
            tokens: [B, T]; T is the prompt in prefill, 1 in decode, 2 in the first draft step, K+1 in verify.
            cache: what was read before; positions from the cursor on are stale.
            cursor: [B], valid positions of the cache.
            last_only: logits after the last token only, [B, 1, V].
            fresh: the cache is empty (every cursor is 0): attend among the new tokens alone.
        """
        ...

    def likeliest(
        self, tokens: Tokens, cache: Cache, cursor: Cursor, *, last_only: bool = False
    ) -> tuple[Tokens, Cache]:
        """As a call, but only the likeliest token after each of T tokens, [B, T]: greedy decoding needs no more."""
        ...

    def empty_cache(self, batch: int, positions: int) -> Cache:
        """A cache for ``batch`` sequences of at most ``positions``."""
        ...


@dataclass(frozen=True)
class Step:
    """What all layers of a step share."""

    cursor: Cursor
    at: Int32[jax.Array, "B T"]
    """Where each new token stands."""
    angles: jax.Array | None
    among_new: Visible
    cached: Visible | None
    lowering: Lowering

    @classmethod
    def of(cls, spec: ModelSpec, shape: tuple[int, int], cursor: Cursor, positions: int, lowering: Lowering) -> Step:
        """A step of ``shape`` [B, T] over a cache of S ``positions``, of which none is read where that is 0."""
        batch, tokens = shape
        at = cursor[:, None] + jnp.arange(tokens)
        angles = None
        if spec.positions == "rotary":
            angles = rotary_angles(at, spec.head_dim, spec.rotary_base, spec.rotary_scaling)
        among_new = jnp.broadcast_to(jnp.tril(jnp.ones((tokens, tokens), bool)), (batch, tokens, tokens))
        cached = None
        if positions:
            # Read back, the cache already holds the new tokens; split, it does not.
            limit = cursor[:, None] - 1 if lowering.split_attention else at
            cached = jnp.broadcast_to(limit[:, :, None] >= jnp.arange(positions), (batch, tokens, positions))
        return cls(cursor, at, angles, among_new, cached, lowering)
