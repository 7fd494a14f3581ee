"""Who proposes tokens: a draft model, or nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from runtime.sampling import Sampling
from runtime.shapes import Cursor, PRNGKey, Tokens, Weights
from runtime.step import StepModel
from runtime.verification import Proposal

Cache = TypeVar("Cache")


class Drafter(Protocol[Cache]):
    """Proposes K tokens of each sequence."""

    def propose(self, cache: Cache, last_two: Tokens, cursor: Cursor, key: PRNGKey) -> tuple[Proposal, Cache]:
        """Draft after ``last_two``, the last two tokens of each sequence, of which the last stands at ``cursor``."""
        ...


@dataclass(frozen=True)
class NoDrafter:
    """Plain decoding: a round without drafted tokens."""

    def propose(self, cache: None, last_two: Tokens, cursor: Cursor, key: PRNGKey) -> tuple[Proposal, None]:
        """Nothing."""
        del cursor, key
        return Proposal(last_two[:, :0], None), cache


@dataclass(frozen=True)
class ModelDrafter(Generic[Cache]):
    """A draft model that proposes token by token: one step of two tokens, then K-1 of one."""

    model: StepModel[Cache]
    lookahead: int
    sampling: Sampling

    def propose(self, cache: Cache, last_two: Tokens, cursor: Cursor, key: PRNGKey) -> tuple[Proposal, Cache]:
        """K tokens and their distributions.

        The first step reads the last two tokens: after a round whose K tokens were all accepted the draft has not
        read the K-th, and reading one would leave a hole in its cache. Else the second last is read again, which
        changes nothing.
        """
        keys = jax.random.split(key, self.lookahead)
        first, probs, cache = self.step(cache, last_two, cursor - 1, keys[0])

        def later_step(carry: tuple[Cache, Tokens, Cursor], key: PRNGKey) -> tuple[Any, Any]:
            cache, token, cursor = carry
            token, probs, cache = self.step(cache, token, cursor, key)
            return (cache, token, cursor + 1), (token, probs)

        (cache, _, _), later = lax.scan(later_step, (cache, first, cursor + 1), keys[1:])
        # Stacked by step, [K, B, ...]; every consumer wants [B, K, ...].
        stacked = jax.tree.map(
            lambda one, rest: jnp.concatenate([one[None], rest]).swapaxes(0, 1), (first, probs), later
        )
        return Proposal(stacked[0][:, :, 0], stacked[1]), cache

    def propose_some(
        self, cache: Cache, last_two: Tokens, cursor: Cursor, key: PRNGKey, drafted: jax.Array
    ) -> tuple[Proposal, Cache]:
        """As :meth:`propose`, but only the first ``drafted`` of the K tokens, in as many steps.

        The others are padding: tokens of -1, and weights beyond any target's.
        """
        keys = jax.random.split(key, self.lookahead)
        batch, vocabulary = len(cursor), self._vocabulary(cache, last_two, cursor)
        tokens = jnp.full((self.lookahead, batch), -1, jnp.int32)
        probs = None if self.sampling.greedy else jnp.full((self.lookahead, batch, vocabulary), jnp.inf)

        def step(number: jax.Array, fed: Tokens, at: Cursor, carry: Any) -> Any:
            tokens, probs, cache = carry
            token, chosen_from, cache = self.step(cache, fed, at, keys[number])
            tokens = tokens.at[number].set(token[:, 0])
            return tokens, None if chosen_from is None else probs.at[number].set(chosen_from), cache

        def first_step(zero: jax.Array, carry: Any) -> Any:
            return step(zero, last_two + zero, cursor - 1 + zero, carry)

        def later_step(number: jax.Array, carry: Any) -> Any:
            return step(number, carry[0][number - 1][:, None], cursor + number, carry)

        # A loop of one round or none: unlike a condition, it copies no cache. Nothing in it may be computed before it.
        carry = lax.fori_loop(0, jnp.minimum(drafted, 1), first_step, (tokens, probs, cache))
        tokens, probs, cache = lax.fori_loop(1, drafted, later_step, carry)
        return Proposal(tokens.T, None if probs is None else probs.swapaxes(0, 1)), cache

    def _vocabulary(self, cache: Cache, tokens: Tokens, cursor: Cursor) -> int:
        logits, _ = jax.eval_shape(self.model, tokens, cache, cursor)
        return int(logits.shape[-1])

    def step(self, cache: Cache, tokens: Tokens, cursor: Cursor, key: PRNGKey) -> tuple[Tokens, Weights | None, Cache]:
        """Read 1 or 2 tokens: the next one [B, 1], the distribution that it was drawn from, the cache."""
        if self.sampling.greedy:
            token, cache = self.model.likeliest(tokens, cache, cursor, last_only=True)
            return token, None, cache
        logits, cache = self.model(tokens, cache, cursor, last_only=True)
        filtered = self.sampling.filter(logits[:, 0])
        return self.sampling.choose(key, filtered)[:, None], jax.nn.softmax(filtered, axis=-1), cache
