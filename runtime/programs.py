"""Compiled loops over one component of a run each, for timing.

Every program repeats its component n times on the device, n being an argument that recompiles nothing. Each repetition
depends on the one before it, through the tokens that it feeds, so that XLA can neither hoist nor drop any work. State
is donated and carried from call to call; weights are passed in and never copied. A sequence that reaches its last token
starts over behind its prompt, so that a program may be called for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from runtime.decode_loop import decode_round, drafter_of
from runtime.decode_state import DecodeState, Setting
from runtime.drafters import ModelDrafter
from runtime.forcing import Forcing
from runtime.generate import prefill
from runtime.kv_cache import room
from runtime.mesh import cache_spec, on_chips
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.shapes import Logits, Tokens
from runtime.streams import stream
from runtime.verification import Proposal, judge
from simulator.errors import RefusedError
from simulator.spec.acceptance import Acceptance

SAME = PartitionSpec()
"""Of what every chip holds alike."""

Body = Callable[[Any, Any, Any], Any]
"""Target, draft and what is carried -> what is carried."""


@dataclass(frozen=True)
class Bench:
    """What all programs of a scenario point share."""

    pair: Pair
    batch: int
    """B."""
    prompt_tokens: int
    """P: the cursor from which every program starts."""
    output_tokens: int
    """N, at least 2: tokens after which a sequence starts over."""
    lookahead: int
    """K; 0 where only the target is timed."""
    sampling: Sampling
    seed: int = 0
    positions: int | None = None
    """S, allocated positions of each cache; just enough unless given."""
    read: bool = True
    """Whether the models read a prompt first. What a step takes does not depend on it, and compiling that takes longer
    than all the timing."""

    @property
    def setting(self) -> Setting:
        """What the decoding loop is compiled for."""
        positions = room(self.prompt_tokens, self.output_tokens, self.lookahead, self.positions)
        return Setting(self.output_tokens, self.lookahead, positions, self.sampling)

    @property
    def vocabulary(self) -> int:
        """V."""
        return self.pair.target.spec.vocabulary

    def random_tokens(self, length: int) -> Tokens:
        """Token ids [B, length]."""
        return jax.random.randint(stream(self.seed, "prompts"), (self.batch, length), 0, self.vocabulary, jnp.int32)

    def state(self) -> DecodeState:
        """A fresh state behind a random prompt of P tokens."""
        prompts, key = self.random_tokens(self.prompt_tokens), stream(self.seed, "decoding")
        if not self.read:
            return self._unread(prompts, key)
        fresh: DecodeState = prefill(self.setting, self.pair, prompts, key)
        return fresh

    def _unread(self, prompts: Tokens, key: jax.Array) -> DecodeState:
        """The state behind a prompt, with caches of zeros."""
        shapes: DecodeState = jax.eval_shape(prefill, self.setting, self.pair, prompts, key)
        shapes = replace(shapes, key=key)
        state: DecodeState = jax.tree.map(
            lambda x: x if isinstance(x, jax.Array) else jnp.zeros(x.shape, x.dtype), shapes
        )
        count = jnp.ones((self.batch,), jnp.int32)
        return replace(
            state,
            emitted=count,
            limit=count * self.output_tokens,
            prompt_tokens=count * self.prompt_tokens,
            last_two=prompts[:, -2:],
        )

    def forcing(self, acceptance: Acceptance | None, name: str) -> Forcing:
        """What forces the accepted counts of one generation, by the stream ``name``."""
        return Forcing.of(acceptance, self.lookahead, self.batch, self.output_tokens, stream(self.seed, name))

    def drafter(self, draft: Any) -> ModelDrafter[Any]:
        """Who drafts.

        Raises:
            RefusedError: there is no draft model, or nothing to look ahead.
        """
        drafter = drafter_of(draft, self.setting)
        if not isinstance(drafter, ModelDrafter):
            raise RefusedError("this component needs a draft model and a lookahead of at least 1")
        return drafter


@dataclass
class Program:
    """A compiled loop and the state that it carries."""

    name: str
    compiled: jax.stages.Compiled
    weights: tuple[jax.Array, ...]
    carry: Any

    def run(self, repetitions: int) -> float:
        """Repeat the component, wait until it is done, and return the seconds of one repetition."""
        started = time.perf_counter()
        self.carry = self.compiled(self.weights, self.carry, np.int32(repetitions))
        jax.block_until_ready(self.carry)
        return (time.perf_counter() - started) / repetitions


def plain_steps(bench: Bench) -> Program:
    """Decode steps of the target alone, one token a sequence, sampling included."""
    plain = replace(bench, pair=bench.pair.without_draft(), lookahead=0)
    return _rounds("plain_step", plain, Forcing())


def rounds(bench: Bench, acceptance: Acceptance | None) -> Program:
    """Whole rounds whose accepted counts follow ``acceptance``; the models decide where it is None."""
    bench.drafter(bench.pair.draft)
    return _rounds("round", bench, bench.forcing(acceptance, "forced rounds"))


def draft_steps(bench: Bench) -> Program:
    """Draft steps of one token, sampling included, with nothing of the target in between."""
    first = bench.prompt_tokens

    def body(_: Any, draft: Any, carry: Any) -> Any:
        cache, token, _, cursor, key = carry
        step_key, key = jax.random.split(key)
        token, probs, cache = bench.drafter(draft).step(cache, token, cursor, step_key)
        cursor = jnp.where(cursor + 1 < first + bench.output_tokens, cursor + 1, first)
        return cache, token, probs, cursor, key

    bench.drafter(bench.pair.draft)
    state = bench.state()
    carry = (state.draft_cache, state.last_two[:, 1:], _no_probs(bench), state.cursor, state.key)
    return compiled_loop("draft_step", bench, body, carry, (_draft_cache_spec(bench), SAME, SAME, SAME, SAME))


def verify_steps(bench: Bench, tokens: int | None = None) -> Program:
    """Forward passes of the target over ``tokens`` (K+1 unless given) at a cursor that stays; no sampling.

    Raises:
        RefusedError: the cache has no room for that many tokens.
    """
    length = tokens or bench.lookahead + 1
    room(bench.prompt_tokens, length, 0, bench.setting.positions)

    def body(target: Any, _: Any, carry: Any) -> Any:
        cache, fed, cursor = carry
        logits, cache = target(fed, cache, cursor)
        return cache, next_tokens(fed, logits), cursor

    state = bench.state()
    carry = (state.target_cache, bench.random_tokens(length), state.cursor)
    return compiled_loop("verify_step", bench, body, carry, (cache_spec(bench.pair.target), SAME, SAME))


def verify_and_draft_first_steps(bench: Bench) -> Program:
    """A verify step of K+1 tokens, then the draft's first step of two, as they follow each other between rounds.

    The draft's step finds its weights evicted by the target's: what it takes is this program less ``verify_steps``.
    """

    def body(target: Any, draft: Any, carry: Any) -> Any:
        target_cache, draft_cache, fed, _, cursor, key = carry
        step_key, key = jax.random.split(key)
        logits, target_cache = target(fed, target_cache, cursor)
        fed = next_tokens(fed, logits)
        token, probs, draft_cache = bench.drafter(draft).step(draft_cache, fed[:, :2], cursor - 1, step_key)
        return target_cache, draft_cache, jnp.concatenate([token, fed[:, 1:]], axis=1), probs, cursor, key

    bench.drafter(bench.pair.draft)
    state = bench.state()
    fed = bench.random_tokens(bench.lookahead + 1)
    carry = (state.target_cache, state.draft_cache, fed, _no_probs(bench), state.cursor, state.key)
    specs = (cache_spec(bench.pair.target), _draft_cache_spec(bench), SAME, SAME, SAME, SAME)
    return compiled_loop("verify_and_draft_first_step", bench, body, carry, specs)


def verdicts(bench: Bench) -> Program:
    """Verification alone: filtering the target's logits [B, K+1, V], accepting, and drawing the next token."""
    target_key, draft_key, key = jax.random.split(stream(bench.seed, "verdicts"), 3)
    shape = (bench.batch, bench.lookahead + 1, bench.vocabulary)

    def body(_target: Any, _draft: Any, carry: Any) -> Any:
        proposal, logits, verdict_sum, key = carry
        judge_key, key = jax.random.split(key)
        # Shifts all logits of a sequence alike, which changes no distribution, and XLA does not know by how much.
        shifted = logits + verdict_sum.astype(jnp.float32)[:, None, None] * 1e-3
        verdict = judge(bench.sampling, judge_key, proposal, shifted, Forcing(), verdict_sum)
        verdict_sum = (verdict_sum + verdict.unforced + verdict.next_token) % bench.vocabulary
        tokens = (proposal.tokens + verdict.next_token[:, None]) % bench.vocabulary
        return replace(proposal, tokens=tokens), logits, verdict_sum, key

    logits = jax.random.normal(target_key, shape, jnp.float32)
    drafted = jax.nn.softmax(jax.random.normal(draft_key, shape, jnp.float32)[:, : bench.lookahead], axis=-1)
    greedy = bench.sampling.greedy or not bench.lookahead
    proposal = Proposal(bench.random_tokens(bench.lookahead), None if greedy else drafted)
    carry = (proposal, logits, jnp.zeros((bench.batch,), jnp.int32), key)
    return compiled_loop("sampling", bench, body, carry, SAME)


