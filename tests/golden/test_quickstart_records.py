"""The committed predictions of the quickstart are what the committed probe of that day predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.calibration import calibrate
from simulator.cli.files import read_records
from simulator.predict import predict_scenario
from simulator.spec.load import scenario_from
from simulator.spec.probe import ProbeRecord
from simulator.spec.record import RunRecord

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "validation" / "quickstart_cpu"


def committed() -> list[RunRecord]:
    return read_records([str(RECORDS / "predicted.json"), str(RECORDS / "measured.json")])


def test_the_committed_predictions_follow_from_the_committed_probe_alone() -> None:
    data = json.loads((RECORDS / "probe.json").read_text(encoding="utf-8"))["probes"]
    probes = [ProbeRecord.model_validate_json(json.dumps(item), strict=True) for item in data]
    analytic = [record for record in committed() if record.kind == "analytic"]
    first = scenario_from(analytic[0].scenario)
    profile = calibrate(probes, first.deployment.hardware, "this-host")
    for record in analytic:
        asked = scenario_from(record.scenario)
        deployment = asked.deployment.model_copy(update={"hardware": profile})
        again = predict_scenario(asked.model_copy(update={"deployment": deployment})).components
        for name, seconds in record.components.items():
            assert again[name] == pytest.approx(seconds, rel=0.02, abs=2e-5), name
