"""Two-dimensional weights and attention over sequences: bytes, FLOP and payloads, by hand and by Pope et al. 2022."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from simulator.cost.collectives import Links, all_gather_time, all_to_all_time
from simulator.cost.counted import Operation
from simulator.cost.layout import Collective, links_along
from simulator.cost.memory import memory_terms
from simulator.cost.operations import collectives, head, operations
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import LOOPED, Machine, timed
from simulator.spec import library
from simulator.spec.hardware import AllReduceCost
from simulator.spec.load import load_scenario
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from tests.builders import model, scenario

SHAPE = Shape.of(ModelSpec.model_validate(model(kv_heads=1, block="parallel")))
"""8 layers, 512 wide, 8 heads of 64, 1 KV head, F 2048 gated, 4,096 tokens."""
SERIAL = Shape.of(ModelSpec.model_validate(model(kv_heads=1)))
FORWARD = Pass(8, 3, 100, 8, width_parts=2, sequence_groups=8)


def payloads(shape: Shape, step: Pass) -> dict[str, tuple[float, float]]:
    return {part.name: (float(part.count), float(part.payload_bytes)) for part in collectives(shape, step)}


def ops(shape: Shape, step: Pass) -> dict[str, Operation]:
    return {op.name: op for op in operations(shape, step)}


def test_matrices_of_a_chip() -> None:
    found = ops(SHAPE, FORWARD)
    # 2 parts of the width, 4 of the heads and of F: 256 rows; 2 query heads, the KV head whole; 512 columns of F.
    assert found["qkv"].streamed_bytes == 8 * 256 * (2 + 2) * 64 * 2
    assert found["output"].streamed_bytes == 8 * 2 * 64 * 256 * 2
    assert found["feed_forward"].streamed_bytes == 8 * 3 * 256 * 512 * 2
    assert found["feed_forward"].flop == 2 * 24 * 8 * 3 * 256 * 512
    assert head(SHAPE, FORWARD).streamed_bytes == 256 * 1024 * 2
    one = ops(SHAPE, Pass(8, 3, 100, 8))
    assert found["feed_forward"].streamed_bytes == one["feed_forward"].streamed_bytes
    assert found["feed_forward"].model_flop == one["feed_forward"].model_flop


def test_attention_of_a_chip() -> None:
    over_sequences = ops(SHAPE, FORWARD)["attention"]
    # One of 8 sequences, all 8 heads, 103 positions, keys and values of one head of 64.
    assert over_sequences.streamed_bytes == 8 * 1 * 103 * 2 * 64 * 2
    assert over_sequences.flop == 4 * 3 * 8 * (100 + 2) * 8 * 64
    over_heads = ops(SHAPE, dataclasses.replace(FORWARD, sequence_groups=1))["attention"]
    assert over_heads.streamed_bytes == 8 * over_sequences.streamed_bytes
    assert over_heads.flop == over_sequences.flop
    # Two groups of 4 chips: 4 sequences, 2 heads a chip, the KV head on each of the 4.
    two = ops(SHAPE, dataclasses.replace(FORWARD, sequence_groups=2))["attention"]
    assert two.streamed_bytes == 4 * over_sequences.streamed_bytes
    assert two.flop == over_sequences.flop == two.model_flop


def test_payloads_of_a_parallel_block() -> None:
    rows = 8 * 3
    assert payloads(SHAPE, FORWARD) == {
        "mean_squares": (8, rows * 4),
        "inputs": (8, rows * 512 / 2 * 2),
        "inner_sums": (8, rows * (512 + 2 * 2048) / 4 * 2),
        "inner_parts": (8, rows * (512 + 2048) / 4 * 2),
        "sums": (8, rows * 512 / 2 * 2),
        # A chip projects the keys of a quarter of the sequences, as 4 chips split the columns.
        "keys": (8, rows / 4 * 2 * 64 * 2),
        "queries": (8, rows * 512 / 8 * 2),
        "attended": (8, rows * 512 / 8 * 2),
        "embedding": (1, rows * 512 / 2 * 2),
        "logit_sums": (1, rows * 1024 * 4),
        "logits": (1, rows * 4096 * 4),
        "stages": (0, rows * 512 * 2),
    }
    by_heads = payloads(SHAPE, dataclasses.replace(FORWARD, sequence_groups=1))
    assert "queries" not in by_heads
    assert by_heads["keys"] == (8, rows * 2 * 64 * 2)


def test_a_serial_block_does_it_twice_with_the_same_bytes_inside() -> None:
    serial, parallel = payloads(SERIAL, FORWARD), payloads(SHAPE, FORWARD)
    for name in ("mean_squares", "inputs", "sums"):
        assert serial[name] == (16, parallel[name][1])
    for name in ("inner_sums", "inner_parts"):
        assert math.prod(serial[name]) == pytest.approx(math.prod(parallel[name]))
    assert serial["keys"] == parallel["keys"]
    assert serial["queries"] == parallel["queries"]


@pytest.mark.parametrize("chips", [16, 64, 256])
def test_the_formula_of_appendix_a(chips: int) -> None:
    # 8 B L E / sqrt(n) numbers, with F = 4 E, X = sqrt(n)/2, YZ = 2 sqrt(n), and no heads.
    parts = int(math.sqrt(chips)) // 2
    shape = dataclasses.replace(SHAPE, feed_forward_matrices=2, heads=1e-9, layers=1)
    step = Pass(32, 1, 0, chips, width_parts=parts)
    found = payloads(shape, step)
    names = ("inputs", "inner_sums", "inner_parts", "sums")
    carried = sum(math.prod(found[name]) for name in names) / shape.activation_bytes
    assert carried == pytest.approx(8 * 32 * 512 / math.sqrt(chips), rel=1e-6)
    # 2 B L E in one dimension: an all-reduce is a reduce-scatter and an all-gather.
    count, payload = payloads(shape, Pass(32, 1, 0, chips))["layers"]
    assert 2 * count * payload / shape.activation_bytes == 2 * 32 * 512


def test_one_dimension_can_attend_over_sequences_too() -> None:
    step = Pass(8, 3, 100, 8, sequence_groups=8)
    found = payloads(SHAPE, step)
    assert found["layers"] == (8, 24 * 512 * 2)
    assert found["queries"] == found["attended"] == (8, 24 * 512 / 8 * 2)
    assert "keys" not in found
    usual = payloads(SHAPE, Pass(8, 3, 100, 8))
    assert set(found) - set(usual) == {"queries", "attended"}


def test_each_collective_is_timed_over_its_own_axes() -> None:
    links = Links(45e9, (8, 4, 2), (True, True, False))
    cost = AllReduceCost.model_validate({"algorithm": "torus", "hop_latency": "1 us"})
    step = Pass(8, 1, 0, 64, width_parts=8, sequence_groups=8)

    def over(along: str) -> tuple[Links, float]:
        part = Collective("x", "all_gather", np.ones(()), np.ones(()), along)  # type: ignore[arg-type]
        return links_along(part, step, links)

    assert over("all") == (links, 64)
    assert over("width") == (Links(45e9, (8,), (True,)), 8)
    assert over("columns") == (Links(45e9, (4, 2), (True, False)), 8)
    assert over("groups") == (Links(45e9, (4, 2), (True, False)), 8)
    width, chips = over("width")
    found = all_gather_time(cost, width, 8e6, chips)
    assert found.latency_s == pytest.approx(7e-6)
    assert found.bandwidth_s == pytest.approx(7 / 8 * 8e6 / 90e9)
    columns, chips = over("columns")
    assert all_gather_time(cost, columns, 8e6, chips).latency_s == pytest.approx(4e-6)
    # A ring of 4 and a line of 2: half of the payload crosses the ring's middle over 16 one-way links of 8 chips.
    spread = all_to_all_time(cost, columns, 8e6, chips)
    assert spread.bandwidth_s == pytest.approx(8e6 * 4 / (8 * 45e9))


@pytest.mark.parametrize(
    ("batch", "slice_text", "groups"),
    [(1, "4x4x4", 1), (4, "4x4x4", 4), (8, "4x4x4", 4), (32, "4x4x4", 16), (192, "4x4x4", 64), (12, "2x4x2", 2)],
)
def test_groups_lie_along_the_last_axes(batch: int, slice_text: str, groups: int) -> None:
    chips = math.prod(int(part) for part in slice_text.split("x"))
    placed = {"deployment__chips": chips, "deployment__slice": slice_text, "deployment__attention_sharding": "batch"}
    assert scenario(workload__batch=batch, **placed).sequence_groups == groups
    assert scenario(workload__batch=batch, **placed | {"deployment__slice": None}).sequence_groups == math.gcd(
        batch, chips
    )
    assert scenario(workload__batch=batch, **placed | {"deployment__attention_sharding": "heads"}).sequence_groups == 1


def test_what_is_multiplied_hides_bytes_on_the_wire() -> None:
    small = scenario()
    hardware = small.deployment.hardware
    known, links = hardware.calibrations["made-up"].parameters[0], Links(50e9, (2, 2, 2), (False,) * 3)

    def step(overlap: float) -> tuple[float, float, float]:
        machine = Machine(hardware, known.model_copy(update={"collective_overlap": overlap}), links, "bfloat16")
        parts = timed(SHAPE, FORWARD, machine)
        looped = [(part, wire) for part, wire in parts.collectives if part.name in LOOPED]
        carried = sum(float(part.count * wire.bandwidth_s) for part, wire in looped)
        rest = sum(float(part.count * wire.seconds) for part, wire in parts.collectives) - carried
        return carried, rest, sum(float(time.seconds) for _, time in parts.matmuls)

    (carried, rest, work), half, whole = step(0.0), step(0.5), step(1.0)
    assert whole[0] == pytest.approx(carried - min(carried, work), abs=1e-12)
    assert half[0] == pytest.approx(carried - min(carried, work) / 2)
    assert half[1:] == whole[1:] == pytest.approx((rest, work))


def palm(batch: int, sharding: str) -> Scenario:
    changed = [f"workload.batch={batch}", f"deployment.attention_sharding={sharding}", "target.heads=64"]
    return load_scenario(library.SCENARIOS / "palm_540b_tpu_v4.yaml", changed)[0].scenario


@pytest.mark.parametrize(
    ("sharding", "batch", "published"),
    [("heads", 128, 660), ("heads", 512, 165), ("batch", 128, 43_000), ("batch", 512, 10_700)],
)
def test_longest_context_of_table_1(sharding: str, batch: int, published: int) -> None:
    known = palm(batch, sharding)
    a_position = memory_terms(known)["target KV cache"] / known.cache_positions
    assert 0.3 * 32 * 2**30 / a_position == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(("name", "billions"), [("palm-8b", 8.63), ("palm-62b", 62.5), ("palm-540b", 540.35)])
def test_parameters_of_palm(name: str, billions: float) -> None:
    given = load_scenario(library.SCENARIOS / "palm_540b_tpu_v4.yaml", [f"target={name}"])[0].scenario.target
    assert given.parameters == pytest.approx(billions * 1e9, rel=0.005)


def test_padding_of_heads_is_18_billion_parameters() -> None:
    padded = palm(64, "batch").target
    assert padded.parameters - 540.35e9 == pytest.approx(18e9, rel=0.02)


def test_weights_of_a_chip_in_memory() -> None:
    known = palm(64, "batch")
    terms = memory_terms(known)
    layer = 4608 * (4 + 2) * 256 + 4 * 256 * 4608 + 3 * 4608 * 4608
    norms = 118 * 18432 + 18432
    assert terms["target weights"] == pytest.approx((118 * layer + norms + 4608 * 16_000) * 2, rel=1e-9)
