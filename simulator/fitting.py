"""Bounded least squares with a covariance: the one fitting routine behind every calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.special import ndtri, stdtrit

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Free:
    """A number to be fitted: where the search starts and where it may go."""

    start: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """Fitted values by name, their covariance in the order of the names, and the residuals at the optimum."""

    values: dict[str, float]
    covariance: Array
    residuals: Array


def fit(residuals: Callable[[Mapping[str, float]], Array], free: Mapping[str, Free], robust: bool = True) -> Fit:
    """Minimise the residuals, relative errors as a rule, over the free numbers within their bounds.

    Every number is scaled by its range, so that microseconds and ratios weigh alike. With ``robust`` residuals far
    beyond 5 % count linearly (soft L1), so that one bad measurement cannot bend the rest.

    The covariance is ``s^2 (J^T J)^-1`` with ``s^2`` the residual variance (Seber and Wild 2003, chapter 5); a
    pseudo-inverse where the residuals do not determine a number.
    """
    names = list(free)
    low = np.array([free[name].low for name in names])
    width = np.array([free[name].high for name in names]) - low

    def unscaled(x: Array) -> dict[str, float]:
        return dict(zip(names, (low + x * width).tolist(), strict=True))

    start = np.clip((np.array([free[name].start for name in names]) - low) / width, 1e-6, 1 - 1e-6)

    def scaled(x: Array) -> Array:
        return residuals(unscaled(x))

    solution = least_squares(
        scaled,
        start,
        bounds=(np.zeros(len(names)), np.ones(len(names))),
        loss="soft_l1" if robust else "linear",
        f_scale=0.05,
        x_scale="jac",
        xtol=1e-9,
        ftol=1e-9,
        gtol=1e-9,
        max_nfev=300,
    )
    values = unscaled(solution.x)
    left = np.asarray(residuals(values), dtype=np.float64)
    freedom = max(len(left) - len(names), 1)
    jacobian = np.asarray(solution.jac, dtype=np.float64)
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * float(left @ left) / freedom
    return Fit(values, covariance * np.outer(width, width), left)


NINE_IN_TEN = 1.6449
"""Standard deviations within which nine in ten normal errors lie."""
FIRST_NOISE = 0.05
NOISE_STEPS = 3
TOLERANCE = 3.0
"""Residuals beyond so many times the noise begin to count linearly."""
MEDIAN_OF_NORMAL = 0.6745
"""Median of the absolute value of a standard normal number."""


@dataclass(frozen=True)
class LinearFit:
    """Estimates of a linear model in the order of its columns, with their covariance, and the data's residuals."""

    values: Array
    covariance: Array
    residuals: Array
    leverage: Array
    """Of each datum: by how much its own residual is too small, being fitted to itself."""


def fit_linear(
    matrix: Array,
    wanted: Array,
    prior: Array | None = None,
    least_noise: float = 1e-9,
    signed: Sequence[int] = (),
) -> LinearFit:
    """Numbers that minimise ``rho((matrix @ numbers - wanted) / noise)``, with rho the soft L1 loss.

    They are at least 0, but for those of the columns ``signed``.

    Residuals well beyond the noise count linearly, so that one bad measurement cannot bend the rest. The noise is that
    of the data, found along the way: so what is believed beforehand gives way to data without noise.

    Args:
        matrix: [data, numbers].
        wanted: [data].
        prior: [beliefs, numbers], sums that are believed to be 0, in units of their own standard deviation.
        least_noise: what the noise is at least; few data can be met by chance.

    The covariance is ``(X^T X / s^2 + B^T B)^-1``, B being the beliefs and ``s^2`` the variance of the data as
    M-estimation has it: mean squared score over squared mean curvature, times n / (n - p) (Huber 1981, section 7.6).
    """
    scale = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    data = matrix / scale
    beliefs = np.zeros((0, len(scale))) if prior is None else prior / scale
    noise, found = FIRST_NOISE, np.full(len(scale), 1e-9)
    for _ in range(NOISE_STEPS):
        found = _robust(data, wanted, beliefs * noise, noise, found, signed)
        left = data @ found - wanted
        _, leverage = _hessian(data, left, beliefs * noise, noise)
        freedom = max(len(wanted) - float(leverage.sum()), 1.0)
        middle = float(np.median(np.abs(left))) / MEDIAN_OF_NORMAL * np.sqrt(len(wanted) / freedom)
        noise = float(np.clip(middle, max(least_noise, 1e-9), 1.0))
    left = data @ found - wanted
    _, leverage = _hessian(data, left, beliefs * noise, noise)
    bend = 1 + (left / (TOLERANCE * noise)) ** 2
    freedom = max(len(wanted) - float(leverage.sum()), 1.0)
    # Not the sandwich of White (1980): where a number rests on one or two data it takes their residuals for the noise.
    variance = float(np.sum(left**2 / bend)) / freedom / float(np.mean(bend**-1.5)) ** 2
    # The variance is itself known from a few residuals only: wider, as Student's law has it at 90 %.
    variance *= float(stdtrit(freedom, 0.95) / ndtri(0.95)) ** 2
    known = data.T @ data / max(variance, least_noise**2, 1e-18) + beliefs.T @ beliefs
    covariance = np.linalg.pinv(known, hermitian=True) / np.outer(scale, scale)
    return LinearFit(found / scale, covariance, left, np.clip(leverage, 0.0, 0.99))


def _robust(data: Array, wanted: Array, beliefs: Array, noise: float, start: Array, signed: Sequence[int]) -> Array:
    """The numbers, with the loss bending at ``TOLERANCE`` times the noise."""
    rows = np.vstack([data, beliefs])
    target = np.concatenate([wanted, np.zeros(len(beliefs))])

    def residuals(numbers: Array) -> Array:
        return np.asarray(rows @ numbers - target)

    def jacobian(_: Array) -> Array:
        return rows

    low = np.zeros(rows.shape[1])
    low[list(signed)] = -np.inf
    solution = least_squares(
        residuals,
        np.maximum(start, low + 1e-9),
        jac=jacobian,
        bounds=(low, np.full(rows.shape[1], np.inf)),
        loss="soft_l1",
        f_scale=TOLERANCE * noise,
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=1000,
    )
    return np.asarray(solution.x, dtype=np.float64)


def _hessian(data: Array, left: Array, beliefs: Array, noise: float) -> tuple[Array, Array]:
    """The inverse of the loss's curvature, and the leverage of each datum."""
    curve = (1 + (left / (TOLERANCE * noise)) ** 2) ** -1.5
    inverse = np.linalg.pinv(data.T @ (data * curve[:, None]) + beliefs.T @ beliefs, hermitian=True)
    leverage = np.einsum("ij,jk,ik->i", data, inverse, data) * curve
    return np.asarray(inverse), np.asarray(leverage)
