"""Acceptance by decree: a law or a recorded list decides how many drafted tokens a round keeps.

It separates the cost of a round, which does not depend on acceptance, from acceptance, which needs trained models.
Independent rounds are drawn on the device; where rounds of a sequence belong together, all of them are drawn before.
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
from simulator.spec.acceptance import Acceptance, ForcedAcceptance, PerPositionAcceptance, RateAcceptance


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Forcing:
    """What overrides the accepted counts: rates, a table, or nothing."""

    rates: Float32[jax.Array, " K"] | None = None
    """P(a token is accepted, given that all before it in the round were), by position."""
    counts: Int32[jax.Array, "lists rounds"] | None = None
    """Accepted counts, a list for each sequence or one for all; a sequence starts at the first and wraps around."""

    @classmethod
    def of(
        cls,
        acceptance: Acceptance | None,
        lookahead: int,
        batch: int | None = None,
        rounds: int | None = None,
        key: PRNGKey | None = None,
    ) -> Self:
        """What a scenario's acceptance law forces; nothing where it is None.

        Args:
            acceptance: the law.
            lookahead: K.
            batch: B; a law whose rounds are independent, and one list for all, do without this and what follows.
            rounds: rounds of each sequence that are drawn before it wraps around.
            key: of these draws; not consumed.

        Raises:
            RefusedError: a count may exceed ``lookahead``, or what the law needs is missing.
        """
        if acceptance is None:
            return cls()
        if isinstance(acceptance, RateAcceptance | PerPositionAcceptance):
            return cls(rates=jnp.asarray(acceptance.conditional(lookahead), jnp.float32))
        if isinstance(acceptance, ForcedAcceptance):
            if max(acceptance.accepted) > lookahead:
                raise RefusedError(f"a round of lookahead {lookahead} cannot accept {max(acceptance.accepted)} tokens")
            batch, rounds, key = 1, len(acceptance.accepted), jax.random.key(0)
        if batch is None or rounds is None or key is None:
            raise RefusedError(f"acceptance of kind '{acceptance.kind}' is drawn for a known batch, rounds and key")
        seed = np.asarray(jax.random.key_data(key)).tolist()
        sequences = acceptance.sequences(lookahead, batch, np.random.default_rng(seed))
        table = np.stack([sequences.accepted() for _ in range(rounds)], axis=1)
        return cls(counts=jnp.asarray(table, jnp.int32))

    def override(self, unforced: Count, rounds: Count, key: PRNGKey) -> Count:
        """The counts to use in round number ``rounds[b]`` of each sequence b, in place of the models' own."""
        if self.counts is not None:
            lists, length = self.counts.shape
            return self.counts[jnp.arange(len(rounds)) % lists, rounds % length]
        if self.rates is not None:
            drawn = jax.random.uniform(key, (len(unforced), len(self.rates))) < self.rates
            return jnp.sum(jnp.cumprod(drawn.astype(jnp.int32), axis=1), axis=1)
        return unforced
