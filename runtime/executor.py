"""Plays scenarios on real devices -> measured records; each number of devices in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from runtime.asked import ORDINARY, Asked
from runtime.children import run_child
from runtime.executed import not_executed
from runtime.host import describe_host
from runtime.probe_jobs import ProbeJobs
from runtime.probes import probe_points, probe_records
from runtime.timing import Run, build_all, interleaved
from runtime.workbench import Workbench
from simulator.errors import RefusedError
from simulator.spec.load import Point, scenario_from
from simulator.spec.probe import HostDescription, ProbeRecord
from simulator.spec.record import RunRecord
from simulator.spec.scenario import Scenario

TIMEOUT_S = 3600.0
VISITS = 4
WINDOW_S = 0.08
BUDGET_S = 25.0
LONGER = 3
"""As many times the visits and the time where parts are wanted in place: they are small differences of long times."""


def measure(points: Sequence[Point], report: Callable[[str], None], asked: Asked = ORDINARY) -> list[RunRecord]:
    """Measure every point; each number of devices in a process of its own, one after the other.

    Raises:
        ConfigError: folders that do not hold the weights of the points' models.
        RefusedError: a scenario that this machine or this runtime cannot execute.
        MeasurementError: a measuring process failed.
    """
    return _by_devices(points, report, asked, probed=False)[0]


def probe_and_measure(
    points: Sequence[Point], report: Callable[[str], None], asked: Asked = ORDINARY
) -> tuple[list[RunRecord], list[ProbeRecord]]:
    """Measure every point and probe the machine meanwhile, for each number of devices in one process.

    The windows of the probes lie between those of the scenario's programs, so both see the same machine: its memory
    bandwidth drifts by a fifth within minutes when neighbours are busy. Nothing of the measurement enters the probes.

    Raises:
        ConfigError: as of :func:`measure`.
        RefusedError: as of :func:`measure`.
        MeasurementError: as of :func:`measure`.
    """
    return _by_devices(points, report, asked, probed=True)


def _by_devices(
    points: Sequence[Point], report: Callable[[str], None], asked: Asked, *, probed: bool
) -> tuple[list[RunRecord], list[ProbeRecord]]:
    refuse_elsewhere(points)
    asked.weights.check([point.scenario for point in points])
    groups: dict[int, list[int]] = {}
    for index, point in enumerate(points):
        groups.setdefault(_devices(point.scenario), []).append(index)
    measured: dict[int, RunRecord] = {}
    probes: list[ProbeRecord] = []
    for devices, indices in sorted(groups.items()):
        request = {
            "task": "measure",
            "devices": devices,
            "probed": probed,
            "asked": asked.to_json(),
            "points": [{"scenario": points[i].scenario.resolved(), "axes": points[i].axes} for i in indices],
        }
        words = f"measure, {devices} device{'s' * (devices > 1)}: "
        answer = run_child(request, lambda text, words=words: report(words + text), TIMEOUT_S)  # type: ignore[misc]
        probes += probe_records(answer["probes"])
        for index, record in zip(indices, answer["records"], strict=True):
            measured[index] = RunRecord.model_validate(record)
    return [measured[index] for index in range(len(points))], probes


def _devices(scenario: Scenario) -> int:
    deployment = scenario.deployment
    return max(deployment.target_degree, deployment.draft_degree)


def refuse_elsewhere(points: Sequence[Point]) -> None:
    """Refuse scenarios for hardware that this machine does not have.

    JAX is asked in a process of its own, and only where it could have the wanted hardware.

    Raises:
        RefusedError: the machine's devices are of another kind.
    """
    wanted = {p.scenario.deployment.hardware.name for p in points if not p.scenario.deployment.hardware.shares_memory}
    here = host_in_child() if wanted else None
    if here is not None and here.platform == "cpu":
        raise RefusedError(
            f"the scenario is for {', '.join(sorted(wanted))}, and JAX finds only this machine's processor; "
            "`sps predict` answers without running anything"
        )
    for point in points:
        if words := not_executed(point.scenario):
            raise RefusedError(f"{words} is modelled, not executed")


def host_in_child() -> HostDescription:
    """What machine this is, asked of JAX in a process that ends."""
    answer = run_child({"task": "host", "devices": 1}, lambda _: None, 120.0)
    return HostDescription.model_validate(answer | {"cpu_flags": tuple(answer.get("cpu_flags", ()))})


def measure_here(
    points: Sequence[Point], report: Callable[[str], None], devices: int, probed: bool, asked: Asked = ORDINARY
) -> tuple[list[RunRecord], list[ProbeRecord]]:
    """Measure, and probe where ``probed``, in this process, which must see ``devices`` devices."""
    report("building")
    bench = Workbench(report, asked)
    plans = [bench.plan(point.scenario) for point in points]
    probes = ProbeJobs(probe_points(devices, points[0].scenario.target.compute_dtype)) if probed else None
    builders, beyond = bench.builders, dict(bench.cold.values())
    if probes is not None:
        builders, beyond = {**builders, **probes.builders}, {**beyond, **probes.beyond}
    runs = build_all(builders, report)
    longer = LONGER if asked.in_place else 1
    session = interleaved(
        runs,
        beyond=beyond,
        visits=VISITS * longer,
        window_s=WINDOW_S * min(longer, 2),
        budget_s=BUDGET_S * longer * min(longer, 2),
        report=report,
        warmed_up=bench.forget_warm_up,
    )
    if asked.profile is not None:
        _profile(runs, asked.profile / f"{devices}_devices", report)
    provenance = {
        "host": describe_host().model_dump(mode="json", exclude_defaults=True),
        "noise_floor": session.noise_floor,
        "foreign_load": session.foreign_load,
        "weights": asked.weights.words,
        "layers": asked.layers,
        "acceptance": "forced to the scenario's law",
        "speedup_baseline": "plain decoding of the same target in the same process",
    }
    records = [plan.record(point, session, bench, provenance) for plan, point in zip(plans, points, strict=True)]
    return records, [] if probes is None else probes.records(session)


def _profile(runs: Mapping[str, Run], folder: Path, report: Callable[[str], None]) -> None:
    """A few units of every program under JAX's profiler, which TensorBoard and Perfetto read."""
    report(f"profiling into {folder}")
    with jax.profiler.trace(str(folder)):
        for name, run in runs.items():
            with jax.profiler.TraceAnnotation(name):
                run(2)


def points_from(data: Sequence[Any]) -> list[Point]:
    """Points as :func:`measure` hands them to its children."""
    return [Point(scenario_from(item["scenario"]), item["axes"]) for item in data]
