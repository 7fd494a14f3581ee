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
from simulator.cli.progress import Report, stage
from simulator.errors import ConfigError, MeasurementError, Problem, RefusedError, UnfinishedError

if TYPE_CHECKING:
    from runtime.aot.assumed import Override
    from runtime.aot.plan import Workshop
    from runtime.aot.reading import Reading
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
) -> None:
    """Compile a scenario for TPUs that are not there: memory, collectives, bytes, and a replayed time."""
    from runtime.aot.store import versions
    from simulator import tables
    from simulator.spec.load import load_scenario

    chosen: list[Point] = []
    slices: list[str | None] = [*topology] if topology else [None]
    for name in slices:
        moved = _moved_to(name, file, settings or ()) if name is not None else ()
        points = load_scenario(file, (*(settings or ()), *moved))
        chosen += points if sweep else [_own_point(points, file)]
    override = _override(collective_latency, collective_bandwidth)
    folder = ready(out or default_folder(chosen))
    records: list[RunRecord] = []
    failed: dict[str, str] = {}
    with stage(f"compile: {chosen[0].scenario.name}") as report:
        for point in chosen:
            try:
                readings = _read(point, _workshop(point, folder, override, report, quick=quick), program)
            except (RefusedError, MeasurementError) as error:
                if len(chosen) == 1:
                    raise
                failed[_place(point)] = str(error)
                continue
            records.append(_record(point, readings, versions()))
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


def _workshop(point: Point, folder: Path, override: Override | None, report: Report, *, quick: bool) -> Workshop:
    from runtime.aot.device import device_of
    from runtime.aot.plan import Workshop
    from runtime.aot.reading import Assumptions
    from runtime.aot.store import Store
    from runtime.aot.topologies import topology_of

    deployment = point.scenario.deployment
    device = device_of(topology_of(deployment), deployment.hardware)
    return Workshop(Store(folder / "programs"), device, Assumptions(override), report, quick=quick)


def _read(point: Point, workshop: Workshop, asked: Sequence[str] | None) -> dict[str, list[Reading]]:
    """Every variant of every program; what does not fit in one variant is not tried in another."""
    from runtime.aot.plan import programs_of, recipes

    known = programs_of(point.scenario)
    unknown = [name for name in asked or () if name not in known]
    if unknown:
        raise ConfigError(
            tuple(Problem(f"--program {name}", 0, 0, "", "", f"one of {', '.join(known)}") for name in unknown)
        )
    every = recipes(point.scenario, [name for name in known if not asked or name in asked], workshop.device)
    found: dict[str, list[Reading]] = {}
    for done, recipe in enumerate(every):
        workshop.report(f"{done} of {len(every)}: {recipe.program}, {recipe.variant.words}")
        earlier = found.setdefault(recipe.program, [])
        if not any(reading.state != "ok" for reading in earlier):
            earlier.append(workshop.read(recipe))
    return found


def _record(point: Point, readings: dict[str, list[Reading]], versions: dict[str, str]) -> RunRecord:
    from runtime.aot.record import record_of

    return record_of(point, readings, versions)


def _own_point(points: Sequence[Point], file: str) -> Point:
    """The point of a sweep that the file describes without it; the first where none is."""
    from simulator.spec import library
    from simulator.spec.document import get_path

    data = library.read_mapping(Path(file), file).data

    def own(point: Point) -> int:
        return sum(get_path(data, tuple(path.split("."))) == value for path, value in point.axes.items())

    return max(points, key=own)


def _override(latency: str | None, bandwidth: str | None) -> Override | None:
    """A price of collectives that the user names.

    Raises:
        ConfigError: a rate without a time, or what is no quantity.
    """
    from runtime.aot.assumed import Override
    from simulator.units import UnitProblem, parse_quantity

    if latency is None:
        if bandwidth is not None:
            accepts = "only together with --collective-latency"
            raise ConfigError((Problem("--collective-bandwidth", 0, 0, "", bandwidth, accepts),))
        return None
    given = {"--collective-latency": (latency, "s"), "--collective-bandwidth": (bandwidth, "B/s")}
    values: list[float] = []
    for option, (text, unit) in given.items():
        try:
            values += [parse_quantity(text, unit)] if text is not None else []
        except UnitProblem as error:
            raise ConfigError((Problem(option, 0, 0, "", str(text), str(error)),)) from error
    return Override(*values)


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
    found = [
        f"    {each['program']} ({each['variant']}): {finding['lint']}: {finding['reason']}"
        for record in records
        for each in record.provenance["programs"]
        if each["variant"] == record.provenance["chosen"][each["program"]]
        for finding in each["findings"]
    ]
    if found:
        raise MeasurementError("the compiled programs are not what they should be\n" + "\n".join(dict.fromkeys(found)))
