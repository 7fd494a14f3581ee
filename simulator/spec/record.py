"""RunRecord: the one shape in which every kind of evidence about a scenario is written down."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.fields import Strict, mistake
from simulator.spec.scenario import Scenario
from simulator.spec.terms import COMPONENTS, DISTRIBUTION_METRICS, MECHANISMS, metric_names

Kind = Literal["analytic", "simulated", "compiled", "measured", "published"]
_NAMES = metric_names()


class Status(Strict):
    """Whether the scenario could be answered."""

    state: Literal["ok", "does_not_fit", "unstable", "outside_calibration"] = "ok"
    reason: str = ""


class Validation(Strict):
    """Whether predictions like this one were checked against measurements."""

    state: Literal["validated", "not_validated"] = "not_validated"
    record: str = ""


class Distribution(Strict):
    """A sample in five numbers."""

    n: Annotated[int, Field(ge=1)]
    mean: float
    p50: float
    p90: float
    p99: float


class RunRecord(Strict):
    """Evidence of one kind about one scenario. Times in seconds, sizes in bytes."""

    schema_version: Literal[1] = 1
    kind: Kind
    scenario: dict[str, Any]
    """The resolved scenario, readable as a scenario."""
    scenario_hash: str
    """First 16 hex digits of the SHA-256 of its canonical JSON."""
    axes: dict[str, str | int | float] = {}
    """What was swept to get here, by dotted path."""
    status: Status = Status()
    validation: Validation = Validation()
    metrics: dict[str, float | Distribution] = {}
    components: dict[str, float] = {}
    """Seconds by component."""
    mechanisms: dict[str, dict[str, float]] = {}
    """Seconds by component and mechanism; each component's mechanisms sum to it."""
    provenance: dict[str, Any] = {}

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        unknown = [
            *(name for name in self.metrics if name not in _NAMES),
            *(name for name in (*self.components, *self.mechanisms) if name not in COMPONENTS),
            *(name for parts in self.mechanisms.values() for name in parts if name not in MECHANISMS),
        ]
        spread = [n for n, v in self.metrics.items() if isinstance(v, Distribution) != (n in DISTRIBUTION_METRICS)]
        if unknown or spread:
            accepts = f"names that this version knows; {', '.join(unknown + spread)} is not one, or of another kind"
            raise mistake(accepts)
        return self

    def metric(self, name: str) -> float | None:
        """A scalar metric, or None where the record does not have it."""
        value = self.metrics.get(name)
        return value if isinstance(value, float | int) else None

    def inconsistency(self) -> str:
        """What the record says against itself, where it was changed by hand; empty where nothing."""
        if self.scenario_hash != hash_of(self.scenario):
            return f"scenario_hash {hash_of(self.scenario)}, which is that of the record's own scenario"
        for name, parts in self.mechanisms.items():
            whole = self.components.get(name, 0.0)
            if abs(sum(parts.values()) - whole) > 1e-9 * max(abs(whole), 1e-12):
                return f"mechanisms that sum to their component; those of {name} do not"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return self.model_dump(mode="json", exclude_defaults=True) | {"schema_version": 1}


def scenario_hash(scenario: Scenario) -> str:
    """Identity of a resolved scenario: the same questions have the same hash, whatever file they came from."""
    return hash_of(scenario.resolved())


def hash_of(resolved: dict[str, Any]) -> str:
    """First 16 hex digits of the SHA-256 of a resolved scenario's canonical JSON."""
    text = json.dumps(resolved, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def new_record(kind: Kind, scenario: Scenario, **values: Any) -> RunRecord:
    """A record about ``scenario``."""
    return RunRecord(kind=kind, scenario=scenario.resolved(), scenario_hash=scenario_hash(scenario), **values)
