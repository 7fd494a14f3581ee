"""What depth costs and gives at a fixed number of parameters.

Where width over layers, r, exceeds r0, a model is as good as an ordinary one (r = 64) of ``N exp(phi(64) - phi(r))``
parameters, with ``phi(r) = k ln(r / r0)^2``: too shallow is like too small. One form of two numbers for four
published studies; k differs between them, which is its spread. Deeper than r0 neither helps nor hurts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares, minimize_scalar

from simulator.prior.laws import LAWS, TOKENS_PER_PARAMETER

Array = npt.NDArray[np.float64]

ORDINARY = 64.0
"""Width over layers of common models, which stand for those whose shape nobody states."""
NEAR = 1.15
"""Shapes are compared between models whose parameters differ by no more than this, step by step."""
KAPLAN_RATIOS, KAPLAN_LOSS, KAPLAN_EXPONENT = (4288 / 6, 1600 / 48), 1.03, 0.076
"""Kaplan et al. 2020, arXiv 2001.08361, figure 5: 6 layers of 4288 are within 3 % of the loss of 48 layers of 1600; and
the exponent of their ``L(N) = (N_c / N)^0.076``. They count parameters without embeddings."""


@dataclass(frozen=True)
class Shape:
    """The form with its two numbers and the spread of k between studies."""

    ratio: float
    """r0."""
    strength: float
    """k, the geometric mean over the studies."""
    log_error: float
    """Standard deviation of ln k between studies."""

    def factor(self, layers: Array | None, width: Array | None, strength: Array | float | None = None) -> Array | float:
        """By which the parameters of such a shape count; 1 where the shape is not stated."""
        if layers is None or width is None:
            return 1.0
        k = self.strength if strength is None else strength
        above = _above(np.asarray(width / layers), self.ratio) - _above(np.array(ORDINARY), self.ratio)
        return np.asarray(np.exp(-k * above))

    def drawn(self, count: int, rng: np.random.Generator) -> Array:
        """``count`` values of k, [count, 1]."""
        return np.asarray(self.strength * np.exp(self.log_error * rng.standard_normal((count, 1))))


@dataclass(frozen=True)
class Trained:
    """One trained model of a study; models of one block may be compared."""

    block: str
    parameters: float
    layers: int
    width: int
    tokens: float | None
    """None where the study does not say: all models of the block had the same."""
    loss: float


def fit_shape(studies: Mapping[str, Sequence[Trained]]) -> tuple[Shape, dict[str, float]]:
    """The form that fits all studies best, with one r0, and k of each study.

    Within a cluster of models of nearly equal size and tokens the loss minus the law's is that of the shape and a
    constant. Kaplan et al.'s statement bounds k, and is taken as its value.
    """
    clusters = {name: _clusters(rows) for name, rows in studies.items()}

    def squares(log_ratio: float) -> float:
        return sum(_strength(own, float(np.exp(log_ratio)))[1] for own in clusters.values())

    found = minimize_scalar(squares, bounds=(np.log(5.0), np.log(60.0)), method="bounded")
    ratio = float(np.exp(found.x))
    each = {name: _strength(own, ratio)[0] for name, own in clusters.items()}
    wide, usual = (float(_above(np.array(r), ratio)) for r in KAPLAN_RATIOS)
    each["kaplan-2020"] = float(np.log(KAPLAN_LOSS) / KAPLAN_EXPONENT / (wide - usual))
    logs = np.log(list(each.values()))
    return Shape(ratio, float(np.exp(logs.mean())), float(logs.std(ddof=1))), each


def _above(ratio: Array, at: float) -> Array:
    return np.asarray(np.maximum(np.log(ratio / at), 0.0) ** 2)


def _clusters(rows: Sequence[Trained]) -> list[list[Trained]]:
    """Models of one block and nearly equal size, of two layers or more: one layer is not a deep model made shallow.

    Kaplan et al. 2020 (figure 6) find the same: models of fewer than two layers leave the trend of all others.
    """
    found: list[list[Trained]] = []
    deep = sorted((row for row in rows if row.layers >= 2), key=lambda row: (row.block, row.parameters))
    for row in deep:
        last = found[-1][-1] if found else None
        if last is not None and row.block == last.block and row.parameters <= NEAR * last.parameters:
            found[-1].append(row)
        else:
            found.append([row])
    return [cluster for cluster in found if len(cluster) > 1]


def _strength(clusters: Sequence[Sequence[Trained]], ratio: float) -> tuple[float, float]:
    """k of one study and the sum of squares that it leaves."""
    law = LAWS["besiroglu-2024"]

    def residuals(k: Array) -> Array:
        parts = []
        for cluster in clusters:
            size = np.array([row.parameters for row in cluster])
            tokens = np.array([row.tokens or TOKENS_PER_PARAMETER * cluster[0].parameters for row in cluster])
            above = _above(np.array([row.width / row.layers for row in cluster]), ratio)
            left = law.terms(size * np.exp(-k[0] * above), tokens) - np.array([row.loss for row in cluster])
            parts.append(left - left.mean())
        return np.concatenate(parts)

    solution = least_squares(residuals, [0.1], bounds=([0.0], [2.0]))
    return float(solution.x[0]), float(2 * solution.cost)
