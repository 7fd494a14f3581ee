"""sps run: the main job. Probe and measure this machine, predict from the probe alone, compare, report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from simulator.cli.compare import told
from simulator.cli.executable import executable
from simulator.cli.files import ready, records_json, to_json, write
from simulator.cli.measure import default_folder, measure_in_groups
from simulator.cli.options import AsJson, File, OutFolder, Settings
from simulator.cli.predict import predict_points
from simulator.cli.progress import Report, stage
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
    _refuse_anchors(asked)
    _refuse_mixed_types(asked)
    folder = ready(out or default_folder(asked))
    measured, probes = _probe_and_measure(_that_fit(asked), folder)
    predicted = predict_points(calibrated(asked, probes))
    write(folder / "predicted.json", records_json(predicted))
    records = [*predicted, *measured]
    comparison = comparing.compare(records)
    if as_json:
        typer.echo(records_json(records))
    else:
        typer.echo("\n".join(_told(comparison)))
    typer.echo(f"report: {_report(comparison, folder)}", err=as_json)


def _refuse_mixed_types(points: Sequence[Point]) -> None:
    """One probe calibrates one type of number.

    Raises:
        RefusedError: the models of the points compute in more than one.
    """
    models = [m for p in points for m in (p.scenario.target, p.scenario.draft_model) if m is not None]
    types = sorted({model.compute_dtype for model in models})
    if len(types) > 1:
        raise RefusedError(f"the models compute in {' and '.join(types)}; run them one type at a time")


def _refuse_anchors(points: Sequence[Point]) -> None:
    """What is predicted from the probe alone may not know what was measured.

    Raises:
        RefusedError: a point has measured steps.
    """
    if any(point.scenario.measured is not None for point in points):
        words = "sps run predicts from a probe of this machine alone, and the scenario has measured steps"
        raise RefusedError(f"{words}: leave them out with --set measured=null, or ask sps predict")


def _that_fit(points: Sequence[Point]) -> list[Point]:
    """The points to measure: whatever fits in memory.

    Raises:
        RefusedError: none fits.
    """
    from simulator.cost.memory import does_not_fit, memory_terms

    reasons = [does_not_fit(point.scenario, memory_terms(point.scenario)) for point in points]
    fit = [point for point, reason in zip(points, reasons, strict=True) if not reason]
    if not fit:
        raise RefusedError("nothing to run: no point fits\n" + "\n".join(f"    {r}" for r in dict.fromkeys(reasons)))
    return fit


def _probe_and_measure(points: Sequence[Point], folder: Path) -> tuple[list[RunRecord], list[ProbeRecord]]:
    """Measured records, and probes of every number of devices that a model lies on."""
    from runtime import executor, probes

    found: list[ProbeRecord] = []

    def both(group: Sequence[Point], report: Report) -> list[RunRecord]:
        measured, probed = executor.probe_and_measure(group, report)
        found.extend(probed)
        return measured

    measured = measure_in_groups(points, folder / "measured.json", "probe and measure", both)
    missing = sorted(_degrees(points) - {record.chips for record in found})
    if missing:  # a draft on fewer devices than its target
        with stage(f"probe: {', '.join(map(str, missing))} device{'s' * (missing != [1])}") as report:
            found += probes.probe(missing, report, points[0].scenario.target.compute_dtype)
    write(folder / "probe.json", to_json({"probes": [record.to_json() for record in found]}))
    return measured, found


def _degrees(points: Sequence[Point]) -> set[int]:
    deployments = [point.scenario.deployment for point in points]
    return {degree for d in deployments for degree in (d.target_degree, d.draft_degree)}


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
