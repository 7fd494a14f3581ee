"""A decoder-only transformer (Flax NNX), one chip's share of it.

``Decoder(spec, rngs=...)`` is the whole model on one chip. ``share_out`` turns it into the model of X chips: the same
module, whose weights hold the shares of all chips side by side; inside ``shard_map`` each chip sees its own. Operations
stand in the order of ``simulator/cost/operations.py``.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from runtime.arithmetic import (
    Attended,
    Lowering,
    activate,
    as_bits,
    attend,
    from_bits,
    project,
    rms_norm,
    rotate,
    sinusoids,
)
from runtime.distances import with_distances
from runtime.experts import RoutedFeedForward
from runtime.kv_cache import KVCache, append, append_all, empty_cache
from runtime.parameters import Matrix, Parameter, matrix, normal, ones
from runtime.quantised import project_quantised
from runtime.shapes import Cursor, Distances, LayerCache, Logits, NewKeys, Queries, Rows, Tokens
from runtime.sharded_choice import likeliest_of_shards
from runtime.share import Share, lay_out
from runtime.step import Step
from simulator.errors import RefusedError
from simulator.spec.model import ModelSpec

WEIGHT_TYPES = ("float32", "bfloat16", "int8", "int4")
EXECUTED_TYPES = ("float32", "bfloat16")


class Layer(nnx.Module):
    """Attention and feed-forward, each behind a norm and each ending in one all-reduce; in parallel, one of both."""

    def __init__(self, spec: ModelSpec, rngs: nnx.Rngs, *, routed: bool = False) -> None:
        attention = spec.heads * spec.head_dim
        keys_values = 2 * spec.kv_heads * spec.head_dim
        gated = spec.feed_forward == "gated"
        self.attention_norm = ones(spec)
        self.qkv, self.qkv_scale = matrix(spec, rngs, ("D", "NGG"), (spec.d_model, attention + keys_values))
        self.output, self.output_scale = matrix(spec, rngs, ("N", "D"), (attention, spec.d_model))
        self.feed_forward_norm = None if spec.block == "parallel" else ones(spec)
        experts = spec.experts if routed else None
        self.experts = None if experts is None else RoutedFeedForward(spec, experts, rngs)
        up = ("D", "FF" if gated else "F"), (spec.d_model, spec.d_ff * (1 + gated))
        down = ("F", "D"), (spec.d_ff, spec.d_model)
        none: Matrix = (None, None)
        self.up, self.up_scale = matrix(spec, rngs, *up) if experts is None else none
        self.down, self.down_scale = matrix(spec, rngs, *down) if experts is None else none
        relative = spec.positions == "relative"
        self.distance = normal(spec, rngs, ("D", "N"), (spec.d_model, attention)) if relative else None
        self.gated = gated
        self.head_dim = spec.head_dim
        self.norm_epsilon = spec.norm_epsilon

    def __call__(
        self, x: Rows, step: Step, share: Share, keys: LayerCache, values: LayerCache, products: Distances | None = None
    ) -> tuple[Rows, LayerCache, LayerCache]:
        """The residual stream after this layer, and the cache with this step's keys and values in it.

        With split attention, those new keys and values alone, [B, G, T, H]: the decoder appends them behind all layers.
        """
        normed = rms_norm(x, self.attention_norm[...], self.norm_epsilon)
        attended, keys, values = self._attention(normed, step, share, keys, values, products)
        if self.feed_forward_norm is None:
            return x + share.all_reduce((attended + self._feed_forward(normed, step)).astype(x.dtype)), keys, values
        x = x + share.all_reduce(attended.astype(x.dtype))
        normed = rms_norm(x, self.feed_forward_norm[...], self.norm_epsilon)
        return x + share.all_reduce(self._feed_forward(normed, step).astype(x.dtype)), keys, values

    def products(self, positions: int, *, farthest_first: bool = False) -> Distances:
        """What attention multiplies queries with for each distance below ``positions``, nearest first unless asked."""
        if self.distance is None:
            raise RefusedError("a layer without relative positions has no distances")
        waves = sinusoids(positions, self.distance.shape[0]).astype(self.distance.dtype)
        if farthest_first:
            waves = waves[::-1]
        projected = project(waves, self.distance[...], 1).astype(self.distance.dtype)
        return projected.reshape(positions, -1, self.head_dim).swapaxes(0, 1)

    def _attention(
        self, normed: Rows, step: Step, share: Share, keys: LayerCache, values: LayerCache, products: Distances | None
    ) -> tuple[jax.Array, LayerCache, LayerCache]:
        """This chip's part of the sum that attention adds, and the cache."""
        rows, dtype = step.lowering.min_rows, normed.dtype
        q, k, v = self._heads(multiply(normed, self.qkv, self.qkv_scale, rows).astype(dtype), step, share)
        new, split = Attended(k, v, step.among_new), step.lowering.split_attention
        if not split:
            scatter = step.lowering.scatter_append
            keys, values = (append(old, own, step.cursor, scatter=scatter) for old, own in ((keys, k), (values, v)))
        parts: tuple[Attended, ...] = (new,)
        if step.cached is not None:
            cached = Attended(from_bits(keys), from_bits(values), step.cached)
            parts = (cached, new) if split else (cached,)
        if products is not None:
            parts = with_distances(parts, q, products, step)
        if step.cached is not None and split:
            parts = *parts[:-1], parts[-1].padded(step.lowering.min_new)
        attended = attend(q, parts, rows).astype(dtype).reshape(normed.shape[0], -1)
        out = multiply(attended, self.output, self.output_scale, rows)
        return (out, k, v) if split else (out, keys, values)

    def _feed_forward(self, normed: Rows, step: Step) -> jax.Array:
        """This chip's part of the sum that the feed-forward adds."""
        rows = step.lowering.min_rows
        if self.experts is not None:
            return self.experts(normed, rows)
        hidden = activate(multiply(normed, self.up, self.up_scale, rows), gated=self.gated)
        return multiply(hidden.astype(normed.dtype), self.down, self.down_scale, rows)

    def _heads(self, qkv: jax.Array, step: Step, share: Share) -> tuple[Queries, NewKeys, NewKeys]:
        if step.lowering.qkv_barrier:
            qkv = lax.optimization_barrier(qkv)
        batch, tokens = step.among_new.shape[:2]
        heads = qkv.reshape(batch, tokens, -1, self.head_dim)
        q, k, v = jnp.split(heads, [share.heads, share.heads + share.kv_heads], axis=2)
        if step.angles is not None:
            q, k = rotate(q, step.angles), rotate(k, step.angles)
        return q, k.swapaxes(1, 2), v.swapaxes(1, 2)


