"""What must hold of any prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cost.collectives import Links, all_gather_time, all_reduce_time
from simulator.cost.operations import head, operations, weight_bytes_per_chip
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, step_cost
from simulator.predict import predict, predict_scenario
from simulator.spec.hardware import AllReduceCost
from simulator.spec.load import Point
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from tests.builders import PROFILE, model, scenario


@st.composite
def models(draw: Any, name: str) -> dict[str, Any]:
    kv_heads = draw(st.sampled_from([1, 2, 4, 8]))
    return model(
        name,
        layers=draw(st.integers(1, 60)),
        d_model=draw(st.sampled_from([64, 384, 1024, 4096])),
        kv_heads=kv_heads,
        heads=kv_heads * draw(st.sampled_from([2, 4])),
        head_dim=draw(st.sampled_from([32, 64, 128])),
        d_ff=draw(st.integers(16, 20_000)),
        feed_forward=draw(st.sampled_from(["gated", "plain"])),
        weight_dtype=draw(st.sampled_from(["bfloat16", "float32"])),
    )


@st.composite
def scenarios(draw: Any) -> Scenario:
    return scenario(
        target=draw(models("target")),
        draft={"kind": "model", "model": draw(models("draft"))},
        deployment__chips=draw(st.sampled_from([1, 2])),
        decoding__lookahead=draw(st.integers(0, 16)),
        acceptance={"kind": "rate", "acceptance_rate": draw(st.floats(0, 1))},
        workload={
            "batch": draw(st.integers(1, 512)),
            "prompt_tokens": draw(st.integers(1, 100_000)),
            "output_tokens": draw(st.integers(2, 300)),
        },
    )


@settings(max_examples=300, deadline=None)
@given(scenarios())
def test_mechanisms_sum_to_components_and_components_to_the_round(small: Scenario) -> None:
    prediction = predict_scenario(small)
    for name, seconds in prediction.components.items():
        assert sum(prediction.mechanisms[name].values()) == pytest.approx(seconds, rel=1e-12, abs=0)
        assert seconds >= 0
    if "round" in prediction.components:
        parts = prediction.components
        expected = parts["draft_first_step"] + (small.lookahead - 1) * parts.get("draft_step", 0.0)
        expected += parts["verify_step"] + parts["sampling"] + parts["round_overhead"]
        assert parts["round"] == pytest.approx(expected, rel=1e-12)
        assert 1 <= prediction.metrics["acceptance_length"] <= small.lookahead + 1


@settings(max_examples=60, deadline=None)
@given(scenarios(), st.floats(1, 100))
def test_more_bandwidth_is_never_slower(small: Scenario, factor: float) -> None:
    before = predict_scenario(small).components
    peaks = small.deployment.hardware.peaks
    wider = peaks.hbm_bandwidth.model_copy(update={"value_bytes_per_s": peaks.hbm_bandwidth.value_bytes_per_s * factor})
    hardware = small.deployment.hardware.model_copy(update={"peaks": peaks.model_copy(update={"hbm_bandwidth": wider})})
    faster = small.model_copy(update={"deployment": small.deployment.model_copy(update={"hardware": hardware})})
    after = predict_scenario(faster).components
    assert all(after[name] <= seconds * (1 + 1e-12) for name, seconds in before.items())


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_no_draft_and_no_lookahead_are_plain_decoding(small: Scenario) -> None:
    plain = small.model_copy(update={"decoding": small.decoding.model_copy(update={"lookahead": 0})})
    prediction = predict_scenario(plain)
    assert set(prediction.components) == {"prefill", "plain_step"}
    assert prediction.metrics["speedup"] == 1
    assert prediction.components["plain_step"] == predict_scenario(small).components["plain_step"]


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_a_draft_that_is_never_accepted_is_slower_than_plain(small: Scenario) -> None:
    never = small.model_copy(
        update={"acceptance": scenario(acceptance={"kind": "rate", "acceptance_rate": 0.0}).acceptance}
    )
    metrics = predict_scenario(never).metrics
    assert metrics["speedup"] < 1 or never.lookahead == 0


def test_the_same_seed_gives_the_same_records() -> None:
    points = [Point(scenario(), {}), Point(scenario(seed=1), {})]
    first, again = predict(points), predict(points)
    assert [r.to_json() for r in first] == [r.to_json() for r in again]
    assert first[1].metrics["time_to_tokens_s"] != first[3].metrics["time_to_tokens_s"]


def test_arrays_give_what_the_same_numbers_give_one_by_one() -> None:
    small = scenario()
    hardware = small.deployment.hardware
    machine = Machine(hardware, hardware.calibrations["made-up"].parameters[0], Links(50e9), "bfloat16")
    shape = Shape.of(small.target)
    tokens, chips = np.array([[1.0], [5.0]]), np.array([1.0, 4.0, 16.0])
    together = step_cost(shape, Pass(2, tokens, 300, chips), machine, sampled_rows=1).seconds
    for i, t in enumerate(tokens[:, 0]):
        for j, x in enumerate(chips):
            alone = step_cost(shape, Pass(2, float(t), 300, float(x)), machine, sampled_rows=1).seconds
            assert together[i, j] == pytest.approx(float(alone), rel=1e-14)


@pytest.mark.parametrize("chips", [1, 2, 3, 8, 16, 64])
def test_padding_is_charged_and_replicated_kv_heads_too(chips: int) -> None:
    shape = Shape.of(scenario(target=model(heads=8, kv_heads=2)).target)
    each = float(weight_bytes_per_chip(shape, chips))
    assert each * chips >= float(weight_bytes_per_chip(shape, 1)) * (1 - 1e-12)


@pytest.mark.parametrize("algorithm", ["ring", "one_shot"])
def test_all_reduce_formulas(algorithm: str) -> None:
    cost = AllReduceCost.model_validate({"algorithm": algorithm, "base": "1 us", "hop_latency": "2 us"})
    links = Links(50e9)
    for chips, payload in ((2, 1e3), (8, 1e6), (16, 1e9)):
        time = all_reduce_time(cost, links, payload, chips)
        if algorithm == "ring":
            assert time.latency_s == pytest.approx(1e-6 + 2 * (chips - 1) * 2e-6)
            assert time.bandwidth_s == pytest.approx(
                2 * (chips - 1) / chips * payload / (50e9 if chips == 2 else 100e9)
            )
        else:
            assert time.latency_s == pytest.approx(3e-6)
            assert time.bandwidth_s == pytest.approx((chips - 1) * payload / 50e9)
    alone = all_reduce_time(cost, links, 1e6, 1)
    assert float(alone.latency_s + alone.bandwidth_s) == 0


def test_a_torus_moves_what_a_ring_moves_in_fewer_hops() -> None:
    ring = AllReduceCost.model_validate({"algorithm": "ring", "hop_latency": "1 us"})
    torus = AllReduceCost.model_validate({"algorithm": "torus", "hop_latency": "1 us"})
    slice_links = Links(50e9, (4, 4, 4), (True, True, True))
    on_ring, on_torus = all_reduce_time(ring, slice_links, 1e6, 64), all_reduce_time(torus, slice_links, 1e6, 64)
    assert on_torus.latency_s == pytest.approx(3 * 2 * 3 * 1e-6)
    assert on_torus.latency_s < on_ring.latency_s
    # Every byte is reduced once: summed over the axes, the parts that cross are (X - 1) / X of the payload, twice.
    assert on_torus.bandwidth_s == pytest.approx(2 * (63 / 64) * 1e6 / 3 / 100e9)
    flat = Links(50e9, (4, 4, 4), (False, False, False))
    assert all_reduce_time(torus, flat, 1e6, 64).bandwidth_s == pytest.approx(2 * float(on_torus.bandwidth_s))
    gather = all_gather_time(torus, slice_links, 1e6, 64)
    assert gather.bandwidth_s == pytest.approx(float(on_torus.bandwidth_s) / 2)


def test_a_measured_table_is_met_at_its_points_and_between() -> None:
    table = ({"payload": "1 kB", "time": "10 us"}, {"payload": "100 kB", "time": "30 us"})
    cost = AllReduceCost.model_validate({"algorithm": "table", "table": table})
    seconds = [
        float(t.latency_s + t.bandwidth_s)
        for t in (all_reduce_time(cost, Links(1e9), p, 4) for p in (1e3, 1e4, 1e5, 2e5))
    ]
    np.testing.assert_allclose(seconds, [10e-6, 20e-6, 30e-6, 60e-6], rtol=1e-12)


def test_larger_payloads_go_by_their_own_algorithm() -> None:
    two_shot = {"payload": "1 MB", "algorithm": "two_shot", "base": "9 us", "link_efficiency": 0.5}
    one_shot = {"algorithm": "one_shot", "base": "5 us"}
    both = AllReduceCost.model_validate(one_shot | {"larger": (two_shot,)})
    small = AllReduceCost.model_validate(one_shot)
    large = AllReduceCost.model_validate({key: value for key, value in two_shot.items() if key != "payload"})
    links = Links(100e9, both_ways=False)
    payloads = np.array([1e3, 9.99e5, 1e6, 1e8])
    for time in (all_reduce_time, all_gather_time):
        found = time(both, links, payloads, 8).seconds
        assert found[:2] == pytest.approx(time(small, links, payloads[:2], 8).seconds)
        assert found[2:] == pytest.approx(time(large, links, payloads[2:], 8).seconds)
        assert float(time(both, links, 1e6, 1).seconds) == 0
    assert float(all_reduce_time(large, links, 1e8, 8).seconds) == pytest.approx(9e-6 + 2 * 7 / 8 * 1e8 / 50e9)


def test_what_does_not_fit_says_so_with_the_largest_batch() -> None:
    huge = predict_scenario(scenario(workload__batch=5000, workload__prompt_tokens=8000))
    assert huge.status.state == "does_not_fit"
    assert "target KV cache" in huge.status.reason
    batch = int(huge.status.reason.rsplit(": ", 1)[1])
    fits = predict_scenario(scenario(workload__batch=batch, workload__prompt_tokens=8000))
    assert fits.status.state == "ok"
    one_more = predict_scenario(scenario(workload__batch=batch + 1, workload__prompt_tokens=8000))
    assert one_more.status.state == "does_not_fit"


def test_leaving_the_fitted_range_is_a_status_with_the_axis() -> None:
    profile = PROFILE | {
        "calibrations": {
            "made-up": PROFILE["calibrations"]["made-up"] | {"validity": {"layers": {"low": 2.0, "high": 10.0}}}
        }
    }
    status = predict_scenario(scenario(deployment__hardware=profile)).status
    assert status.state == "outside_calibration"
    assert "layers 16" in status.reason


@settings(max_examples=200, deadline=None)
@given(models("target"), st.sampled_from([1, 2, 4, 8]), st.integers(0, 3), st.sampled_from([1, 2, 4, 8, 16]))
def test_more_chips_never_hold_more_of_anything(
    given_model: dict[str, Any], parts: int, more: int, groups: int
) -> None:
    shape = Shape.of(ModelSpec.model_validate(given_model))

    def streamed(chips: int, width: int, over: int) -> tuple[float, float]:
        step = Pass(16, 1, 200, chips, width_parts=width, sequence_groups=over)
        found = {op.name: float(op.streamed_bytes) for op in operations(shape, step)}
        return sum(found.values()) - found["attention"] + float(head(shape, step).streamed_bytes), found["attention"]

    weights, cache = streamed(parts * 2, parts, 1)
    # Split along either axis, weights never grow; of the cache nothing grows that is split over more sequences.
    assert streamed(parts * 2 * 2**more, parts, 1)[0] <= weights
    assert streamed(parts * 2 * 2**more, parts * 2**more, 1)[0] <= weights
    assert streamed(16, 2, groups)[1] <= streamed(16, 2, 1)[1]
    assert cache > 0
