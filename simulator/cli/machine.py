"""This machine as a design measures it, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli.progress import stage

if TYPE_CHECKING:
    from simulator.spec.design import Design
    from simulator.spec.probe import HostDescription, ProbeRecord


def host() -> HostDescription:
    """What machine this is. Starts a process for JAX."""
    from runtime.executor import host_in_child

    return host_in_child()


def measured(design: Design, folder: Path, verb: str, devices: Sequence[int] | None = None) -> list[ProbeRecord]:
    """Everything that a design measures, with progress; what ``folder`` has of an interrupted run is kept."""
    from runtime.probes import measure_design, processes

    count = len(processes(design, devices))
    points = len(design.points(tuple(devices) if devices else None))
    words = f"{verb}: {points} shapes in {count} process{'es' * (count > 1)}; finished ones are kept in {folder}"
    with stage(words) as report:
        return measure_design(design, folder, report, devices)


def fit_only(design: Design) -> Design:
    """The same without what is held out."""
    return design.model_copy(update={"test": ()})
