"""The routed feed-forward of a mixture of experts, one chip's share of every expert.

A router scores all experts; the k best of each token are mixed by the softmax of their scores (Shazeer et al. 2017, as
in Mixtral, Jiang et al. 2024). Few tokens gather the weights of the experts that they touch; many run through all.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Float32, Int32

from runtime.arithmetic import activate, project
from runtime.parameters import normal
from runtime.shapes import Rows
from simulator.spec.model import Experts, ModelSpec


class RoutedFeedForward(nnx.Module):
    """Router, experts, and the shared experts that every token passes; its output is one chip's part of a sum."""

    def __init__(self, spec: ModelSpec, experts: Experts, rngs: nnx.Rngs) -> None:
        gated = spec.feed_forward == "gated"
        width, count, inner, shared = spec.d_model, experts.count, experts.d_ff, experts.shared_d_ff
        self.router = normal(spec, rngs, ("D", "E"), (width, count))
        self.up = normal(spec, rngs, ("E", "D", "ff" if gated else "f"), (count, width, inner * (1 + gated)), width)
        self.down = normal(spec, rngs, ("E", "f", "D"), (count, inner, width), inner)
        up = ("D", "ss" if gated else "s"), (width, shared * (1 + gated))
        self.shared_up = normal(spec, rngs, *up) if shared else None
        self.shared_down = normal(spec, rngs, ("s", "D"), (shared, width)) if shared else None
        self.per_token, self.gated = experts.per_token, gated

    def __call__(self, x: Rows, min_rows: int) -> Float32[jax.Array, "rows D"]:
        """What the experts make of normed activations."""
        scores, chosen = jax.lax.top_k(project(x, self.router[...], min_rows), self.per_token)
        shares = jax.nn.softmax(scores, axis=-1)
        few = x.shape[0] * self.per_token < self.router.shape[1]
        mixed = self._touched(x, chosen, shares) if few else self._all(x, chosen, shares)
        if self.shared_up is not None and self.shared_down is not None:
            hidden = activate(project(x, self.shared_up[...], min_rows), gated=self.gated).astype(x.dtype)
            mixed = mixed + project(hidden, self.shared_down[...], min_rows)
        return mixed

    def _touched(
        self, x: Rows, chosen: Int32[jax.Array, "rows k"], shares: Float32[jax.Array, "rows k"]
    ) -> Float32[jax.Array, "rows D"]:
        """Every token with the weights of its own experts."""
        up, down = self.up[...][chosen], self.down[...][chosen]
        hidden = jnp.einsum("rd,rkdf->rkf", x, up, preferred_element_type=jnp.float32)
        hidden = activate(hidden, gated=self.gated).astype(x.dtype)
        made = jnp.einsum("rkf,rkfd->rkd", hidden, down, preferred_element_type=jnp.float32)
        return jnp.sum(made * shares[..., None], axis=1)

    def _all(
        self, x: Rows, chosen: Int32[jax.Array, "rows k"], shares: Float32[jax.Array, "rows k"]
    ) -> Float32[jax.Array, "rows D"]:
        """Every token through every expert, those that it was not routed to with a share of 0."""
        count = self.router.shape[1]
        every = jnp.zeros((x.shape[0], count)).at[jnp.arange(x.shape[0])[:, None], chosen].set(shares)
        hidden = jnp.einsum("rd,edf->erf", x, self.up[...], preferred_element_type=jnp.float32)
        hidden = activate(hidden, gated=self.gated).astype(x.dtype)
        made = jnp.einsum("erf,efd->erd", hidden, self.down[...], preferred_element_type=jnp.float32)
        return jnp.einsum("erd,re->rd", made, every)
