"""Rounds whose lookahead is chosen on the device, within the one that was compiled.

A round of k <= K drafted tokens takes k draft steps and a verify step at the first compiled width of at least k + 1
tokens: nothing is compiled again, and little is computed in vain. What pads a proposal up to a width can be neither
accepted nor subtracted, so that at most k tokens are kept and the token after all k is drawn from the target's
distribution behind the last of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from runtime.decode_state import DecodeState
from runtime.drafters import ModelDrafter
from runtime.forcing import Forcing
from runtime.sampling import Sampling
from runtime.shapes import Count, PRNGKey
from runtime.step import StepModel
from runtime.verification import Proposal, Verdict, judge


@dataclass(frozen=True)
class AtMost(Forcing):
    """Another forcing, in a round that drafted fewer tokens than it may force."""

    own: Forcing = field(default_factory=Forcing)
    most: jax.Array | int = 0

    def override(self, unforced: Count, rounds: Count, key: PRNGKey) -> Count:
        """The counts of the other, no larger than ``most``."""
        return jnp.minimum(self.own.override(unforced, rounds, key), self.most)


def widths(lookahead: int) -> tuple[int, ...]:
    """Tokens of a verify step for which it is compiled: 1, 2, 3, 5, 9, ..., and the largest, K+1."""
    found = [1]
    while found[-1] < lookahead + 1:
        found.append(min(1 + (1 << (len(found) - 1)), lookahead + 1))
    return tuple(found)


def draft_and_judge(
    sampling: Sampling,
    models: tuple[StepModel[Any], ModelDrafter[Any]],
    state: DecodeState,
    drafted: jax.Array,
    keys: tuple[PRNGKey, PRNGKey],
    forcing: Forcing,
) -> tuple[Proposal, Verdict, Any, Any]:
    """A proposal of K tokens of which k = ``drafted`` are real, its verdict, and the caches of target and draft."""
    target, drafter = models
    draft_cache = catch_up(drafter, state, drafted)
    proposal, draft_cache = drafter.propose_some(draft_cache, state.last_two, state.cursor, keys[0], drafted)

    compiled = widths(drafter.lookahead)
    chosen = jnp.sum(jnp.asarray(compiled) < drafted + 1)
    found = Verdict(*[jnp.zeros_like(state.emitted)] * 3), state.target_cache
    for number, width in enumerate(compiled):

        def verify(zero: jax.Array, found: tuple[Verdict, Any], width: int = width) -> tuple[Verdict, Any]:
            part = first_of(proposal, width - 1, zero)
            tokens = jnp.concatenate([state.last_two[:, 1:] + zero, jnp.maximum(part.tokens, 0)], axis=1)
            step = target.likeliest if sampling.greedy else target
            outcome, cache = step(tokens, found[1], state.cursor + zero)
            return judge(sampling, keys[1], part, outcome, AtMost(own=forcing, most=drafted), state.rounds), cache

        # Loops of one round or none, of which one has its round: unlike branches of a switch, they copy no cache. What
        # does not need the loop's counter, which is 0, would be computed before the loop, and so for every width.
        found = lax.fori_loop(0, (chosen == number).astype(jnp.int32), verify, found)
    return proposal, *found, draft_cache


def first_of(proposal: Proposal, count: int, zero: jax.Array) -> Proposal:
    """The first ``count`` tokens of a proposal, from number ``zero`` on."""
    probs = proposal.probs
    return Proposal(
        lax.dynamic_slice_in_dim(proposal.tokens, zero, count, axis=1),
        lax.dynamic_slice_in_dim(probs, zero, count, axis=1) if probs is not None and count else None,
    )


def catch_up(drafter: ModelDrafter[Any], state: DecodeState, drafted: jax.Array) -> Any:
    """The draft's cache after it has read what was emitted while nothing was drafted; as it is if nothing is now.

    It lacks at most the last token then, which drafting reads first. Blocks of K+1 tokens fit into the cache, as those
    of a verify step do.
    """
    if state.pace is None:
        return state.draft_cache
    length = drafter.lookahead + 1
    rows = jnp.arange(len(state.emitted))[:, None]

    def behind(carry: tuple[Any, jax.Array]) -> jax.Array:
        return jnp.any(carry[1] < state.cursor - 1) & (drafted > 0)

    def read(carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        cache, cursor = carry
        places = (cursor - state.prompt_tokens)[:, None] + jnp.arange(length)
        _, cache = drafter.model(state.tokens[rows, places], cache, cursor, last_only=True)
        return cache, jnp.minimum(cursor + length, state.cursor)

    cache, _ = lax.while_loop(behind, read, (state.draft_cache, state.pace.draft_cursor))
    return cache
