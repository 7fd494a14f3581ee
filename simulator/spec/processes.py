"""What laws of acceptance have in common: shares of sequences, and how the rounds of each follow one another.

A law is a mixture of processes, each with its share of the *sequences*. Of the *rounds* of long outputs a process has
a larger part, the fewer tokens its rounds emit: a sequence of N tokens takes N / tau of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RoundProcess:
    """Rounds that follow a hidden Markov chain of Z states; Z = 1 where they are independent of each other."""

    weight: float
    """Share of the sequences."""
    initial: Floats
    """P(the first round is in each state); shape [Z]."""
    transition: Floats
    """P(the next round's state, given this one's in the rows); shape [Z, Z]; one long-run law, whatever the start."""
    accepted: Floats
    """P(0, 1, ..., K accepted draft tokens) in each state; shape [Z, K+1]."""

    @classmethod
    def independent(cls, weight: float, conditional: npt.ArrayLike) -> RoundProcess:
        """Independent rounds with the conditional acceptances [K]."""
        one = np.ones((1, 1))
        return cls(weight, one[0], one, accepted_law(conditional)[None, :])

    @property
    def stationary(self) -> Floats:
        """Share of the rounds of a long output in each state; shape [Z]."""
        states = len(self.initial)
        balance = np.vstack([(self.transition.T - np.eye(states))[1:], np.ones(states)])
        return np.linalg.solve(balance, np.eye(states)[-1])

    @property
    def certain(self) -> bool:
        """Whether every round accepts the same."""
        return bool(np.isin(self.accepted, (0.0, 1.0)).all() and (self.accepted == self.accepted[0]).all())

    def survival(self, lookahead: int) -> Floats:
        """Of the rounds of a long output, the share that accepts at least 1, ..., K; shape [K]."""
        return np.cumsum((self.stationary @ self.accepted)[::-1])[::-1][1:]


@dataclass(frozen=True, eq=False)
class Replay:
    """Rounds that repeat a list of accepted counts from its first on, and wrap around."""

    weight: float
    """Share of the sequences."""
    accepted: Ints
    """Accepted draft tokens of the 1st, 2nd, ... round; shape [rounds]."""

    @property
    def certain(self) -> bool:
        """Whether every sequence accepts the same: always."""
        return True

    def survival(self, lookahead: int) -> Floats:
        """Of the rounds of a long output, the share that accepts at least 1, ..., K; shape [K]."""
        return np.array([(self.accepted >= k).mean() for k in range(1, lookahead + 1)], dtype=np.float64)


Process = RoundProcess | Replay


def accepted_law(conditional: npt.ArrayLike) -> Floats:
    """P(a round accepts 0, 1, ..., K draft tokens) from conditional acceptances [K]; shape [K+1]."""
    survival = np.concatenate([[1.0], np.cumprod(np.asarray(conditional, dtype=np.float64)), [0.0]])
    return np.asarray(survival[:-1] - survival[1:])


def long_run_survival(processes: Sequence[Process], lookahead: int) -> Floats:
    """Of all rounds of long outputs, the share that accepts at least 1, ..., K; shape [K].

    ``sum_i (w_i / tau_i) S_i / sum_i (w_i / tau_i)``, so that ``1 + sum(survival) = 1 / sum_i (w_i / tau_i)``: tokens
    per round are the harmonic mean of those of the processes.
    """
    survival = np.array([process.survival(lookahead) for process in processes]).reshape(len(processes), lookahead)
    rounds = np.array([process.weight for process in processes]) / (1.0 + survival.sum(axis=1))
    return np.asarray(rounds @ survival / rounds.sum())


def lockstep_tokens(processes: Sequence[Process], lookahead: int, batch: int) -> float:
    """Tokens per round of a long output that ``batch`` sequences emit in lockstep: as slow as the slowest of them.

    ``1 / E[max of 1/tau over the batch]``; for one sequence the harmonic mean of the processes.
    """
    slowness = np.array([1.0 / (1.0 + process.survival(lookahead).sum()) for process in processes])
    order = np.argsort(slowness)
    weights = np.array([process.weight for process in processes])[order]
    below = np.clip(np.cumsum(weights) / weights.sum(), 0.0, 1.0) ** batch
    return float(1.0 / (slowness[order] @ np.diff(below, prepend=0.0)))


def conditional_of(survival: Floats) -> Floats:
    """Conditional acceptances [K] with this survival [K]; 0 behind a position that nothing passes."""
    reached = np.concatenate([[1.0], survival[:-1]])
    rates = np.divide(survival, reached, out=np.zeros(len(survival)), where=reached > 0)
    return np.asarray(np.minimum(rates, 1.0))


@functools.lru_cache(maxsize=64)
def beta_nodes(a: float, b: float, count: int) -> tuple[Floats, Floats]:
    """Nodes in 0..1 and weights of Gauss quadrature under the law Beta(a, b); shapes [count].

    Golub and Welsch 1969: eigenvalues, and squared first components of the eigenvectors, of the tridiagonal matrix of
    the Jacobi polynomials' recurrence. Exact for polynomials up to degree ``2 count - 1``.
    """
    k, total = np.arange(1, count, dtype=np.float64), a + b
    centre = np.concatenate([[a / total], 0.5 + (a - b) * (total - 2) / (2 * (2 * k + total - 2) * (2 * k + total))])
    # At k = 1 a factor of k + total - 2 stands above and below; without it nothing vanishes where total is 1.
    ratio = np.concatenate([[1.0], (k[1:] + total - 2) / (2 * k[1:] + total - 3)])
    squared = k * (k + a - 1) * (k + b - 1) * ratio / ((2 * k + total - 2) ** 2 * (2 * k + total - 1))
    beside = np.sqrt(squared)
    nodes, vectors = np.linalg.eigh(np.diag(centre) + np.diag(beside, 1) + np.diag(beside, -1))
    return np.clip(nodes, 0.0, 1.0), vectors[0] ** 2
