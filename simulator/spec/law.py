"""What the laws of acceptance share: moments from their processes, and rounds that are independent of each other."""

from __future__ import annotations

import abc

import numpy as np
import numpy.typing as npt

from simulator.spec.fields import Strict
from simulator.spec.processes import (
    Process,
    RoundProcess,
    accepted_law,
    conditional_of,
    lockstep_tokens,
    long_run_survival,
)
from simulator.spec.sequences import DrawnSequences, Sequences, choice

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


LONG_OUTPUT = 4096
"""Tokens of an output that counts as long where nobody says how long."""
NO_SHARE = 1e-18
"""Shares below it are left out."""


class Law(Strict, abc.ABC):
    """What every law of acceptance can say."""

    @abc.abstractmethod
    def processes(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Process, ...]:
        """What the rounds of a sequence may be, with shares of the sequences that sum to 1.

        Where rates have a continuous law these are the nodes of a quadrature, enough of them for sums over the rounds
        to as many as ``tokens`` tokens.
        """

    @abc.abstractmethod
    def sequences(self, lookahead: int, batch: int, rng: np.random.Generator) -> Sequences:
        """``batch`` fresh sequences, whose accepted counts are drawn from ``rng``."""

    def conditional(self, lookahead: int) -> Floats:
        """Conditional acceptance of positions 1..K over all rounds of long outputs; shape [K]."""
        return conditional_of(long_run_survival(self.processes(lookahead), lookahead))

    def mean_tokens(self, lookahead: int) -> float:
        """Tokens per round of long outputs, the target's own included."""
        return 1.0 + float(np.cumprod(self.conditional(lookahead)).sum())

    def lockstep_tokens(self, lookahead: int, batch: int) -> float:
        """Tokens per round of each of ``batch`` sequences in lockstep, over long outputs: those of the slowest."""
        return lockstep_tokens(self.processes(lookahead), lookahead, batch)

    def variance_tokens(self, lookahead: int) -> float:
        """Variance of the tokens of a round, over all rounds of long outputs."""
        law, tokens = accepted_law(self.conditional(lookahead)), np.arange(1, lookahead + 2)
        return float(law @ (tokens - law @ tokens) ** 2)

    def is_certain(self, lookahead: int) -> bool:
        """Whether nothing about a sequence is random."""
        processes = self.processes(lookahead)
        return len(processes) == 1 and processes[0].certain


class IndependentLaw(Law):
    """A law whose rounds are independent, at rates that belong to the sequence."""

    @abc.abstractmethod
    def rates(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Floats, Floats]:
        """Shares of the sequences [I] and their conditional acceptances [I, K]; arguments as of processes."""

    def processes(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Process, ...]:
        """What the rounds of a sequence may be, with shares of the sequences that sum to 1."""
        found = zip(*self.rates(lookahead, tokens), strict=True)
        return tuple(RoundProcess.independent(float(share), own) for share, own in found if share > NO_SHARE)

    def sequences(self, lookahead: int, batch: int, rng: np.random.Generator) -> Sequences:
        """``batch`` fresh sequences, whose accepted counts are drawn from ``rng``."""
        shares, rates = self.rates(lookahead)
        one = np.ones((1, 1))

        def fresh(count: int) -> Floats:
            own = choice(shares, count, rng) if len(shares) > 1 else np.zeros(count, dtype=np.int64)
            return np.asarray(rates[own, None, :])

        return DrawnSequences(batch, rng, fresh, one[0], one)


def padded(rates: tuple[float, ...], lookahead: int) -> Floats:
    """The rates of positions 1..K, the last repeated as often as needed; shape [K]."""
    given = np.asarray(rates[:lookahead], dtype=np.float64)
    return np.concatenate([given, np.full(lookahead - len(given), rates[-1])])


def kept(counts: tuple[int, ...], lookahead: int) -> Ints:
    """Accepted counts where a round proposes ``lookahead`` tokens."""
    return np.minimum(np.asarray(counts, dtype=np.int64), lookahead)
