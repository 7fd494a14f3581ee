"""Generation: prompts in, tokens out, by speculative sampling or by plain decoding.

Two compiled programs, prefill and the whole loop; the host waits for neither until it reads the result. The second call
with the same shapes compiles nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import PartitionSpec
from jaxtyping import Int32

from runtime.decode_loop import run_to_end, start
from runtime.decode_state import NOTHING_ELSE, DecodeState, Setting, Wanted
from runtime.forcing import Forcing
from runtime.kv_cache import room
from runtime.mesh import on_chips
from runtime.pace import Policy
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.shapes import Count, PRNGKey, Tokens
from runtime.transformer import Decoder
from simulator.errors import RefusedError
from simulator.spec.acceptance import Acceptance

Models = tuple[Decoder, Decoder | None]
Counts = Sequence[int] | npt.NDArray[np.int32]
"""Counts on the host."""


class Options(TypedDict, total=False):
    """What may be asked of any generation besides."""

    prompt_tokens: Counts
    """[B], lengths of the prompts where they are padded at their ends; whatever the padding is, it is not read."""
    stop_tokens: tuple[int, ...]
    """End-of-sequence ids: a sequence ends with the first of these that it emits."""
    capacity: int
    """The most tokens that the program is compiled for; those asked for unless given. Calls that differ in their
    output tokens alone compile nothing new if this is the same."""
    positions: int | None
    """Allocated positions of each cache; just enough for the capacity unless given."""
    forced: Acceptance | None
    """A law or list that overrides the accepted counts. The output is then no sample of the target."""
    policy: Policy | None
    """What chooses how many tokens each round drafts, at most the lookahead; always the lookahead unless given."""


@dataclass(frozen=True)
class Generation:
    """What was generated, on the devices."""

    tokens: Int32[jax.Array, "B N"]
    """The tokens of each sequence; the first comes from prefill. What lies beyond ``emitted`` is -1."""
    emitted: Count
    """Tokens of each sequence: as many as were asked for, or up to and with its first stop token."""
    rounds: Count
    """Rounds that each sequence took for all but the first."""
    accepted: Int32[jax.Array, "B N-1"]
    """Accepted drafted tokens of each round, in full even where the last of them no longer fitted; -1 beyond."""
    unforced_accepted: Count
    """Drafted tokens that the models themselves would have kept, over all rounds; the sum of ``accepted`` unless
    acceptance was forced."""
    rounds_by_drafted: Int32[jax.Array, " K+1"] | None = None
    """With a policy, rounds of the batch by how many tokens they drafted."""


@dataclass(frozen=True)
class Job:
    """A generation as its compiled programs take it."""

    pair: Pair
    setting: Setting
    prompts: Tokens
    key: PRNGKey
    wanted: Wanted
    forcing: Forcing


def job_of(
    pair: Pair,
    prompts: Tokens,
    output_tokens: int | Counts,
    lookahead: int,
    sampling: Sampling,
    key: PRNGKey,
    **options: Unpack[Options],
) -> Job:
    """The job that :func:`generate` does with these arguments; a lookahead of 0 is plain decoding.

    Raises:
        RefusedError: as of :func:`generate`.
    """
    batch, length = prompts.shape
    capacity = options.get("capacity") or int(np.max(output_tokens))
    outputs = within("output tokens", output_tokens, capacity, batch)
    lengths = options.get("prompt_tokens")
    lengths = None if lengths is None else within("lengths of prompts", lengths, length, batch)
    policy = options.get("policy")
    refuse_unfit(policy, lookahead)
    positions = room(length, capacity, lookahead, options.get("positions"))
    stop_tokens = tuple(options.get("stop_tokens", ()))
    refuse_unknown(stop_tokens, pair.target.spec.vocabulary)
    setting = Setting(capacity, lookahead, positions, sampling, stop_tokens)
    models = pair if lookahead else pair.without_draft()
    forcing = Forcing.of(options.get("forced"), lookahead, batch, capacity, key)
    return Job(models, setting, prompts, key, Wanted(lengths, outputs, policy), forcing)


def generate(
    pair: Pair,
    prompts: Tokens,
    output_tokens: int | Counts,
    lookahead: int,
    sampling: Sampling,
    key: PRNGKey,
    **options: Unpack[Options],
) -> Generation:
    """Generate by speculative sampling; the tokens follow the target's own distribution unless ``forced``.

    Args:
        pair: target and draft.
        prompts: [B, P] token ids; of different lengths with the option ``prompt_tokens``.
        output_tokens: tokens to emit, of every sequence or [B].
        lookahead: K, drafted tokens a round, at least 1.
        sampling: how tokens are chosen, from both models.
        key: of all random choices; not consumed.
        **options: see :class:`Options`.

    Raises:
        RefusedError: no draft, a cache that is too small, a forced count above ``lookahead``, costs of a policy for
            another ``lookahead``, or a length, count or stop token out of its range.
    """
    refuse_undrafted(pair, lookahead)
    return _generation(job_of(pair, prompts, output_tokens, lookahead, sampling, key, **options))


def generate_plain(
    pair: Pair,
    prompts: Tokens,
    output_tokens: int | Counts,
    sampling: Sampling,
    key: PRNGKey,
    **options: Unpack[Options],
) -> Generation:
    """Generate token by token with the target alone; arguments as of :func:`generate`. A round is one step.

    Raises:
        RefusedError: as of :func:`generate`; an acceptance or a policy is given.
    """
    if options.get("forced") is not None or options.get("policy") is not None:
        raise RefusedError("plain decoding drafts nothing: there is nothing to force and nothing to choose")
    return _generation(job_of(pair, prompts, output_tokens, 0, sampling, key, **options))


def refuse_undrafted(pair: Pair, lookahead: int) -> None:
    """Refuse speculation without a draft or without a lookahead."""
    if pair.draft is None or lookahead < 1:
        raise RefusedError("speculative sampling needs a draft model and a lookahead of at least 1")


def refuse_unfit(policy: Policy | None, lookahead: int) -> None:
    """Refuse a policy for another lookahead."""
    if policy is not None and len(policy.round_cost) != lookahead + 1:
        raise RefusedError(f"a lookahead of at most {lookahead} needs {lookahead + 1} costs of rounds")


def refuse_unknown(tokens: tuple[int, ...], vocabulary: int) -> None:
    """Refuse tokens that are not in the vocabulary."""
    if unknown := [token for token in tokens if not 0 <= token < vocabulary]:
        raise RefusedError(f"stop tokens {unknown} are not in a vocabulary of {vocabulary:,}")


def within(what: str, counts: int | Counts, most: int, batch: int) -> npt.NDArray[np.int32]:
    """Counts [B], from one for all or one for each.

    Raises:
        RefusedError: another number of them, or one outside 1..``most``.
    """
    found = np.asarray(counts, np.int32)
    if found.shape not in ((), (batch,)) or found.min() < 1 or found.max() > most:
        raise RefusedError(f"{what} must be one number or {batch}, from 1 to {most}; they are {counts}")
    return np.array(np.broadcast_to(found, (batch,)))


def _generation(job: Job) -> Generation:
    state = prefill(job.setting, job.pair, job.prompts, job.key, job.wanted)
    if job.setting.output_tokens > 1:
        state = finish(job.setting, job.pair, state, job.forcing)
    told = _told(job.setting.output_tokens, state.tokens, state.emitted)
    by_drafted = state.pace.rounds if state.pace is not None else None
    return Generation(told, state.emitted, state.rounds, state.accepted, state.unforced_accepted, by_drafted)


@functools.partial(jax.jit, static_argnums=0)
def _told(output_tokens: int, tokens: Tokens, emitted: Count) -> Tokens:
    """The first ``output_tokens`` of each sequence, -1 where it emitted no more."""
    return jnp.where(jnp.arange(output_tokens) < emitted[:, None], tokens[:, :output_tokens], -1)


@functools.partial(jax.jit, static_argnames="setting")
def prefill(setting: Setting, pair: Pair, prompts: Tokens, key: PRNGKey, wanted: Wanted = NOTHING_ELSE) -> DecodeState:
    """The state after both models have read the prompts and the target has emitted its first token."""

    def body(models: Models, prompts: Tokens, key: PRNGKey, wanted: Wanted) -> DecodeState:
        return start(setting, *models, prompts, key, wanted)

    same = PartitionSpec()
    in_specs, out_specs = (pair.specs, same, same, same), pair.state_specs(setting)
    return on_chips(body, pair.mesh, in_specs, out_specs)(pair.models, prompts, key, wanted)


@functools.partial(jax.jit, static_argnames="setting", donate_argnames="state")
def finish(setting: Setting, pair: Pair, state: DecodeState, forcing: Forcing) -> DecodeState:
    """The state after every sequence has its tokens; ``state`` is donated."""

    def body(models: Models, state: DecodeState, forcing: Forcing) -> DecodeState:
        return run_to_end(setting, *models, state, forcing)

    specs = pair.state_specs(setting)
    in_specs = (pair.specs, specs, PartitionSpec())
    return on_chips(body, pair.mesh, in_specs, specs)(pair.models, state, forcing)
