"""Times of all-reduces by payload and number of chips -> formulas, one for each range of payloads.

A library's algorithm changes with the payload, at limits that stand in its source. Between two limits the time is a
fixed part and one that grows with the payload: two numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.calibration.kernels import FIT, HELD_OUT, Judged, relative_fit
from simulator.cost.collectives import Links, all_reduce_time
from simulator.errors import MeasurementError
from simulator.spec.hardware import AllReduceCost
from simulator.units import format_quantity

Array = npt.NDArray[np.float64]


OUTLIER = 0.3
"""Relative error beyond which a row is a mistake of its measurement: the fit is made again without it."""


OUTLYING = "far from its neighbours"


@dataclass(frozen=True)
class AllReduce:
    """One all-reduce of ``payload_bytes`` on each of ``chips`` chips."""

    chips: int
    payload_bytes: float
    seconds: float


@dataclass(frozen=True)
class AllReduces:
    """Costs by number of chips, and every row beside what they say of it."""

    costs: dict[int, AllReduceCost]
    free_numbers: int
    rows: tuple[Judged, ...]


Ranges = Sequence[tuple[float, str]]
"""From which payload on which algorithm holds, rising from 0."""


def third(rows: Sequence[AllReduce]) -> list[bool]:
    """Which rows are held out: every third, by the place of its payload and of its number of chips."""
    payloads = sorted({row.payload_bytes for row in rows})
    chips = sorted({row.chips for row in rows})
    return [(payloads.index(row.payload_bytes) + chips.index(row.chips)) % 3 == 2 for row in rows]


def fit_all_reduces(rows: Sequence[AllReduce], ranges: Mapping[int, Ranges], links: Mapping[int, Links]) -> AllReduces:
    """Formulas fitted to two thirds of the rows; the last third is predicted."""
    held = third(rows)
    costs = {}
    for chips, known in ranges.items():
        fitted = [row for row, out in zip(rows, held, strict=True) if row.chips == chips and not out]
        costs[chips] = _cost(fitted, known, links[chips])
    return AllReduces(costs, 2 * sum(len(known) for known in ranges.values()), _judged(rows, held, costs, links))


def tabulate_all_reduces(rows: Sequence[AllReduce], links: Mapping[int, Links]) -> AllReduces:
    """The same with a table of the fitted rows instead of formulas: for comparison."""
    held = third(rows)
    costs = {}
    for chips in sorted({row.chips for row in rows}):
        table = [
            {"payload": format_quantity(row.payload_bytes, "B"), "time": format_quantity(row.seconds, "s")}
            for row, out in zip(rows, held, strict=True)
            if row.chips == chips and not out
        ]
        costs[chips] = AllReduceCost.model_validate({"algorithm": "table", "table": tuple(table)})
    return AllReduces(costs, held.count(False), _judged(rows, held, costs, links))


def to_yaml(cost: AllReduceCost) -> dict[str, Any]:
    """A cost as a profile's YAML has it."""
    parts = [(start, one) for start, one in cost.by_payload()]
    data = _formula(parts[0][1])
    larger = [{"payload": format_quantity(start, "B"), **_formula(one)} for start, one in parts[1:]]
    return data | ({"larger": larger} if larger else {})


def _formula(cost: AllReduceCost) -> dict[str, Any]:
    return {
        "algorithm": cost.algorithm,
        "base": f"{cost.base_s * 1e6:.4g} us",
        "link_efficiency": float(f"{cost.link_efficiency:.4g}"),
    }


def _cost(rows: Sequence[AllReduce], ranges: Ranges, links: Links) -> AllReduceCost:
    ends = [start for start, _ in ranges[1:]] + [np.inf]
    parts: list[dict[str, Any]] = []
    for (start, algorithm), end in zip(ranges, ends, strict=True):
        own = [row for row in rows if start <= row.payload_bytes < end]
        if len(own) < 2:
            raise MeasurementError(f"only {len(own)} all-reduces from {start:g} bytes on; two numbers need two or more")
        base, slowness = _line(own, algorithm, links)
        parts.append(
            {
                "algorithm": algorithm,
                "base": format_quantity(base, "s"),
                "link_efficiency": 1 / slowness,
                "payload": format_quantity(start, "B"),
            }
        )
    first = {key: value for key, value in parts[0].items() if key != "payload"}
    return AllReduceCost.model_validate(first | {"larger": tuple(parts[1:])})


def _line(rows: Sequence[AllReduce], algorithm: str, links: Links) -> tuple[float, float]:
    """The fixed time, and the time of a byte relative to that of the datasheet's links."""
    ideal = AllReduceCost.model_validate({"algorithm": algorithm})
    wires = [float(all_reduce_time(ideal, links, row.payload_bytes, row.chips).seconds) for row in rows]
    matrix, seconds = np.array([[1.0, wire] for wire in wires]), np.array([row.seconds for row in rows])
    fit = relative_fit(matrix, seconds)
    near = np.abs(matrix @ fit.values / seconds - 1) <= OUTLIER
    if not near.all() and near.sum() > matrix.shape[1]:
        fit = relative_fit(matrix[near], seconds[near])
    return float(fit.values[0]), max(float(fit.values[1]), 1e-2)


def _judged(
    rows: Sequence[AllReduce], held: Sequence[bool], costs: Mapping[int, AllReduceCost], links: Mapping[int, Links]
) -> tuple[Judged, ...]:
    found = []
    for row, out in zip(rows, held, strict=True):
        predicted = float(all_reduce_time(costs[row.chips], links[row.chips], row.payload_bytes, row.chips).seconds)
        one = Judged(f"{row.chips} chips, {row.payload_bytes:.0f} B", HELD_OUT, row.seconds, predicted)
        # A held-out row stays one, however far off it is.
        role = HELD_OUT if out else FIT if abs(one.error) <= OUTLIER else OUTLYING
        found.append(replace(one, role=role))
    return tuple(found)
