"""sps check: every mistake in scenario files, with its line, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.cli.files import to_json
from simulator.cli.messages import within_width
from simulator.cli.options import AsJson, Settings
from simulator.errors import ConfigError, Problem

if TYPE_CHECKING:
    from simulator.spec.load import Point


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Scenario YAMLs.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check scenario files, and the models and hardware profiles that they name; run nothing."""
    from simulator.spec.load import MAX_SWEEP, load_scenario

    problems: list[Problem] = []
    found: list[dict[str, Any]] = []
    for file in files:
        try:
            points = load_scenario(file, settings or (), MAX_SWEEP)
            about = {"file": file, "name": points[0].scenario.name, "points": len(points), "axes": _axes(points)}
            found.append({**about, "doubts": _doubts(points)})
        except ConfigError as error:
            problems += error.problems
    if as_json:
        typer.echo(to_json({"records": [], "files": found, "problems": [vars(problem) for problem in problems]}))
    else:
        for item in found:
            typer.echo(_line(item))
            for words in item["doubts"]:
                typer.echo(within_width(f"{item['file']}: doubtful, {words}"), err=True)
    if problems:
        # A model that two scenarios name has each of its mistakes once.
        raise ConfigError(tuple(dict.fromkeys(problems)))


def _doubts(points: Sequence[Point]) -> list[str]:
    """What is unlikely in the hardware profiles that were named."""
    from simulator.spec.plausible import doubts

    profiles = {id(point.scenario.deployment.hardware): point.scenario.deployment.hardware for point in points}
    return list(dict.fromkeys(f"{one.name}: {words}" for one in profiles.values() for words in doubts(one)))


def _axes(points: Sequence[Point]) -> dict[str, int]:
    return {path: len({str(point.axes[path]) for point in points}) for path in points[0].axes}


def _line(item: dict[str, Any]) -> str:
    swept = " x ".join(f"{path} {count}" for path, count in item["axes"].items())
    count = item["points"]
    return f"{item['file']}: ok, {item['name']}, {count:,} point{'s' * (count != 1)}{f' ({swept})' if swept else ''}"