class Decoder(nnx.Module):
    """A decoder-only transformer with random weights, before it is trained or loaded.

    Raises:
        RefusedError: ``spec`` describes something that is not executed yet.
    """

    def __init__(self, spec: ModelSpec, *, rngs: nnx.Rngs, lowering: Lowering | None = None) -> None:
        lowering = lowering or Lowering.on(jax.default_backend(), spec.compute_dtype)
        refuse_unexecuted(spec, lowering)
        self.spec = spec
        self.share = Share.of(spec)
        self.lowering = lowering
        embedding = (spec.vocabulary, spec.d_model)
        # A tied matrix lies as the head reads it, in every step and whole; the embedding takes single columns of it.
        # The other way round XLA:CPU transposes all of it for every step of more than one row.
        self.embedding = None if spec.tied_embeddings else normal(spec, rngs, ("V", "D"), embedding, fan_in=1)
        learned = spec.max_positions
        self.positions = None if learned is None else normal(spec, rngs, ("P", "D"), (learned, spec.d_model), fan_in=1)
        dense = spec.layers - spec.expert_layers
        layers = [Layer(spec, rngs, routed=index >= dense) for index in range(spec.layers)]
        self.layers = nnx.List(layers)
        self.scanned: Layer | None = None
        self.final_norm = ones(spec)
        self.head = normal(spec, rngs, ("D", "V"), embedding[::-1])

    def __call__(
        self, tokens: Tokens, cache: KVCache, cursor: Cursor, *, last_only: bool = False, fresh: bool = False
    ) -> tuple[Logits, KVCache]:
        """One forward pass; see :meth:`StepModel.__call__`. Costs 2 L + 1 all-reduces and one all-gather."""
        x, cache = self._hidden(tokens, cache, cursor, last_only=last_only, fresh=fresh)
        # The padding of the vocabulary lies at the end, in the last chips' parts.
        logits = self.share.gather_last(self._part_of_logits(x))[:, : self.spec.vocabulary]
        return logits.reshape(len(tokens), -1, self.spec.vocabulary), cache

    def likeliest(
        self, tokens: Tokens, cache: KVCache, cursor: Cursor, *, last_only: bool = False
    ) -> tuple[Tokens, KVCache]:
        """As a call, but only the likeliest token after each: the all-gather carries two numbers a row and chip."""
        x, cache = self._hidden(tokens, cache, cursor, last_only=last_only, fresh=False)
        chosen = likeliest_of_shards(self._part_of_logits(x), self.share, self.spec.vocabulary)
        return chosen.reshape(len(tokens), -1), cache

    def _hidden(
        self, tokens: Tokens, cache: KVCache, cursor: Cursor, *, last_only: bool, fresh: bool
    ) -> tuple[Rows, KVCache]:
        """The residual stream behind the last layer, of the last token only or of all."""
        batch, length = tokens.shape
        positions = 0 if fresh else cache.keys[0].shape[-2]
        step = Step.of(self.spec, (batch, length), cursor, positions, self.lowering)
        x = self._embed(tokens.reshape(-1), step)
        run = self._unrolled if self.scanned is None else self._looped
        x, after = run(x, step, cache)
        if self.lowering.split_attention:
            after = append_all(cache, after, cursor, x, scatter=self.lowering.scatter_append)
        cache = after
        if last_only:
            x = x.reshape(batch, length, -1)[:, -1]
        return x, cache

    def empty_cache(self, batch: int, positions: int) -> KVCache:
        """This chip's cache for ``batch`` sequences of at most ``positions``."""
        shape: tuple[int, ...] = (batch, self.share.kv_heads, positions, self.spec.head_dim)
        dtype = jnp.dtype(self.spec.kv_dtype or self.spec.compute_dtype)
        bits = self.lowering.move_bits and dtype == jnp.bfloat16
        count = self.spec.layers
        if self.scanned is not None:
            shape, count = (self.spec.layers, *shape), 1
        cache = empty_cache(count, shape, jnp.dtype(jnp.uint16) if bits else dtype)
        if self.spec.positions != "relative":
            return cache
        products = functools.partial(Layer.products, positions=positions, farthest_first=self.lowering.shift_distances)
        if self.scanned is not None:
            return replace(cache, distances=(jax.vmap(products)(self.scanned),))
        return replace(cache, distances=tuple(products(layer) for layer in self.layers))

    def _unrolled(self, x: Rows, step: Step, cache: KVCache) -> tuple[Rows, KVCache]:
        keys, values = [], []
        distances = cache.distances or (None,) * len(self.layers)
        for layer, old_keys, old_values, products in zip(self.layers, cache.keys, cache.values, distances, strict=True):
            x, new_keys, new_values = layer(x, step, self.share, old_keys, old_values, products)
            keys.append(new_keys)
            values.append(new_values)
        return x, replace(cache, keys=tuple(keys), values=tuple(values))

    def _looped(self, x: Rows, step: Step, cache: KVCache) -> tuple[Rows, KVCache]:
        """All layers by one loop: each takes its part of what is stacked along the first axis."""

        def body(x: Rows, part: Any) -> tuple[Rows, Any]:
            layer, keys, values, *products = part
            x, keys, values = layer(x, step, self.share, keys, values, *products)
            return x, (keys, values)

        x, (keys, values) = lax.scan(body, x, (self.scanned, cache.keys[0], cache.values[0], *cache.distances))
        return x, replace(cache, keys=(keys,), values=(values,))

    def _embed(self, tokens: jax.Array, step: Step) -> Rows:
        """Each chip looks up the tokens of its own part of the vocabulary; their sum is the embedding."""
        own = tokens - self.share.index() * self.share.vocabulary
        place = jnp.clip(own, 0, self.share.vocabulary - 1)
        found = self.head[...][:, place].T if self.embedding is None else from_bits(self.embedding[...][place])
        if self.share.chips > 1:
            mine = (own >= 0) & (own < self.share.vocabulary)
            found = self.share.all_reduce(jnp.where(mine[:, None], found, 0))
        return found if self.positions is None else found + self.positions[...][step.at.reshape(-1)]

    def _part_of_logits(self, x: Rows) -> jax.Array:
        """Logits of this chip's part of the vocabulary, padding included."""
        normed = rms_norm(x, self.final_norm[...], self.spec.norm_epsilon)
        return project(normed, self.head[...], self.lowering.min_rows)


