"""What was found in a file of measurements: values in our definitions, what they belong to, and how they were had."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.spec.document import Place
from simulator.units import human_time

TPOT_TIMES_LENGTH = "from TPOT x acceptance length"


@dataclass(frozen=True)
class Stated:
    """What a file says of the question that was measured, to be held against a scenario."""

    path: str
    """Dotted path in a scenario."""
    value: float
    field: str
    """What the file calls it."""
    place: Place
    within: float = 0.0
    """By how much a scenario may differ: means of requests are not round numbers."""

    def fits(self, value: float) -> bool:
        """Whether a scenario with ``value`` is the one that was measured."""
        return abs(value - self.value) <= self.within + 1e-9


@dataclass
class Finding:
    """One configuration that was measured."""

    label: str
    place: Place
    model: str = ""
    """What the file calls the served model."""
    stated: list[Stated] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    """Metrics of a record, in SI units and our definitions."""
    derived: dict[str, str] = field(default_factory=dict)
    """Metrics that the file does not have as such, and how they were computed."""
    converted: list[str] = field(default_factory=list)
    """Definitions of the file, and what they were read as."""
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    read: dict[str, Any] = field(default_factory=dict)
    """Values as the file has them, by the file's names."""

    def state(self, path: str, value: float, name: str, place: Place, within: float = 0.0) -> None:
        """Say that the file states ``value`` for a scenario's ``path``."""
        self.stated.append(Stated(path, value, name, place, within))

    def put(self, metric: str, value: float | None, how: str = "") -> None:
        """Set a metric, unless there is none; ``how`` where the file has it in another shape."""
        if value is None:
            return
        self.metrics[metric] = value
        if how:
            self.derived[metric] = how

    def finish(self) -> Finding:
        """With the round, where its parts are known."""
        tpot, length = self.metrics.get("tpot_s"), self.metrics.get("acceptance_length")
        if tpot is not None and length is not None and length > 1 and "round_s" not in self.metrics:
            self.put("round_s", tpot * length, TPOT_TIMES_LENGTH)
        return self


@dataclass
class Outcome:
    """All that one file gave."""

    findings: list[Finding] = field(default_factory=list)
    written: str = ""
    """A part of a file of ours, where the measurements need no scenario."""
    what: str = ""
    """What ``written`` is."""
    converted: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    """Lines of a log that should have been read and could not: their number, and why."""


def spread(values: Sequence[float]) -> dict[str, float]:
    """Many values of a log in four: a record is no place for all of them."""
    return {"n": len(values), "least": min(values), "median": statistics.median(values), "most": max(values)}


def shown(metric: str, value: float) -> str:
    """A metric for people: ``tpot 33.6 ms``."""
    name = metric.removesuffix("_s").replace("_", " ")
    if metric.endswith("_s") and metric != "tokens_per_s":
        return f"{name} {human_time(value, 4)}"
    return f"{metric.replace('_', ' ') if metric == 'tokens_per_s' else name} {value:.4g}"
