"""Synthetic worlds for the planner: targets, drafts and what turns out, drawn from what it believes, or from worse."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.plan.ranking import Entry, drawn, ranked
from simulator.prior.acceptance import AcceptancePrior
from simulator.prior.sizes import Sizes

WORLDS, DRAWS = 1000, 500
LOOKAHEAD = tuple(range(1, 9))


@dataclass(frozen=True)
class Choice:
    """What the planner said of its choice in one world, and whether it turned out to be the best."""

    p_best: float
    right: bool
    regret: float
    """By how much the choice takes longer than the best, in truth."""


@dataclass(frozen=True)
class World:
    """How what turns out differs from what the planner believes."""

    name: str
    residual: float = 1.0
    """Times the residual that the planner takes."""
    bias: float = 0.0
    """Added to the logit of every acceptance."""
    own: float = 0.0
    """Standard deviation of what is added to the logit of each draft's acceptance alone."""
    ignored: bool = False
    """Whether the planner takes the prior's median for certain and times for exact: what a careless one would do."""


BELIEVED = World("as believed")
WORSE = (
    World("residuals doubled", residual=2.0),
    World("acceptance lower by 0.5 in the logit", bias=-0.5),
    World("acceptance lower by 1 in the logit", bias=-1.0),
    World("acceptance of each draft off by 1 in the logit", own=1.0),
    World("residuals doubled, acceptance lower by 1 and of each draft off by 1", residual=2.0, bias=-1.0, own=1.0),
)
CARELESS = World("as believed, by a planner that takes the prior and the times for exact", ignored=True)


def choices(world: World, count: int = WORLDS, seed: int = 20260711) -> Iterator[Choice]:
    """The planner's choice in each of ``count`` worlds: 2 to 6 drafts of random shapes, and plain decoding."""
    prior = AcceptancePrior.of()
    for number in range(count):
        made = np.random.default_rng([seed, number])  # the same worlds, whatever turns out in them
        drafts = int(made.integers(2, 7))
        layers = np.exp(made.uniform(np.log(2), np.log(48), drafts)).round()
        width = 128 * np.exp(made.uniform(np.log(8), np.log(64), drafts)).round()
        size = 12 * layers * width**2 + 32_000 * width
        target = Sizes.of(np.array([7e10]))
        sizes = Sizes.of(size, None, layers, width)
        plain, residual = 14e-3, float(made.uniform(0.02, 0.2))
        # A step of a draft: its weights, its collectives, and what is its own.
        step = (size * 2 / 16 / 1e12 + layers * made.uniform(5e-6, 80e-6)) * np.exp(made.normal(0, 0.3, drafts))
        rest = tuple(plain * (1 + made.uniform(0.0, 0.06) * k) for k in LOOKAHEAD)
        entries = [Entry("no draft", "", (), (), (plain,))]
        entries += [
            Entry(f"draft {i}", "", LOOKAHEAD, tuple(float(step[i]) * k for k in LOOKAHEAD), rest)
            for i in range(drafts)
        ]
        alpha = prior.draws(target, sizes, "mixed", DRAWS, made)
        if world.ignored:
            leader = ranked(entries, np.broadcast_to(np.median(alpha, axis=0), alpha.shape), 0.0, DRAWS, made)[0]
        else:
            leader = ranked(entries, alpha, residual, DRAWS, made)[0]
        truth = np.random.default_rng([seed, number, 1])
        real = _shifted(
            prior.draws(target, sizes, "mixed", 1, truth), world.bias + world.own * truth.standard_normal(drafts)
        )
        took = drawn(entries, real, residual * world.residual, 1, truth)[0][0]
        own = took[[entry.name for entry in entries].index(leader.entry.name)]
        yield Choice(leader.p_best, bool(own <= took.min()), float(own / took.min() - 1))


def _shifted(rates: npt.NDArray[np.float64], bias: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    odds = rates / np.maximum(1 - rates, 1e-12) * np.exp(bias)
    return np.asarray(odds / (1 + odds))


def table(worlds: tuple[World, ...] = (BELIEVED, *WORSE, CARELESS), count: int = WORLDS) -> str:
    """How often choices are right, by the chance that was given to them, in each kind of world."""
    edges = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.01)
    lines = []
    for world in worlds:
        found = list(choices(world, count))
        chance = np.array([one.p_best for one in found])
        right = np.array([one.right for one in found])
        lines.append(
            f"{world.name}: said {chance.mean():.1%}, right {right.mean():.1%}, "
            f"too sure by {chance.mean() - right.mean():+.1%}, mean regret {np.mean([one.regret for one in found]):.1%}"
        )
        for low, high in itertools.pairwise(edges):
            inside = (chance >= low) & (chance < high)
            if inside.any():
                lines.append(
                    f"  given {low:.0%} to {min(high, 1):.0%}: {inside.sum():4d} choices, "
                    f"said {chance[inside].mean():.1%}, right {right[inside].mean():.1%}"
                )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")  # noqa: T201
