"""Generation that the host steps round by round, to see the tokens as they come.

The round is that of the loop on the device, and the tokens are its tokens, to the bit. What a round emitted comes to
the host in one small array; everything else stays, and is donated from round to round.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import PartitionSpec
from jaxtyping import Int32

from runtime.decode_loop import run_one_round
from runtime.decode_state import DecodeState, Setting
from runtime.forcing import Forcing
from runtime.generate import Counts, Job, Models, Options, job_of, prefill, refuse_undrafted
from runtime.mesh import on_chips
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.shapes import Count, PRNGKey, Tokens

Ints = npt.NDArray[np.int32]
Report = Int32[jax.Array, "B T+2"]
"""What a round emitted: how many tokens of each sequence, whether it is finished, and T = 1 or K+1 tokens, of which
that many count."""
SAME = PartitionSpec()


@dataclass(frozen=True)
class Emission:
    """What one round emitted, on the host."""

    tokens: tuple[Ints, ...]
    """New tokens of each sequence; none of one that is finished already."""
    finished: npt.NDArray[np.bool_]
    """Which sequences will emit nothing more; [B]."""

    @classmethod
    def fetch(cls, report: Report) -> Self:
        """Wait for a round: the only transfer that it needs."""
        rows: Ints = jax.device_get(report)
        return cls(tuple(row[2 : 2 + row[0]] for row in rows), rows[:, 1] > 0)


class Stream:
    """A generation that is stepped by the host."""

    def __init__(self, job: Job) -> None:
        """Start both models on the prompts, without waiting for them."""
        self.job = job
        self.state: DecodeState = prefill(job.setting, job.pair, job.prompts, job.key, job.wanted)
        self._report: Report = first_report(self.state.tokens, self.state.emitted, self.state.limit)
        self._rounds = Rounds.of(job.setting, job.pair, job.forcing)

    def __iter__(self) -> Iterator[Emission]:
        """The first token of each sequence, then what each round emits, until all are finished."""
        emission = Emission.fetch(self._report)
        yield emission
        while not emission.finished.all():
            emission = self.step()
            yield emission

    def step(self) -> Emission:
        """One round; of sequences that are all finished, nothing."""
        self.state, self._report = self._rounds.after(self.state)
        return Emission.fetch(self._report)


def step_rounds(
    pair: Pair,
    prompts: Tokens,
    output_tokens: int | Counts,
    lookahead: int,
    sampling: Sampling,
    key: PRNGKey,
    **options: Unpack[Options],
) -> Stream:
    """As :func:`runtime.generate.generate`, to be iterated over: the same tokens for the same key, round by round.

    A lookahead of 0 is plain decoding.

    Raises:
        RefusedError: as of :func:`runtime.generate.generate`.
    """
    if lookahead:
        refuse_undrafted(pair, lookahead)
    return Stream(job_of(pair, prompts, output_tokens, lookahead, sampling, key, **options))


@dataclass(frozen=True)
class Rounds:
    """The round of one pair, its modules flattened once: that takes longer than dispatching a round."""

    setting: Setting
    structure: Any
    weights: tuple[jax.Array, ...]
    forcing: Forcing

    @classmethod
    def of(cls, setting: Setting, pair: Pair, forcing: Forcing) -> Self:
        """The rounds of ``pair``."""
        weights, structure = jax.tree.flatten(pair)
        return cls(setting, structure, tuple(weights), forcing)

    def after(self, state: DecodeState) -> tuple[DecodeState, Report]:
        """:func:`one_round`; ``state`` is donated."""
        following: tuple[DecodeState, Report]
        following = _flat_round(self.setting, self.structure, self.weights, state, self.forcing)
        return following


@functools.partial(jax.jit, static_argnames=("setting", "structure"), donate_argnames="state")
def _flat_round(
    setting: Setting, structure: Any, weights: tuple[jax.Array, ...], state: DecodeState, forcing: Forcing
) -> tuple[DecodeState, Report]:
    following: tuple[DecodeState, Report] = one_round(setting, jax.tree.unflatten(structure, weights), state, forcing)
    return following


@functools.partial(jax.jit, static_argnames="setting", donate_argnames="state")
def one_round(setting: Setting, pair: Pair, state: DecodeState, forcing: Forcing) -> tuple[DecodeState, Report]:
    """The state after one more round, and what it emitted; ``state`` is donated."""

    def body(models: Models, state: DecodeState, forcing: Forcing) -> tuple[DecodeState, Report]:
        before = state.emitted
        state = run_one_round(setting, *models, state, forcing)
        return state, report(state, before, setting.lookahead + 1)

    specs = pair.state_specs(setting)
    return on_chips(body, pair.mesh, (pair.specs, specs, SAME), (specs, SAME))(pair.models, state, forcing)


@jax.jit
def first_report(tokens: Tokens, emitted: Count, limit: Count) -> Report:
    """What prefill emitted: one token of each sequence."""
    return jnp.stack([emitted, emitted >= limit, tokens[:, 0]], axis=1)


def report(state: DecodeState, before: Count, tokens: int) -> Report:
    """What each sequence emitted behind its first ``before`` tokens, at most ``tokens`` of them."""
    new = state.tokens[jnp.arange(len(before))[:, None], before[:, None] + jnp.arange(tokens)]
    return jnp.concatenate([jnp.stack([state.emitted - before, state.finished], axis=1), new], axis=1)
