"""Bounded least squares with a covariance: the one fitting routine behind every calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

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


@dataclass(frozen=True)
class LinearFit:
    """Estimates of a linear model in the order of its columns, with their covariance, and the data's residuals."""

    values: Array
    covariance: Array
    residuals: Array
    leverage: Array
    """Of each datum: by how much its own residual is too small, being fitted to itself."""


def fit_linear(
    matrix: Array, wanted: Array, prior: Array | None = None, prior_wanted: Array | None = None, noise: float = 0.05
) -> LinearFit:
    """Numbers of at least 0 that minimise ``rho((matrix @ numbers - wanted) / noise)``, with rho the soft L1 loss.

    Args:
        matrix: [data, numbers].
        wanted: [data].
        prior: [priors, numbers], what is believed beforehand, in units of its own standard deviation.
        prior_wanted: [priors].
        noise: residuals well beyond it count linearly, so that one bad measurement cannot bend the rest.

    The covariance is the sandwich ``H^-1 (sum of squared scores) H^-1`` of M-estimation (Huber 1964; White 1980),
    scaled by n / (n - p); numbers that end at 0 are taken as known to within what the data say of them alone.
    """
    scale = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    scaled = matrix / scale
    extra = np.zeros((0, len(scale))) if prior is None else prior / scale * noise
    extra_wanted = np.zeros(0) if prior_wanted is None else prior_wanted * noise
    rows, target = np.vstack([scaled, extra]), np.concatenate([wanted, extra_wanted])
    start = np.maximum(np.linalg.lstsq(rows, target, rcond=1e-12)[0], 1e-9)
    solution = least_squares(
        lambda x: rows @ x - target,
        start,
        jac=lambda _: rows,
        bounds=(np.zeros(len(scale)), np.full(len(scale), np.inf)),
        loss="soft_l1",
        f_scale=noise,
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=2000,
    )
    left = rows @ solution.x - target
    tension = np.sqrt(1 + (left / noise) ** 2)
    slope, curve = left / tension, 1 / tension**3
    hessian = rows.T @ (rows * curve[:, None])
    inverse = np.linalg.pinv(hessian, hermitian=True)
    count = len(wanted)
    data, scores = rows[:count], slope[:count]
    leverage = np.einsum("ij,jk,ik->i", data, inverse, data) * curve[:count]
    freedom = max(count - float(leverage.sum()), 1.0)
    spread = float(scores @ scores) / freedom
    prior_part = extra.T @ extra * spread
    meat = (data.T @ (data * scores[:, None] ** 2)) * count / freedom + prior_part
    covariance = inverse @ meat @ inverse / np.outer(scale, scale)
    return LinearFit(solution.x / scale, covariance, left[:count], np.clip(leverage, 0.0, 0.99))
