"""Which drafted tokens are kept, and the token that follows them: modified rejection sampling.

Chen et al. 2023, algorithm 2; Leviathan et al. 2023, algorithm 1. With target distribution ``target_probs`` and draft
distribution ``draft_probs``, both after temperature and truncation:

    a drafted token x is accepted with probability min(1, target_probs[x] / draft_probs[x]), in order, up to the
    first rejection; there the next token is drawn from max(0, target_probs - draft_probs), renormalised; where all K
    were accepted it is drawn from the target's distribution after the last of them.

The emitted tokens then follow the target's own distribution exactly, whatever the draft is.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from runtime.forcing import Forcing
from runtime.sampling import Sampling, draw, likeliest
from runtime.shapes import Count, Logits, PRNGKey, Probs, TokenPerSequence, Tokens, Weights


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Proposal:
    """K drafted tokens of each sequence, [B, K], and the distributions that they were drawn from."""

    tokens: Tokens
    probs: Probs | None
    """[B, K, V]; absent in greedy decoding, which does not need them."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Verdict:
    """What becomes of a proposal."""

    accepted: Count
    """Drafted tokens that are kept, 0..K."""
    next_token: TokenPerSequence
    """The token after them: the target's own."""
    unforced: Count
    """Drafted tokens that the two models would have kept; differs from ``accepted`` only where that was forced."""


def judge(
    sampling: Sampling,
    key: PRNGKey,
    proposal: Proposal,
    target_logits: Logits | Tokens,
    forcing: Forcing,
    rounds: Count,
) -> Verdict:
    """Accept or reject a proposal.

    Args:
        sampling: the rule under which ``proposal`` was drafted.
        key: of this round alone, independent of the draft's.
        proposal: K tokens a sequence; K may be 0.
        target_logits: [B, K+1, V], the target's logits before each drafted token and after the last; in greedy decoding
            its likeliest tokens there, [B, K+1], will do.
        forcing: what overrides the accepted count. All the work is done either way.
        rounds: number of this round of each sequence, from 0.
    """
    if sampling.greedy:
        choices = target_logits if target_logits.ndim == 2 else likeliest(target_logits)
        return judge_choices(key, proposal, choices, forcing, rounds)
    accept_key, next_key, force_key = jax.random.split(key, 3)
    if proposal.probs is None:  # nothing was drafted: plain decoding needs no distribution, only a draw from it
        none = jnp.zeros_like(rounds)
        return Verdict(none, sampling.choose(next_key, sampling.filter(target_logits[:, 0])), none)
    target_probs = jax.nn.softmax(sampling.filter(target_logits), axis=-1)
    unforced = accept(accept_key, proposal.tokens, proposal.probs, target_probs)
    accepted = forcing.override(unforced, rounds, force_key)
    weights = residual(at_position(target_probs, accepted), _draft_row(proposal.probs, accepted))
    return Verdict(accepted, draw(next_key, jnp.log(weights)), unforced)


def judge_choices(key: PRNGKey, proposal: Proposal, choices: Tokens, forcing: Forcing, rounds: Count) -> Verdict:
    """:func:`judge` in greedy decoding: ``choices`` [B, K+1] are the target's likeliest tokens, no logits needed."""
    unforced = leading(proposal.tokens == choices[:, :-1])
    accepted = forcing.override(unforced, rounds, jax.random.split(key, 3)[2])
    return Verdict(accepted, at_position(choices, accepted), unforced)


def accept(key: PRNGKey, draft_tokens: Tokens, draft_probs: Probs, target_probs: Probs) -> Count:
    """Drafted tokens before the first rejection; ``target_probs`` is [B, K+1, V], ``draft_probs`` [B, K, V]."""
    chosen = draft_tokens[..., None]
    draft = jnp.take_along_axis(draft_probs, chosen, axis=-1)[..., 0]
    target = jnp.take_along_axis(target_probs[:, :-1], chosen, axis=-1)[..., 0]
    # u < target / draft without the division: a token that the target rules out is never accepted, not even at u = 0.
    return leading(jax.random.uniform(key, draft.shape) * draft < target)


def residual(target_probs: Weights, draft_probs: Weights) -> Weights:
    """Weights of the token after the last accepted one, max(0, target - draft), not normalised.

    Where nothing is left the two distributions are equal up to rounding, and the target's is the answer.
    """
    excess = jnp.maximum(target_probs - draft_probs, 0)
    return jnp.where(jnp.sum(excess, axis=-1, keepdims=True) > 0, excess, target_probs)


def _draft_row(draft_probs: Probs, position: Count) -> Weights:
    """The draft's distribution at a position; zero at the bonus position K, for which nothing was drafted."""
    last = draft_probs.shape[1] - 1
    return jnp.where((position <= last)[:, None], at_position(draft_probs, jnp.minimum(position, last)), 0)


def leading(passed: jax.Array) -> Count:
    """How many of each row [B, K] are true before the first that is not."""
    return jnp.sum(jnp.cumprod(passed.astype(jnp.int32), axis=1), axis=1)


def at_position(values: jax.Array, position: Count) -> jax.Array:
    """``values[b, position[b]]`` of each sequence b."""
    chosen: jax.Array = jax.vmap(lambda own, at: own[at])(values, position)
    return chosen
