"""Logits -> distribution -> token, by the same rule for target and draft.

Speculative sampling is exact for whatever two distributions it is given, so temperature and truncation are applied to
both models' logits before anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, Float32, Int32

from runtime.shapes import PRNGKey
from simulator.spec.scenario import Decoding

LogitRows = Float[jax.Array, "*rows V"]
ProbRows = Float32[jax.Array, "*rows V"]


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen from logits. Tokens with exactly the probability of the last one kept are kept too."""

    temperature: float = 1.0
    """Divides the logits; 0 is greedy decoding, whatever else is set."""
    top_k: int | None = None
    """Keep the k most likely tokens."""
    top_p: float = 1.0
    """Nucleus (Holtzman et al. 2020): keep the smallest set of tokens with this mass, of those that top_k kept."""
    min_p: float = 0.0
    """Keep tokens at least this many times as likely as the likeliest."""

    @classmethod
    def of(cls, decoding: Decoding) -> Self:
        """The rule that a scenario states."""
        return cls(decoding.temperature, decoding.top_k, decoding.top_p, decoding.min_p)

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always chosen."""
        return self.temperature == 0

    def filter(self, logits: LogitRows) -> LogitRows:
        """Logits at this temperature in float32, -inf where a token is not kept; in greedy decoding as they are."""
        if self.greedy:
            return logits
        scaled = logits.astype(jnp.float32) / self.temperature
        if self.top_k is None and self.top_p == 1 and self.min_p == 0:
            return scaled
        probs = jax.nn.softmax(scaled, axis=-1)
        return jnp.where(probs >= self._least_kept(probs), scaled, -jnp.inf)

    def choose(self, key: PRNGKey, filtered: LogitRows) -> Int32[jax.Array, "*rows"]:
        """A token from each row of what :meth:`filter` returned."""
        return likeliest(filtered) if self.greedy else draw(key, filtered)

    def _least_kept(self, probs: ProbRows) -> Float32[jax.Array, "*rows 1"]:
        """Probability of the least likely token that is kept."""
        least = self.min_p * jnp.max(probs, axis=-1, keepdims=True)
        if self.top_k is None and self.top_p == 1:
            return least
        falling = _falling(probs, self.top_k)
        least = jnp.maximum(least, jnp.min(falling, axis=-1, keepdims=True))
        if self.top_p == 1:
            return least
        before = jnp.cumsum(falling, axis=-1) - falling
        in_nucleus = before < self.top_p * jnp.sum(falling, axis=-1, keepdims=True)
        return jnp.maximum(least, jnp.min(jnp.where(in_nucleus, falling, jnp.inf), axis=-1, keepdims=True))


def _falling(probs: ProbRows, top_k: int | None) -> ProbRows:
    """The ``top_k`` largest of each row, falling; all of them where None."""
    if top_k is not None:
        return lax.top_k(probs, min(top_k, probs.shape[-1]))[0]
    # Floats that are not negative are ordered as their bits are, and XLA:CPU sorts integers three times as fast.
    bits = lax.sort(lax.bitcast_convert_type(probs, jnp.int32), is_stable=False)
    return jnp.flip(lax.bitcast_convert_type(bits, jnp.float32), axis=-1)


def likeliest(logits: LogitRows) -> Int32[jax.Array, "*rows"]:
    """Index of the first maximum of each row: ``argmax``, in two reductions that XLA:CPU vectorises."""
    size = logits.shape[-1]
    at_peak = logits == jnp.max(logits, axis=-1, keepdims=True)
    return jnp.min(jnp.where(at_peak, jnp.arange(size, dtype=jnp.int32), size), axis=-1)


def draw(key: PRNGKey, logits: LogitRows) -> Int32[jax.Array, "*rows"]:
    """A token from each row, with probability proportional to exp(logit): the Gumbel-max trick (Gumbel 1954)."""
    return likeliest(logits + jax.random.gumbel(key, logits.shape, logits.dtype))
