"""sps run: the main job. Probe this machine, predict, measure, compare, report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from simulator.cli.compare import told
from simulator.cli.executable import executable
from simulator.cli.files import records_json, to_json, write
from simulator.cli.measure import default_folder, measure_points
from simulator.cli.options import AsJson, File, OutFolder, Settings
from simulator.cli.predict import predict_points, refuse_if_no_answer
from simulator.cli.progress import stage
from simulator.errors import RefusedError

if TYPE_CHECKING:
    from simulator.compare import Comparison
    from simulator.spec.hardware import HardwareProfile
    from simulator.spec.load import Point
    from simulator.spec.probe import ProbeRecord
    from simulator.spec.record import RunRecord

CALIBRATION = "this-host"


def run(file: File, settings: Settings = None, as_json: AsJson = False, out: OutFolder = None) -> None:
    """Probe this machine, predict a scenario from the probe alone, really run it, and set both side by side."""
    from runtime.executor import refuse_elsewhere
    from simulator import compare as comparing
    from simulator.spec.load import load_scenario

    asked = executable(load_scenario(file, settings or ()))
    refuse_elsewhere(asked)
    folder = out or default_folder(asked)
    points = calibrated(asked, probe(asked, folder))
    predicted = predict_points(points)
    write(folder / "predicted.json", records_json(predicted))
    records = [*predicted, *measure_points(_that_fit(points, predicted), folder / "measured.json")]
    comparison = comparing.compare(records)
    if as_json:
        typer.echo(records_json(records))
    else:
        typer.echo("\n".join(_told(comparison)))
    typer.echo(f"report: {_report(comparison, folder)}", err=as_json)


def _that_fit(points: Sequence[Point], predicted: Sequence[RunRecord]) -> list[Point]:
    """The points to measure: whatever fits, also where the calibration does not reach, since measuring settles that.

    Raises:
        RefusedError: none fits.
    """
    analytic = [record for record in predicted if record.kind == "analytic"]
    fit = [p for p, record in zip(points, analytic, strict=True) if record.status.state != "does_not_fit"]
    if not fit:
        refuse_if_no_answer(predicted)
    return fit


def probe(points: Sequence[Point], folder: Path) -> list[ProbeRecord]:
    """Time this machine's kernels on every number of devices that the points ask for."""
    from runtime import probes

    degrees = {d for point in points for d in (point.scenario.deployment.target_degree, _draft_degree(point))}
    counts = sorted(degrees | {point.scenario.deployment.chips for point in points})
    with stage(f"probe: {', '.join(map(str, counts))} device{'s' * (counts != [1])}") as report:
        found: list[ProbeRecord] = probes.probe(counts, report, points[0].scenario.target.compute_dtype)
    write(folder / "probe.json", to_json({"probes": [record.to_json() for record in found]}))
    return found


def _draft_degree(point: Point) -> int:
    return point.scenario.deployment.draft_degree


def calibrated(points: Sequence[Point], probes: Sequence[ProbeRecord]) -> list[Point]:
    """The same points on the same hardware, calibrated by this machine's probe and nothing else."""
    from simulator.spec.load import Point

    profiles = {point.scenario.deployment.hardware.name: point.scenario.deployment.hardware for point in points}
    known = {name: _calibrate(probes, profile) for name, profile in profiles.items()}
    found = []
    for point in points:
        deployment = point.scenario.deployment
        changed = {"hardware": known[deployment.hardware.name], "calibration": CALIBRATION}
        scenario = point.scenario.model_copy(update={"deployment": deployment.model_copy(update=changed)})
        found.append(Point(scenario, point.axes))
    return found


def _calibrate(probes: Sequence[ProbeRecord], profile: HardwareProfile) -> HardwareProfile:
    from simulator.calibration import calibrate, host_profile

    host = probes[0].host
    if (host.platform == "cpu") != profile.shares_memory:
        raise RefusedError(
            f"this machine's device is {host.device} ({host.platform}), not {profile.name}: a probe of the one says "
            f"nothing of the other. `sps predict` answers without running anything."
        )
    return calibrate(probes, host_profile(profile, host) if profile.shares_memory else profile, CALIBRATION)


def _told(comparison: Comparison) -> list[str]:
    from simulator import compare as comparing
    from simulator import tables

    predicted = [view for view in comparison.views if view.predicted]
    asked = tables.wrapped(comparing.question(comparison.views), *tables.calibration_words(predicted))
    return [*asked, "", *told(comparison), ""]


def _report(comparison: Comparison, folder: Path) -> Path:
    from simulator.report import report

    with stage("report: tables and figures"):
        return write(folder / "report.html", report(comparison))
