"""A decoder-only transformer (Flax NNX), one chip's share of it.

``Decoder(spec, rngs=...)`` is the whole model on one chip. ``share_out`` turns it into the model of X chips: the same
module, whose weights hold the shares of all chips side by side; inside ``shard_map`` each chip sees its own. Operations
stand in the order of ``simulator/cost/operations.py``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from runtime.arithmetic import Attended, Lowering, as_bits, attend, from_bits, project, rms_norm, rotate
from runtime.kv_cache import KVCache, append, empty_cache
from runtime.shapes import Cursor, LayerCache, Logits, NewKeys, Queries, Rows, Tokens
from runtime.share import Share, lay_out
from runtime.step import Step
from simulator.errors import RefusedError
from simulator.spec.model import ModelSpec

EXECUTED_TYPES = ("float32", "bfloat16")


class Layer(nnx.Module):
    """Attention and feed-forward, each behind a norm and each ending in one all-reduce."""

    def __init__(self, spec: ModelSpec, rngs: nnx.Rngs) -> None:
        attention = spec.heads * spec.head_dim
        keys_values = 2 * spec.kv_heads * spec.head_dim
        gated = spec.feed_forward == "gated"
        self.attention_norm = ones(spec)
        self.qkv = normal(spec, rngs, ("D", "NGG"), (spec.d_model, attention + keys_values))
        self.output = normal(spec, rngs, ("N", "D"), (attention, spec.d_model))
        self.feed_forward_norm = ones(spec)
        self.up = normal(spec, rngs, ("D", "FF" if gated else "F"), (spec.d_model, spec.d_ff * (1 + gated)))
        self.down = normal(spec, rngs, ("F", "D"), (spec.d_ff, spec.d_model))
        self.gated = gated
        self.head_dim = spec.head_dim

    def attention(
        self, x: Rows, step: Step, share: Share, keys: LayerCache, values: LayerCache
    ) -> tuple[Rows, LayerCache, LayerCache]:
        """Residual stream after attention, and the cache with this step's keys and values in it."""
        rows = step.lowering.min_rows
        qkv = project(rms_norm(x, self.attention_norm[...]), self.qkv[...], rows).astype(x.dtype)
        q, k, v = self._heads(qkv, step, share)
        scatter = step.lowering.scatter_append
        all_keys = append(keys, k, step.cursor, scatter=scatter)
        all_values = append(values, v, step.cursor, scatter=scatter)
        if step.cached is None:
            parts: tuple[Attended, ...] = (Attended(k, v, step.among_new),)
        elif step.lowering.split_attention:
            parts = (Attended(from_bits(keys), from_bits(values), step.cached), Attended(k, v, step.among_new))
        else:
            parts = (Attended(from_bits(all_keys), from_bits(all_values), step.cached),)
        attended = attend(q, parts, rows).astype(x.dtype).reshape(x.shape[0], -1)
        return x + share.all_reduce(project(attended, self.output[...], rows).astype(x.dtype)), all_keys, all_values

    def feed_forward(self, x: Rows, share: Share, min_rows: int) -> Rows:
        """Residual stream after the feed-forward: SiLU-gated (Shazeer 2020), or two matrices with GELU."""
        hidden = project(rms_norm(x, self.feed_forward_norm[...]), self.up[...], min_rows)
        if self.gated:
            gate, hidden = jnp.split(hidden, 2, axis=-1)
            hidden = jax.nn.silu(gate) * hidden
        else:
            hidden = jax.nn.gelu(hidden)
        return x + share.all_reduce(project(hidden.astype(x.dtype), self.down[...], min_rows).astype(x.dtype))

    def _heads(self, qkv: jax.Array, step: Step, share: Share) -> tuple[Queries, NewKeys, NewKeys]:
        if step.lowering.qkv_barrier:
            qkv = jax.lax.optimization_barrier(qkv)
        batch, tokens = step.among_new.shape[:2]
        heads = qkv.reshape(batch, tokens, -1, self.head_dim)
        q, k, v = jnp.split(heads, [share.heads, share.heads + share.kv_heads], axis=2)
        if step.angles is not None:
            q, k = rotate(q, step.angles), rotate(k, step.angles)
        return q, k.swapaxes(1, 2), v.swapaxes(1, 2)


