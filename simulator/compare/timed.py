"""The replayed time of a compiled program beside the cost model's time of the same passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simulator.compare.counts import Program, Run, same_machine
from simulator.spec.scenario import Scenario
from simulator.steps import Steps

COLLECTIVE = ("collective_latency", "collective_bandwidth")


@dataclass(frozen=True)
class Times:
    """Seconds of one call."""

    program: str
    variant: str
    calibration: str
    floor_s: float
    """The cost model's: weights and used cache once a pass at datasheet bandwidth."""
    compiled_floor_s: float
    """The same of the compiled program, over the allocated cache."""
    worked_s: float
    """Predicted for matrices and attention alone: what a replay has."""
    replayed_s: float
    """Without collectives, at datasheet bandwidth."""
    replayed_at_compilers_s: float | None
    """The same at the bandwidth that the compiler reckons with; None where nobody knows it."""
    collectives_s: float
    """Predicted."""
    assumed_collectives_s: float | None
    """By the compiled record's price of each; None where one has none."""
    overhead_s: float
    """Predicted for sampling, steps and layers: no program says it."""

    @property
    def predicted_s(self) -> float:
        """All that is predicted."""
        return self.worked_s + self.collectives_s + self.overhead_s


def times_of(scenario: Scenario, program: Program, reading: Mapping[str, Any]) -> Iterator[Times]:
    """The times of a program; none on other chips than the scenario's, or where nothing was replayed."""
    found, assumed = reading["estimated"], reading["assumed"]
    if not found or not same_machine(scenario, program.asked):
        return
    steps = Steps.of(scenario)
    worked_s, collectives_s, overhead_s = (sum(part) for part in zip(*map(_of_run, program.runs), strict=True))
    if program.name == "round":
        parts = steps.mechanisms()
        overhead_s += sum(sum(parts[name].values()) for name in ("sampling", "round_overhead"))
    replays = found["without_collectives"]
    yield Times(
        program.name,
        program.variant,
        steps.calibration_name,
        sum(run.times * run.step.floor(float(run.step.forward.positions))[1] for run in program.runs),
        found["bandwidth_floor_s"],
        worked_s,
        replays["datasheet"]["total_s"],
        replays["compiler"]["total_s"] if "compiler" in replays else None,
        collectives_s,
        None if assumed["unpriced"] else assumed["collectives_s"],
        overhead_s,
    )


def _of_run(run: Run) -> tuple[float, float, float]:
    """Seconds of matrices and attention, of collectives, and of all else."""
    step, spent = run.step, run.step.cost.mechanisms
    head_s = step.factor * float(step.timed().head[1].seconds)
    worked_s = sum(float(spent[name]) for name in ("weights", "kv", "compute")) + head_s
    collectives_s = sum(float(spent[name]) for name in COLLECTIVE)
    rest_s = max(step.seconds - worked_s - collectives_s, 0.0)
    return tuple(run.times * part for part in (worked_s, collectives_s, rest_s))  # type: ignore[return-value]
