"""Target and draft on meshes of their own: chips beside the target's, or some of the target's.

A round is two programs: the draft's chips propose, the target's chips verify, accept and commit. Between them the
drafted tokens and, unless decoding is greedy, their distributions travel one way, and what the next round starts from
the other. The tokens are those of one mesh for the same key. The host waits once a round, for whether all sequences are
finished.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from runtime.decode_loop import commit, drafter_of, round_keys, start, verify
from runtime.decode_state import DecodeState, Setting
from runtime.forcing import Forcing
from runtime.generate import Generation
from runtime.kv_cache import room
from runtime.mesh import cache_spec, chip_mesh, on_chips, place, weight_specs
from runtime.pair import Pair, refuse_other_vocabulary
from runtime.sampling import Sampling
from runtime.shapes import Cursor, PRNGKey, Tokens
from runtime.transformer import Decoder
from runtime.verification import Proposal, judge
from simulator.errors import RefusedError
from simulator.spec.acceptance import Acceptance

SAME = PartitionSpec()
Placement = Literal["sub_slice", "own_chips"]


@dataclass(frozen=True)
class ApartPair:
    """Two models, each on a mesh of its own."""

    target: Pair
    """The target alone, on its mesh."""
    draft: Decoder
    draft_mesh: Mesh

    @classmethod
    def of(
        cls,
        target: Decoder,
        draft: Decoder,
        degree: int,
        draft_degree: int,
        placement: Placement,
        devices: Sequence[Any] | None = None,
    ) -> Self:
        """Place two one-chip models: the draft on the first of the target's chips, or on those behind them.

        Raises:
            RefusedError: too few devices, or vocabularies that differ.
        """
        available = list(jax.devices() if devices is None else devices)
        needed = degree + draft_degree if placement == "own_chips" else max(degree, draft_degree)
        if len(available) < needed:
            raise RefusedError(f"{needed} devices are needed; JAX sees {len(available)}")
        refuse_other_vocabulary(target.spec, draft.spec)
        first = degree if placement == "own_chips" else 0
        mesh = chip_mesh(draft_degree, draft_degree, available[first:])
        alone = Pair.of(target, None, degree, devices=available[:degree])
        return cls(alone, place(draft, mesh, draft_degree), mesh)


def generate_apart(
    pair: ApartPair,
    prompts: Tokens,
    output_tokens: int,
    lookahead: int,
    sampling: Sampling,
    key: PRNGKey,
    *,
    forced: Acceptance | None = None,
) -> Generation:
    """As :func:`runtime.generate.generate`, with target and draft on meshes of their own.

    Raises:
        RefusedError: a lookahead below 1, or a forced count above it.
    """
    if lookahead < 1:
        raise RefusedError("speculative sampling needs a lookahead of at least 1")
    setting = Setting(output_tokens, lookahead, room(prompts.shape[1], output_tokens, lookahead), sampling)
    forcing = Forcing.of(forced, lookahead, len(prompts), output_tokens, key)
    state = _start(setting, pair.target, prompts, key)
    draft_cache = _read(setting, pair.draft_mesh, pair.draft, prompts)
    to_draft = NamedSharding(pair.draft_mesh, SAME)
    to_target = NamedSharding(pair.target.mesh, SAME)
    finished: Any = jnp.all(state.finished)
    while not bool(finished):
        asked = jax.device_put((state.last_two, state.cursor, state.key), to_draft)
        proposal, draft_cache = _propose(setting, pair.draft_mesh, pair.draft, draft_cache, asked)
        state, finished = _settle(setting, pair.target, state, jax.device_put(proposal, to_target), forcing)
    return Generation(
        state.tokens[:, :output_tokens], state.emitted, state.rounds, state.accepted, state.unforced_accepted
    )


@functools.partial(jax.jit, static_argnames="setting")
def _start(setting: Setting, pair: Pair, prompts: Tokens, key: PRNGKey) -> DecodeState:
    """Prefill of the target."""

    def body(target: Any, prompts: Tokens, key: PRNGKey) -> DecodeState:
        return start(setting, target, None, prompts, key)

    specs = (pair.specs[0], SAME, SAME)
    made: DecodeState = on_chips(body, pair.mesh, specs, pair.state_specs(setting))(pair.target, prompts, key)
    return made


@functools.partial(jax.jit, static_argnames=("setting", "mesh"))
def _read(setting: Setting, mesh: Mesh, draft: Decoder, prompts: Tokens) -> Any:
    """Prefill of the draft: its cache."""

    def body(draft: Any, prompts: Tokens) -> Any:
        empty = draft.empty_cache(len(prompts), setting.positions)
        cursor = jnp.zeros((len(prompts),), jnp.int32)
        return draft(prompts, empty, cursor, last_only=True, fresh=True)[1]

    return on_chips(body, mesh, (weight_specs(draft), SAME), cache_spec(draft))(draft, prompts)


@functools.partial(jax.jit, static_argnames=("setting", "mesh"), donate_argnames="cache")
def _propose(
    setting: Setting, mesh: Mesh, draft: Decoder, cache: Any, asked: tuple[Tokens, Cursor, PRNGKey]
) -> tuple[Proposal, Any]:
    """K tokens behind the last two of each sequence."""

    def body(draft: Any, cache: Any, last_two: Tokens, cursor: Cursor, key: PRNGKey) -> tuple[Proposal, Any]:
        return drafter_of(draft, setting).propose(cache, last_two, cursor, round_keys(key)[1])

    specs = (weight_specs(draft), cache_spec(draft), SAME, SAME, SAME)
    made: tuple[Proposal, Any] = on_chips(body, mesh, specs, (SAME, cache_spec(draft)))(draft, cache, *asked)
    return made


@functools.partial(jax.jit, static_argnames="setting", donate_argnames="state")
def _settle(
    setting: Setting, pair: Pair, state: DecodeState, proposal: Proposal, forcing: Forcing
) -> tuple[DecodeState, jax.Array]:
    """Verify, accept and commit; and whether every sequence is finished."""

    def body(target: Any, state: DecodeState, proposal: Proposal, forcing: Forcing) -> tuple[DecodeState, jax.Array]:
        key, _, judge_key = round_keys(state.key)
        outcome, cache = verify(target, proposal, state, greedy=setting.sampling.greedy)
        verdict = judge(setting.sampling, judge_key, proposal, outcome, forcing, state.rounds)
        state = replace(commit(state, proposal, verdict, setting.stop_tokens), key=key, target_cache=cache)
        return state, jnp.all(state.finished)

    specs = pair.state_specs(setting)
    made: tuple[DecodeState, jax.Array] = on_chips(body, pair.mesh, (pair.specs[0], specs, SAME, SAME), (specs, SAME))(
        pair.target, state, proposal, forcing
    )
    return made
