"""The fitted numbers of the prior, as docs/prior/fit.py wrote them."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simulator.prior.curve import Curve
from simulator.prior.shape import Shape

FILE = Path(__file__).with_name("fitted.json")
WORTH = 0.8
"""The prior says more than the order where its error is at most this share of the best constant's."""


@dataclass(frozen=True)
class HeldOut:
    """What the prior is worth on families that were not in its fit."""

    pairs: int
    families: int
    error: float
    """Mean absolute error of the acceptance rate."""
    constant_error: float
    """The same of the best constant, which is chosen knowing all pairs."""
    coverage: float
    """Share of the pairs within the 90 % interval."""
    rank_correlation: float
    """Mean over groups of drafts of one family, task and temperature."""
    groups: int
    group_families: int
    """Families of those groups: the others have one draft a target and task."""
    one_point_pairs: int
    one_point_error: float
    """Error of the other drafts of a group where its smallest draft was measured."""
    one_point_constant_error: float
    """The same of saying that they are accepted as the smallest is."""
    one_point_coverage: float

    @property
    def beats_constant(self) -> bool:
        """Whether it is better than the best constant by 20 %."""
        return self.error <= WORTH * self.constant_error


def held_out(law: str) -> HeldOut:
    """Of the prior with this law."""
    return HeldOut(**_read()["curves"][law]["held_out"])


def curve(law: str) -> Curve:
    """The curve of published pairs, with gaps by this law."""
    own = _read()["curves"][law]
    return Curve(np.array(own["state"]), np.array(own["covariance"]), own["rest"], own["freedom"])


def shape() -> Shape:
    """Depth and width at a fixed number of parameters."""
    own = _read()["shape"]
    return Shape(own["ratio"], own["strength"], own["log_error"])


@functools.cache
def _read() -> Any:
    return json.loads(FILE.read_text("utf-8"))