def multiply(x: Rows, weight: Parameter | None, scale: Parameter | None, min_rows: int) -> jax.Array:
    """``x @ weight`` in float32, whatever the weight is kept as."""
    if weight is None:
        raise RefusedError("a layer with experts has no feed-forward of its own")
    if scale is None:
        return project(x, weight[...], min_rows)
    return project_quantised(x, weight[...], scale[...], min_rows)


def share_out(model: Decoder, chips: int, axes: tuple[str, ...]) -> Decoder:
    """The model of one chip, its weights laid out for ``chips`` chips along the mesh axes ``axes``.

    Where the lowering moves bits, the embedding becomes integers, for a tied model a copy of its own; such a model runs
    and cannot be trained. Where it scans layers, their weights are stacked.
    """
    laid_out = nnx.clone(model)
    if model.lowering.move_bits and model.spec.compute_dtype == "bfloat16":
        rows = model.head[...].T if model.embedding is None else model.embedding[...]
        laid_out.embedding = nnx.data(nnx.Param(as_bits(rows), axes=("V", "D")))
    for _, weight in nnx.iter_graph(laid_out):
        if isinstance(weight, nnx.Param):
            weight.set_value(lay_out(weight.get_value(), weight.axes, model.spec, chips))
    laid_out.share = Share.of(model.spec, chips, axes)
    if model.lowering.scan_layers:
        laid_out.scanned = nnx.data(_stacked(list(laid_out.layers)))
        laid_out.layers = nnx.List([])
    return laid_out


