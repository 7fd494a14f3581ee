"""sps measure: really run a scenario on this machine's devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simulator.cli.executable import executable
from simulator.cli.files import ready, records_json, to_json, write
from simulator.cli.options import AsJson, DraftWeights, File, OutFolder, Settings, TargetWeights
from simulator.cli.progress import Report, stage
from simulator.errors import MeasurementError

if TYPE_CHECKING:
    from runtime.asked import Asked
    from simulator.spec.load import Point
    from simulator.spec.record import RunRecord


def measure(  # noqa: PLR0913, PLR0917
    file: File,
    settings: Settings = None,
    as_json: AsJson = False,
    out: OutFolder = None,
    target_weights: TargetWeights = None,
    draft_weights: DraftWeights = None,
    layers: Annotated[Literal["unrolled", "scanned"], typer.Option(help="How the layers are run.")] = "unrolled",
    in_place: Annotated[bool, typer.Option("--in-place", help="Time the parts of a round inside it as well.")] = False,
    ablate: Annotated[bool, typer.Option("--ablate", help="Vary layers and cached length, to part a step.")] = False,
    profile: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep a trace by JAX's profiler.")] = None,
) -> None:
    """Run every point of a scenario on this machine and record what it took."""
    from runtime.asked import Asked
    from runtime.weights import Weights
    from simulator.spec.load import load_scenario

    points = executable(load_scenario(file, settings or ()))
    asked = Asked(Weights(target_weights, draft_weights), layers, in_place, profile)
    asked.weights.check_all([point.scenario for point in points])
    folder = ready(out or default_folder(points))
    if ablate:
        ablated(points, folder, asked, as_json=as_json)
        return
    path = folder / "measured.json"
    records = measure_points(points, path, asked)
    if as_json:
        typer.echo(records_json(records))
    else:
        for line in _told(records):
            typer.echo(line)
    typer.echo(f"records: {path}", err=as_json)


def default_folder(points: Sequence[Point]) -> Path:
    """Where results go unless told otherwise."""
    return Path("out") / points[0].scenario.name


def measure_points(points: Sequence[Point], path: Path, asked: Asked) -> list[RunRecord]:
    """Measure every point, with progress."""
    from runtime import executor

    return measure_in_groups(points, path, "measure", functools.partial(executor.measure, asked=asked))


def ablated(points: Sequence[Point], folder: Path, asked: Asked, *, as_json: bool) -> None:
    """Measure steps of fewer layers and longer caches, and say what a layer, a position and the rest take."""
    from simulator import ablation, tables

    path = folder / "ablation.json"
    plan = ablation.plan(points)
    records = measure_points(plan.points, path, asked)
    found = plan.explained(records)
    if as_json:
        typer.echo(to_json({"records": [r.to_json() for r in records], "ablation": [vars(part) for part in found]}))
        return
    for line in tables.wrapped("a plain step in parts, by what changes when layers or cached positions are taken away"):
        typer.echo(line)
    typer.echo(tables.ablation(found).text())
    typer.echo(f"records: {path}")


def measure_in_groups(
    points: Sequence[Point], path: Path, verb: str, measure: Callable[[Sequence[Point], Report], list[RunRecord]]
) -> list[RunRecord]:
    """Measure one number of chips after the other, and keep in ``path`` what is done, also when stopped.

    Raises:
        MeasurementError: nothing could be measured.
    """
    found: dict[int, RunRecord] = {}
    for chips in sorted({point.scenario.deployment.chips for point in points}):
        chosen = [index for index, point in enumerate(points) if point.scenario.deployment.chips == chips]
        words = f"{verb}: {len(chosen)} point{'s' * (len(chosen) != 1)} on {chips} device{'s' * (chips != 1)}"
        try:
            with stage(words) as report:
                measured = measure([points[index] for index in chosen], report)
        except KeyboardInterrupt:
            done = f"{len(found)} of {len(points)} points are kept in {path}" if found else "no point was finished"
            typer.echo(f"{words}: stopped; {done}", err=True)
            raise
        found |= dict(zip(chosen, measured, strict=True))
        write(path, records_json(found[index] for index in sorted(found)))
    if not any(record.status.state == "ok" for record in found.values()):
        raise MeasurementError("no point could be measured; the records say why: " + str(path))
    return [found[index] for index in sorted(found)]


def _told(records: Sequence[RunRecord]) -> list[str]:
    from simulator import compare, tables

    views = compare.views(records)
    return [
        *tables.wrapped(compare.question(views)),
        "measured here; +- is half the 90 % interval",
        "",
        tables.measurements(views).text(),
        *tables.in_place(records),
        "",
    ]
