"""Measured times of a design -> a calibration, its outcome, and both in files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from simulator.calibration import Predictor, calibrate, steadied
from simulator.files import to_json, write
from simulator.spec.confidence import ValidationClaim
from simulator.spec.design import Design
from simulator.spec.hardware import HardwareProfile
from simulator.spec.probe import FORCED_RATE, ProbeRecord
from simulator.validation.held_out import drift
from simulator.validation.machine import write_profile
from simulator.validation.outcome import Outcome, outcome
from simulator.validation.table import table_text

THIS_HOST = "this-host"
TIMES, VALIDATION, PROFILE = "times.csv", "validation.json", "profile.yaml"


def judged(
    records: Sequence[ProbeRecord], design: Design, profile: HardwareProfile, given: str | None
) -> tuple[Outcome, HardwareProfile]:
    """The outcome, and the profile with the calibration that it is about, which then says how it came out."""
    steady = steadied(records, Predictor(profile))
    today, name = dt.datetime.now(dt.UTC).date(), given or THIS_HOST
    known = profile if given else calibrate([r for r in steady if r.role == "fit"], profile, name, today)
    found = outcome(steady, design, known, name, FORCED_RATE, drift(records))
    # A calibration holds for every number of devices in it: one that was not tested on all of them is not validated.
    untested = {p.chips for p in known.calibrations[name].parameters} - {one.point.chips for one in found.found}
    words = f"sps validate device, design {found.design}"
    words += f"; not tested on {', '.join(map(str, sorted(n or 0 for n in untested)))} devices" if untested else ""
    claim = ValidationClaim(passed=found.passed and not untested, record=words, date=today)
    said = known.calibrations[name].model_copy(update={"validation": claim})
    return found, known.model_copy(update={"calibrations": {**known.calibrations, name: said}})


def keep(folder: Path, found: Outcome, profile: HardwareProfile, records: Sequence[ProbeRecord]) -> None:
    """Write the times, the outcome and the profile, each whole or not at all."""
    write(folder / TIMES, table_text(records))
    write(folder / VALIDATION, to_json(found.to_json()))
    write_profile(folder / PROFILE, profile, f"Written by `sps validate device`: {found.verdict}.")
