"""The decoding loop: a round is draft, verify, accept, commit; the loop over rounds runs on the device.

Plain decoding is the same loop with nobody to draft. The state is one frozen pytree. A sequence that has all its
tokens is frozen: it is still computed, emits nothing more, and its cursor stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Int32

from runtime.drafters import Drafter, ModelDrafter, NoDrafter
from runtime.forcing import Forcing
from runtime.sampling import Sampling
from runtime.shapes import Count, Cursor, PRNGKey, Tokens
from runtime.step import StepModel
from runtime.verification import Proposal, Verdict, judge


@dataclass(frozen=True)
class Setting:
    """What is fixed when the loop is compiled."""

    output_tokens: int
    """N, tokens that each sequence emits; the first comes from prefill."""
    lookahead: int
    """K; 0 is plain decoding."""
    positions: int
    """S, allocated positions of each cache; see ``kv_cache.room``."""
    sampling: Sampling
    """How tokens are chosen."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DecodeState:
    """Everything that a round changes."""

    key: PRNGKey
    tokens: Int32[jax.Array, "B N+K+1"]
    """Emitted tokens; what lies beyond ``emitted`` is scratch."""
    emitted: Count
    """Tokens emitted, 1..N."""
    prompt_tokens: Count
    """Length of each prompt."""
    last_two: Int32[jax.Array, "B 2"]
    """The last two tokens of prompt and output; only the first of them is in the target's cache."""
    rounds: Count
    """Rounds in which the sequence still emitted."""
    accepted: Int32[jax.Array, "B N-1"]
    """Accepted drafted tokens of each of those rounds; -1 where there was none."""
    unforced_accepted: Count
    """Drafted tokens, over all rounds, that the two models would have kept without forcing."""
    target_cache: Any
    draft_cache: Any
    """None in plain decoding."""
    output_tokens: int = field(metadata={"static": True})

    @property
    def cursor(self) -> Cursor:
        """Valid positions of the target's cache: all tokens but the last."""
        return self.prompt_tokens + self.emitted - 1

    @property
    def finished(self) -> jax.Array:
        """Which sequences have all their tokens; [B]."""
        return self.emitted >= self.output_tokens


def drafter_of(draft: StepModel[Any] | None, setting: Setting) -> Drafter[Any]:
    """Who drafts."""
    if draft is None or setting.lookahead == 0:
        return NoDrafter()
    return ModelDrafter(draft, setting.lookahead, setting.sampling)


def start(
    setting: Setting, target: StepModel[Any], draft: StepModel[Any] | None, prompts: Tokens, key: PRNGKey
) -> DecodeState:
    """Prefill: both models read the prompts [B, P], and the target emits the first token."""
    batch, length = prompts.shape
    first_key, key = jax.random.split(key)
    empty = jnp.zeros((batch,), jnp.int32)
    logits, target_cache = target(
        prompts, target.empty_cache(batch, setting.positions), empty, last_only=True, fresh=True
    )
    draft_cache = None
    if draft is not None and setting.lookahead:
        _, draft_cache = draft(prompts, draft.empty_cache(batch, setting.positions), empty, last_only=True, fresh=True)
    first = setting.sampling.choose(first_key, setting.sampling.filter(logits[:, 0]))
    tokens = jnp.zeros((batch, setting.output_tokens + setting.lookahead + 1), jnp.int32).at[:, 0].set(first)
    return DecodeState(
        key=key,
        tokens=tokens,
        emitted=empty + 1,
        prompt_tokens=empty + length,
        last_two=jnp.stack([prompts[:, -1], first], axis=1),
        rounds=empty,
        accepted=jnp.full((batch, setting.output_tokens - 1), -1, jnp.int32),
        unforced_accepted=empty,
        target_cache=target_cache,
        draft_cache=draft_cache,
        output_tokens=setting.output_tokens,
    )


def decode_round(
    sampling: Sampling, target: StepModel[Any], drafter: Drafter[Any], state: DecodeState, forcing: Forcing
) -> DecodeState:
    """One round of all sequences: 1..K+1 tokens each."""
    key, draft_key, judge_key = round_keys(state.key)
    proposal, draft_cache = drafter.propose(state.draft_cache, state.last_two, state.cursor, draft_key)
    logits, target_cache = verify(target, proposal, state)
    verdict = judge(sampling, judge_key, proposal, logits, forcing, state.rounds)
    state = commit(state, proposal, verdict)
    return replace(state, key=key, target_cache=target_cache, draft_cache=draft_cache)


def round_keys(key: PRNGKey) -> tuple[PRNGKey, PRNGKey, PRNGKey]:
    """Independent keys for the rounds after this one, for its draft and for its verdict."""
    following, draft, verdict = jax.random.split(key, 3)
    return following, draft, verdict


def verify(target: StepModel[Any], proposal: Proposal, state: DecodeState) -> tuple[jax.Array, Any]:
    """The target's logits before each drafted token and after the last, [B, K+1, V], in one step."""
    tokens = jnp.concatenate([state.last_two[:, 1:], proposal.tokens], axis=1)
    return target(tokens, state.target_cache, state.cursor)


def commit(state: DecodeState, proposal: Proposal, verdict: Verdict) -> DecodeState:
    """Emit the accepted tokens and the target's own. The cursors follow, which drops the rejected ones."""
    rows = jnp.arange(len(state.emitted))[:, None]
    places = jnp.arange(proposal.tokens.shape[1] + 1)
    # Behind the last emitted token the block holds scratch, which the next round overwrites.
    block = jnp.pad(proposal.tokens, ((0, 0), (0, 1)))
    block = jnp.where(places < verdict.accepted[:, None], block, verdict.next_token[:, None])
    before = jnp.concatenate([state.last_two[:, 1:], proposal.tokens], axis=1)
    second_last = jnp.take_along_axis(before, verdict.accepted[:, None], axis=1)[:, 0]
    active = ~state.finished
    record = jnp.where(active, state.rounds, state.accepted.shape[1])
    return replace(
        state,
        tokens=state.tokens.at[rows, state.emitted[:, None] + places].set(block),
        emitted=jnp.minimum(state.emitted + verdict.accepted + 1, state.output_tokens),
        last_two=jnp.stack([second_last, verdict.next_token], axis=1),
        rounds=state.rounds + active,
        accepted=state.accepted.at[rows[:, 0], record].set(verdict.accepted, mode="drop"),
        unforced_accepted=state.unforced_accepted + active * verdict.unforced,
    )


def run_to_end(
    setting: Setting,
    target: StepModel[Any],
    draft: StepModel[Any] | None,
    state: DecodeState,
    forcing: Forcing,
) -> DecodeState:
    """Rounds until every sequence has its tokens, without asking the host."""
    drafter = drafter_of(draft, setting)
    return lax.while_loop(
        lambda state: ~jnp.all(state.finished),
        lambda state: decode_round(setting.sampling, target, drafter, state, forcing),
        state,
    )
