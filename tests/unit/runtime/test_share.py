"""What each chip holds: everything once, padding apart, and query heads beside the KV head that they read."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.share import PADDING, Share, kv_heads_of_chips, order, query_heads
from tests.tiny_models import tiny

SHAPES = [(8, 8), (8, 4), (8, 2), (6, 3), (7, 1), (9, 3), (28, 4), (5, 5)]
CHIPS = [1, 2, 3, 4, 5, 8, 16]


@pytest.mark.parametrize("chips", CHIPS)
@pytest.mark.parametrize(("heads", "kv_heads"), SHAPES)
def test_every_query_head_lies_on_one_chip_beside_its_kv_head(heads: int, kv_heads: int, chips: int) -> None:
    spec = tiny(heads=heads, kv_heads=kv_heads)
    queries, keys = query_heads(spec, chips), kv_heads_of_chips(spec, chips)
    assert sorted(queries[queries != PADDING]) == list(range(heads))
    group = queries.shape[1] // keys.shape[1]
    for chip in range(chips):
        for place, head in enumerate(queries[chip]):
            if head != PADDING:
                assert keys[chip, place // group] == head * kv_heads // heads


@pytest.mark.parametrize("chips", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("heads", "kv_heads"), [(16, 16), (16, 4), (28, 4), (32, 8), (71, 1), (5, 5)])
def test_heads_are_padded_no_further_than_the_cost_model_charges(heads: int, kv_heads: int, chips: int) -> None:
    # Charged are ceil(N / X) and ceil(G / X) heads a chip. Groups are not cut open, so odd shapes may need more:
    # 6 KV heads of 2 query heads each on 4 chips make 4 query heads a chip where 3 are charged.
    share = Share.of(tiny(heads=heads, kv_heads=kv_heads), chips)
    assert (share.heads, share.kv_heads) == (-(-heads // chips), -(-kv_heads // chips))


def test_a_fused_axis_lies_chip_by_chip() -> None:
    spec = tiny(heads=4, kv_heads=2, head_dim=2)
    # Logical columns: queries 0..7, keys 8..11, values 12..15.
    first, second = order(spec, "NGG", 2).reshape(2, -1)
    np.testing.assert_array_equal(first, [0, 1, 2, 3, 8, 9, 12, 13])
    np.testing.assert_array_equal(second, [4, 5, 6, 7, 10, 11, 14, 15])


def test_a_gated_axis_with_padding() -> None:
    first, second = order(tiny(d_ff=3), "FF", 2).reshape(2, -1)
    np.testing.assert_array_equal(first, [0, 1, 3, 4])
    np.testing.assert_array_equal(second, [2, PADDING, 5, PADDING])
