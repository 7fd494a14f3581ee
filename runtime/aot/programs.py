"""The runtime's own programs, from shapes alone: nothing is computed and no weight takes memory.

A step is one forward pass up to the gathered logits, its cache donated; the choice of a token is in the loop of rounds,
which is the one that generates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from runtime.aot.recipe import Recipe
from runtime.arithmetic import Lowering
from runtime.decode_loop import run_to_end
from runtime.decode_state import DecodeState, Setting
from runtime.forcing import Forcing
from runtime.generate import prefill
from runtime.kv_cache import KVCache
from runtime.mesh import cache_spec, chip_mesh, on_chips, shapes, weight_specs
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.transformer import Decoder
from simulator.spec.model import ModelSpec

SAME: Any = PartitionSpec()
"""Of what every device holds alike."""


@dataclass(frozen=True)
class Shaped:
    """A program and the shapes of its arguments, of which it may overwrite one."""

    function: Callable[..., Any]
    """The names of its arguments become those of the program's parameters, by which they are told apart."""
    arguments: tuple[Any, ...]
    donated: int
    parts: dict[str, int]
    """Bytes of one device's arguments; see ``Compiled.argument_parts``."""

    def lower(self) -> jax.stages.Lowered:
        """Trace it. Weights that it does not read, such as those of distances, take memory all the same."""
        return jax.jit(self.function, donate_argnums=self.donated, keep_unused=True).lower(*self.arguments)


def shaped(recipe: Recipe, devices: Sequence[Any]) -> Shaped:
    """The program of ``recipe`` over ``devices``, all of which its mesh takes."""
    mesh = chip_mesh(recipe.target_degree, recipe.draft_degree, devices)
    return _rounds(recipe, mesh) if recipe.program == "round" else _step(recipe, mesh)


def lowering_of(recipe: Recipe, spec: ModelSpec) -> Lowering:
    """How a model is written down for the TPU compiler, in the recipe's variant."""
    variant = recipe.variant
    ordinary = Lowering.on("tpu", spec.compute_dtype)
    return replace(ordinary, qkv_barrier=variant.barrier, scan_layers=variant.layers == "scanned")


def _step(recipe: Recipe, mesh: Mesh) -> Shaped:
    """One forward pass."""
    role = "draft" if recipe.target is None else "target"
    model = shapes(recipe.spec, mesh, recipe.degree, lowering_of(recipe, recipe.spec))
    fresh = recipe.program == "prefill"

    def target_step(target: Decoder, target_cache: KVCache, tokens: Any, cursor: Any) -> Any:
        return target(tokens, target_cache, cursor, last_only=fresh, fresh=fresh)

    def draft_step(draft: Decoder, draft_cache: KVCache, tokens: Any, cursor: Any) -> Any:
        return target_step(draft, draft_cache, tokens, cursor)

    specs = weight_specs(model), cache_spec(model), SAME, SAME
    cache = jax.eval_shape(
        on_chips(lambda model: model.empty_cache(recipe.batch, recipe.positions), mesh, specs[:1], specs[1]), model
    )
    tokens = jax.ShapeDtypeStruct((recipe.batch, recipe.tokens), jnp.int32)
    cursor = jax.ShapeDtypeStruct((recipe.batch,), jnp.int32)
    arguments = _placed((model, cache, tokens, cursor), specs, mesh)
    parts = _parts({f"{role} weights": arguments[0]} | _cache_parts(role, arguments[1]), arguments)
    step = target_step if role == "target" else draft_step
    return Shaped(_named(step, on_chips(step, mesh, specs, (SAME, specs[1]))), arguments, 1, parts)


def _rounds(recipe: Recipe, mesh: Mesh) -> Shaped:
    """The loop over rounds until every sequence has its tokens."""
    target, draft = (
        shapes(spec, mesh, degree, lowering_of(recipe, spec))
        for spec, degree in ((recipe.target, recipe.target_degree), (recipe.draft, recipe.draft_degree))
        if spec is not None
    )
    pair = Pair(target, draft, mesh)
    setting = Setting(
        recipe.output_tokens, recipe.tokens - 1, recipe.positions, Sampling(**dict(recipe.sampling or {}))
    )

    def rounds(target: Decoder, draft: Decoder, state: DecodeState) -> DecodeState:
        return run_to_end(setting, target, draft, state, Forcing())

    prompts = jax.ShapeDtypeStruct((recipe.batch, 2), jnp.int32)
    state = jax.eval_shape(prefill, setting, pair, prompts, jax.eval_shape(lambda: jax.random.key(0)))
    specs = *pair.specs, pair.state_specs(setting)
    arguments = _placed((target, draft, state), specs, mesh)
    placed = arguments[2]
    named = {"target weights": arguments[0], "draft weights": arguments[1]}
    named |= _cache_parts("target", placed.target_cache) | _cache_parts("draft", placed.draft_cache)
    return Shaped(_named(rounds, on_chips(rounds, mesh, specs, specs[2])), arguments, 2, _parts(named, arguments))


def _named(body: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the name and argument names of ``body``, which a shard_map hides."""
    return functools.wraps(body)(function) if function is not body else function


def _placed(arguments: Any, specs: Any, mesh: Mesh) -> Any:
    """The shapes with their shardings; ``specs`` is a prefix of ``arguments``."""

    def place(spec: PartitionSpec, tree: Any) -> Any:
        sharding = NamedSharding(mesh, spec)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)

    return jax.tree.map(place, specs, arguments, is_leaf=lambda node: isinstance(node, PartitionSpec))


def _cache_parts(role: str, cache: KVCache) -> dict[str, Any]:
    return {f"{role} cache": (cache.keys, cache.values), f"{role} distances": cache.distances}


def _parts(named: dict[str, Any], arguments: Any) -> dict[str, int]:
    found = {name: _device_bytes(tree) for name, tree in named.items()}
    return found | {"other": _device_bytes(arguments) - sum(found.values())}


def _device_bytes(tree: Any) -> int:
    """Bytes of one device."""
    leaves = jax.tree.leaves(tree)
    return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * _item_bytes(leaf) for leaf in leaves)


def _item_bytes(leaf: jax.ShapeDtypeStruct) -> int:
    return 8 if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else int(leaf.dtype.itemsize)
