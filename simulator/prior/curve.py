"""From excess loss to acceptance: a curve that falls, and how far families and tasks lie from it.

``acceptance = exp(-c gap^p)``, so that it is in (0, 1] and, of small gaps, ``1 - acceptance = c gap^p``. With
``z = ln(-ln(acceptance))`` that is linear: ``z = ln c + p ln(gap) + temperature + domain + level + rest``. The level is
what a family of models and a task have of their own, the rest what one draft has. Their sizes are fitted with all else
(restricted maximum likelihood), so that drafts of one family and task teach p, and families what a new one may do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

Array = npt.NDArray[np.float64]

DOMAINS = ("code", "prose", "chat")
"""Domains with a number of their own; all else is in their middle."""
DOMAIN_SPREAD, TEMPERATURE_SPREAD = 0.3, 1.0
"""How far a domain is believed to lie from the middle in z beforehand, as few families have several; and sampling from
greedy decoding."""
SLOPE, LEVEL = 1, 6
LEAST_SLOPE = 0.02
"""More loss is never accepted more."""


@dataclass(frozen=True)
class Pairs:
    """Published pairs of draft and target, one entry each."""

    gap: Array
    acceptance: Array
    temperature: Array
    domain: tuple[str, ...]
    family: tuple[str, ...]
    task: tuple[str, ...]

    def where(self, wanted: Sequence[bool]) -> Pairs:
        """Those entries alone."""
        keep = np.array(wanted, dtype=bool)
        texts = (
            tuple(t for t, k in zip(part, keep, strict=True) if k) for part in (self.domain, self.family, self.task)
        )
        return Pairs(self.gap[keep], self.acceptance[keep], self.temperature[keep], *texts)


@dataclass(frozen=True)
class Curve:
    """The fitted numbers: ln c, p, temperature, the three domains, and the level, with their covariance."""

    state: Array
    covariance: Array
    rest: float
    """Standard deviation of z of one draft around the level of its family and task."""
    freedom: float
    """Degrees of freedom of Student's law: the families, less one, and own points."""
    of_family: float = 0.0
    of_task: float = 0.0
    """Standard deviations of the two parts of the level, for the record."""

    def draws(
        self,
        log_gap: Array,
        domain: str,
        temperature: float,
        count: int,
        rng: np.random.Generator,
        shared: bool = False,
    ) -> Array:
        """Acceptance of every draft, [count, drafts], from ln of its gap, [count or 1, drafts].

        Within a draw all drafts have the same level and slope: what is not known of the target is not known of all of
        them alike, and cancels where they are compared. With ``shared`` they also have the same rest, so that every
        draw is a curve that falls.
        """
        wide = np.sqrt(self.freedom / rng.chisquare(self.freedom, (count, 1)))
        sizes, axes = np.linalg.eigh(self.covariance)
        noise = rng.standard_normal((count, len(self.state))) @ (axes * np.sqrt(np.clip(sizes, 0.0, None))).T
        state = self.state + wide * noise
        own = wide * self.rest * rng.standard_normal((count, 1 if shared else log_gap.shape[-1]))
        row = features(np.zeros(1), (domain,), np.array([temperature]))[0]
        slope = np.maximum(state[:, SLOPE : SLOPE + 1], LEAST_SLOPE)
        return np.asarray(np.exp(-np.exp((state @ row)[:, None] + slope * log_gap + own)))

    def given(self, gap: Array, acceptance: Array, domain: str, temperature: float) -> Curve:
        """The curve of one target, of which some drafts were measured: a Gaussian posterior of all numbers."""
        rows = features(np.log(gap), (domain,) * len(gap), np.full(len(gap), temperature))
        left = np.log(-np.log(acceptance)) - rows @ self.state
        spread = rows @ self.covariance @ rows.T + self.rest**2 * np.eye(len(gap))
        gain = np.linalg.solve(spread, rows @ self.covariance).T
        return replace(
            self,
            state=self.state + gain @ left,
            covariance=self.covariance - gain @ rows @ self.covariance,
            freedom=self.freedom + len(gap),
        )


def features(log_gap: Array, domain: Sequence[str], temperature: Array) -> Array:
    """The factors of ln c, p, temperature, the domains and the level; [entries, 7].

    Temperature is 0 for greedy decoding and 1 for sampling, in between linear, beyond them that of the nearer.
    """
    ones = np.ones(len(log_gap))
    named = [np.array([float(one == name) for one in domain]) for name in DOMAINS]
    return np.column_stack([ones, log_gap, np.clip(temperature, 0.0, 1.0) - 0.5, *named, ones])


def fit_curve(pairs: Pairs) -> Curve:
    """The numbers of published pairs, by restricted maximum likelihood (Patterson and Thompson 1971).

    The sizes of family and task effects have the prior of Chung et al. 2013 (Psychometrika 78), a gamma law of shape 2
    and vanishing rate, that keeps them off 0, where few groups would otherwise let them collapse.
    """
    rows = features(np.log(pairs.gap), pairs.domain, pairs.temperature)[:, :LEVEL]
    wanted = np.log(-np.log(pairs.acceptance))
    family = np.array(pairs.family)[:, None] == np.array(pairs.family)[None, :]
    task = family & (np.array(pairs.task)[:, None] == np.array(pairs.task)[None, :])
    belief = np.diag([0.0, 0.0, TEMPERATURE_SPREAD**-2, *[DOMAIN_SPREAD**-2] * len(DOMAINS)])

    def solved(logs: Array) -> tuple[Array, Array, float]:
        of_family, of_task, rest = np.exp(2 * logs)
        spread = rest * np.eye(len(wanted)) + of_family * family + of_task * task
        inverse = np.linalg.inv(spread)
        precision = rows.T @ inverse @ rows + belief
        found = np.asarray(np.linalg.solve(precision, rows.T @ inverse @ wanted), dtype=np.float64)
        left = wanted - rows @ found
        likelihood = left @ inverse @ left + found @ belief @ found
        likelihood += np.linalg.slogdet(spread)[1] + np.linalg.slogdet(precision)[1]
        return found, precision, float(likelihood / 2 - logs[0] - logs[1])

    def objective(logs: Array) -> float:
        return solved(logs)[2]

    best = minimize(objective, np.array([-1.0, -1.0, -2.0]), method="Nelder-Mead", tol=1e-7)
    found, precision, _ = solved(best.x)
    of_family, of_task, rest = np.exp(best.x)
    covariance = np.zeros((LEVEL + 1, LEVEL + 1))
    covariance[:LEVEL, :LEVEL] = np.linalg.inv(precision)
    covariance[LEVEL, LEVEL] = of_family**2 + of_task**2
    freedom = float(len(set(pairs.family)) - 1)
    return Curve(np.append(found, 0.0), covariance, float(rest), freedom, float(of_family), float(of_task))
