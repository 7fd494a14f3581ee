"""Each shape that was held out of the fit: measured, predicted, and between which limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.calibration import Predictor
from simulator.calibration.form import Form, values_of
from simulator.errors import RefusedError
from simulator.fitting import NINE_IN_TEN
from simulator.spec.confidence import Uncertainty
from simulator.spec.design import Design
from simulator.spec.hardware import Calibration, HardwareProfile
from simulator.spec.probe import ProbePoint, ProbeRecord
from simulator.speculation import tokens_per_round
from simulator.uncertainty import covariance

Array = npt.NDArray[np.float64]

COMPONENTS = {
    "decode_step": "plain_step",
    "forward": "verify_step",
    "first_draft_step": "draft_first_step",
    "verification": "sampling",
    "generation": "round",
}
"""The component that a held-out record of each kind measures."""


@dataclass(frozen=True)
class HeldOut:
    """One quantity of one held-out shape. Seconds, or a ratio for `round_cost` and `speedup`."""

    quantity: str
    point: ProbePoint
    measured: float
    spread: float
    """Relative half-width of what the processes that measured it found."""
    predicted: float
    low: float
    high: float
    footprint_bytes: float
    edge: bool
    """Whether the weights lie between the sizes at which they are half in a cache."""
    unseen: bool
    """Whether neither its width nor its depth was in the fit."""

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1

    @property
    def covered(self) -> bool:
        """Whether the interval holds the measured value."""
        return self.low <= self.measured <= self.high

    @property
    def words(self) -> str:
        """What it is, for people."""
        return describe(self.point)


@dataclass(frozen=True)
class Ranking:
    """Two drafts of one target: which makes the shorter round."""

    first: ProbePoint
    second: ProbePoint
    apart: float
    """Relative difference of the measured rounds."""
    right: bool
    resolved: bool
    """Whether they differ by more than the noise."""


def describe(point: ProbePoint) -> str:
    """A point in a few words."""
    words = [shape_words(point.model.name) if point.model else point.kind]
    if point.partner is not None:
        words.append(f"for {shape_words(point.partner.name)}")
    if point.kind == "generation":
        words.append(f"K {point.tokens - 1}")
    elif point.tokens > 1:
        words.append(f"T {point.tokens}")
    words += [f"B {point.batch}"] * (point.batch > 1)
    return ", ".join([*words, f"{point.chips} device{'s' * (point.chips > 1)}"])


def shape_words(name: str) -> str:
    """``shape-4x1024x2816-h8`` -> ``4x1024x2816 h8``."""
    return name.removeprefix("shape-").replace("-", " ")


def held_out(
    records: Sequence[ProbeRecord], design: Design, profile: HardwareProfile, calibration: Calibration, rate: float
) -> list[HeldOut]:
    """Every quantity of the held-out records, those of one shape put together.

    Args:
        records: measured, of every role.
        design: says which shapes are near a cache's edge, and which widths and depths were seen.
        profile: of the machine.
        calibration: with its uncertainty.
        rate: acceptance rate that generations were forced to.

    Raises:
        RefusedError: the calibration does not say how sure it is.
    """
    seen = _Seen.of(design)
    found: list[HeldOut] = []
    for chips in sorted({record.chips for record in records if record.role == "test"}):
        parameters, sure = calibration.for_chips(chips), calibration.uncertainty_for(chips)
        if parameters is None or sure is None:
            raise RefusedError(f"the calibration says nothing of {chips} devices, or not how sure it is: NOT VALIDATED")
        own = [record for record in records if record.chips == chips and record.role == "test"]
        found += _Chips(_together(own), Predictor(profile), values_of(parameters)[0], sure, seen, rate).found()
    return found


def rankings(found: Sequence[HeldOut], floor: float) -> list[Ranking]:
    """Every pair of drafts that were measured with one target at one K, by the time of a round."""
    rounds = [one for one in found if one.quantity == "round"]
    pairs = []
    for one, other in itertools.combinations(rounds, 2):
        asked = [(o.point.partner, o.point.tokens, o.point.chips, o.point.batch) for o in (one, other)]
        if asked[0] != asked[1]:
            continue
        apart = one.measured / other.measured - 1
        right = (one.predicted > other.predicted) == (one.measured > other.measured)
        pairs.append(Ranking(one.point, other.point, apart, right, abs(math.log1p(apart)) > floor))
    return pairs


def noise_floor(records: Sequence[ProbeRecord], kinds: Sequence[str] | None = None) -> float:
    """The relative gap between two processes that nine in ten shapes stay below; 0 where none was timed in several."""
    gaps = []
    for values in _by_key(records).values():
        if kinds is None or values[0].kind in kinds:
            times = [value.time.median for value in values]
            gaps += [abs(math.log(a / b)) for a, b in itertools.combinations(times, 2)]
    return float(np.quantile(gaps, 0.9)) if gaps else 0.0


def drift(records: Sequence[ProbeRecord]) -> dict[int, float]:
    """By devices, the spread of the controls over all processes: half of 5th to 95th percentile over their medians."""
    found = {}
    for chips in sorted({record.chips for record in records}):
        controls = [record for record in records if record.role == "control" and record.chips == chips]
        relative: list[float] = []
        for key in {record.key for record in controls}:
            times = np.array([record.time.median for record in controls if record.key == key])
            relative += (times / np.median(times)).tolist()
        if len(controls) > 1:
            low, high = np.quantile(relative, [0.05, 0.95])
            found[chips] = float(high - low) / 2
    return found


@dataclass(frozen=True)
class _Measured:
    point: ProbePoint
    seconds: float
    spread: float
    tokens: float | None
    by_process: dict[str, float]
    """Seconds in each process that measured it."""


def _by_key(records: Sequence[ProbeRecord]) -> dict[str, list[ProbeRecord]]:
    found: dict[str, list[ProbeRecord]] = {}
    for record in records:
        if record.role != "control":
            found.setdefault(record.key, []).append(record)
    return found


def _together(records: Sequence[ProbeRecord]) -> list[_Measured]:
    """The mean of the medians of all processes that measured a shape."""
    found = []
    for values in _by_key(records).values():
        times = [value.time.median for value in values]
        mean = float(np.mean(times))
        within = float(np.mean([(v.time.high - v.time.low) / 2 / v.time.median for v in values]))
        between = (max(times) - min(times)) / 2 / mean
        tokens = [value.tokens_per_round for value in values if value.tokens_per_round is not None]
        point = ProbePoint(**{name: getattr(values[0], name) for name in ProbePoint.model_fields})
        each = {value.process: value.time.median for value in values}
        found.append(_Measured(point, mean, max(within, between), float(np.mean(tokens)) if tokens else None, each))
    return found


@dataclass(frozen=True)
class _Seen:
    widths: frozenset[int]
    depths: frozenset[int]
    edge: tuple[float, float] | None

    @classmethod
    def of(cls, design: Design) -> _Seen:
        models = [m for p in design.points() if p.role == "fit" for m in (p.model, p.partner) if m is not None]
        return cls(frozenset(m.d_model for m in models), frozenset(m.layers for m in models), design.edge_bytes)


@dataclass(frozen=True)
class _Chips:
    """The held-out shapes of one number of devices."""

    measured: Sequence[_Measured]
    predictor: Predictor
    form: Form
    sure: Uncertainty
    seen: _Seen
    rate: float

    def found(self) -> list[HeldOut]:
        points = [one.point for one in self.measured]
        matrix, _ = self.predictor.linear(points, self.form)
        parameters = self.form.parameters(dict(zip(self.sure.parameters, self.sure.values, strict=True)))
        exact = [self.predictor.seconds(point, parameters) for point in points]
        relative = matrix / np.array(exact)[:, None]
        spread = covariance(self.sure)
        found = []
        for one, seconds, row in zip(self.measured, exact, relative, strict=True):
            component = COMPONENTS[one.point.kind]
            found.append(self._one(component, one, one.seconds, seconds, row @ spread @ row, (component,)))
            if one.point.kind == "generation":
                found += self._ratios(one, seconds, row, relative, exact, spread)
        return found

    def _ratios(
        self, one: _Measured, seconds: float, row: Array, relative: Array, exact: Sequence[float], spread: Array
    ) -> list[HeldOut]:
        """Round cost, and speedup with the measured acceptance and with that of the law."""
        index = next(
            (
                i
                for i, other in enumerate(self.measured)
                if other.point.kind == "decode_step"
                and other.point.model == one.point.partner
                and (other.point.batch, other.point.positions) == (one.point.batch, one.point.positions)
            ),
            None,
        )
        if index is None or one.tokens is None:
            return []
        plain = self.measured[index].by_process
        # A round and a plain step of the same process: drift between processes is no part of what they cost together.
        together = [rounds / plain[process] for process, rounds in one.by_process.items() if process in plain]
        if not together:
            return []
        cost, told = float(np.mean(together)), seconds / exact[index]
        both = row - relative[index]
        variance = float(both @ spread @ both)
        parts = ("round", "plain_step")
        expected = float(tokens_per_round(self.rate, one.point.tokens - 1))
        return [
            self._one("round_cost", one, cost, told, variance, parts),
            self._one("speedup_given_acceptance", one, one.tokens / cost, one.tokens / told, variance, parts),
            self._one("speedup", one, one.tokens / cost, expected / told, variance, parts),
        ]

    def _one(
        self, quantity: str, one: _Measured, measured: float, predicted: float, variance: float, parts: tuple[str, ...]
    ) -> HeldOut:
        residual = sum(self.sure.residual.get(part, 0.0) ** 2 for part in parts)
        factor = math.exp(NINE_IN_TEN * math.sqrt(max(variance, 0.0) + residual))
        models = [model for model in (one.point.model, one.point.partner) if model is not None]
        footprint = max((self.predictor.footprint(model, one.point.chips) for model in models), default=0.0)
        # Verification touches logits alone: its model's weights lie nowhere.
        low, high = (self.seen.edge if one.point.kind != "verification" else None) or (0.0, 0.0)
        model = models[-1]
        unseen = model.d_model not in self.seen.widths and model.layers not in self.seen.depths
        return HeldOut(
            quantity,
            one.point,
            measured,
            one.spread,
            predicted,
            predicted / factor,
            predicted * factor,
            footprint,
            0 < low <= footprint <= high,
            unseen,
        )