def prefills(bench: Bench, model: Literal["target", "draft"] = "target") -> Program:
    """Prefill of P tokens of every sequence by one of the models, with the choice of a first token."""

    def body(target: Any, draft: Any, carry: Any) -> Any:
        cache, prompts, key = carry
        chosen = target if model == "target" else draft
        step_key, key = jax.random.split(key)
        empty = jnp.zeros((bench.batch,), jnp.int32)
        logits, cache = chosen(prompts, cache, empty, last_only=True, fresh=True)
        first = bench.sampling.choose(step_key, bench.sampling.filter(logits[:, 0]))
        return cache, (prompts + first[:, None]) % bench.vocabulary, key

    state = bench.state()
    if model == "draft":
        bench.drafter(bench.pair.draft)
    cache = state.target_cache if model == "target" else state.draft_cache
    spec = cache_spec(bench.pair.target) if model == "target" else _draft_cache_spec(bench)
    carry = (cache, bench.random_tokens(bench.prompt_tokens), state.key)
    return compiled_loop("prefill", bench, body, carry, (spec, SAME, SAME))


def _rounds(name: str, bench: Bench, forcing: Forcing) -> Program:
    def body(target: Any, draft: Any, carry: Any) -> Any:
        state, forcing = carry
        state = decode_round(bench.sampling, target, drafter_of(draft, bench.setting), state, forcing)
        return replace(state, emitted=jnp.where(state.finished, 1, state.emitted)), forcing

    return compiled_loop(name, bench, body, (bench.state(), forcing), (bench.pair.state_specs(bench.setting), SAME))


