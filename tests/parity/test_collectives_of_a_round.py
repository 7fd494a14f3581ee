"""A compiled round holds the collectives that the cost model charges, and no others, trip counts included."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import pytest

from runtime import programs
from runtime.pair import Pair
from runtime.programs import Bench
from runtime.sampling import Sampling
from simulator.cost.operations import collectives
from simulator.cost.shape import Pass, Shape
from simulator.spec.model import ModelSpec
from tests import hlo_counts
from tests.tiny_models import KINDS, tiny

LOOKAHEAD = 5
NAMES = {"all_reduce": "all-reduce", "all_gather": "all-gather"}


def charged(spec: ModelSpec, tokens: int, chips: int) -> Counter[str]:
    """What the cost model counts for one step."""
    found: Counter[str] = Counter()
    for part in collectives(Shape.of(spec), Pass(1, tokens, 100, chips)):
        if float(part.count):
            found[NAMES[part.kind]] += int(part.count)
    return found


def compiled(program: programs.Program) -> tuple[Counter[str], Counter[str]]:
    return hlo_counts.collectives(program.compiled.as_text())


@pytest.mark.parametrize(
    ("kind", "temperature"),
    [("dense", 0.0), ("dense", 1.0), ("parallel blocks", 0.0), ("experts", 1.0), ("relative positions", 0.0)],
)
def test_a_round(kind: str, temperature: float) -> None:
    changes: dict[str, Any] = {} if kind == "dense" else KINDS[kind]
    target, draft = tiny(layers=3, kv_heads=4, **changes), tiny(layers=2, kv_heads=4)
    pair = Pair.random(target, draft, jax.random.key(0), 4)
    bench = Bench(pair, 2, 8, 16, LOOKAHEAD, Sampling(temperature=temperature))
    wanted = charged(target, LOOKAHEAD + 1, 4)
    for _ in range(LOOKAHEAD):
        wanted += charged(draft, 1, 4)
    outside, in_a_round = compiled(programs.rounds(bench, None))
    assert in_a_round == wanted
    assert not outside, "nothing before or after the rounds"


@pytest.mark.parametrize("chips", [1, 2, 4])
def test_a_plain_step(chips: int) -> None:
    spec = tiny(layers=3, kv_heads=4)
    bench = Bench(Pair.random(spec, None, jax.random.key(0), chips), 2, 8, 16, 0, Sampling())
    outside, in_a_step = compiled(programs.plain_steps(bench))
    assert in_a_step == (charged(spec, 1, chips) if chips > 1 else Counter())
    assert not outside
