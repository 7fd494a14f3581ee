"""sps predict: what the models say, without running anything on a device."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.cli.files import ready, records_json, to_json, write
from simulator.cli.options import AsJson, File, OutFolder, Settings
from simulator.cli.progress import stage
from simulator.errors import RefusedError

if TYPE_CHECKING:
    from simulator.compare import Comparison, View
    from simulator.spec.load import Point
    from simulator.spec.record import RunRecord

_CHUNK = 8


Explained = Annotated[
    str | None,
    typer.Option(
        "--explain",
        metavar="PART",
        help="Show the arithmetic of a part, such as verify_step, round or all, for the first point.",
    ),
]


def predict(
    file: File, settings: Settings = None, as_json: AsJson = False, out: OutFolder = None, explain: Explained = None
) -> None:
    """Predict step times, rounds, speedup and memory of every point of a scenario."""
    from simulator.spec.load import load_scenario

    points = load_scenario(file, settings or ())
    if explain is not None:
        explain_part(points[0], explain, as_json)
        return
    if out is not None:
        ready(out)
    records = predict_points(points)
    if out is not None:
        typer.echo(f"records: {write(out / 'predicted.json', records_json(records))}", err=as_json)
    if as_json:
        typer.echo(records_json(records))
    else:
        for line in told(records, file, out):
            typer.echo(line)
    refuse_if_no_answer(records)


def explain_part(point: Point, part: str, as_json: bool) -> None:
    """The arithmetic of one part of a point, or of all of them.

    Raises:
        ConfigError: the point has no such part.
    """
    from simulator import tables
    from simulator.arithmetic import explained
    from simulator.errors import ConfigError, Problem
    from simulator.predict import predict_scenario
    from simulator.spec.problems import closest
    from simulator.steps import Steps
    from simulator.tables.metric_words import metric_words

    steps, prediction = Steps.of(point.scenario), predict_scenario(point.scenario)
    sums = metric_words(point.scenario, prediction.components, prediction.metrics, prediction.provenance)
    known = [*steps.mechanisms(), *sums]
    wanted = known if part == "all" else [part if part in known else part.removesuffix("_s")]
    if wanted[0] not in known:
        close = closest(part, known)
        accepts = f"all, or one of {', '.join(known)}" + (f"; did you mean '{close}'?" if close else "")
        raise ConfigError((Problem("", 0, 0, "--explain", part, accepts),))
    found = {name: explained(steps, name) for name in wanted if name not in sums}
    if as_json:
        told: dict[str, object] = {name: [vars(line) for line in lines] for name, lines in found.items()}
        told |= {name: sums[name] for name in wanted if name in sums}
        typer.echo(to_json({"records": [], "axes": point.axes, "calibration": steps.calibration_name, "parts": told}))
        return
    where = ", ".join(f"{path} {value}" for path, value in point.axes.items())
    typer.echo(f"{point.scenario.name}{f', {where}' if where else ''}; calibration {steps.calibration_name}")
    if prediction.status.state != "ok":
        typer.echo(f"{prediction.status.state.replace('_', ' ').upper()}: {prediction.status.reason}")
    for name, lines in found.items():
        for line in tables.arithmetic(name, lines):
            typer.echo(line)
    for name in wanted:
        for line in tables.wrapped(*sums.get(name, ())):
            typer.echo(line)


def predict_points(points: Sequence[Point]) -> list[RunRecord]:
    """Both predicted records of every point, with progress."""
    from simulator import predict as predictor

    records: list[RunRecord] = []
    with stage(f"predict: {len(points):,} point{'s' * (len(points) != 1)}") as report:
        for start in range(0, len(points), _CHUNK):
            records += predictor.predict(points[start : start + _CHUNK])
            report(f"{min(start + _CHUNK, len(points))} of {len(points)}")
    return records


def refuse_if_no_answer(records: Sequence[RunRecord]) -> None:
    """Exit with the code of a refusal where no point could be answered.

    Raises:
        RefusedError: no record has the status `ok`.
    """
    if any(record.status.state == "ok" for record in records):
        return
    reasons = dict.fromkeys(f"{r.status.state.replace('_', ' ')}: {r.status.reason}" for r in records)
    raise RefusedError("no point has an answer to rely on\n" + "\n".join(f"    {reason}" for reason in reasons))


def told(records: Sequence[RunRecord], file: str, out: Path | None) -> list[str]:
    """The answer for people, at most 100 columns wide."""
    from simulator import compare, tables

    comparison = compare.compare(records)
    views = [view for view in comparison.views if view.record.kind == "analytic"]
    played = [view for view in comparison.views if view.record.kind == "simulated"]
    lines = tables.wrapped(compare.question(views), *tables.calibration_words(views), *tables.anchor_warnings(views))
    lines += ["", *tables.answer(views), "", tables.sweep(views, played).text(), *_against_published(comparison)]
    return [*lines, "", *tables.wrapped(f"next: {_next(views[0], file, out)}")]


def _against_published(comparison: Comparison) -> list[str]:
    from simulator import tables

    table = tables.published(comparison.published_rows)
    return ["", table.text()] if table.rows else []


def _next(view: View, file: str, out: Path | None) -> str:
    shown = shlex.quote(file)
    if view.scenario.deployment.hardware.shares_memory:
        return f"sps run {shown} (probe this machine, measure, and see both side by side)"
    if out is None:
        return f"sps predict {shown} --out DIR (keep the records, to compare with measured ones)"
    return f"sps compare {shlex.quote(str(out / 'predicted.json'))} MEASURED.json"
