"""The 90 % interval of a prediction: how sure its parameters are, and how far measured times lie from such a model.

Every component is linear in what was fitted (``simulator.calibration.form``), so its variance from the parameters is
``J C J^T`` with the exact gradient J and their covariance C. To it comes the spread of measured over predicted times
of that component, as the fit left it. Of ratios of components the shared part of the errors cancels. Acceptance is an
input and adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.calibration.form import values_of
from simulator.fitting import NINE_IN_TEN
from simulator.spec.confidence import Uncertainty
from simulator.spec.hardware import Calibration
from simulator.steps import Steps

Array = npt.NDArray[np.float64]

RATES = {
    "tpot_s": (1, 0),
    "tokens_per_s": (-1, 0),
    "e2e_s": (1, 0),
    "million_tokens_usd": (1, 0),
    "round_cost": (1, -1),
    "speedup": (-1, 1),
}
"""Metrics that go with the time of a round, or of a plain step where nobody drafts: powers of it and of the latter."""


def with_intervals(metrics: Mapping[str, Any], spreads: Mapping[str, float]) -> dict[str, Any]:
    """``metrics`` with a ``_low`` and a ``_high`` beside each that has a relative spread and no interval yet.

    The limits are those of a logarithmic normal law: times are positive, and errors relative.
    """
    found = dict(metrics)
    for name, relative in spreads.items():
        if name in metrics and f"{name}_low" not in metrics:
            factor = math.exp(NINE_IN_TEN * relative)
            found |= {f"{name}_low": metrics[name] / factor, f"{name}_high": metrics[name] * factor}
    return found


def relative_spreads(steps: Steps) -> dict[str, float]:
    """Relative standard deviation of each metric; empty where the calibration does not say how sure it is."""
    deployment = steps.scenario.deployment
    known = {n: steps.calibration.uncertainty_for(n) for n in {deployment.target_degree, deployment.draft_degree}}
    sure = [one for one in known.values() if one is not None]
    if len(sure) < len(known):
        return {}
    base = _seconds(steps)
    gradient = np.concatenate([_gradient(steps, base, one) for one in sure], axis=1)
    # A step that was measured is what it is: only what was not keeps the spread of the model.
    measured = {name for name, anchor in steps.anchors.items() if anchor.measured_s is not None}
    residual = {name: 0.0 if name in measured else spread for name, spread in sure[0].residual.items()}
    names = list(base)
    relative = {name: gradient[index] / base[name] for index, name in enumerate(names) if base[name] > 0}
    found = {
        f"{name}_s": math.hypot(float(np.linalg.norm(row)), residual.get(name, residual.get("round", 0.0)))
        for name, row in relative.items()
    }
    whole = "round" if "round" in relative else "plain_step"
    for metric, (power, plain) in RATES.items():
        if whole == "plain_step" and plain:
            continue
        row = power * relative[whole] + plain * relative["plain_step"]
        left = math.hypot(residual.get(whole, 0.0), plain * residual.get("plain_step", 0.0))
        found[metric] = math.hypot(float(np.linalg.norm(row)), left)
    return found


def covariance(sure: Uncertainty) -> Array:
    """Of the parameters, in their order."""
    count = len(sure.parameters)
    correlation = np.eye(count)
    for index, row in enumerate(sure.correlation):
        correlation[index, :index] = correlation[:index, index] = row
    errors = np.array(sure.standard_errors)
    return np.asarray(correlation * np.outer(errors, errors))


def _gradient(steps: Steps, base: Mapping[str, float], sure: Uncertainty) -> Array:
    """Change of every component for one standard deviation along each principal axis; [components, parameters]."""
    parameters = steps.calibration.for_chips(sure.chips)
    if parameters is None:
        return np.zeros((len(base), 0))
    form, values = values_of(parameters)
    columns = []
    for name in sure.parameters:
        step = max(abs(values[name]), 1e-12)
        moved = form.parameters(values | {name: values[name] + step})
        others = tuple(moved if p is parameters else p for p in steps.calibration.parameters)
        changed: Calibration = steps.calibration.model_copy(update={"parameters": others})
        shifted = _seconds(replace(steps, calibration=changed))
        columns.append([(shifted[key] - seconds) / step for key, seconds in base.items()])
    jacobian = np.array(columns).T
    sizes, axes = np.linalg.eigh(covariance(sure))
    return np.asarray(jacobian @ (axes * np.sqrt(np.clip(sizes, 0.0, None))))


def _seconds(steps: Steps) -> dict[str, float]:
    return {name: sum(by.values()) for name, by in steps.mechanisms().items()}
