"""Accepted counts drawn for a batch: every slot is one sequence, with what belongs to it for all its rounds.

A slot has a domain, a rate, a state or a recorded request of its own. The caller says which slots are active: the
others do not advance. :meth:`Sequences.renew` starts fresh sequences in slots whose old ones are done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Sequences(Protocol):
    """B sequences, each somewhere in its rounds."""

    def accepted(self, active: Bools | None = None) -> Ints:
        """Accepted draft tokens, 0..K, of the next round of every sequence; shape [B].

        Only ``active`` sequences advance, all of them unless given; what the others get means nothing.
        """

    def renew(self, which: Bools) -> None:
        """Fresh sequences in these slots; shape [B]."""


class DrawnSequences:
    """Rounds drawn position by position, at rates that belong to the sequence and to the state it is in."""

    def __init__(
        self,
        batch: int,
        rng: np.random.Generator,
        rates: Callable[[int], Floats],
        initial: Floats,
        transition: Floats,
    ) -> None:
        """``rates(n)`` draws the conditional acceptances of n fresh sequences in each state: [n, Z, K]."""
        self._rng, self._fresh = rng, rates
        self._initial, self._transition = np.cumsum(initial)[:-1], np.cumsum(transition, axis=1)[:, :-1]
        self._rows = np.arange(batch)
        self._rates = np.array(rates(batch))
        self._state = self._first_states(batch)

    def accepted(self, active: Bools | None = None) -> Ints:
        """Accepted draft tokens of the next round; shape [B]."""
        rates = self._rates[self._rows, self._state]
        passed = self._rng.random(rates.shape) < rates
        counts = np.cumprod(passed, axis=-1).sum(axis=-1)
        if len(self._transition) > 1:
            following = _inverse(self._transition[self._state], self._rng)
            self._state = following if active is None else np.where(active, following, self._state)
        return np.asarray(counts, dtype=np.int64)

    def renew(self, which: Bools) -> None:
        """Fresh sequences in these slots; shape [B]."""
        count = int(which.sum())
        self._rates[which] = self._fresh(count)
        self._state[which] = self._first_states(count)

    def _first_states(self, count: int) -> Ints:
        if len(self._transition) == 1:
            return np.zeros(count, dtype=np.int64)
        return _inverse(np.broadcast_to(self._initial, (count, len(self._initial))), self._rng)


class ReplayedSequences:
    """Rounds that replay one of several lists of accepted counts, chosen at random with equal probability."""

    def __init__(self, batch: int, rng: np.random.Generator, lists: tuple[Ints, ...]) -> None:
        self._rng, self._counts = rng, np.concatenate(lists)
        self._lengths = np.array([len(counts) for counts in lists], dtype=np.int64)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._chosen = self._choose(batch)
        self._round = np.zeros(batch, dtype=np.int64)

    def accepted(self, active: Bools | None = None) -> Ints:
        """Accepted draft tokens of the next round; shape [B]."""
        place = self._starts[self._chosen] + self._round % self._lengths[self._chosen]
        self._round += 1 if active is None else active
        return np.asarray(self._counts[place])

    def renew(self, which: Bools) -> None:
        """Fresh sequences in these slots; shape [B]."""
        self._chosen[which] = self._choose(int(which.sum()))
        self._round[which] = 0

    def _choose(self, count: int) -> Ints:
        if len(self._lengths) == 1:
            return np.zeros(count, dtype=np.int64)
        return self._rng.integers(len(self._lengths), size=count)


def choice(shares: Floats, count: int, rng: np.random.Generator) -> Ints:
    """``count`` indices drawn with these shares; shape [count]."""
    return _inverse(np.broadcast_to(np.cumsum(shares)[:-1], (count, len(shares) - 1)), rng)


def _inverse(cumulative: Floats, rng: np.random.Generator) -> Ints:
    """One index a row, drawn by the inverse of the distribution function, its last 1 left out; [n, Z-1] -> [n]."""
    return np.asarray((rng.random((len(cumulative), 1)) >= cumulative).sum(axis=1), dtype=np.int64)
