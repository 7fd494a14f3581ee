"""Bytes, FLOP and collectives of experts, compressed keys, windows, quantised weights and placements, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.cost.collectives import Links, all_reduce_time, all_to_all_time, collective_time, message_time
from simulator.cost.counted import Operation
from simulator.cost.experts import busiest_group, touched_experts
from simulator.cost.operations import collectives, head, operations
from simulator.cost.shape import Experts, Pass, Shape, stored
from simulator.predict import predict_scenario
from simulator.spec.hardware import AllReduceCost, MessageCost
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from tests.builders import PROFILE, model, scenario

MOE = {"count": 16, "per_token": 2, "d_ff": 256, "shared_d_ff": 128, "layers": 6}
LATENT = {"kv_rank": 64, "rotary_dim": 16, "query_rank": 96, "value_dim": 32}


def profile_with(parameters: dict[str, Any]) -> dict[str, Any]:
    """The invented chip with some parameters of its calibration changed."""
    calibration = PROFILE["calibrations"]["made-up"]
    changed = calibration | {"parameters": (calibration["parameters"][0] | parameters,)}
    return PROFILE | {"calibrations": {"made-up": changed}}


def own_chips_with(parameters: dict[str, Any]) -> Scenario:
    """A draft on a chip of its own beside four, under a changed calibration."""
    draft = {"placement": "own_chips"}
    return scenario(deployment__chips=5, deployment__draft=draft, deployment__hardware=profile_with(parameters))


def shape(**changes: Any) -> Shape:
    return Shape.of(ModelSpec.model_validate(model(**changes)))


def ops(of: Shape, step: Pass, tile: int = 1) -> dict[str, Operation]:
    return {op.name: op for op in operations(of, step, tile)}


def test_experts_touched_by_enumeration() -> None:
    experts = Experts(1, 6, 2, 1, 0, 0.0)
    rng = np.random.default_rng(0)
    for rows in (1, 3, 10):
        chosen = np.argsort(rng.random((20_000, rows, 6)), axis=-1)[..., :2]
        seen = np.array([len(np.unique(draw)) for draw in chosen])
        bound = 5 * seen.std() / np.sqrt(len(seen)) + 1e-12  # false alarm below 1e-6
        assert abs(float(touched_experts(experts, rows)) - seen.mean()) <= bound
    alike = Experts(1, 6, 2, 1, 0, 1.0)
    assert float(touched_experts(alike, 100)) == pytest.approx(2)


@pytest.mark.parametrize("rows", [1, 4, 32])
def test_the_busiest_group_is_a_little_over_what_drawing_gives(rows: int) -> None:
    experts, groups = Experts(1, 64, 4, 1, 0, 0.0), 8
    rng = np.random.default_rng(1)
    most = []
    for _ in range(3000):
        touched = np.unique(np.argsort(rng.random((rows, 64)), axis=-1)[:, :4])
        most.append(np.bincount(touched // 8, minlength=groups).max())
    found = float(busiest_group(experts, rows, groups))
    # Groups are taken as independent, which they are not: the formula's error, beside that of the drawing.
    assert np.mean(most) - 0.05 <= found <= np.mean(most) * 1.12


def test_bytes_and_flop_of_experts() -> None:
    of, step = shape(experts=MOE), Pass(3, 2, 100, 2)
    found = ops(of, step)
    touched = 16 * (1 - (1 - 2 / 16) ** 6)
    assert found["experts"].streamed_bytes == pytest.approx(6 * touched * 3 * 512 * 128 * 2)
    assert found["experts"].flop == pytest.approx(2 * 6 * 2 * 6 * 3 * 512 * 128)
    assert found["shared_experts"].streamed_bytes == 6 * 3 * 512 * 64 * 2
    assert found["feed_forward"].streamed_bytes == 2 * 3 * 512 * 1024 * 2
    assert found["router"].flop == 2 * 6 * 512 * 16 * 6
    assert found["router"].model_flop == found["router"].flop / 2  # every chip routes all tokens
    assert ops(shape(experts=MOE | {"layers": 8}), step).keys() == found.keys() - {"feed_forward"}


def test_spreading_experts_reads_whole_ones_and_waits_for_the_busiest() -> None:
    of = shape(experts=MOE)
    one, spread = (float(ops(of, Pass(1, 1, 100, 4, None, g))["experts"].streamed_bytes) for g in (1, 4))
    assert spread > one  # one token: its two experts lie on one or two of four chips
    many = Pass(4096, 1, 100, 4, None, 4)
    assert float(ops(of, many)["experts"].streamed_bytes) == pytest.approx(6 * 4 * 3 * 512 * 256 * 2, rel=1e-6)


def test_collectives_of_dispatch() -> None:
    of, step = shape(experts=MOE), Pass(8, 1, 100, 4, 1, 4, dispatch=True)
    found = {c.name: c for c in collectives(of, step)}
    assert [float(found[n].count) for n in ("layers", "scatter", "dispatch", "gather")] == [4, 6, 12, 6]
    assert found["dispatch"].payload_bytes == 8 * 512 * 2 / 4 * 2
    parallel = {c.name: c for c in collectives(shape(block="parallel"), Pass(1, 1, 0, 4))}
    assert parallel["layers"].count == 8
    assert found["stages"].count == 0


def test_compressed_keys_are_read_whole_on_every_chip() -> None:
    of = shape(latent=LATENT, head_dim=32)
    found = ops(of, Pass(2, 1, 99, 4))
    assert found["attention"].streamed_bytes == 8 * 2 * 100 * (64 + 16) * 2
    assert found["attention"].flop == 2 * 2 * 8 * 100 * 2 * (2 * 64 + 16)
    assert found["compress"].streamed_bytes == 8 * 512 * (96 + 80) * 2
    assert found["queries"].streamed_bytes == 8 * 96 * 2 * 48 * 2
    assert found["expand"].streamed_bytes == 8 * 64 * 2 * 64 * 2
    prefill = ops(of, Pass(1, 100, 0, 1))["attention"]
    assert prefill.flop == 2 * 100 * 8 * 50.5 * 8 * (48 + 32)


def test_a_window_bounds_what_is_read() -> None:
    of = shape(window={"positions": 50, "layers": 6})
    found = ops(of, Pass(1, 1, 999, 1))["attention"]
    assert found.streamed_bytes == (2 * 1000 + 6 * 51) * 2 * 8 * 64 * 2
    assert found.flop == 4 * (2 * 1000 + 6 * 50) * 8 * 64
    short = ops(of, Pass(1, 1, 10, 1))["attention"]
    assert short.streamed_bytes == 8 * 11 * 2 * 8 * 64 * 2


def test_a_matrix_lies_in_memory_so_that_it_needs_least_padding() -> None:
    # 512 x 1,025: the 512 are four tiles of 128, the 1,025 are padded to 8.
    of = shape(vocabulary=4100, d_ff=2050)
    assert head(of, Pass(1, 1, 0, 4), 128).streamed_bytes == 512 * 1032 * 2
    assert ops(of, Pass(1, 1, 0, 4), 128)["feed_forward"].streamed_bytes == 8 * 3 * 512 * 520 * 2
    # Where no side is whole tiles, one of both is padded to them.
    assert stored(500, 1025, 128) == 512 * 1032 < 504 * 1152
    assert stored(500, 70, 128) == min(504 * 128, 512 * 72)
    assert stored(500, 70, 1) == 500 * 70


def test_heads_narrower_than_a_tile_are_not_padded_each() -> None:
    # Eight heads of 64 lie side by side: 512 columns; keys and values lie with their positions along the columns.
    found = ops(shape(), Pass(1, 1, 9, 1), 128)
    assert found["qkv"].streamed_bytes == 8 * 512 * 3 * 512 * 2
    assert found["output"].streamed_bytes == 8 * 512 * 512 * 2
    assert found["attention"].streamed_bytes == 8 * 10 * 2 * 8 * 64 * 2
    # The matrix units multiply whole tiles all the same.
    assert found["attention"].flop == 2 * ops(shape(), Pass(1, 1, 9, 1))["attention"].flop


def test_the_tile_pads_what_is_multiplied() -> None:
    whole = ops(shape(d_ff=2050), Pass(1, 1, 0, 4), 128)["feed_forward"]
    assert whole.flop == 2 * 8 * 3 * 512 * 640
    assert whole.model_flop == 2 * 8 * 3 * 512 * 2050 / 4 < whole.flop


def test_collective_formulas() -> None:
    def cost(algorithm: str) -> AllReduceCost:
        data = {"algorithm": algorithm, "base": "1 us", "hop_latency": "2 us", "link_efficiency": 0.5}
        return AllReduceCost.model_validate(data)

    switch, ring = Links(100e9, both_ways=False), Links(100e9)
    tree = all_reduce_time(cost("tree"), switch, 1e6, 8)
    assert (tree.latency_s, tree.bandwidth_s) == (pytest.approx(13e-6), pytest.approx(2e6 / 50e9))
    inside = all_reduce_time(cost("in_switch"), switch, 1e6, 8)
    assert (inside.latency_s, inside.bandwidth_s) == (pytest.approx(5e-6), pytest.approx(1e6 / 50e9))
    for algorithm in ("ring", "tree", "in_switch"):
        gather = collective_time("all_gather", cost(algorithm), switch, 1e6, 8)
        scatter = collective_time("reduce_scatter", cost(algorithm), switch, 1e6, 8)
        assert gather.seconds == scatter.seconds == pytest.approx(1e-6 + 7 * 2e-6 + 7 / 8 * 1e6 / 50e9)
    through = all_to_all_time(cost("ring"), switch, 1e6, 8)
    assert through.seconds == pytest.approx(3e-6 + 7 / 8 * 1e6 / 50e9)
    round_ring = all_to_all_time(cost("ring"), ring, 1e6, 16)
    assert round_ring.seconds == pytest.approx(1e-6 + 8 * 2e-6 + 1e6 * 16 / (8 * 50e9))
    cube = Links(100e9, (4, 4, 4), (True, True, False))
    assert all_to_all_time(cost("torus"), cube, 1e6, 64).seconds == pytest.approx(
        1e-6 + 7 * 2e-6 + 1e6 * 4 / (4 * 50e9)
    )
    assert message_time(None, cost("ring"), ring, 1e6).seconds == pytest.approx(3e-6 + 1e6 / 50e9)
    measured = MessageCost.model_validate({"base": "7 us", "link_efficiency": 0.25})
    assert message_time(measured, cost("ring"), ring, 1e6).seconds == pytest.approx(7e-6 + 1e6 / 25e9)
    assert collective_time("point_to_point", None, ring, 1e6, 1).seconds == pytest.approx(1e-5)


def test_shipping_the_drafts_distributions_by_hand() -> None:
    own = scenario(deployment__chips=5, deployment__draft={"placement": "own_chips"}, decoding__lookahead=4)
    parts = predict_scenario(own)
    each = 4 + 4096 * 4
    hop, carried = 3e-6, each / 50e9
    assert parts.components["shipping"] == pytest.approx(2 * hop + carried + 4 / 50e9)  # a draft step hides the others
    greedy = scenario(
        deployment__chips=5, deployment__draft={"placement": "own_chips"}, decoding={"lookahead": 4, "temperature": 0.0}
    )
    assert predict_scenario(greedy).components["shipping"] == pytest.approx(2 * hop + 2 * 4 / 50e9)
    some = scenario(deployment__draft={"placement": "sub_slice", "tensor_parallel": 1})
    shared = predict_scenario(some).components["shipping"]
    assert shared == pytest.approx(hop + (4 + 4096 * 4 * 3 / 4) / 50e9)
    # Where a message takes longer than a draft step, the difference is waited for at every token but the first.
    slow = predict_scenario(own_chips_with({"point_to_point": {"base": "1 us", "link_efficiency": 0.001}})).components
    one = each / 50e6
    assert slow["draft_step"] < one
    exposed = one + 3 * (1e-6 + one - slow["draft_step"])
    assert slow["shipping"] == pytest.approx(2e-6 + exposed + 4 / 50e6)


def test_placements_put_the_draft_on_the_chips_they_name() -> None:
    one = {"tensor_parallel": 1}
    whole = predict_scenario(scenario(deployment__chips=4)).components
    part = predict_scenario(scenario(deployment__draft=one | {"placement": "sub_slice"})).components
    copies = predict_scenario(scenario(deployment__draft=one | {"placement": "replicated"})).components
    own = predict_scenario(scenario(deployment__chips=5, deployment__draft={"placement": "own_chips"})).components
    assert part["draft_step"] == copies["draft_step"] == own["draft_step"] != whole["draft_step"]
    assert "shipping" not in whole.keys() | copies.keys()
    assert own["verify_step"] == whole["verify_step"]


def test_a_draft_that_works_ahead_by_hand() -> None:
    ahead = {"placement": "own_chips", "ahead": True}
    small = scenario(deployment__chips=5, deployment__draft=ahead, decoding__lookahead=3)
    found = predict_scenario(small)
    parts, metrics = found.components, found.metrics
    drafted = parts["draft_first_step"] + 2 * parts["draft_step"] + parts["shipping"]
    verified = parts["verify_step"] + parts["sampling"] + parts["round_overhead"]
    assert parts["round"] == pytest.approx(drafted + verified)
    assert parts["round_ahead"] == pytest.approx(max(drafted, verified))
    hot, tokens = 0.7**3, 1 + 0.7 + 0.7**2
    assert metrics["acceptance_length"] == pytest.approx(tokens)
    mean = hot * parts["round_ahead"] + (1 - hot) * parts["round"]
    assert metrics["tpot_s"] == pytest.approx(mean / tokens)
    even = metrics["break_even_acceptance"]
    there = scenario(
        deployment__chips=5,
        deployment__draft=ahead,
        decoding__lookahead=3,
        acceptance={"kind": "rate", "acceptance_rate": even},
    )
    assert predict_scenario(there).metrics["speedup"] == pytest.approx(1, rel=1e-9)


def test_a_pipeline_hands_on_between_its_stages() -> None:
    flat = predict_scenario(scenario(deployment__chips=4, deployment__tensor_parallel=4))
    staged = predict_scenario(scenario(deployment__chips=8, deployment__pipeline_parallel=2))
    extra = staged.components["plain_step"] - flat.components["plain_step"]
    assert extra == pytest.approx(3e-6 + 1024 * 2 / 50e9)
    terms = [p.provenance["memory_terms_bytes"]["target weights"] for p in (flat, staged)]
    assert terms[1] == terms[0] / 2


def test_time_to_the_first_token() -> None:
    same = predict_scenario(scenario())
    assert same.metrics["ttft_s"] == same.components["prefill"] + same.components["draft_prefill"]
    own = predict_scenario(scenario(deployment__chips=5, deployment__draft={"placement": "own_chips"}))
    assert own.metrics["ttft_s"] == max(own.components["prefill"], own.components["draft_prefill"])
    plain = predict_scenario(scenario(draft={"kind": "none"}))
    expected = plain.components["prefill"] + 127 * plain.components["plain_step"]
    assert plain.metrics["e2e_s"] == pytest.approx(expected)


def test_sorting_for_a_nucleus_is_not_free() -> None:
    profile = profile_with({"sampling": {"base": "20 us", "per_logit": "0.1 ns", "sort_per_logit": "1 ns"}})
    changed = {"deployment__hardware": profile, "decoding": {"lookahead": 4, "top_p": 0.9}}
    nucleus = predict_scenario(scenario(**changed)).components["sampling"]
    whole = predict_scenario(scenario(deployment__hardware=profile)).components["sampling"]
    assert nucleus - whole == pytest.approx(5 * 4096 * 1e-9)


def test_counts_are_two_numbers_and_mbu_is_a_share() -> None:
    counts = predict_scenario(scenario(target=model(heads=8, kv_heads=8, d_ff=2047), deployment__chips=4)).provenance[
        "counts"
    ]
    assert counts["plain_step"]["executed_flop"] > counts["plain_step"]["model_flop"]
    assert all(0 < part["mbu"] < 1 and 0 < part["mfu"] < 1 for part in counts.values())


def test_every_step_knows_its_spans() -> None:
    for small in (
        scenario(target=model(experts=MOE), deployment__expert_parallel=4, deployment__expert_dispatch="all_to_all"),
        scenario(target=model(experts=MOE | {"layers": 8}, block="parallel")),
        scenario(target=model(latent=LATENT, head_dim=32, window={"positions": 60, "layers": 3})),
        scenario(deployment__chips=8, deployment__pipeline_parallel=2),
    ):
        for step in Steps.of(small).passes.values():
            laid_out = sum(s.weights_s + s.kv_s + s.compute_s + s.overhead_s + s.collective_s for s in step.spans())
            assert laid_out == pytest.approx(float(step.cost.seconds), rel=1e-12)


def test_a_torus_does_not_care_in_which_order_its_axes_are_written() -> None:
    cost = AllReduceCost.model_validate({"algorithm": "torus", "hop_latency": "1 us"})
    times = [
        float(all_reduce_time(cost, Links(50e9, axes, tuple(n == 4 for n in axes)), 1e6, 16).seconds)
        for axes in ((2, 2, 4), (2, 4, 2), (4, 2, 2))
    ]
    assert times == pytest.approx([times[0]] * 3, rel=1e-12)
    # By hand: in every phase some part is on the slowest axis for what is left of its third.
    third = 1e6 / 3
    phases = [third / 50e9, max(third / 2, third / 4) / 50e9, max(third / 8, third / 4 * 0.75) / 50e9]
    assert times[0] == pytest.approx(10e-6 + sum(phases))


def test_a_windowed_prefill_attends_to_what_each_token_sees() -> None:
    of = shape(window={"positions": 50})
    for tokens, positions in ((200, 0), (30, 0), (7, 45), (4, 500)):
        seen = sum(min(positions + t, 50) for t in range(1, tokens + 1))
        found = ops(of, Pass(1, tokens, positions, 1))["attention"]
        assert found.flop == pytest.approx(4 * seen * 8 * 8 * 64)


def test_the_fullest_stage_of_a_pipeline_has_a_layer_more_and_one_end_of_the_vocabulary() -> None:
    def weights(stages: int, layers: int) -> float:
        asked = scenario(
            target=model(layers=layers, vocabulary=50_000),
            draft={"kind": "none"},
            deployment__chips=stages,
            deployment__pipeline_parallel=stages,
        )
        return predict_scenario(asked).provenance["memory_terms_bytes"]["target weights"]

    layer, matrix = weights(1, 2) - weights(1, 1), 50_000 * 512 * 2
    assert weights(2, 3) == pytest.approx(2 * layer + matrix, rel=1e-3)
    assert weights(8, 8) == pytest.approx(layer + matrix, rel=1e-3)


def test_the_largest_batch_that_fits_fits() -> None:
    for prompt in (2_000, 5_000, 9_000, 20_000, 39_500):
        changes = {"target": model(positions="relative", layers=40), "workload__prompt_tokens": prompt}
        status = predict_scenario(scenario(**changes, workload__batch=50_000)).status
        batch = int(status.reason.rsplit(": ", 1)[1])
        assert predict_scenario(scenario(**changes, workload__batch=batch)).status.state == "ok"
        assert predict_scenario(scenario(**changes, workload__batch=batch + 1)).status.state == "does_not_fit"
