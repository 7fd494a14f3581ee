"""The decoding loop: a round is draft, verify, accept, commit; the loop over rounds runs on the device.

Plain decoding is the same loop with nobody to draft. A sequence that has all its tokens, or has emitted a stop token,
is frozen: it is still computed, emits nothing more, and its cursor stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from runtime.adaptive import draft_and_judge
from runtime.decode_state import NOTHING_ELSE, DecodeState, Setting, Wanted
from runtime.drafters import Drafter, ModelDrafter, NoDrafter
from runtime.forcing import Forcing
from runtime.pace import Pace
from runtime.sampling import Sampling
from runtime.shapes import Count, PRNGKey, Tokens
from runtime.step import StepModel
from runtime.verification import Proposal, Verdict, judge, leading
from simulator.errors import RefusedError


def drafter_of(draft: StepModel[Any] | None, setting: Setting) -> Drafter[Any]:
    """Who drafts."""
    if draft is None or setting.lookahead == 0:
        return NoDrafter()
    return ModelDrafter(draft, setting.lookahead, setting.sampling)


def start(
    setting: Setting,
    target: StepModel[Any],
    draft: StepModel[Any] | None,
    prompts: Tokens,
    key: PRNGKey,
    wanted: Wanted = NOTHING_ELSE,
) -> DecodeState:
    """Prefill: both models read the prompts [B, P], and the target emits the first token."""
    batch = len(prompts)
    drafting = draft is not None and setting.lookahead
    draft_cache = draft.empty_cache(batch, setting.positions) if draft is not None and drafting else None
    caches = target.empty_cache(batch, setting.positions), draft_cache
    return start_in(setting, (target, draft), caches, prompts, key, wanted)


def start_in(
    setting: Setting,
    models: tuple[StepModel[Any], StepModel[Any] | None],
    caches: tuple[Any, Any],
    prompts: Tokens,
    key: PRNGKey,
    wanted: Wanted,
) -> DecodeState:
    """As :func:`start`, into caches of target and draft, whatever they hold; that of the draft may be None."""
    batch, length = prompts.shape
    first_key, key = jax.random.split(key)
    empty = jnp.zeros((batch,), jnp.int32)
    prompt_tokens = empty + length if wanted.prompt_tokens is None else jnp.asarray(wanted.prompt_tokens)
    logits, target_cache = models[0](prompts, caches[0], empty, last_only=True, fresh=True)
    last = prompts[:, -1]
    if wanted.prompt_tokens is not None:
        # Read the last token again, which changes nothing: logits behind all of P tokens would be large.
        last = jnp.take_along_axis(prompts, prompt_tokens[:, None] - 1, axis=1)[:, 0]
        logits, target_cache = models[0](last[:, None], target_cache, prompt_tokens - 1, last_only=True)
    draft_cache = None
    if models[1] is not None and caches[1] is not None:
        _, draft_cache = models[1](prompts, caches[1], empty, last_only=True, fresh=True)
    first = setting.sampling.choose(first_key, setting.sampling.filter(logits[:, 0]))
    limit = empty + setting.output_tokens if wanted.output_tokens is None else jnp.asarray(wanted.output_tokens)
    width = setting.output_tokens + setting.lookahead + 1
    return DecodeState(
        key=key,
        tokens=jnp.zeros((batch, width), jnp.int32).at[:, 0].set(first),
        emitted=empty + 1,
        limit=stopped(limit, empty, first[:, None], setting.stop_tokens),
        prompt_tokens=prompt_tokens,
        last_two=jnp.stack([last, first], axis=1),
        rounds=empty,
        accepted=jnp.full((batch, setting.output_tokens - 1), -1, jnp.int32),
        unforced_accepted=empty,
        target_cache=target_cache,
        draft_cache=draft_cache,
        pace=None if wanted.policy is None else Pace.start(wanted.policy, prompt_tokens),
    )


def decode_round(
    sampling: Sampling,
    target: StepModel[Any],
    drafter: Drafter[Any],
    state: DecodeState,
    forcing: Forcing,
    stop_tokens: tuple[int, ...] = (),
) -> DecodeState:
    """One round of all sequences: 1..K+1 tokens each."""
    if state.pace is not None:
        return paced_round(sampling, target, drafter, state, forcing, stop_tokens)
    key, draft_key, judge_key = round_keys(state.key)
    proposal, draft_cache = drafter.propose(state.draft_cache, state.last_two, state.cursor, draft_key)
    outcome, target_cache = verify(target, proposal, state, greedy=sampling.greedy)
    verdict = judge(sampling, judge_key, proposal, outcome, forcing, state.rounds)
    state = commit(state, proposal, verdict, stop_tokens)
    return replace(state, key=key, target_cache=target_cache, draft_cache=draft_cache)


def paced_round(
    sampling: Sampling,
    target: StepModel[Any],
    drafter: Drafter[Any],
    state: DecodeState,
    forcing: Forcing,
    stop_tokens: tuple[int, ...],
) -> DecodeState:
    """One round of all sequences that drafts as many tokens as the state's policy says.

    Raises:
        RefusedError: nobody drafts.
    """
    pace, active, cursor = state.pace, ~state.finished, state.cursor
    if pace is None or not isinstance(drafter, ModelDrafter):
        raise RefusedError("a lookahead can only be chosen where a draft model drafts")
    key, draft_key, judge_key = round_keys(state.key)
    drafted = pace.drafted
    proposal, verdict, target_cache, draft_cache = draft_and_judge(
        sampling, (target, drafter), state, drafted, (draft_key, judge_key), forcing
    )
    state = commit(state, proposal, verdict, stop_tokens)
    # Drafting read the last token and all drafted ones but the last of them; of those, rejected ones are stale.
    read = jnp.where(drafted > 0, cursor + drafted, pace.draft_cursor)
    pace = pace.after(drafted, verdict.accepted, active, jnp.minimum(read, state.cursor))
    return replace(state, key=key, target_cache=target_cache, draft_cache=draft_cache, pace=pace)


def round_keys(key: PRNGKey) -> tuple[PRNGKey, PRNGKey, PRNGKey]:
    """Independent keys for the rounds after this one, for its draft and for its verdict."""
    following, draft, verdict = jax.random.split(key, 3)
    return following, draft, verdict


def verify(
    target: StepModel[Any], proposal: Proposal, state: DecodeState, *, greedy: bool = False
) -> tuple[jax.Array, Any]:
    """The target's logits before each drafted token and after the last, [B, K+1, V], in one step.

    In greedy decoding its likeliest tokens there, [B, K+1].
    """
    tokens = jnp.concatenate([state.last_two[:, 1:], proposal.tokens], axis=1)
    return (target.likeliest if greedy else target)(tokens, state.target_cache, state.cursor)


def commit(state: DecodeState, proposal: Proposal, verdict: Verdict, stop_tokens: tuple[int, ...] = ()) -> DecodeState:
    """Emit the accepted tokens and the target's own. The cursors follow, which drops the rejected ones."""
    rows = jnp.arange(len(state.emitted))[:, None]
    places = jnp.arange(proposal.tokens.shape[1] + 1)
    # Behind the last emitted token the block repeats it: scratch, which the next round overwrites.
    block = jnp.pad(proposal.tokens, ((0, 0), (0, 1)))
    block = jnp.where(places < verdict.accepted[:, None], block, verdict.next_token[:, None])
    before = jnp.concatenate([state.last_two[:, 1:], proposal.tokens], axis=1)
    second_last = jnp.take_along_axis(before, verdict.accepted[:, None], axis=1)[:, 0]
    active = ~state.finished
    record = jnp.where(active, state.rounds, state.accepted.shape[1])
    limit = stopped(state.limit, state.emitted, block, stop_tokens)
    return replace(
        state,
        tokens=state.tokens.at[rows, state.emitted[:, None] + places].set(block),
        emitted=jnp.minimum(state.emitted + verdict.accepted + 1, limit),
        limit=limit,
        last_two=jnp.stack([second_last, verdict.next_token], axis=1),
        rounds=state.rounds + active,
        accepted=state.accepted.at[rows[:, 0], record].set(verdict.accepted, mode="drop"),
        unforced_accepted=state.unforced_accepted + active * verdict.unforced,
    )


