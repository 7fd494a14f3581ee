"""What a part of a round takes in its place: whole rounds in which it is done once more, against whole rounds.

A part timed alone finds its weights in the caches, or the machine in another state, than inside a round; here nothing
else changes. The first draft step has no second place in a round: it is timed behind a verification, in a loop of the
two (``programs.verify_and_draft_first_steps``), less the verification.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from runtime import programs
from runtime.decode_loop import commit, decode_round, drafter_of, round_keys, verify
from runtime.decode_state import DecodeState
from runtime.drafters import ModelDrafter
from runtime.programs import Bench, Program, compiled_loop, next_tokens
from runtime.verification import judge
from simulator.spec.acceptance import Acceptance

Part = Literal["draft_step", "verify_step", "sampling"]
MORE_STEPS = 4
"""Draft steps that a round has more of, so that one of them stands out of the noise."""


def rounds_with_more(bench: Bench, acceptance: Acceptance, part: Part) -> Program:
    """Whole rounds in which ``part`` is done once more (draft steps ``MORE_STEPS`` times), on what it gave before."""

    def body(target: Any, draft: Any, carry: Any) -> Any:
        state, forcing = carry
        state = _round(bench, target, drafter_of(draft, bench.setting), state, forcing, part)
        return replace(state, emitted=jnp.where(state.finished, 1, state.emitted)), forcing

    roomy = replace(bench, positions=bench.setting.positions + MORE_STEPS)
    forcing = bench.forcing(acceptance, "forced rounds")
    specs = (bench.pair.state_specs(bench.setting), programs.SAME)
    return compiled_loop(f"round, {part} again", bench, body, (roomy.state(), forcing), specs)


def times_more(part: Part) -> int:
    """How often more than in a round the part is done."""
    return MORE_STEPS if part == "draft_step" else 1


def _round(bench: Bench, target: Any, drafter: Any, state: DecodeState, forcing: Any, part: Part) -> DecodeState:
    """``decode_loop.decode_round`` with one part done again; its result is needed for what comes after."""
    if not isinstance(drafter, ModelDrafter):
        return decode_round(bench.sampling, target, drafter, state, forcing)
    key, draft_key, judge_key = round_keys(state.key)
    proposal, draft_cache = drafter.propose(state.draft_cache, state.last_two, state.cursor, draft_key)
    if part == "draft_step":
        draft_cache, token = _more_steps(drafter, draft_cache, proposal.tokens[:, -1:], state, draft_key)
        # Some sequence of tokens that the compiler cannot know to be the same.
        proposal = replace(proposal, tokens=jnp.where(token < 0, token, proposal.tokens))
    logits, target_cache = verify(target, proposal, state)
    if part == "verify_step":
        again = replace(proposal, tokens=next_tokens(proposal.tokens, logits[:, 1:]))
        logits, target_cache = verify(target, again, replace(state, target_cache=target_cache))
    verdict = judge(bench.sampling, judge_key, proposal, logits, forcing, state.rounds)
    if part == "sampling":
        shifted = logits + verdict.next_token.astype(jnp.float32)[:, None, None] * 1e-3
        verdict = judge(bench.sampling, key, proposal, shifted, forcing, state.rounds)
    state = commit(state, proposal, verdict)
    return replace(state, key=key, target_cache=target_cache, draft_cache=draft_cache)


def _more_steps(
    drafter: ModelDrafter[Any], cache: Any, token: jax.Array, state: DecodeState, key: jax.Array
) -> tuple[Any, jax.Array]:
    def step(carry: tuple[Any, jax.Array, jax.Array], key: jax.Array) -> tuple[Any, None]:
        cache, token, cursor = carry
        token, _, cache = drafter.step(cache, token, cursor, key)
        return (cache, token, cursor + 1), None

    keys = jax.random.split(key, MORE_STEPS)
    (cache, token, _), _ = lax.scan(step, (cache, token, state.cursor + drafter.lookahead), keys)
    return cache, token
