"""A running batch whose sequences are exchanged one by one: its slots, and how one takes another sequence."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from runtime.decode_loop import start_in
from runtime.decode_state import DecodeState, Setting, Wanted
from runtime.generate import Models
from runtime.mesh import on_chips
from runtime.pace import Pace, Policy
from runtime.pair import Pair
from runtime.shapes import PRNGKey, Tokens
from runtime.step import StepModel
from runtime.stepping import Report, first_report

SAME = PartitionSpec()
BY_SEQUENCE = (
    "tokens",
    "emitted",
    "limit",
    "prompt_tokens",
    "last_two",
    "rounds",
    "accepted",
    "unforced_accepted",
)
"""Parts of a state that have a row for each sequence, caches aside."""


@functools.partial(jax.jit, static_argnums=(0, 2))
def empty_slots(setting: Setting, pair: Pair, slots: int, key: PRNGKey, policy: Policy | None) -> DecodeState:
    """A state of which every sequence is finished."""

    def body(models: Models, key: PRNGKey, policy: Policy | None) -> DecodeState:
        target, draft = models
        one = jnp.ones((slots,), jnp.int32)
        return DecodeState(
            key=key,
            tokens=jnp.zeros((slots, setting.output_tokens + setting.lookahead + 1), jnp.int32),
            emitted=one,
            limit=one,
            prompt_tokens=one,
            last_two=jnp.zeros((slots, 2), jnp.int32),
            rounds=jnp.zeros_like(one),
            accepted=jnp.full((slots, setting.output_tokens - 1), -1, jnp.int32),
            unforced_accepted=jnp.zeros_like(one),
            target_cache=target.empty_cache(slots, setting.positions),
            draft_cache=None if draft is None else draft.empty_cache(slots, setting.positions),
            pace=None if policy is None else Pace.start(policy, one),
        )

    in_specs = (pair.specs, SAME, SAME)
    made: DecodeState = on_chips(body, pair.mesh, in_specs, pair.state_specs(setting))(pair.models, key, policy)
    return made


@functools.partial(jax.jit, static_argnames="setting", donate_argnames="state")
def admit(
    setting: Setting, pair: Pair, state: DecodeState, slot: jax.Array, prompt: Tokens, wanted: Wanted
) -> tuple[DecodeState, Report]:
    """Both models read a ``prompt`` [1, P] into one slot: the state with that sequence in it, and its first token.

    No other slot changes. ``state`` is donated.
    """

    def body(
        models: Models, state: DecodeState, slot: jax.Array, prompt: Tokens, wanted: Wanted
    ) -> tuple[DecodeState, Report]:
        first_key, key = jax.random.split(state.key)
        caches = (state.target_cache, state.draft_cache)
        axes = [batch_axes(model, setting.positions) for model in models]
        own_caches = tuple(take_row(cache, along, slot) for cache, along in zip(caches, axes, strict=True))
        own = start_in(setting, models, own_caches, prompt, first_key, wanted)
        small = {name: getattr(state, name).at[slot].set(getattr(own, name)[0]) for name in BY_SEQUENCE}
        state = replace(
            state,
            key=key,
            target_cache=put_row(caches[0], own.target_cache, axes[0], slot),
            draft_cache=put_row(caches[1], own.draft_cache, axes[1], slot),
            pace=state.pace and state.pace.admit(slot, own.prompt_tokens[0]),
            **small,
        )
        return state, first_report(own.tokens, own.emitted, own.limit)

    specs = pair.state_specs(setting)
    run = on_chips(body, pair.mesh, (pair.specs, specs, SAME, SAME, SAME), (specs, SAME))
    admitted: tuple[DecodeState, Report] = run(pair.models, state, slot, prompt, wanted)
    return admitted


Axes = tuple[int | None, ...]
"""Of each array of a cache the axis along which sequences lie; None where all share it."""


def batch_axes(model: StepModel[Any] | None, positions: int) -> Axes:
    """Where sequences lie in a model's cache: what grows with one more of them."""
    if model is None:
        return ()
    shapes = ([leaf.shape for leaf in jax.tree.leaves(_empty(model, batch, positions))] for batch in (2, 3))
    return tuple(
        next((axis for axis, sizes in enumerate(zip(*pair, strict=True)) if len(set(sizes)) > 1), None)
        for pair in zip(*shapes, strict=True)
    )


def _empty(model: StepModel[Any], batch: int, positions: int) -> Any:
    return jax.eval_shape(lambda: model.empty_cache(batch, positions))


def take_row(cache: Any, axes: Axes, slot: jax.Array) -> Any:
    """The cache of one sequence."""
    leaves, structure = jax.tree.flatten(cache)
    own = [
        leaf if axis is None else lax.dynamic_slice_in_dim(leaf, slot, 1, axis)
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    return jax.tree.unflatten(structure, own)


def put_row(cache: Any, own: Any, axes: Axes, slot: jax.Array) -> Any:
    """``cache`` with that of one sequence in it."""
    leaves, structure = jax.tree.flatten(cache)
    written = [
        leaf if axis is None else lax.dynamic_update_slice_in_dim(leaf, row, slot, axis)
        for leaf, row, axis in zip(leaves, jax.tree.leaves(own), axes, strict=True)
    ]
    return jax.tree.unflatten(structure, written)