class Decoder(nnx.Module):
    """A dense decoder-only transformer with random weights, before it is trained or loaded.

    Raises:
        RefusedError: ``spec`` describes something that is not executed yet.
    """

    def __init__(self, spec: ModelSpec, *, rngs: nnx.Rngs, lowering: Lowering | None = None) -> None:
        refuse_unexecuted(spec)
        self.spec = spec
        self.share = Share.of(spec)
        self.lowering = lowering or Lowering.on(jax.default_backend(), spec.weight_dtype)
        embedding = (spec.vocabulary, spec.d_model)
        # A tied matrix lies as the head reads it, in every step and whole; the embedding takes single columns of it.
        # The other way round XLA:CPU transposes all of it for every step of more than one row.
        self.embedding = None if spec.tied_embeddings else normal(spec, rngs, ("V", "D"), embedding, fan_in=1)
        self.layers = nnx.List([Layer(spec, rngs) for _ in range(spec.layers)])
        self.final_norm = ones(spec)
        self.head = normal(spec, rngs, ("D", "V"), embedding[::-1])

    def __call__(
        self, tokens: Tokens, cache: KVCache, cursor: Cursor, *, last_only: bool = False, fresh: bool = False
    ) -> tuple[Logits, KVCache]:
        """One forward pass; see :meth:`StepModel.__call__`. Costs 2 L + 1 all-reduces and one all-gather."""
        batch, length = tokens.shape
        positions = 0 if fresh else cache.keys[0].shape[2]
        step = Step.of(self.spec, (batch, length), cursor, positions, self.lowering)
        x = self._embed(tokens.reshape(-1))
        keys, values = [], []
        for layer, old_keys, old_values in zip(self.layers, cache.keys, cache.values, strict=True):
            x, new_keys, new_values = layer.attention(x, step, self.share, old_keys, old_values)
            x = layer.feed_forward(x, self.share, self.lowering.min_rows)
            keys.append(new_keys)
            values.append(new_values)
        if last_only:
            x = x.reshape(batch, length, -1)[:, -1]
        return self._logits(x).reshape(batch, -1, self.spec.vocabulary), KVCache(tuple(keys), tuple(values))

    def empty_cache(self, batch: int, positions: int) -> KVCache:
        """This chip's cache for ``batch`` sequences of at most ``positions``."""
        shape = (batch, self.share.kv_heads, positions, self.spec.head_dim)
        dtype = jnp.dtype(self.spec.kv_dtype or self.spec.weight_dtype)
        bits = self.lowering.move_bits and dtype == jnp.bfloat16
        return empty_cache(self.spec.layers, shape, jnp.dtype(jnp.uint16) if bits else dtype)

    def _embed(self, tokens: jax.Array) -> Rows:
        """Each chip looks up the tokens of its own part of the vocabulary; their sum is the embedding."""
        own = tokens - self.share.index() * self.share.vocabulary
        place = jnp.clip(own, 0, self.share.vocabulary - 1)
        found = self.head[...][:, place].T if self.embedding is None else from_bits(self.embedding[...][place])
        if self.share.chips == 1:
            return found
        mine = (own >= 0) & (own < self.share.vocabulary)
        return self.share.all_reduce(jnp.where(mine[:, None], found, 0))

    def _logits(self, x: Rows) -> jax.Array:
        part = project(rms_norm(x, self.final_norm[...]), self.head[...], self.lowering.min_rows)
        # The padding of the vocabulary lies at the end, in the last chips' parts.
        return self.share.gather_last(part)[:, : self.spec.vocabulary]


def share_out(model: Decoder, chips: int, axes: tuple[str, ...]) -> Decoder:
    """The model of one chip, its weights laid out for ``chips`` chips along the mesh axes ``axes``.

    Where the lowering moves bits, the embedding becomes integers, for a tied model a copy of its own; such a model runs
    and cannot be trained.
    """
    laid_out = nnx.clone(model)
    if model.lowering.move_bits and model.spec.weight_dtype == "bfloat16":
        rows = model.head[...].T if model.embedding is None else model.embedding[...]
        laid_out.embedding = nnx.data(nnx.Param(as_bits(rows), axes=("V", "D")))
    for _, weight in nnx.iter_graph(laid_out):
        if isinstance(weight, nnx.Param):
            weight.set_value(lay_out(weight.get_value(), weight.axes, model.spec, chips))
    laid_out.share = Share.of(model.spec, chips, axes)
    return laid_out


def refuse_unexecuted(spec: ModelSpec) -> None:
    """Refuse what a ModelSpec can say and this module does not do."""
    if spec.positions == "relative":
        raise RefusedError(f"{spec.name}: relative positions are modelled, not executed; rotary and none are")
    types = {"weight_dtype": spec.weight_dtype, "kv_dtype": spec.kv_dtype or spec.weight_dtype}
    for key, dtype in types.items():
        if dtype not in EXECUTED_TYPES:
            raise RefusedError(f"{spec.name}: {key} {dtype} is modelled, not executed; {EXECUTED_TYPES} are")
    if spec.compute_dtype != spec.weight_dtype:
        accepts = f"only activations in the type of the weights, {spec.weight_dtype}, are executed"
        raise RefusedError(f"{spec.name}: activation_dtype {spec.compute_dtype} is modelled; {accepts}")


def normal(
    spec: ModelSpec, rngs: nnx.Rngs, axes: tuple[str, str], shape: tuple[int, int], fan_in: int = 0
) -> nnx.Param[jax.Array]:
    """Random weights of variance 1 / fan-in, the first axis unless given; ``axes`` names the axes by letter."""
    drawn = jax.random.normal(rngs.params(), shape, jnp.float32) / (fan_in or shape[0]) ** 0.5
    return nnx.Param(drawn.astype(spec.weight_dtype), axes=axes)


def ones(spec: ModelSpec) -> nnx.Param[jax.Array]:
    """The scale of a norm."""
    return nnx.Param(jnp.ones((spec.d_model,), spec.weight_dtype), axes=("D",))
