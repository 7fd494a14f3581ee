"""sps trace: one step or round, chip by chip and layer by layer, as a file for a trace viewer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simulator.cli.files import to_json, write
from simulator.cli.options import AsJson, File, Settings
from simulator.errors import ConfigError, Problem

if TYPE_CHECKING:
    from simulator.des.chips import Event
    from simulator.spec.load import Point
    from simulator.spec.scenario import Scenario

Name = Literal["prefill", "plain_step", "draft_prefill", "draft_first_step", "draft_step", "verify_step", "round"]
Part = Annotated[Name, typer.Option("--part", help="What to play.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The trace, as JSON.")]
Which = Annotated[int, typer.Option("--point", metavar="I", help="Which point of the sweep, counted from 1.")]
Prefetch = Annotated[
    bool, typer.Option("--prefetch/--no-prefetch", help="Stream the next weights while a collective runs.")
]
Jitter = Annotated[
    str, typer.Option("--jitter", metavar="TIME", help="Mean time by which a chip is late at each collective: 5us.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="Seed of the jitter; the scenario's unless given.")
]


@dataclass(frozen=True)
class _Told:
    """What one playback found, in seconds."""

    closed_form_s: float
    simulated_s: float
    prefetch_saved_s: float
    jitter_added_s: float
    events: list[Event]


def trace(  # noqa: PLR0913, PLR0917
    file: File,
    part: Part,
    out: Out,
    settings: Settings = None,
    point: Which = 1,
    prefetch: Prefetch = False,
    jitter: Jitter = "0us",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Play one step or round of a scenario on its chips, layer by layer, and write what each chip did."""
    from simulator.des.trace import chrome_trace
    from simulator.spec.load import load_scenario

    late_s = _seconds(jitter)
    chosen = _chosen(load_scenario(file, settings or ()), point)
    scenario = chosen.scenario
    told = _played(scenario, part, prefetch, late_s, scenario.seed if seed is None else seed)
    write(out, chrome_trace(told.events))
    if as_json:
        numbers = {name: value for name, value in vars(told).items() if name != "events"}
        more = {"part": part, "events": len(told.events), "file": str(out)}
        typer.echo(to_json({"records": [], **numbers, **more}))
        return
    lines = [*_question(chosen, part), *_numbers(scenario, told, prefetch, late_s)]
    typer.echo("\n".join([*lines, "", f"trace: {out}", "next: open it in ui.perfetto.dev or chrome://tracing"]))


def _seconds(text: str) -> float:
    from simulator.units import UnitProblem, parse_quantity

    try:
        seconds = parse_quantity(text, "s")
    except UnitProblem as problem:
        raise ConfigError((Problem(f"--jitter {text}", 0, 0, "", "", str(problem)),)) from None
    if seconds < 0:
        raise ConfigError((Problem(f"--jitter {text}", 0, 0, "", "", "at least 0 s"),))
    return seconds


def _chosen(points: tuple[Point, ...], number: int) -> Point:
    if not 1 <= number <= len(points):
        accepts = f"a point of the file, which has {len(points):,}, counted from 1"
        raise ConfigError((Problem(f"--point {number}", 0, 0, "", "", accepts),))
    return points[number - 1]


def _played(scenario: Scenario, part: str, prefetch: bool, jitter_s: float, seed: int) -> _Told:
    """The part as asked, and without jitter and prefetch, so that it is known what each did."""
    from simulator.des.playback import closed_form_s, phases, play

    sequence, chips = phases(scenario, part), scenario.deployment.chips
    ahead = _on_chip_bytes(scenario) if prefetch else 0.0
    plain = play(sequence, chips)
    fetched = play(sequence, chips, on_chip_bytes=ahead) if ahead else plain
    late = play(sequence, chips, on_chip_bytes=ahead, jitter_s=jitter_s, seed=seed) if jitter_s else fetched
    return _Told(
        closed_form_s(scenario, part),
        late.seconds,
        plain.seconds - fetched.seconds,
        late.seconds - fetched.seconds,
        late.events,
    )


def _on_chip_bytes(scenario: Scenario) -> float:
    known = scenario.deployment.hardware.peaks.on_chip_memory
    return 0.0 if known is None else known.value_bytes


def _question(point: Point, part: str) -> list[str]:
    """What was played, in words."""
    from simulator import tables

    scenario, deployment = point.scenario, point.scenario.deployment
    draft = f" + {scenario.draft_model.name}, K={scenario.lookahead}" if scenario.draft_model is not None else ""
    where = f"{deployment.chips} x {deployment.hardware.name}, batch {scenario.workload.batch}"
    known = f"calibration {deployment.calibration}" if deployment.calibration else "no calibration, a floor"
    known += ", anchored to measured steps" if scenario.measured is not None else ""
    axes = "".join(f", {path}={value}" for path, value in point.axes.items())
    return [*tables.wrapped(f"{part} of {scenario.target.name}{draft} on {where}; {known}{axes}"), ""]


def _numbers(scenario: Scenario, told: _Told, prefetch: bool, jitter_s: float) -> Iterator[str]:
    """A line each: the two times, what prefetch and jitter did, how many events."""
    from simulator.units import human_time

    yield f"closed form      {human_time(told.closed_form_s)}"
    yield f"simulated        {human_time(told.simulated_s)}"
    yield f"prefetch saved   {human_time(told.prefetch_saved_s)}{_about_prefetch(scenario, prefetch)}"
    yield f"jitter added     {human_time(told.jitter_added_s)}{_about_jitter(scenario, jitter_s)}"
    yield f"events           {len(told.events):,}"
    rest = told.simulated_s + told.prefetch_saved_s - told.jitter_added_s - told.closed_form_s
    if abs(rest) > 1e-6 * max(told.closed_form_s, told.jitter_added_s):
        yield f"! laid out in time it takes {human_time(abs(rest))} {'more' if rest > 0 else 'less'} than predicted"


def _about_prefetch(scenario: Scenario, prefetch: bool) -> str:
    from simulator.units import human_bytes

    if not prefetch:
        return "   (not asked for: --prefetch)"
    size = _on_chip_bytes(scenario)
    if not size:
        return f"   (the profile of {scenario.deployment.hardware.name} gives no on_chip_memory)"
    return f"   (up to {human_bytes(size)} of the next weights stream while a collective runs)"


def _about_jitter(scenario: Scenario, jitter_s: float) -> str:
    from simulator.units import human_time

    if not jitter_s:
        return "   (not asked for: --jitter 5us)"
    if scenario.deployment.chips == 1:
        return "   (one chip waits for no other)"
    return f"   (mean {human_time(jitter_s)} a chip and collective; all wait for the last)"
