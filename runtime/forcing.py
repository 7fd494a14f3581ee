"""Acceptance by decree: a law or a recorded list decides how many drafted tokens a round keeps.

It separates the cost of a round, which does not depend on acceptance, from acceptance, which needs trained models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from runtime.shapes import Count, PRNGKey
from simulator.errors import RefusedError
from simulator.spec.acceptance import Acceptance, ForcedAcceptance


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Forcing:
    """What overrides the accepted counts: rates, a list, or nothing."""

    rates: Float32[jax.Array, " K"] | None = None
    """P(a token is accepted, given that all before it in the round were), by position."""
    counts: Int32[jax.Array, " rounds"] | None = None
    """Accepted counts round by round; every sequence starts at the first and wraps around."""

    @classmethod
    def of(cls, acceptance: Acceptance | None, lookahead: int) -> Self:
        """What a scenario's acceptance law forces; nothing where it is None.

        Raises:
            RefusedError: a listed count exceeds ``lookahead``.
        """
        if acceptance is None:
            return cls()
        if not isinstance(acceptance, ForcedAcceptance):
            return cls(rates=jnp.asarray(acceptance.conditional(lookahead), jnp.float32))
        counts = np.asarray(acceptance.accepted, np.int32)
        if counts.max() > lookahead:
            raise RefusedError(f"a round of lookahead {lookahead} cannot accept {counts.max()} tokens")
        return cls(counts=jnp.asarray(counts))

    def override(self, unforced: Count, rounds: Count, key: PRNGKey) -> Count:
        """The counts to use in round number ``rounds[b]`` of each sequence b, in place of the models' own."""
        if self.counts is not None:
            return self.counts[rounds % len(self.counts)]
        if self.rates is not None:
            drawn = jax.random.uniform(key, (len(unforced), len(self.rates))) < self.rates
            return jnp.sum(jnp.cumprod(drawn.astype(jnp.int32), axis=1), axis=1)
        return unforced
