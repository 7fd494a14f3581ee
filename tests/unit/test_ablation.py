"""Planted parts of a step are found again by ablation."""

from __future__ import annotations

import pytest

from simulator.ablation import plan
from simulator.spec.load import Point
from simulator.spec.record import RunRecord, new_record
from tests.builders import scenario


def record(point: Point) -> RunRecord:
    """A step of 1 ms, 0.2 ms a layer and 1 us a layer and position, and 0.1 ms a layer and device beyond the first."""
    asked = point.scenario
    layers, chips = asked.target.layers, asked.deployment.chips
    each = 2e-4 + 1e-6 * asked.workload.prompt_tokens + 1e-4 * (chips - 1)
    return new_record("measured", asked, metrics={"plain_step_s": 1e-3 + layers * each})


def test_planted_parts_are_found() -> None:
    asked = [Point(scenario(deployment__chips=chips, deployment__slice=None), {}) for chips in (1, 4)]
    made = plan(asked)
    assert len(made.points) == 16  # two models, two numbers of chips, two depths, two lengths
    found = made.explained([record(point) for point in made.points])
    assert [(part.model, part.chips) for part in found] == [("target", 1), ("draft", 1), ("target", 4), ("draft", 4)]
    for part in found:
        layers = 16 if part.model == "target" else 2
        assert part.fixed_s == pytest.approx(1e-3)
        assert part.kv_s == pytest.approx(layers * 1e-6 * 100)
        assert part.layers_s == pytest.approx(layers * (2e-4 + 1e-4 * (part.chips - 1)))
        assert part.fixed_s + part.layers_s + part.kv_s == pytest.approx(part.step_s)
        assert part.devices_s == (None if part.chips == 1 else pytest.approx(layers * 3e-4))


def test_what_was_not_measured_is_left_out() -> None:
    made = plan([Point(scenario(), {})])
    records = [record(point) for point in made.points]
    lame = records[0].model_copy(update={"metrics": {}})
    assert [part.model for part in made.explained([lame, *records[1:]])] == ["draft"]
