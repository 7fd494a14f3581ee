"""Findings and the point that they belong to -> a measured record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.importing.measurements.matching import Match
from simulator.spec.record import RunRecord, new_record

_COMPONENTS = {"prefill_s": "prefill", "plain_step_s": "plain_step", "verify_step_s": "verify_step", "round_s": "round"}


def record_of(match: Match, file: str, format_name: str) -> RunRecord:
    """The record, whose provenance says from which file it is and how each value was had."""
    metrics: dict[str, float] = {}
    derived: dict[str, str] = {}
    for finding in match.findings:
        metrics |= finding.metrics
        derived |= finding.derived
    provenance: dict[str, Any] = {
        "imported": {"file": file, "format": format_name},
        "model": " and ".join(dict.fromkeys(finding.model for finding in match.findings if finding.model)),
        "configuration": [finding.label for finding in match.findings],
        "stated": {one.path: _stated(one.value) for finding in match.findings for one in finding.stated},
        "derived": derived,
        "converted": [text for finding in match.findings for text in finding.converted],
        "left_out": [text for finding in match.findings for text in finding.left_out],
        "read": _merged([finding.read for finding in match.findings]),
    }
    return new_record(
        "measured",
        match.point.scenario,
        axes=match.point.axes,
        metrics=metrics,
        components={_COMPONENTS[name]: value for name, value in metrics.items() if name in _COMPONENTS},
        provenance={name: value for name, value in provenance.items() if value},
    )


def _stated(value: float) -> float:
    return round(value, 6)


def _merged(reads: list[Mapping[str, Any]] | list[dict[str, Any]]) -> dict[str, Any]:
    """One mapping, or one for each finding where there are several."""
    if len(reads) == 1:
        return dict(reads[0])
    return {str(index): dict(read) for index, read in enumerate(reads, 1)}
