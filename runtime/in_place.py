"""What a part of a round takes in its place: the difference of two loops of rounds, one of which does it and one not.

A part timed alone finds its weights in the caches, or the machine in another state, than inside a round; here nothing
else changes. Draft steps are left out of rounds, since the first of them are dearer than any that are added behind;
verification is done once more, since a round without it would leave the draft's weights where no round finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp

from runtime import programs
from runtime.decode_loop import commit, decode_round, drafter_of, round_keys, verify
from runtime.decode_state import DecodeState
from runtime.drafters import ModelDrafter
from runtime.programs import Bench, Program, compiled_loop, next_tokens
from runtime.verification import Proposal, judge
from simulator.spec.acceptance import Acceptance

Rounds = Literal["whole", "verified twice", "judged twice", "drafted once", "not drafted"]
"""Rounds as they are, and rounds in which a part is done again, or draft steps are left out."""


@dataclass(frozen=True)
class Difference:
    """A part as ``times`` of it that one loop of rounds does more than another."""

    more: Rounds
    less: Rounds
    times: int = 1


def parts(lookahead: int) -> dict[str, Difference]:
    """Every part of a round with K drafted tokens."""
    first: Rounds = "drafted once" if lookahead > 1 else "whole"
    found = {
        "draft_first_step": Difference(first, "not drafted"),
        "verify_step": Difference("verified twice", "whole"),
        "sampling": Difference("judged twice", "whole"),
    }
    if lookahead > 1:
        found["draft_step"] = Difference("whole", "drafted once", lookahead - 1)
    return found


def loop_of(bench: Bench, acceptance: Acceptance, rounds: Rounds) -> Program:
    """A loop of such rounds."""

    def body(target: Any, draft: Any, carry: Any) -> Any:
        state, forcing = carry
        state = _round(bench, target, drafter_of(draft, bench.setting), state, forcing, rounds)
        return replace(state, emitted=jnp.where(state.finished, 1, state.emitted)), forcing

    forcing = bench.forcing(acceptance, "forced rounds")
    specs = (bench.pair.state_specs(bench.setting), programs.SAME)
    return compiled_loop(f"rounds, {rounds}", bench, body, (bench.state(), forcing), specs)


def _round(bench: Bench, target: Any, drafter: Any, state: DecodeState, forcing: Any, rounds: Rounds) -> DecodeState:
    """``decode_loop.decode_round`` with more or less of one part; its result is needed for what comes after."""
    if rounds == "whole" or not isinstance(drafter, ModelDrafter):
        return decode_round(bench.sampling, target, drafter, state, forcing)
    key, draft_key, judge_key = round_keys(state.key)
    proposal, draft_cache = _proposal(bench, drafter, state, draft_key, rounds)
    greedy = bench.sampling.greedy
    logits, target_cache = verify(target, proposal, state, greedy=greedy)
    if rounds == "verified twice":
        fed = _other_tokens(bench, proposal.tokens, logits)
        cached = replace(state, target_cache=target_cache)
        logits, target_cache = verify(target, replace(proposal, tokens=fed), cached, greedy=greedy)
    verdict = judge(bench.sampling, judge_key, proposal, logits, forcing, state.rounds)
    if rounds == "judged twice":
        shift = verdict.next_token[:, None]
        logits = (logits + shift) % bench.vocabulary if greedy else logits + shift[..., None].astype(jnp.float32) * 1e-3
        verdict = judge(bench.sampling, key, proposal, logits, forcing, state.rounds)
    state = commit(state, proposal, verdict)
    return replace(state, key=key, target_cache=target_cache, draft_cache=draft_cache)


def _other_tokens(bench: Bench, drafted: jax.Array, outcome: jax.Array) -> jax.Array:
    """K tokens that depend on all logits, or on the likeliest tokens: the compiler cannot know them beforehand."""
    if outcome.ndim == 3:
        return next_tokens(drafted, outcome[:, 1:])
    return (drafted + outcome[:, 1:]) % bench.vocabulary


def _proposal(
    bench: Bench, drafter: ModelDrafter[Any], state: DecodeState, key: Any, rounds: Rounds
) -> tuple[Proposal, Any]:
    """K tokens; where not all are drafted, the last drafted or committed one over and over."""
    if rounds not in ("drafted once", "not drafted"):
        return drafter.propose(state.draft_cache, state.last_two, state.cursor, key)
    shape = (len(state.cursor), bench.lookahead)
    token, cache = state.last_two[:, 1:], state.draft_cache
    probs = None if bench.sampling.greedy else jnp.full((shape[0], bench.vocabulary), 1 / bench.vocabulary)
    if rounds == "drafted once":
        token, probs, cache = drafter.step(cache, state.last_two, state.cursor - 1, key)
    repeated = None if probs is None else jnp.broadcast_to(probs[:, None], (*shape, bench.vocabulary))
    return Proposal(jnp.broadcast_to(token, shape), repeated), cache
