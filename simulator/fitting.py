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
