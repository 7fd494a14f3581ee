"""Laws of acceptance: how many of the K proposed tokens a round keeps.

Each law knows the conditional probabilities it implies and draws accepted counts from a generator.
``acceptance_rate`` is P(a draft token is accepted, given that all before it in the round were).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simulator.spec.fields import Probability, Strict

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class RateAcceptance(Strict):
    """Every position is accepted with the same probability."""

    kind: Literal["rate"]
    acceptance_rate: Probability
    """P(a draft token is accepted, given that all before it in the round were)."""

    def conditional(self, lookahead: int) -> Floats:
        """Conditional acceptance of positions 1..K; shape [K]."""
        return np.full(lookahead, self.acceptance_rate)

    def draw(self, lookahead: int, rounds: Ints, rng: np.random.Generator) -> Ints:
        """Accepted draft tokens, 0..K, of round number ``rounds[b]`` of each sequence b; shape [B]."""
        return draw_independent(self.conditional(lookahead), len(rounds), rng)


class PerPositionAcceptance(Strict):
    """A probability of its own for every position; later ones repeat the last that is given."""

    kind: Literal["per_position"]
    acceptance_rates: Annotated[tuple[Probability, ...], Field(min_length=1, max_length=64)]
    """Conditional acceptance of the 1st, 2nd, ... proposed token. Not vLLM's survival rates, which are products."""

    def conditional(self, lookahead: int) -> Floats:
        """Conditional acceptance of positions 1..K; shape [K]."""
        given = np.asarray(self.acceptance_rates[:lookahead], dtype=np.float64)
        return np.concatenate([given, np.full(lookahead - len(given), self.acceptance_rates[-1])])

    def draw(self, lookahead: int, rounds: Ints, rng: np.random.Generator) -> Ints:
        """Accepted draft tokens, 0..K, of round number ``rounds[b]`` of each sequence b; shape [B]."""
        return draw_independent(self.conditional(lookahead), len(rounds), rng)


class ForcedAcceptance(Strict):
    """A list of accepted counts, replayed round by round; every sequence starts at the first and wraps around."""

    kind: Literal["forced"]
    accepted: Annotated[tuple[Annotated[int, Field(ge=0, le=64)], ...], Field(min_length=1, max_length=50_000)]
    """Accepted draft tokens of the 1st, 2nd, ... round, each 0 to lookahead."""

    def conditional(self, lookahead: int) -> Floats:
        """The rates with the same mean: of the rounds that reached a position, the share that passed it; [K]."""
        counts = np.asarray(self.accepted)
        reached = np.array([(counts >= k).sum() for k in range(lookahead + 1)], dtype=np.float64)
        return np.divide(reached[1:], reached[:-1], out=np.zeros(lookahead), where=reached[:-1] > 0)

    def draw(self, lookahead: int, rounds: Ints, rng: np.random.Generator) -> Ints:
        """Accepted draft tokens of round number ``rounds[b]`` of each sequence b; shape [B]; ``rng`` is not used."""
        return np.asarray(self.accepted, dtype=np.int64)[rounds % len(self.accepted)]


Acceptance = Annotated[RateAcceptance | PerPositionAcceptance | ForcedAcceptance, Field(discriminator="kind")]


def draw_independent(conditional: Floats, count: int, rng: np.random.Generator) -> Ints:
    """``count`` independent rounds: tokens accepted before the first rejection; shape [count], 0..K."""
    accepted = rng.random((count, len(conditional))) < conditional
    return np.asarray(np.cumprod(accepted, axis=-1).sum(axis=-1), dtype=np.int64)
