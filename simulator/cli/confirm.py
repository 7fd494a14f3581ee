"""The last candidates of a plan: simulated with their tails, and really run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli.executable import executable
from simulator.cli.measure import measure_points
from simulator.cli.predict import predict_points
from simulator.errors import RefusedError

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


def confirm(outcome: Outcome, count: int, folder: Path) -> list[RunRecord]:
    """Really run the first candidates with forced acceptance: what the plan says of them, and what was measured.

    What is measured is kept in ``folder`` as it comes, also when stopped.

    Raises:
        RefusedError: the scenario is not for this machine.
        MeasurementError: nothing could be measured.
    """
    from runtime.asked import ORDINARY
    from runtime.executor import refuse_elsewhere

    drafting = [one for one in outcome.proposals if one.model is not None]
    points = executable(points_of(drafting[:count]))
    refuse_elsewhere(points)
    measured = measure_points(points, folder / "measured.json", ORDINARY)
    return [*predict_points(points), *measured]
