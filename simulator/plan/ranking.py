"""Who is best, how surely, and what it costs to be wrong: joint draws of acceptance and of times.

Every draw takes one state of what is not known: acceptance of all drafts from the prior, whose level and slope they
share; a factor on all times of the target, one on all times of drafts, and one for each draft alone. Each factor is
logarithmically normal with ``residual / sqrt(2)`` of the calibration, so that a time misses by the residual, as the fit
did: half of that in common, half alone. In each draw every candidate takes its best lookahead, as one sets it once
acceptance is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.speculation import tokens_per_round

Array = npt.NDArray[np.float64]

DEFAULT_RESIDUAL = 0.1
"""Relative error of a time where a calibration does not say."""
APART = 0.05
"""A candidate can be told from the leader where it is the better one in fewer draws than this share."""


@dataclass(frozen=True)
class Entry:
    """One candidate: the target with a draft, or without."""

    name: str
    option: str
    """The way to serve the target; empty for the scenario's own."""
    lookahead: tuple[int, ...]
    drafted_s: tuple[float, ...]
    """Of a round, what the draft takes, by lookahead; empty without a draft."""
    rest_s: tuple[float, ...]
    """Of a round, what target and acceptance take; of plain decoding the one step."""
    weight: float = 1.0
    """What a second counts: chips, where the objective is cost."""

    @property
    def plain(self) -> bool:
        """Whether nothing drafts."""
        return not self.drafted_s

    @property
    def round_s(self) -> Array:
        """Seconds of a round by lookahead, [K]; of plain decoding those of its step."""
        return np.asarray(np.array(self.drafted_s or 0.0) + np.array(self.rest_s))


@dataclass(frozen=True)
class Ranked:
    """What the draws say of one candidate; times are seconds a token, times its weight."""

    entry: Entry
    p_best: float
    p_beats_leader: float
    regret: float
    """Mean of how much more it takes than the best of each draw, relative to the mean of the best."""
    value_s: float
    low_s: float
    high_s: float
    lookahead: int
    """The one to begin with: of least mean over the draws, when acceptance is not known yet; 0 without a draft."""
    apart: bool
    """Whether it can be told from the leader."""


def ranked(
    entries: Sequence[Entry], acceptance: Array, residual: float | None, count: int, rng: np.random.Generator
) -> list[Ranked]:
    """The candidates by their expected regret, the leader first.

    Args:
        entries: the candidates.
        acceptance: draws of the acceptance of each that drafts, in their order; [count, drafts].
        residual: relative error of times, as the calibration states it.
        count: draws.
        rng: of the times.
    """
    values, depths = drawn(entries, acceptance, residual, count, rng)
    best = values.min(axis=1)
    winners = np.bincount(values.argmin(axis=1), minlength=len(entries)) / count
    regret = (values - best[:, None]).mean(axis=0) / best.mean()
    leader = int(regret.argmin())
    beats = (values < values[:, [leader]]).mean(axis=0)
    limits = np.quantile(values, [0.05, 0.95], axis=0)
    found = [
        Ranked(
            entry,
            float(winners[i]),
            float(beats[i]),
            float(regret[i]),
            float(np.median(values[:, i])),
            float(limits[0, i]),
            float(limits[1, i]),
            depths[i],
            bool(i != leader and beats[i] < APART),
        )
        for i, entry in enumerate(entries)
    ]
    return sorted(found, key=lambda one: one.regret)


def drawn(
    entries: Sequence[Entry], acceptance: Array, residual: float | None, count: int, rng: np.random.Generator
) -> tuple[Array, list[int]]:
    """Weighted time a token of every candidate in every draw, [count, entries], at the best lookahead of the draw; and
    of every candidate the one lookahead that is best over all draws.
    """
    spread = (DEFAULT_RESIDUAL if residual is None else residual) / np.sqrt(2)
    target, drafts = np.exp(spread * rng.standard_normal((2, count)))
    own = np.exp(spread * rng.standard_normal((count, len(entries))))
    values, depths = np.empty((count, len(entries))), [0] * len(entries)
    column = 0
    for i, entry in enumerate(entries):
        if entry.plain:
            values[:, i] = entry.weight * entry.rest_s[0] * target
            continue
        depth = np.array(entry.lookahead)
        tokens = tokens_per_round(acceptance[:, column, None], depth[None, :])
        column += 1
        drafted = np.array(entry.drafted_s)[None, :] * (drafts * own[:, i])[:, None]
        each = (drafted + np.array(entry.rest_s)[None, :] * target[:, None]) / tokens
        values[:, i] = entry.weight * each.min(axis=1)
        depths[i] = int(depth[each.mean(axis=0).argmin()])
    return values, depths
