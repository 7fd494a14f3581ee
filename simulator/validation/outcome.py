"""All that a validation found, in one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.spec.design import Design
from simulator.spec.hardware import HardwareProfile
from simulator.spec.probe import HostDescription, ProbeRecord, digest
from simulator.validation.criteria import Criterion, Verdict, criteria, verdict
from simulator.validation.held_out import HeldOut, Ranking, held_out, noise_floor, rankings

CLOSE = 0.3
"""Drafts whose rounds differ by less are hard to order."""


@dataclass(frozen=True)
class Summary:
    """Errors of one component on one number of devices, relative."""

    quantity: str
    where: str
    count: int
    bias: float
    median: float
    ninetieth: float
    covered: float


@dataclass(frozen=True)
class Outcome:
    """Held-out shapes, what they say together, and whether that is enough."""

    design: str
    calibration: str
    host: HostDescription
    found: tuple[HeldOut, ...]
    ranks: tuple[Ranking, ...]
    checked: tuple[Criterion, ...]
    noise_floor: float
    """Relative gap between processes that nine in ten shapes stay below."""
    drift: dict[int, float]

    @property
    def verdict(self) -> Verdict:
        """Whether the calibration is validated."""
        return verdict(self.checked)

    @property
    def passed(self) -> bool:
        """Passed, or with one narrow miss."""
        return self.verdict != "failed"

    def summaries(self) -> list[Summary]:
        """Errors by component: away from a cache's edge and at it on one device, and on several."""
        found = []
        for quantity in dict.fromkeys(one.quantity for one in self.found):
            own = [one for one in self.found if one.quantity == quantity]
            single = [one for one in own if one.point.chips == 1]
            places: dict[str, Sequence[HeldOut]] = {
                "1 device": [one for one in single if not one.edge],
                "1, cache edge": [one for one in single if one.edge],
            }
            for chips in sorted({one.point.chips for one in own} - {1}):
                places[f"{chips} devices"] = [one for one in own if one.point.chips == chips]
            found += [_summary(quantity, where, chosen) for where, chosen in places.items() if chosen]
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema_version": 1,
            "design": self.design,
            "calibration": self.calibration,
            "host": self.host.model_dump(mode="json", exclude_defaults=True),
            "verdict": self.verdict,
            "criteria": [vars(criterion) | {"met": criterion.met} for criterion in self.checked],
            "noise_floor": _short(self.noise_floor),
            "drift": {str(chips): _short(value) for chips, value in self.drift.items()},
            "summaries": [vars(summary) for summary in self.summaries()],
            "pairs_of_drafts": self.pairs(),
            "held_out": [_held(one) for one in self.found],
        }

    def pairs(self) -> dict[str, int]:
        """How many pairs of drafts were compared, are close, differ by more than noise, and were ordered rightly."""
        resolved = [pair for pair in self.ranks if pair.resolved]
        return {
            "compared": len(self.ranks),
            "within_30_percent": sum(abs(pair.apart) < CLOSE for pair in self.ranks),
            "differ_by_more_than_noise": len(resolved),
            "ordered_rightly": sum(pair.right for pair in resolved),
        }


def outcome(
    steady: Sequence[ProbeRecord],
    design: Design,
    profile: HardwareProfile,
    calibration: str,
    rate: float,
    drifted: dict[int, float],
) -> Outcome:
    """Predict what was held out, and compare.

    Args:
        steady: measured, of every role, drift between processes taken out.
        design: that they were measured by.
        profile: of the machine, with the calibration.
        calibration: its name.
        rate: acceptance rate that generations were forced to.
        drifted: by devices, the drift that was taken out.
    """
    known = profile.calibrations[calibration]
    found = held_out(steady, design, profile, known, rate)
    floor = noise_floor(steady)
    ranks = rankings(found, noise_floor(steady, ("generation",)))
    host = steady[0].host
    name = f"{design.name} {digest([point.key for point in design.points()])}"
    return Outcome(name, calibration, host, tuple(found), tuple(ranks), tuple(criteria(found, ranks)), floor, drifted)


def _summary(quantity: str, where: str, found: Sequence[HeldOut]) -> Summary:
    errors = np.array([one.error for one in found])
    return Summary(
        quantity,
        where,
        len(found),
        _short(float(np.mean(errors))),
        _short(float(np.median(np.abs(errors)))),
        _short(float(np.quantile(np.abs(errors), 0.9))),
        _short(float(np.mean([one.covered for one in found]))),
    )


def _held(one: HeldOut) -> Mapping[str, Any]:
    numbers = {name: _short(getattr(one, name)) for name in ("measured", "predicted", "low", "high", "spread")}
    return {
        "quantity": one.quantity,
        "what": one.words,
        "key": one.point.key,
        **numbers,
        "footprint_bytes": round(one.footprint_bytes),
        "edge": one.edge,
        "unseen": one.unseen,
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")
