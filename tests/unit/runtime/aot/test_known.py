"""Facts about compiled programs, against what they were built from."""

from __future__ import annotations

import itertools

import pytest

from runtime.aot.hlo import parse
from runtime.aot.known import known
from runtime.aot.matmuls import convolution_flop
from runtime.aot.replay import Rates, Schedule
from tests.compiled_texts import BATCH, BYTES, CACHED, CHIPS, HEADS, LAYERS, VOCABULARY, WEIGHTS, WIDTH, facts


@pytest.mark.parametrize("name", ["right", "rounds", "three_reduces", "gathered", "permuted"])
def test_each_weight_and_the_cache_are_read_once(name: str) -> None:
    moved = facts(name).moved
    for part, numbers in WEIGHTS.items():
        assert moved[part].read == pytest.approx(BYTES * numbers, rel=1e-5), part
    assert moved["attention"].read == pytest.approx(BYTES * BATCH * CACHED, rel=1e-3)
    # Whatever else there is, it is little, but for the cache that is written back.
    rest = facts(name).hbm_bytes - sum(moved[part].read for part in (*WEIGHTS, "attention"))
    written_back = sum(copy.payload_bytes * copy.count for copy in facts(name).cache_copies)
    assert 0 < rest - written_back < 0.01 * facts(name).hbm_bytes


def test_a_loop_over_layers_fetches_the_weights_of_both_for_each() -> None:
    moved = facts("scanned").moved
    assert moved["qkv"].read == BYTES * WEIGHTS["qkv"]
    assert moved["output"].read == 2 * BYTES * WEIGHTS["output"]


@pytest.mark.parametrize("name", ["right", "scanned", "rounds"])
def test_the_floor_is_weights_and_cache(name: str) -> None:
    numbers = sum(WEIGHTS.values()) + BATCH * CACHED
    assert facts(name).floor_bytes == BYTES * numbers
    assert facts(name).bytes_over_floor == facts(name).hbm_bytes / facts(name).floor_bytes


@pytest.mark.parametrize("name", ["right", "scanned", "gathered"])
def test_flop_of_the_matrix_units(name: str) -> None:
    flop = facts(name).matrix_flop
    for part, numbers in WEIGHTS.items():
        assert flop[part] == 2 * BATCH * numbers, part
    assert flop["attention"] == 2 * BATCH * CACHED
    assert facts(name).vector_flop.get("attention", 0.0) < 0.01 * flop["attention"]
    assert facts(name).rows == dict.fromkeys(("qkv", "output", "feed_forward", "head"), BATCH)


def test_one_row_is_vector_code() -> None:
    one = facts("one_row")
    assert not one.matrix_flop.keys() & WEIGHTS.keys()
    assert {part: one.vector_flop[part] for part in WEIGHTS} == {part: 2 * n for part, n in WEIGHTS.items()}
    assert sum(product.count for product in one.vector_products) == 4 * LAYERS + 1
    assert not facts("right").vector_products


@pytest.mark.parametrize("name", ["right", "scanned", "rounds"])
def test_two_all_reduces_a_layer(name: str) -> None:
    (found,) = facts(name).collectives
    assert (found.kind, found.place, found.count, found.group) == ("all-reduce", "layer", 2 * LAYERS, CHIPS)
    assert found.payload_bytes == BATCH * WIDTH * BYTES
    assert found.algorithm.startswith("RotatedPincer")
    assert found.algorithm.endswith("2x2")


def test_other_collectives_are_found_where_they_are() -> None:
    assert facts("gathered").count("all-gather", "layer") == LAYERS
    assert facts("permuted").count("collective-permute", "layer") == LAYERS
    assert facts("three_reduces").count("all-reduce", "layer") == 3 * LAYERS
    assert facts("right").count("all-gather") == 0


def test_copies_of_the_cache() -> None:
    buffer = HEADS // CHIPS * 1024 * 128 * BYTES * BATCH
    assert {copy.payload_bytes for copy in facts("right").cache_copies} == {buffer}
    assert {copy.how for copy in facts("right").cache_copies} == {"written back"}
    assert facts("right").undonated == ()
    assert facts("scanned").cache_copies == ()
    assert len(facts("restacked").undonated) == 2
    whole = sum(copy.payload_bytes * copy.count for copy in facts("restacked").cache_copies)
    assert whole == BYTES * BATCH * CACHED


def test_loops_that_the_data_ends_are_said() -> None:
    assert {name: facts(name).unknown_loops for name in ("right", "scanned", "rounds")} == {
        "right": 0,
        "scanned": 0,
        "rounds": 1,
    }


