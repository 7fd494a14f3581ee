"""The last candidates of a plan: simulated with their tails, and really run on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from simulator.cli.compare import told
from simulator.cli.executable import executable
from simulator.cli.files import records_json, write
from simulator.cli.measure import measure_points
from simulator.cli.predict import predict_points
from simulator.errors import RefusedError

if TYPE_CHECKING:
    from simulator.plan import Outcome
    from simulator.spec.load import Point
    from simulator.spec.record import RunRecord


def points_of(outcome: Outcome, count: int) -> list[Point]:
    """The first ``count`` drafts by regret, each as a scenario of its own; acceptance is the mean of its prior.

    Raises:
        RefusedError: the plan has no draft.
    """
    from simulator.spec.load import Point

    chosen = [one for one in outcome.proposals if one.model is not None][:count]
    if not chosen:
        raise RefusedError("there is no draft to look at: nothing but plain decoding was left")
    return [Point(one.scenario, {"candidate": one.ranked.entry.name}) for one in chosen]


def simulate(outcome: Outcome, count: int, folder: Path | None) -> list[RunRecord]:
    """Play the first candidates round by round, and keep the records, which `sps compare` reads."""
    records = predict_points(points_of(outcome, count))
    if folder is not None:
        typer.echo(f"records: {write(folder / 'predicted.json', records_json(records))}", err=True)
    return records


def confirm(outcome: Outcome, count: int, folder: Path) -> list[str]:
    """Really run the first candidates with forced acceptance, and set that beside what the plan said of them.

    Raises:
        RefusedError: the scenario is not for this machine.
        MeasurementError: nothing could be measured.
    """
    from runtime.asked import ORDINARY
    from runtime.executor import refuse_elsewhere
    from simulator import compare

    points = executable(points_of(outcome, count))
    refuse_elsewhere(points)
    measured = measure_points(points, folder / "measured.json", ORDINARY)
    predicted = predict_points(points)
    write(folder / "predicted.json", records_json(predicted))
    return told(compare.compare([*predicted, *measured]))
