"""How many tokens the next round drafts: a pure function, on the device, of what earlier rounds kept.

The accepted counts of past rounds, weighted less the older they are, estimate the probability r that a drafted token is
accepted, given that all before it in its round were. A round of k drafted tokens then emits 1 + r + ... + r^k tokens in
expectation, and the best k emits most of them per predicted time. The choice depends on the past alone, so the output
still follows the target's own distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from runtime.shapes import Count, Cursor
from simulator.errors import RefusedError

Scalar = Float32[jax.Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Policy:
    """What a round costs by the number of tokens that it drafts, and how fast the past is forgotten."""

    round_cost: Float32[jax.Array, " K+1"]
    """Predicted time of a round that drafts k tokens, in any unit; infinite for a k that must not be chosen."""
    keep: Scalar
    """Weight of a round relative to the round after it."""
    prior: Scalar
    """Acceptance that one imagined token had. It decides where nothing is remembered: at the start, and after many
    rounds that drafted nothing and so learnt nothing."""

    @classmethod
    def by_cost(cls, round_cost: Sequence[float], keep: float = 0.9, prior: float = 0.7) -> Self:
        """The policy that picks the best k for predicted costs of k = 0, 1, ..., K.

        Raises:
            RefusedError: no cost is finite, one is not positive, or a weight lies outside its range.
        """
        if not any(math.isfinite(cost) for cost in round_cost) or not all(cost > 0 for cost in round_cost):
            raise RefusedError("costs of rounds must be positive, and one of them finite")
        if not (0 <= keep < 1 and 0 <= prior <= 1):
            raise RefusedError("keep must lie in [0, 1) and prior in [0, 1]")
        return cls(*(jnp.asarray(np.asarray(value, np.float32)) for value in (round_cost, keep, prior)))

    @classmethod
    def fixed(cls, drafted: int, lookahead: int) -> Self:
        """The policy that drafts ``drafted`` tokens in every round, of at most ``lookahead``.

        Raises:
            RefusedError: more are drafted than are allowed.
        """
        if not 0 <= drafted <= lookahead:
            raise RefusedError(f"a round cannot draft {drafted} tokens of at most {lookahead}")
        return cls.by_cost([1.0 if k == drafted else math.inf for k in range(lookahead + 1)])

    def choose(self, kept: Scalar, tried: Scalar) -> Int32[jax.Array, ""]:
        """The number of tokens to draft, after ``kept`` of ``tried`` drafted tokens."""
        rate = (kept + self.prior) / (tried + 1)
        powers = jnp.concatenate([jnp.ones(1), jnp.full((len(self.round_cost) - 1,), rate)])
        return jnp.argmax(jnp.cumsum(jnp.cumprod(powers)) / self.round_cost).astype(jnp.int32)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pace:
    """A policy and what it remembers: the part of a decoding state that only an adaptive lookahead needs."""

    policy: Policy
    kept: Scalar
    """Accepted tokens, older rounds weighted less."""
    tried: Scalar
    """Drafted tokens that were accepted or were the first of their round to be rejected, weighted alike."""
    draft_cursor: Cursor
    """Valid positions of the draft's cache: rounds that draft nothing leave it behind."""
    rounds: Int32[jax.Array, " K+1"]
    """Rounds so far by the number of tokens drafted."""

    @classmethod
    def start(cls, policy: Policy, draft_cursor: Cursor) -> Self:
        """Nothing is remembered yet."""
        zero = jnp.zeros((), jnp.float32)
        return cls(policy, zero, zero, draft_cursor, jnp.zeros((len(policy.round_cost),), jnp.int32))

    @property
    def drafted(self) -> Int32[jax.Array, ""]:
        """k, tokens that the next round drafts."""
        return self.policy.choose(self.kept, self.tried)

    def admit(self, slot: jax.Array, draft_cursor: jax.Array) -> Self:
        """With another sequence in one slot; what was learnt from the others stays."""
        return replace(self, draft_cursor=self.draft_cursor.at[slot].set(draft_cursor))

    def after(self, drafted: jax.Array, accepted: Count, active: jax.Array, draft_cursor: Cursor) -> Self:
        """After a round that drafted k tokens of each sequence and kept ``accepted`` of them."""
        kept = jnp.sum(jnp.where(active, accepted, 0))
        tried = jnp.sum(jnp.where(active, jnp.minimum(accepted + 1, drafted), 0))
        return replace(
            self,
            kept=self.policy.keep * self.kept + kept,
            tried=self.policy.keep * self.tried + tried,
            draft_cursor=draft_cursor,
            rounds=self.rounds.at[drafted].add(1),
        )
