"""What ``sps predict --explain`` says must add up to what is predicted, and multiply to the bytes that are counted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from simulator.arithmetic import explained
from simulator.predict import predict_scenario
from simulator.spec.load import load_scenario
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from tests.builders import model, scenario

MOE = {"count": 16, "per_token": 2, "d_ff": 256, "shared_d_ff": 128, "layers": 6}
LATENT = {"kv_rank": 64, "rotary_dim": 16, "query_rank": 96, "value_dim": 32}
CASES: dict[str, dict[str, Any]] = {
    "dense": {},
    "one chip": {"deployment__chips": 1},
    "large batch": {"workload__batch": 512},
    "nothing drafted": {"draft": {"kind": "none"}},
    "experts": {"target": model(experts=MOE), "deployment__expert_parallel": 2, "workload__batch": 7},
    "experts by message": {
        "target": model(experts=MOE),
        "deployment__expert_parallel": 4,
        "deployment__expert_dispatch": "all_to_all",
    },
    "compressed": {"target": model(latent=LATENT, head_dim=32)},
    "windows": {"target": model(window={"positions": 70, "layers": 3}, weight_dtype="int8", weight_group=64)},
    "own chip, ahead": {
        "deployment__chips": 5,
        "deployment__draft": {"placement": "own_chips", "ahead": True},
    },
    "some of the chips": {"deployment__draft": {"placement": "sub_slice", "tensor_parallel": 2}},
    "two dimensions, over sequences": {
        "target": model("target", block="parallel", kv_heads=1),
        "deployment__chips": 8,
        "deployment__slice": "2x2x2",
        "deployment__weight_layout": "two_dimensional",
        "deployment__attention_sharding": "batch",
        "workload__batch": 4,
    },
    "stages": {"deployment__chips": 8, "deployment__pipeline_parallel": 2},
}


@pytest.mark.parametrize("name", CASES)
def test_lines_sum_to_their_component_and_factors_multiply_to_bytes(name: str) -> None:
    small: Scenario = scenario(**CASES[name])
    steps, prediction = Steps.of(small), predict_scenario(small)
    for component, seconds in prediction.components.items():
        lines = explained(steps, component)
        assert sum(line.seconds for line in lines) == pytest.approx(seconds, rel=1e-12)
        assert all(line.words for line in lines)
        for line in lines:
            if line.factors:
                assert math.prod(line.factors) == pytest.approx(line.streamed_bytes, rel=1e-12)
        if not component.startswith("round"):
            for mechanism, part in prediction.mechanisms[component].items():
                found = sum(line.seconds for line in lines if line.mechanism == mechanism)
                assert found == pytest.approx(part, rel=1e-12)


def test_weights_are_counted_to_the_last(tmp_path: Path) -> None:
    file = tmp_path / "medusa.yaml"
    file.write_text(
        "name: m\ntarget: vicuna-7b\ndraft: {kind: medusa, heads: 5}\ndecoding: {lookahead: 5}\n"
        "deployment: {hardware: a100_sxm, chips: 1}\nacceptance: {kind: rate, acceptance_rate: 0.7}\n"
        "workload: {prompt_tokens: 64, output_tokens: 64}\n",
        encoding="utf-8",
    )
    lines = explained(Steps.of(load_scenario(file)[0].scenario), "draft_first_step")
    assert any(line.words.startswith("83,886,080 weights x 2 B") for line in lines)


def test_a_part_that_the_scenario_does_not_have_has_no_lines() -> None:
    assert explained(Steps.of(scenario()), "shipping") == []
