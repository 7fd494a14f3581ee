"""The heads that the cost model charges are the heads that the runtime's chips hold."""

from __future__ import annotations

import pytest

from runtime.share import query_heads as held
from simulator.cost.shape import Shape, query_heads
from simulator.spec.model import ModelSpec
from tests.builders import model


@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 8), (28, 28), (12, 3), (24, 6), (64, 8), (16, 1), (9, 3)])
@pytest.mark.parametrize("chips", [1, 2, 3, 4, 8, 12, 16])
def test_query_heads_of_a_chip(heads: int, kv_heads: int, chips: int) -> None:
    spec = ModelSpec.model_validate(model(heads=heads, kv_heads=kv_heads))
    assert float(query_heads(Shape.of(spec), chips)) == held(spec, chips).shape[1]