def stopped(limit: Count, emitted: Count, block: Tokens, stop_tokens: tuple[int, ...]) -> Count:
    """The limit once ``block`` [B, T] follows ``emitted`` tokens: just behind its first stop token, if it has one."""
    if not stop_tokens:
        return limit
    stops = jnp.isin(block, jnp.asarray(stop_tokens, jnp.int32))
    behind = jnp.where(jnp.any(stops, axis=1), emitted + leading(~stops) + 1, limit)
    return jnp.minimum(limit, behind)


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
        lambda state: decode_round(setting.sampling, target, drafter, state, forcing, setting.stop_tokens),
        state,
    )


def run_one_round(
    setting: Setting,
    target: StepModel[Any],
    draft: StepModel[Any] | None,
    state: DecodeState,
    forcing: Forcing,
) -> DecodeState:
    """The next round of :func:`run_to_end`, or nothing where every sequence has its tokens.

    A loop as well, of the same body: so the compiler makes the same of it, and the tokens are the same to the bit.
    """
    drafter = drafter_of(draft, setting)

    def body(carry: tuple[DecodeState, jax.Array]) -> tuple[DecodeState, jax.Array]:
        state = decode_round(setting.sampling, target, drafter, carry[0], forcing, setting.stop_tokens)
        return state, jnp.bool_(1)

    def wanted(carry: tuple[DecodeState, jax.Array]) -> jax.Array:
        return ~carry[1] & ~jnp.all(carry[0].finished)

    return lax.while_loop(wanted, body, (state, jnp.bool_(0)))[0]
