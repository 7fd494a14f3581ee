"""The worked examples of the book How to Scale Your Model (2025) against the floor of a decode step."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.predict import predict_scenario
from simulator.spec.load import load_text

CASE = """
name: worked-example
target: {model}
draft: {{kind: none}}
deployment: {{hardware: tpu_v5e, calibration: scaling-book-2025, chips: {chips}, slice: {slice}}}
decoding: {{lookahead: 0}}
acceptance: {{kind: rate, acceptance_rate: 0.0}}
workload: {{batch: {batch}, prompt_tokens: 8190, output_tokens: 4}}
"""
# Chapter on inference: Llama-2-13B on 8 TPU v5e at 8,192 cached positions, by batch; from the bytes alone.
LLAMA_13B = {1: 4.98, 8: 12.13, 16: 20.30, 32: 36.65, 64: 69.33, 240: 249.09}
READ = 820 / 819
"""The book's examples read 820 GB/s of a chip, whose page says 819."""


def floor_and_step(model: str, batch: int, chips: int, slice_text: str, **changes: Any) -> tuple[float, float]:
    (point,) = load_text(CASE.format(model=model, batch=batch, chips=chips, slice=slice_text), "case.yaml")
    target = point.scenario.target.model_copy(update=changes)
    predicted = predict_scenario(point.scenario.model_copy(update={"target": target}))
    floor = predicted.metrics["bandwidth_floor_s"]
    assert isinstance(floor, float)
    return floor, predicted.components["plain_step"]


@pytest.mark.parametrize(("batch", "worked_ms"), LLAMA_13B.items())
def test_floors_are_those_of_the_book(batch: int, worked_ms: float) -> None:
    floor, step = floor_and_step("llama-2-13b", batch, 8, "2x4")
    # The book counts the embedding among the bytes, 1.2 % of the weights, of which a step reads a row.
    assert floor == pytest.approx(worked_ms * 1e-3 * READ, rel=0.012)
    # 80 all-reduces over axes of 2 and 4: 2 (1 + 3) hops of half a microsecond each.
    assert step - floor >= 80 * 4e-6


def test_a_70b_in_int8_is_that_of_the_book() -> None:
    # Chapter on applied inference: batch 32 at 8,192 positions, weights and cache in int8, to two figures.
    types = {"weight_dtype": "int8", "kv_dtype": "int8", "activation_dtype": "bfloat16"}
    eight, _ = floor_and_step("llama-3.1-70b", 32, 8, "2x4", **types)
    assert eight == pytest.approx(17e-3 * READ, rel=0.015)
    # On 16 chips the book shares the cache out evenly; but of 8 KV heads each lies whole on two of them, as do the
    # weights that make keys and values: 80 layers of 8192 x 2 x 8 x 128.
    sixteen, _ = floor_and_step("llama-3.1-70b", 32, 16, "4x4", **types)
    cache_bytes = 32 * 8192 * 80 * 2 * 8 * 128
    weight_bytes = 80 * 8192 * 2 * 8 * 128
    assert sixteen - (cache_bytes + weight_bytes) / 16 / 819e9 == pytest.approx(8.5e-3 * READ, rel=0.015)