def test_the_head_multiplies_with_its_part_of_the_vocabulary() -> None:
    assert facts("right").moved["head"].written == pytest.approx(BATCH * VOCABULARY // CHIPS * BYTES, rel=1.0)


CONVOLUTION = """HloModule product, is_scheduled=true, entry_computation_layout={{()->f32[]}}

ENTRY %main () -> f32[] {{
  %left = f32[{left}] parameter(0)
  %right = f32[{right}] parameter(1)
  ROOT %product = f32[{out}] convolution(%left, %right), {window}dim_labels={labels}
}}
"""


@pytest.mark.parametrize(
    ("left", "right", "out", "window", "labels", "flop"),
    [
        ("2,64", "64,32", "2,32", "", "bf_io->bf", 2 * 2 * 64 * 32),
        # Of batches: what XLA makes of bgrs,bgsh->bgrh.
        ("3,2,50", "3,50,8", "3,2,8", "window={size=3 stride=2 lhs_dilate=3}, ", "0bf_0io->0bf", 2 * 3 * 2 * 50 * 8),
        (
            "8,3,5,50",
            "8,3,50,16",
            "8,3,5,16",
            "window={size=8x3 stride=7x2 lhs_dilate=8x3}, ",
            "01bf_01io->01bf",
            2 * 8 * 3 * 5 * 50 * 16,
        ),
        # An ordinary one: 3 taps over 5 entries, padded on both sides.
        ("1,5,4", "3,4,6", "1,5,6", "window={size=3 pad=1_1}, ", "b0f_0io->b0f", 2 * 4 * 6 * 13),
    ],
)
def test_flop_of_convolutions(left: str, right: str, out: str, window: str, labels: str, flop: int) -> None:
    read = parse(CONVOLUTION.format(left=left, right=right, out=out, window=window, labels=labels))
    assert convolution_flop(read, read.operations["product"]) == flop


def test_thirteen_meetings() -> None:
    """The last case above, by brute force."""
    meetings = sum(0 <= result + tap - 1 < 5 for result, tap in itertools.product(range(5), range(3)))
    assert meetings == 13


STARTED_OTHERWISE = """HloModule started, is_scheduled=true, entry_computation_layout={()->f32[]}

%cut (cut.0: bf16[64,128]) -> bf16[32,128] {
  %cut.0 = bf16[64,128]{1,0} parameter(0)
  ROOT %half = bf16[32,128]{1,0:S(1)} slice(%cut.0), slice={[0:32], [0:128]}
}

%offloaded (own: f32[1,128]) -> f32[8,128] {
  %own = f32[1,128]{1,0} parameter(0)
  ROOT %gathered = f32[8,128]{1,0} all-gather(%own), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}
}

%elsewhere (part: f32[1,128]) -> f32[8,128] {
  %part = f32[1,128]{1,0} parameter(0)
  ROOT %call = f32[8,128]{1,0} custom-call(%part), custom_call_target="other core", called_computations={%offloaded}
}

ENTRY %main () -> f32[] {
  %weight = bf16[64,128]{1,0} parameter(0), metadata={op_name="target.layers[0].output"}
  %cut-start = ((bf16[64,128]{1,0}), bf16[32,128]{1,0:S(1)}, s32[]{:S(2)}) async-start(%weight), calls=%cut
  %gather-start = ((), (), (s32[]{:S(2)})) async-start(), calls=%elsewhere
  %mine = f32[1,128]{1,0:S(1)} constant({...})
  %gather-update = ((f32[1,128]), f32[8,128]{1,0:S(1)}, (s32[]{:S(2)})) async-update(%gather-start, %mine)
  %cut-done = bf16[32,128]{1,0:S(1)} async-done(%cut-start)
  %gather-done = f32[8,128]{1,0:S(1)} async-done(%gather-update)
  ROOT %last = f32[]{:S(6)} constant(0)
}
"""


def test_what_a_tpu7x_starts_in_other_ways() -> None:
    read = parse(STARTED_OTHERWISE)
    found = known(read, 8, {"target": 1})
    (gather,) = found.collectives
    assert (gather.kind, gather.payload_bytes, gather.group, gather.count) == ("all-gather", 8 * 128 * 4, 8, 1)
    assert found.moved["output"].read == 32 * 128 * 2
    assert found.hbm_bytes == 32 * 128 * 2
    replayed = Schedule(read, lambda _: 1e-6).replay(Rates(1e9, 1e12))
    assert replayed.collectives_s + replayed.stall_s == pytest.approx(1e-6)
    assert replayed.stall_s == pytest.approx(32 * 128 * 2 / 1e12)
