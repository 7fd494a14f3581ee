"""sps compile: the programs of a scenario by the real TPU compiler, with no TPU: known, estimated, assumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.cli.compare import of_compiled
from simulator.cli.files import ready, records_json, write
from simulator.cli.measure import default_folder
from simulator.cli.options import AsJson, File, OutFolder, Settings
from simulator.cli.predict import refuse_if_no_answer
from simulator.cli.progress import stage
from simulator.errors import ConfigError, MeasurementError, Problem, RefusedError, UnfinishedError

if TYPE_CHECKING:
    from runtime.aot.compiled import ProgramName
    from runtime.aot.reading import Assumptions
    from simulator.spec.load import Point
    from simulator.spec.record import RunRecord

TopologyNames = Annotated[
    list[str] | None,
    typer.Option(
        "--topology", metavar="NAME", help="Slice, such as v4:2x2x4; may be repeated. The scenario's own unless given."
    ),
]
Programs = Annotated[
    list[str] | None,
    typer.Option(
        "--program", metavar="NAME", help="Only prefill, plain_step, draft_step, verify_step or round. Repeatable."
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Compile 8 and 16 layers of a deeper target, and extrapolate.")]
AllPoints = Annotated[
    bool, typer.Option("--sweep", help="Compile every point of the sweep, not the file's own values.")
]
Latency = Annotated[
    str | None, typer.Option(metavar="TIME", help="Assume this of every collective, for example '5 us', not the table.")
]
Bandwidth = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="With a latency: rate at which a device sends, for example '90 GB/s'."),
]
Overhead = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Assume this of every call of a program, such as '0.6 ms'; else 0."),
]


def compile_programs(  # noqa: PLR0913, PLR0917
    file: File,
    topology: TopologyNames = None,
    settings: Settings = None,
    out: OutFolder = None,
    as_json: AsJson = False,
    program: Programs = None,
    quick: Quick = False,
    sweep: AllPoints = False,
    collective_latency: Latency = None,
    collective_bandwidth: Bandwidth = None,
    call_overhead: Overhead = None,
) -> None:
    """Compile a scenario for TPUs that are not there: memory, collectives, bytes, and a replayed time."""
    from runtime.aot.plan import workshop
    from runtime.aot.record import record_of
    from runtime.aot.store import versions
    from simulator import tables
    from simulator.spec.load import load_scenario

    chosen: list[Point] = []
    slices: list[str | None] = [*topology] if topology else [None]
    for name in slices:
        moved = _moved_to(name, file, settings or ()) if name is not None else ()
        points = load_scenario(file, (*(settings or ()), *moved))
        chosen += points if sweep else [_own_point(points, file)]
    assumptions = _assumptions(collective_latency, collective_bandwidth, call_overhead)
    folder = ready(out or default_folder(chosen))
    records: list[RunRecord] = []
    failed: dict[str, str] = {}
    with stage(f"compile: {chosen[0].scenario.name}") as report:
        for point in chosen:
            try:
                place = workshop(point.scenario.deployment, folder, report, assumptions, quick=quick)
                readings = place.read_all(point.scenario, _asked(point, program))
            except (RefusedError, MeasurementError) as error:
                if len(chosen) == 1:
                    raise
                failed[_place(point)] = str(error)
                continue
            records.append(record_of(point, readings, versions()))
            write(folder / "compiled.json", records_json(records))
    if as_json:
        typer.echo(records_json(records, compared=_compared(records)))
    elif len(records) > 1:
        typer.echo(tables.compiled_points(records).text())
    else:
        for record in records:
            typer.echo("\n".join(_told(record)))
    if records:
        typer.echo(f"records: {folder / 'compiled.json'}", err=as_json)
    if failed:
        lines = [f"    {place}: {why}" for place, why in failed.items()]
        head = f"{len(failed)} of {len(chosen)} points could not be compiled; the same command tries these again"
        raise UnfinishedError("\n".join([head, *lines]))
    refuse_if_no_answer(records)
    _fail_by_lints(records)


def _place(point: Point) -> str:
    """A point in words: its slice, and what was swept."""
    deployment = point.scenario.deployment
    axes = [f"{path} {value}" for path, value in point.axes.items()]
    return ", ".join([f"{deployment.hardware.name} {deployment.slice or deployment.chips}", *axes])


def _moved_to(name: str, file: str, given: Sequence[str]) -> list[str]:
    """Settings that make a scenario one of that slice, so that its record says what was compiled."""
    from runtime.aot.topologies import topology
    from simulator.spec.load import load_scenario

    where = topology(name)
    # Other settings may fit the slice alone.
    points = load_scenario(file, [setting for setting in given if setting.startswith("deployment.hardware")])
    deployment = points[0].scenario.deployment
    settings = [f"deployment.chips={where.chips}", f"deployment.slice={'x'.join(map(str, where.lengths))}"]
    if deployment.hardware.name != where.generation.profile:
        settings += [f"deployment.hardware={where.generation.profile}", "deployment.calibration=null"]
    return settings


def _asked(point: Point, names: Sequence[str] | None) -> list[ProgramName]:
    """The programs of a point that are asked for.

    Raises:
        ConfigError: the scenario has no such program.
    """
    from runtime.aot.plan import programs_of

    known = programs_of(point.scenario)
    if unknown := [name for name in names or () if name not in known]:
        accepts = f"one of {', '.join(known)}"
        raise ConfigError(tuple(Problem(f"--program {name}", 0, 0, "", "", accepts) for name in unknown))
    return [name for name in known if not names or name in names]


def _own_point(points: Sequence[Point], file: str) -> Point:
    """The point of a sweep that the file describes without it; the first where none is."""
    from simulator.spec import library
    from simulator.spec.document import get_path

    data = library.read_mapping(Path(file), file).data

    def own(point: Point) -> int:
        return sum(get_path(data, tuple(path.split("."))) == value for path, value in point.axes.items())

    return max(points, key=own)


def _assumptions(latency: str | None, bandwidth: str | None, overhead: str | None) -> Assumptions:
    """What the user names in place of what is assumed.

    Raises:
        ConfigError: a rate without a time, or what is no quantity.
    """
    from runtime.aot.assumed import Override
    from runtime.aot.reading import Assumptions

    if latency is None and bandwidth is not None:
        accepts = "only together with --collective-latency"
        raise ConfigError((Problem("--collective-bandwidth", 0, 0, "", bandwidth, accepts),))
    time_s, rate = (
        _quantity("--collective-latency", latency, "s"),
        _quantity("--collective-bandwidth", bandwidth, "B/s"),
    )
    override = None if time_s is None else Override(time_s) if rate is None else Override(time_s, rate)
    call_s = _quantity("--call-overhead", overhead, "s")
    return Assumptions(override) if call_s is None else Assumptions(override, call_s, "given")


def _quantity(option: str, text: str | None, unit: str) -> float | None:
    from simulator.units import UnitProblem, parse_quantity

    try:
        return None if text is None else parse_quantity(text, unit)
    except UnitProblem as error:
        raise ConfigError((Problem(option, 0, 0, "", str(text), str(error)),)) from error


def _compared(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    from simulator import compare

    return [each.to_json() for each in compare.compare(records).compiled]


def _told(record: RunRecord) -> list[str]:
    from simulator import compare, tables

    (view,) = compare.views([record])
    programs: list[dict[str, Any]] = record.provenance["programs"]
    best = compare.chosen(record)
    versions = ", ".join(f"{name} {version}" for name, version in record.provenance["versions"].items())
    lines = [
        *tables.wrapped(compare.question([view])),
        *tables.wrapped(f"compiled for {record.provenance['topology']} by {versions}; nothing ran on a TPU"),
    ]
    for table in (tables.known_memory, tables.known_work, tables.known_collectives, tables.known_parts):
        shown = table(best)
        lines += ["", shown.text()] if shown.rows else []
    shown = tables.estimated(programs)
    lines += ["", shown.text()] if shown.rows else []
    shown = tables.assumed(best)
    lines += ["", shown.text(), *tables.wrapped(*tables.assumed_words(best))] if shown.rows else []
    for section in of_compiled(compare.compared(compare.label(view), view.scenario, best)):
        lines += ["", section]
    return [*lines, ""]


def _fail_by_lints(records: Sequence[RunRecord]) -> None:
    """Fail where a program that is reported is not what it should be.

    Raises:
        MeasurementError: with every finding.
    """
    from simulator import compare

    found = [
        f"    {each['program']} ({each['variant']}): {finding['lint']}: {finding['reason']}"
        for record in records
        for each in compare.chosen(record)
        for finding in each["findings"]
    ]
    if found:
        raise MeasurementError("the compiled programs are not what they should be\n" + "\n".join(dict.fromkeys(found)))
