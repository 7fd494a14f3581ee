"""Generation: prompts in, tokens out, by speculative sampling or by plain decoding.

Two compiled programs, prefill and the whole loop; the host waits for neither until it reads the result. The second call
with the same shapes compiles nothing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
from jax.sharding import PartitionSpec
from jaxtyping import Int32

from runtime.decode_loop import DecodeState, Setting, run_to_end, start
from runtime.forcing import Forcing
from runtime.kv_cache import room
from runtime.mesh import on_chips
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.shapes import Count, PRNGKey, Tokens
from runtime.transformer import Decoder
from simulator.errors import RefusedError
from simulator.spec.acceptance import Acceptance

Models = tuple[Decoder, Decoder | None]


@dataclass(frozen=True)
class Generation:
    """What was generated, on the devices."""

    tokens: Int32[jax.Array, "B N"]
    """N tokens of each sequence; the first comes from prefill."""
    rounds: Count
    """Rounds that each sequence took for the other N-1."""
    accepted: Int32[jax.Array, "B N-1"]
    """Accepted drafted tokens of each round, in full even where the last of them no longer fitted; -1 beyond."""
    unforced_accepted: Count
    """Drafted tokens that the models themselves would have kept, over all rounds; the sum of ``accepted`` unless
    acceptance was forced."""


def generate(
    pair: Pair,
    prompts: Tokens,
    output_tokens: int,
    lookahead: int,
    sampling: Sampling,
    key: PRNGKey,
    *,
    forced: Acceptance | None = None,
    positions: int | None = None,
) -> Generation:
    """Generate by speculative sampling; the tokens follow the target's own distribution unless ``forced``.

    Args:
        pair: target and draft.
        prompts: [B, P] token ids, all of one length.
        output_tokens: N, tokens to emit a sequence.
        lookahead: K, drafted tokens a round, at least 1.
        sampling: how tokens are chosen, from both models.
        key: of all random choices; not consumed.
        forced: a law or list that overrides the accepted counts. The output is then no sample of the target.
        positions: allocated positions of each cache; just enough unless given.

    Raises:
        RefusedError: no draft, a cache that is too small, or a forced count above ``lookahead``.
    """
    if pair.draft is None or lookahead < 1:
        raise RefusedError("speculative sampling needs a draft model and a lookahead of at least 1")
    positions = room(prompts.shape[1], output_tokens, lookahead, positions)
    setting = Setting(output_tokens, lookahead, positions, sampling)
    return _generation(pair, setting, prompts, key, Forcing.of(forced, lookahead))


def generate_plain(
    pair: Pair,
    prompts: Tokens,
    output_tokens: int,
    sampling: Sampling,
    key: PRNGKey,
    *,
    positions: int | None = None,
) -> Generation:
    """Generate token by token with the target alone; arguments as of :func:`generate`. A round is one step."""
    positions = room(prompts.shape[1], output_tokens, 0, positions)
    return _generation(pair.without_draft(), Setting(output_tokens, 0, positions, sampling), prompts, key, Forcing())


def _generation(pair: Pair, setting: Setting, prompts: Tokens, key: PRNGKey, forcing: Forcing) -> Generation:
    state = prefill(setting, pair, prompts, key)
    if setting.output_tokens > 1:
        state = finish(setting, pair, state, forcing)
    tokens = state.tokens[:, : setting.output_tokens]
    return Generation(tokens, state.rounds, state.accepted, state.unforced_accepted)


@functools.partial(jax.jit, static_argnames="setting")
def prefill(setting: Setting, pair: Pair, prompts: Tokens, key: PRNGKey) -> DecodeState:
    """The state after both models have read the prompts and the target has emitted its first token."""

    def body(models: Models, prompts: Tokens, key: PRNGKey) -> DecodeState:
        return start(setting, *models, prompts, key)

    same = PartitionSpec()
    in_specs, out_specs = (pair.specs, same, same), pair.state_specs(setting)
    return on_chips(body, pair.mesh, in_specs, out_specs)(pair.models, prompts, key)


@functools.partial(jax.jit, static_argnames="setting", donate_argnames="state")
def finish(setting: Setting, pair: Pair, state: DecodeState, forcing: Forcing) -> DecodeState:
    """The state after every sequence has its tokens; ``state`` is donated."""

    def body(models: Models, state: DecodeState, forcing: Forcing) -> DecodeState:
        return run_to_end(setting, *models, state, forcing)

    specs = pair.state_specs(setting)
    in_specs = (pair.specs, specs, PartitionSpec())
    return on_chips(body, pair.mesh, in_specs, specs)(pair.models, state, forcing)