def next_tokens(fed: Tokens, logits: Logits) -> Tokens:
    """Tokens for the next repetition that depend on every logit, at the price of reading them once."""
    return (fed + (jnp.max(logits, axis=-1) > 0)) % logits.shape[-1]


def _no_probs(bench: Bench) -> jax.Array | None:
    return None if bench.sampling.greedy else jnp.zeros((bench.batch, bench.vocabulary), jnp.float32)


def _draft_cache_spec(bench: Bench) -> PartitionSpec:
    draft = bench.pair.draft
    return cache_spec(draft) if draft is not None else SAME


def compiled_loop(name: str, bench: Bench, body: Body, carry: Any, carry_specs: Any) -> Program:
    """Compile ``body`` repeated n times; ``carry_specs`` is a prefix of ``carry``."""
    pair = bench.pair
    # Plain arrays: flattening the modules anew in every call would take longer than dispatching it.
    weights, structure = jax.tree.flatten(pair.models)

    def loop(weights: tuple[jax.Array, ...], carry: Any, repetitions: jax.Array) -> Any:
        target, draft = jax.tree.unflatten(structure, weights)
        return lax.fori_loop(0, repetitions, lambda _, carry: body(target, draft, carry), carry)

    specs = tuple(jax.tree.leaves(pair.specs))
    shardings = jax.tree.map(partial(NamedSharding, pair.mesh), carry_specs)
    chips = on_chips(loop, pair.mesh, (specs, carry_specs, SAME), carry_specs)
    carry = jax.device_put(carry, shardings)
    jitted = jax.jit(chips, donate_argnums=1, out_shardings=shardings)
    compiled = jitted.lower(tuple(weights), carry, np.int32(1)).compile()
    return Program(name, compiled, tuple(weights), carry)
