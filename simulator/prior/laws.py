"""Loss of a language model by parameters and training tokens.

``L(N, D) = E + A / N^alpha + B / D^beta`` in nats per token (Hoffmann et al. 2022, arXiv 2203.15556, equation 2). N is
all parameters, as Hoffmann et al. count them. Constants: theirs as printed, and those of the refit by Besiroglu et al.
2024, arXiv 2404.10102, who found the printed ones not to fit the paper's own data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.spec.prior import LossPoint

Array = npt.NDArray[np.float64]

TOKENS_PER_PARAMETER = 20.0
"""Training tokens where nobody says: the compute-optimal ratio of Hoffmann et al. 2022, table 3."""
PIVOT_PARAMETERS, PIVOT_TOKENS = 1e9, 4e10
"""The middle of the fitted data, 44M to 16B parameters: there the terms stay where they are when an exponent moves."""
NOISE = 0.02
"""Nats by which losses of one grid scatter around such a law (the reading error of Besiroglu et al.'s points)."""
OWN_SPREAD = (1.0, 0.5, 0.5)
"""How far another data set and tokenizer may move E in nats, and A and B relatively, before points of it are seen."""


@dataclass(frozen=True)
class Law:
    """One law with its uncertainty."""

    name: str
    source: str
    floor: float
    """E, what no model gets below."""
    a: float
    b: float
    alpha: float
    beta: float
    alpha_error: float
    beta_error: float
    """Standard errors of the exponents; those of A and B follow, see :meth:`drawn`."""
    factors: tuple[tuple[float, float], tuple[float, float]] = ((0.0, 0.0), (0.0, 0.0))
    """Covariance of the relative errors of A and B, where own losses were fitted."""

    def terms(self, parameters: Array, tokens: Array) -> Array:
        """What the loss lies above E."""
        return np.asarray(self.a * parameters**-self.alpha + self.b * tokens**-self.beta)

    def loss(self, parameters: Array, tokens: Array) -> Array:
        """The loss in nats per token."""
        return self.floor + self.terms(parameters, tokens)

    def drawn(self, count: int, rng: np.random.Generator) -> Drawn:
        """``count`` such laws.

        The published errors of A and alpha, and of B and beta, cannot be drawn independently: their fits are strongly
        correlated, and the covariance is not published. A moves with alpha such that the term stays where it is in the
        middle of the data; that gives log A a deviation of 0.32 and log B of 0.50, published are 0.26 and 0.62.
        """
        alpha = np.maximum(self.alpha + self.alpha_error * rng.standard_normal(count), 0.05)
        beta = np.maximum(self.beta + self.beta_error * rng.standard_normal(count), 0.05)
        own = rng.standard_normal((count, 2)) @ _root(np.array(self.factors)).T
        a = self.a * np.maximum(1 + own[:, 0], 0.05) * PIVOT_PARAMETERS ** (alpha - self.alpha)
        b = self.b * np.maximum(1 + own[:, 1], 0.05) * PIVOT_TOKENS ** (beta - self.beta)
        return Drawn(a[:, None], b[:, None], alpha[:, None], beta[:, None])

    def given(self, points: Sequence[LossPoint]) -> Law:
        """The law with E, A and B of one's own models: their exponents are the published ones.

        A Gaussian posterior: E, A and B are believed to lie within :data:`OWN_SPREAD` of the published ones, the losses
        within :data:`NOISE` of the law. So one point moves the level, and points of several sizes and tokens the rest.
        """
        if not points:
            return self
        sizes, tokens = (np.array([getattr(p, key) for p in points]) for key in ("parameters", "tokens"))
        columns = np.column_stack([np.ones(len(points)), self.a * sizes**-self.alpha, self.b * tokens**-self.beta])
        left = np.array([p.loss for p in points]) - columns @ np.array([self.floor, 1.0, 1.0])
        precision = columns.T @ columns / NOISE**2 + np.diag(np.array(OWN_SPREAD) ** -2)
        covariance = np.linalg.inv(precision)
        moved = covariance @ (columns.T @ left) / NOISE**2
        factor = np.maximum(1 + moved[1:], 0.05)
        scaled = covariance[1:, 1:] / np.outer(factor, factor)
        return replace(
            self,
            name=f"{self.name}, own losses",
            floor=float(self.floor + moved[0]),
            a=float(self.a * factor[0]),
            b=float(self.b * factor[1]),
            alpha_error=0.0,
            beta_error=0.0,
            factors=((float(scaled[0, 0]), float(scaled[0, 1])), (float(scaled[1, 0]), float(scaled[1, 1]))),
        )


@dataclass(frozen=True)
class Drawn:
    """Laws, each a row [count, 1]."""

    a: Array
    b: Array
    alpha: Array
    beta: Array

    def terms(self, parameters: Array, tokens: Array) -> Array:
        """What the loss lies above E; [count, models]."""
        return np.asarray(self.a * parameters**-self.alpha + self.b * tokens**-self.beta)


def _root(matrix: Array) -> Array:
    sizes, axes = np.linalg.eigh(matrix)
    return np.asarray(axes * np.sqrt(np.clip(sizes, 0.0, None)))


# Hoffmann et al. published no errors of these constants; those of the refit to their data stand in.
LAWS = {
    law.name: law
    for law in (
        Law(
            "besiroglu-2024",
            "Besiroglu et al. 2024, arXiv 2404.10102; errors: bootstrap in data_analysis.ipynb of "
            "github.com/epoch-research/analyzing-chinchilla at 92258837",
            *(1.81686, 482.01, 2085.43, 0.34781, 0.36585),
            *(0.01540, 0.02060),
        ),
        Law(
            "hoffmann-2022",
            "Hoffmann et al. 2022, arXiv 2203.15556, approach 3 in the precision of its TeX source; read in a "
            "third-party transcription",
            *(1.6934, 406.4, 410.7, 0.3392, 0.2849),
            *(0.01540, 0.02060),
        ),
    )
}