def _stacked(layers: list[Layer]) -> Layer:
    """One layer whose weights are those of all, along a first axis."""
    stacked: Layer = jax.tree.map(lambda *weights: jnp.stack(weights), *layers)
    for _, weight in nnx.iter_graph(stacked):
        if isinstance(weight, nnx.Param):
            weight.set_metadata(axes=("L", *weight.axes))
    return stacked


def refuse_unexecuted(spec: ModelSpec, lowering: Lowering) -> None:
    """Refuse what a ModelSpec can say and this module does not do."""
    parts = ("latent", "window", "recurrent", "encoder", "hidden_states", "attention_gate")
    if found := [name for name in parts if getattr(spec, name)]:
        raise RefusedError(f"{spec.name}: {', '.join(found)} modelled, not executed; attention to all positions is")
    if spec.weight_dtype in EXECUTED_TYPES and spec.compute_dtype != spec.weight_dtype:
        accepts = f"only activations in the type of the weights, {spec.weight_dtype}, are executed"
        raise RefusedError(f"{spec.name}: activation_dtype {spec.compute_dtype} is modelled; {accepts}")
    types = {
        "weight_dtype": (spec.weight_dtype, WEIGHT_TYPES),
        "kv_dtype": (spec.kv_dtype or spec.compute_dtype, EXECUTED_TYPES),
        "head_dtype": (spec.head_dtype or spec.weight_dtype, (spec.compute_dtype,)),
        "matmul_dtype": (spec.rate_dtype, (spec.compute_dtype,)),
    }
    for key, (dtype, executed) in types.items():
        if dtype not in executed:
            raise RefusedError(f"{spec.name}: {key} {dtype} is modelled, not executed; {', '.join(executed)} is")
    if spec.experts is not None and (own := spec.experts.weight_dtype or spec.weight_dtype) not in EXECUTED_TYPES:
        raise RefusedError(f"{spec.name}: experts of type {own} are modelled, not executed")
    if lowering.scan_layers and 0 < spec.expert_layers < spec.layers:
        raise RefusedError(f"{spec.name}: layers with and without experts cannot be scanned together")
