"""A file of measurements -> findings, and with a scenario, measured records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.errors import ConfigError, Problem
from simulator.importing.measurements.formats import Format, format_of
from simulator.importing.measurements.found import Outcome
from simulator.importing.measurements.matching import match
from simulator.importing.measurements.records import record_of
from simulator.importing.measurements.source import Source, read_source
from simulator.spec.load import Point
from simulator.spec.record import RunRecord


@dataclass(frozen=True)
class Imported:
    """What one file gave."""

    file: str
    format: Format
    outcome: Outcome
    records: tuple[RunRecord, ...] = ()


def import_measurement(path: Path, format_name: str | None = None, only: str | None = None) -> Imported:
    """Read a file of measurements.

    Args:
        path: the file.
        format_name: its format; told from the content unless given.
        only: keep the configurations whose name has this text.

    Raises:
        ConfigError: every mistake in it, by line and field; a format that is not known or holds no measurement.
    """
    return import_source(read_source(path), format_name, only)


def import_source(source: Source, format_name: str | None = None, only: str | None = None) -> Imported:
    """As :func:`import_measurement`, of text that was read already."""
    known = format_of(source, format_name)
    outcome = known.read(source)
    for finding in outcome.findings:
        for name, value in finding.metrics.items():
            if not (math.isfinite(value) and value >= 0 and (value > 0 or name == "draft_acceptance_ratio")):
                raise ConfigError((finding.place.problem(name, "a finite number of more than 0"),))
    if not outcome.findings and not outcome.written:
        raise source.refusal(1, "", f"a measurement that a record has a place for; {_nothing(outcome)}")
    if only is not None:
        kept = [finding for finding in outcome.findings if only in finding.label]
        if not kept:
            labels = "; ".join(finding.label for finding in outcome.findings[:8])
            raise ConfigError(
                (Problem(f"--only {only[:80]}", 0, 0, "", "", f"a part of one of these names: {labels}"),)
            )
        outcome.findings = kept
    return Imported(source.file, known, outcome)


def _nothing(outcome: Outcome) -> str:
    return "; ".join(outcome.left_out[:2]) or "there is none"


def with_scenario(imported: Imported, points: Sequence[Point], scenario_file: str) -> Imported:
    """The same with a record for every point of a scenario that was measured.

    Raises:
        ConfigError: the file contradicts the scenario, by field, or fits several of its points.
    """
    if not imported.outcome.findings:
        accepts = f"no scenario: {imported.outcome.what or 'what the file holds'} needs none"
        raise ConfigError((Problem(f"--scenario {scenario_file}", 0, 0, "", "", accepts),))
    matches, lonely = match(imported.outcome.findings, points, scenario_file)
    name = imported.file.replace("\\", "/").rpartition("/")[2]
    records = tuple(record_of(one, name, imported.format.name) for one in matches)
    believed = dict.fromkeys(
        f"the file is about {finding.model}; that this is the scenario's target, {one.point.scenario.target.name}, is"
        " believed"
        for one in matches
        for finding in one.findings
        if finding.model
    )
    outcome = replace(
        imported.outcome,
        left_out=[*imported.outcome.left_out, *lonely],
        notes=[*imported.outcome.notes, *believed],
    )
    return replace(imported, outcome=outcome, records=records)
