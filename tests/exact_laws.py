"""Exact laws of what speculative sampling emits and accepts, and Pearson's chi-square against them.

A law is enumerated in float64 from two tables of probabilities, ``[V, ..., V, V]``: one axis for each token that the
next one depends on, one for the next. Outcomes that are expected rarely are grouped with others alike, so that the
statistic of a right sampler is chi-square distributed with one degree of freedom less than there are groups. What a law
rules out is counted apart: a single one of it is a mistake, whatever the statistic says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from scipy.stats import chi2

from runtime.sampling import Sampling

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FALSE_ALARM = 1e-6
"""Of all statistics of one test together."""
EXPECTED = 100
"""Times that each group of outcomes is expected at least."""


@dataclass(frozen=True)
class Fit:
    """How counts compare with a law."""

    samples: int
    statistic: float
    freedom: int
    ruled_out: int
    """Samples that the law gives no probability."""

    def excess(self, false_alarm: float) -> float:
        """The statistic over the threshold that a right sampler passes with this probability."""
        return self.statistic / float(chi2.isf(false_alarm, self.freedom))

    def __str__(self) -> str:
        ratio = self.statistic / self.freedom
        return f"n = {self.samples:,}, chi2 / df = {self.statistic:.1f} / {self.freedom} = {ratio:.3f}"


def fit(counts: npt.ArrayLike, laws: npt.ArrayLike) -> Fit:
    """Compare counts [..., outcomes] with laws of the same shape; rows are independent of each other."""
    observed, expected = (np.atleast_2d(np.asarray(values, np.float64)) for values in (counts, laws))
    statistic, freedom = 0.0, 0
    for row, law in zip(observed, expected, strict=True):
        possible = law > 0
        mean = row[possible].sum() * law[possible]
        order = np.argsort(mean)
        starts = _starts(mean[order])
        seen, wanted = (np.add.reduceat(values[order], starts) for values in (row[possible], mean))
        statistic += float(((seen - wanted) ** 2 / wanted).sum())
        freedom += len(starts) - 1
    return Fit(int(observed.sum()), statistic, freedom, int(observed[expected == 0].sum()))


def _starts(rising: Floats) -> list[int]:
    """Where each group of neighbours starts, so that its sum is large enough."""
    starts, total = [0], 0.0
    for index, value in enumerate(rising):
        if total >= EXPECTED:
            starts.append(index)
            total = 0.0
        total += value
    return starts if total >= EXPECTED or len(starts) == 1 else starts[:-1]


def distributions(logits: npt.ArrayLike, sampling: Sampling) -> Floats:
    """What :meth:`Sampling.filter` promises, written down a second time, one distribution after the other."""
    probs = softmax(np.asarray(logits, np.float64) / sampling.temperature, axis=-1)
    return np.asarray(np.apply_along_axis(_kept, -1, probs, sampling))


def _kept(probs: Floats, sampling: Sampling) -> Floats:
    """The likeliest tokens, one by one, until there are k or the nucleus has its mass; of those, what min_p leaves."""
    falling = np.argsort(-probs)[: sampling.top_k]
    result, mass = np.zeros_like(probs), 0.0
    for token in falling:
        if mass >= sampling.top_p * probs[falling].sum():
            break
        result[token] = probs[token]
        mass += probs[token]
    result[result < sampling.min_p * probs.max()] = 0
    return np.asarray(result / result.sum())


def masses(tables: Iterable[Floats], prompt: Sequence[int]) -> Floats:
    """Products of probabilities along every path after ``prompt``, [V x ... x V]; one table a token."""
    paths, product = np.asarray([prompt]), np.ones(1)
    for table in tables:
        vocabulary = table.shape[-1]
        product = (product[:, None] * table[tuple(paths.T)]).reshape(-1)
        longer = np.repeat(paths, vocabulary, axis=0)[:, 1:]
        paths = np.column_stack([longer, np.tile(np.arange(vocabulary), len(paths))])
    return product


def accepted_law(target: Floats, draft: Floats, prompt: Sequence[int], lookahead: int) -> Floats:
    """Law of :func:`accepted_code`.

    The k tokens of one path are drafted and all accepted with the product of the smaller of their two probabilities.
    After all K the target draws one token, and the next round begins.
    """
    both = np.minimum(target, draft)

    def at_least(*before: Floats) -> Floats:
        rounds = [masses([*before, *[both] * count], prompt).sum() for count in range(lookahead + 1)]
        return np.asarray(rounds)

    first, second = at_least(target), at_least(target, *[both] * lookahead, target)
    return np.concatenate([first[:-1] - first[1:], second - np.append(second[1:], 0)])


def accepted_code(first: Ints, second: Ints, lookahead: int) -> Ints:
    """The count of the first round below K; where all K were accepted, K and the count of the second round."""
    return np.where(first < lookahead, first, lookahead + second)


def histogram(codes: Ints, size: int) -> Ints:
    """Counts [B, size] of codes [n, B]."""
    return np.stack([np.bincount(row, minlength=size) for row in codes.T])


def pair_fits(codes: Ints, laws: Floats) -> list[Fit]:
    """Every two sequences of a batch against independence: codes [n, B] below C, and their laws [B, C]."""
    size = laws.shape[1]

    def of(one: int, other: int) -> Fit:
        counts = np.bincount(codes[:, one] * size + codes[:, other], minlength=size**2)
        return fit(counts, np.outer(laws[one], laws[other]).ravel())

    return [of(one, other) for one, other in combinations(range(len(laws)), 2)]
