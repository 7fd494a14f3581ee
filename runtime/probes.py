"""Micro-benchmarks of a machine: the points of a design, timed in processes of their own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.children import run_child, write_answer
from runtime.probe_jobs import ProbeJobs
from runtime.timing import build_all, interleaved
from simulator.errors import MeasurementError
from simulator.spec.design import DESIGNS, Design, load_design
from simulator.spec.fields import DType
from simulator.spec.probe import ProbePoint, ProbeRecord, digest

TIMEOUT_S = 1200.0
VISITS = 7
WINDOW_S = 0.05
LEAST = 10
"""Units of a window: on several devices, windows of two or three came out 3 to 5 % too long."""
SECONDS_A_POINT = 4.0
"""After so long for every point, a process stops waiting for quiet windows."""


def probe_points(devices: int, dtype: DType) -> list[ProbePoint]:
    """What `sps run` probes on a number of devices."""
    design = load_design(DESIGNS / "probe.yaml").model_copy(update={"dtype": dtype})
    return design.points((devices,))


def probe(device_counts: Sequence[int], report: Callable[[str], None], dtype: DType = "float32") -> list[ProbeRecord]:
    """Probe this machine with each number of devices, each in a process of its own.

    Raises:
        MeasurementError: a probing process failed.
    """
    records: list[ProbeRecord] = []
    for count in sorted(set(device_counts)):
        words = f"probe, {count} device{'s' * (count > 1)}"
        records += _timed_in_child(Process("", count, tuple(probe_points(count, dtype))), words, report)
    return records


@dataclass(frozen=True)
class Process:
    """Points that one process times in turn."""

    name: str
    devices: int
    points: tuple[ProbePoint, ...]

    @property
    def file_name(self) -> str:
        """Where its records are kept: another name as soon as anything in it is another."""
        return f"{self.name}-{digest([self.devices, *(point.key for point in self.points)])}.json"


def processes(design: Design, device_counts: Sequence[int] | None = None) -> list[Process]:
    """A design cut into processes: points to fit and to test mixed by lot, anew in every replicate.

    Each begins with the controls, whose times tell how far one process differs from the next. A generation is timed
    beside a plain step of its target, so that what the two have to do with each other owes nothing to drift.
    """
    found = []
    points = design.points(None if device_counts is None else tuple(device_counts))
    for replicate in range(1, design.replicates + 1):
        for chips in sorted({point.chips for point in points}):
            if replicate > 1 and design.replicated and chips not in design.replicated:
                continue
            mixed = [point for point in points if point.chips == chips]
            random.Random(f"{design.name} {chips} {replicate}").shuffle(mixed)
            count = -(-len(mixed) // design.points_per_process)
            for number in range(count):
                chosen = mixed[number::count]
                unlike = {point.key: point for point in [*chosen, *_plain_steps(chosen)]}
                timed = (*design.control_points(chips), *unlike.values())
                found.append(Process(f"r{replicate}-x{chips}-{number + 1}of{count}", chips, timed))
    return found


def _plain_steps(points: Sequence[ProbePoint]) -> list[ProbePoint]:
    """Of the target of every generation."""
    return [
        ProbePoint(
            kind="decode_step",
            role=point.role,
            chips=point.chips,
            batch=point.batch,
            positions=point.positions,
            model=point.partner,
        )
        for point in points
        if point.kind == "generation"
    ]


def measure_design(
    design: Design, folder: Path, report: Callable[[str], None], device_counts: Sequence[int] | None = None
) -> list[ProbeRecord]:
    """Time every point of ``design``; what ``folder`` has of an earlier, interrupted run is not timed again.

    Raises:
        MeasurementError: a process failed.
    """
    planned = processes(design, device_counts)
    records: list[ProbeRecord] = []
    for number, process in enumerate(planned, 1):
        file = folder / process.file_name
        words = f"process {number} of {len(planned)}, {process.devices} device{'s' * (process.devices > 1)}"
        kept = _kept(file)
        if kept is None:
            kept = _timed_in_child(process, words, report)
            folder.mkdir(parents=True, exist_ok=True)
            write_answer(file, [record.to_json() for record in kept])
        else:
            report(f"{words}: finished before")
        records += kept
    return records


def _kept(file: Path) -> list[ProbeRecord] | None:
    """Records of a finished process; None where there are none, or none that can be read."""
    try:
        return probe_records(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _timed_in_child(process: Process, words: str, report: Callable[[str], None]) -> list[ProbeRecord]:
    asked = {
        "task": "probe",
        "devices": process.devices,
        "process": process.name,
        "points": [point.model_dump(mode="json", exclude_defaults=True) for point in process.points],
    }
    return probe_records(run_child(asked, lambda text: report(f"{words}: {text}"), TIMEOUT_S))


def probe_records(data: Sequence[Any]) -> list[ProbeRecord]:
    """Probe records as JSON has them."""
    return [ProbeRecord.model_validate_json(json.dumps(record)) for record in data]


def probe_here(request: dict[str, Any], report: Callable[[str], None]) -> list[ProbeRecord]:
    """Time the points of a request in this process, which must see as many devices as they want.

    Raises:
        MeasurementError: nothing to time.
    """
    points = [ProbePoint.model_validate_json(json.dumps(point)) for point in request["points"]]
    if not points:
        raise MeasurementError("a process without a point to time")
    jobs = ProbeJobs(points)
    runs = build_all(jobs.builders, report)
    session = interleaved(
        runs,
        beyond=jobs.beyond,
        visits=VISITS,
        window_s=WINDOW_S,
        budget_s=SECONDS_A_POINT * len(points),
        least=LEAST,
        report=report,
        warmed_up=jobs.forget_warm_up,
    )
    return jobs.records(session, request["process"])
