"""The acceptance prior: what to expect of drafts that do not exist yet, and how surely.

Pinsker's inequality bounds acceptance from below, ``1 - E[TV] >= 1 - sqrt(KL / 2)``, with temperature 1 and nothing
truncated. On text that the target wrote, excess loss is that KL. So the bound is applied where one's own losses are the
law, and not to gaps of the published laws: those are of other text, and published pairs do lie below it (docs/prior).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.prior import fitted
from simulator.prior.curve import Curve
from simulator.prior.laws import LAWS, Law
from simulator.prior.shape import Shape
from simulator.prior.sizes import Sizes
from simulator.spec.prior import PriorSpec

Array = npt.NDArray[np.float64]

KNOTS = np.concatenate([[0.0], np.geomspace(1e-6, 50.0, 600)])
"""Gaps at which the mean is known; between them it is linear."""
TABLE_DRAWS, SUMMARY_DRAWS, SEED = 2000, 2000, 20240415


@dataclass(frozen=True)
class Summary:
    """Of each draft the mean and the 90 % interval of its acceptance rate."""

    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class AcceptancePrior:
    """Acceptance of drafts by their sizes, as a distribution."""

    law: Law
    shape: Shape
    curve: Curve
    worth: fitted.HeldOut
    """What its published part is worth."""
    own_points: int = 0
    own_losses: int = 0

    @classmethod
    def of(cls, spec: PriorSpec | None = None, temperature: float = 1.0) -> AcceptancePrior:
        """The prior of published pairs, or what one's own points make of it.

        Args:
            temperature: at which own points were measured.
        """
        spec = spec or PriorSpec()
        curve = fitted.curve(spec.law)
        if spec.points:
            gaps, rates = np.array([p.gap for p in spec.points]), np.array([p.acceptance for p in spec.points])
            curve = curve.given(gaps, rates, spec.domain, temperature)
        law = LAWS[spec.law].given(spec.losses)
        return cls(law, fitted.shape(), curve, fitted.held_out(spec.law), len(spec.points), len(spec.losses))

    def loss_gap(self, target: Sizes, draft: Sizes) -> Array:
        """Excess loss of every draft over the target in nats per token, [drafts]; 0 where it would be the better."""
        above = self.law.terms(*_counted(self.shape, draft)) - self.law.terms(*_counted(self.shape, target))
        return np.maximum(above, 0.0)

    def mean(self, target: Sizes, draft: Sizes, domain: str = "mixed", temperature: float = 1.0) -> Array:
        """Expected acceptance of every draft, [drafts].

        By the published law and shape, over what is not known of the curve: it never falls with a smaller gap, because
        it is a mean of curves none of which does. A draft without a gap is the target itself, and is always accepted.
        """
        gap = self.loss_gap(target, draft)
        return np.interp(gap, KNOTS, self._table(domain, temperature))

    def draws(
        self,
        target: Sizes,
        draft: Sizes,
        domain: str,
        count: int,
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> Array:
        """``count`` joint draws of the acceptance of all drafts, [count, drafts].

        Law, shape, slope and level of a draw are those of all its drafts; what one draft has of its own is drawn for
        each.
        """
        law, strength = self.law.drawn(count, rng), self.shape.drawn(count, rng)
        gap = law.terms(*_counted(self.shape, draft, strength)) - law.terms(*_counted(self.shape, target, strength))
        gap = np.maximum(gap, 0.0)
        drawn = self.curve.draws(_log(gap), domain, temperature, count, rng)
        return np.maximum(drawn, self._floor(gap, temperature))

    def summary(self, target: Sizes, draft: Sizes, domain: str = "mixed", temperature: float = 1.0) -> Summary:
        """Mean and 90 % interval of every draft."""
        rng = np.random.default_rng(SEED)
        drawn = self.draws(target, draft, domain, SUMMARY_DRAWS, rng, temperature)
        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
        return Summary(self.mean(target, draft, domain, temperature), low, high)

    @property
    def statement(self) -> str:
        """What this is worth, for whoever uses it."""
        w = self.worth
        verdict = (
            "It beats that constant by 20 %."
            if w.beats_constant
            else "It does not beat that constant by 20 %, so it gives only the order of drafts, not their level."
        )
        said = (
            f"Acceptance prior ({self.law.name}), on {w.pairs} published pairs of {w.families} families, each "
            f"predicted without its family: mean absolute error {w.error:.3f}, beside {w.constant_error:.3f} of the "
            f"best constant; the 90 % interval holds {w.coverage:.0%}; order of drafts of one target and task: rank "
            f"correlation {w.rank_correlation:.2f} in {w.groups} groups of {w.group_families} families. {verdict} "
        )
        if self.own_points:
            said += f"Here the level is that of {_points(self.own_points)} of your own; "
        else:
            said += "One measured draft of the same target and task gives the level: "
        said += (
            f"from the smallest draft of each group the other {w.one_point_pairs} were predicted to "
            f"{w.one_point_error:.3f}, beside {w.one_point_constant_error:.3f} of taking them as equal."
        )
        if self.own_losses:
            said += f" The constants of the law are those of {_points(self.own_losses)} of your own."
        return said

    def _table(self, domain: str, temperature: float) -> Array:
        """Mean acceptance at the knots."""
        drawn = self.curve.draws(
            _log(KNOTS)[None, :], domain, temperature, TABLE_DRAWS, np.random.default_rng(SEED), shared=True
        )
        mean: Array = np.maximum(drawn, self._floor(KNOTS, temperature)).mean(axis=0)
        return mean

    def _floor(self, gap: Array, temperature: float) -> Array:
        """Pinsker's bound where it holds, else 0."""
        return pinsker(gap) if self.own_losses and temperature == 1.0 else np.zeros_like(gap)


def pinsker(gap: Array) -> Array:
    """Least acceptance at temperature 1, where the gap is the divergence of the draft from the target."""
    return np.asarray(np.maximum(1 - np.sqrt(gap / 2), 0.0))


def _counted(shape: Shape, models: Sizes, strength: Array | None = None) -> tuple[Array, Array]:
    """Parameters as good as those of an ordinary shape, and tokens."""
    return np.asarray(models.parameters * shape.factor(models.layers, models.width, strength)), models.tokens


def _log(gap: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(gap))


def _points(count: int) -> str:
    return f"{count} point" + ("s" if count > 1 else "")
