"""The last candidates of a plan: simulated with their tails, and really run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simulator.cli.executable import executable
from simulator.cli.files import records_json, write
from simulator.cli.measure import measure_points
from simulator.cli.predict import predict_points
from simulator.cli.progress import stage
from simulator.errors import ConfigError, Problem, RefusedError

MOST, COMPILED = 20, 3
"""Candidates at most, and those that are compiled unless a number is given."""

if TYPE_CHECKING:
    from simulator.plan import Outcome, Proposal
    from simulator.spec.load import Point
    from simulator.spec.record import RunRecord


def points_of(chosen: Sequence[Proposal]) -> list[Point]:
    """Each as a scenario of its own; acceptance is the mean of its prior.

    Raises:
        RefusedError: there is none.
    """
    from simulator.spec.load import Point

    if not chosen:
        raise RefusedError("there is no draft to look at: nothing but plain decoding was left")
    return [Point(one.scenario, {"candidate": one.ranked.entry.name}) for one in chosen]


def first_and_front(outcome: Outcome) -> list[Proposal]:
    """All that draft: the first by regret, those that no other beats in both step and acceptance, then the rest."""
    from simulator.plan import front_of

    drafting = [one for one in outcome.proposals if one.model is not None]
    front = front_of(drafting)
    chosen = [*drafting[:1], *(one for one in drafting[1:] if one in front)]
    return [*chosen, *(one for one in drafting if one not in chosen)]


def simulate(outcome: Outcome, count: int) -> list[RunRecord]:
    """The first candidate and the Pareto front by closed form and played round by round, ``count`` in all."""
    return predict_points(points_of(first_and_front(outcome)[:count]))


@dataclass(frozen=True)
class Confirmation:
    """How the last candidates are looked at, and how many of them."""

    how: Literal["run", "compile"]
    count: int


def confirmation(words: str) -> Confirmation:
    """What ``--confirm`` asks for.

    Raises:
        ConfigError: it is neither a number nor ``compile``.
    """
    how, _, number = words.partition(":") if words.startswith("compile") else ("run", "", words)
    count = int(number) if number.isdecimal() and number.isascii() else COMPILED if words == "compile" else 0
    if how not in ("run", "compile") or not 1 <= count <= MOST:
        accepts = f"1 to {MOST}, how many are really run here, or compile or compile:N"
        raise ConfigError((Problem("", 0, 0, "--confirm", words, accepts),))
    return Confirmation("compile" if how == "compile" else "run", count)


def confirmed(outcome: Outcome, asked: Confirmation, folder: Path) -> tuple[list[RunRecord], list[RunRecord]]:
    """The records of the last look: really run, and compiled. What comes is kept in ``folder``, also when stopped.

    Raises:
        RefusedError: the scenario is not for this machine, or not for the TPU compiler.
        MeasurementError: nothing could be measured, or the compiler failed.
    """
    drafting = [one for one in outcome.proposals if one.model is not None][: asked.count]
    points = points_of(drafting)
    return (_really_run(points, folder), []) if asked.how == "run" else ([], _compiled(points, folder))


def _really_run(points: Sequence[Point], folder: Path) -> list[RunRecord]:
    """What the plan says of the candidates, and what was measured with forced acceptance."""
    from runtime.asked import ORDINARY
    from runtime.executor import refuse_elsewhere

    forced = executable(list(points))
    refuse_elsewhere(forced)
    measured = measure_points(forced, folder / "measured.json", ORDINARY)
    return [*predict_points(forced), *measured]


def _compiled(points: Sequence[Point], folder: Path) -> list[RunRecord]:
    """What the TPU compiler makes of the steps of each candidate; of a deep target what two shallow ones say."""
    from runtime.aot.plan import workshop
    from runtime.aot.record import record_of
    from runtime.aot.store import versions

    records: list[RunRecord] = []
    with stage("plan: compiling") as report:
        for point in points:
            report(f"{len(records)} of {len(points)}: {point.axes['candidate']}")
            place = workshop(point.scenario.deployment, folder, report, quick=True)
            readings = place.read_all(point.scenario, ("plain_step", "draft_step", "verify_step"))
            records.append(record_of(point, readings, versions()))
            write(folder / "compiled.json", records_json(records))
    return records
