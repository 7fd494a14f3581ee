"""Known, estimated, assumed; and the line through two depths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.aot.compiled import Compiled, Memory, Variant
from runtime.aot.device import device_of
from runtime.aot.extrapolate import extrapolated
from runtime.aot.plan import best
from runtime.aot.reading import Assumptions, Reading, expected_of, passes_of, read
from runtime.aot.recipe import Recipe, recipe_of
from runtime.aot.topologies import topology
from simulator.spec.load import load_scenario
from tests.compiled_texts import CHIPS, facts, text
from tests.synthetic import ROOT

DEVICE = device_of(topology("v4:2x2x1"))
SETTINGS = ("decoding.lookahead=4", "deployment.chips=4", "deployment.slice=2x2x1")


def recipe(program: str = "plain_step", *settings: str) -> Recipe:
    (point,) = load_scenario(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml", (*SETTINGS, *settings))
    return recipe_of(point.scenario, program, DEVICE.topology, Variant())  # type: ignore[arg-type]


def compiled(asked: Recipe, name: str) -> Compiled:
    memory = Memory(1000, 300, 200, 40, 5)
    return Compiled(
        asked.program, asked.topology, CHIPS, asked.variant, "ok", name, memory, {}, None, None, 0.0, 0.0, 0, {}
    )


def reading(name: str, assumptions: Assumptions | None = None) -> Reading:
    asked = recipe("plain_step", "target.layers=2")
    return read(compiled(asked, name), asked, text(name), DEVICE, assumptions)


def test_a_reading_says_what_is_known() -> None:
    found = reading("right")
    assert found.known["memory"]["total_bytes"] == 1000 + 40 + 300 - 200 + 5
    assert found.known["hbm_bytes"] == facts("right").hbm_bytes
    assert found.known["all_reduces_in_layers"] == 4
    # 275 TFLOP/s and 2 bytes a weight against 1,200 GB/s.
    assert found.known["compute_bound_rows"] == pytest.approx(275e12 * 2 / (2 * 1200e9))
    assert found.findings == ()


def test_estimates_are_a_range_over_the_bandwidth() -> None:
    found = reading("right").estimated
    at, reckoned = (found["without_collectives"][rate]["total_s"] for rate in ("datasheet", "compiler"))
    assert found["bandwidth_floor_s"] < at < reckoned
    assert found["over_floor"] == at / found["bandwidth_floor_s"]


def test_assumptions_are_apart_from_estimates() -> None:
    plain, slow = reading("right"), reading("right", Assumptions(call_overhead_s=1e-3, overhead_source="a test"))
    assert plain.estimated == slow.estimated
    added = slow.assumed["with_collectives_s"]["datasheet"] - plain.assumed["with_collectives_s"]["datasheet"]
    assert added == pytest.approx(1e-3)
    alone = plain.estimated["without_collectives"]["datasheet"]["total_s"]
    assert alone <= plain.assumed["with_collectives_s"]["datasheet"] <= alone + plain.assumed["collectives_s"] + 1e-12


def test_a_generation_without_a_clock_has_no_times() -> None:
    asked = recipe("plain_step", "target.layers=2")
    found = read(compiled(asked, "right"), asked, text("right"), device_of(topology("tpu7x:2x2x1")))
    assert found.estimated == {}
    assert "with_collectives_s" not in found.assumed
    assert found.known["hbm_bytes"] > 0


def test_what_does_not_fit_is_not_read() -> None:
    asked = recipe()
    short = replace(compiled(asked, ""), state="does_not_fit", memory=None, needed_gib=31.49, available_gib=30.75)
    found = read(short, asked, "", DEVICE)
    assert found.known.keys() == {"asked", "memory"}
    assert found.known["memory"] == {"needed_gib": 31.49, "available_gib": 30.75}
    assert (found.estimated, found.assumed) == ({}, {})


@pytest.mark.parametrize(
    ("program", "settings", "passes", "layers", "reduces"),
    [
        ("plain_step", (), {"target": 1}, 80, 160),
        ("verify_step", (), {"target": 1}, 80, 160),
        ("draft_step", (), {"draft": 1}, 8, 16),
        ("round", (), {"target": 1, "draft": 4}, 80 + 4 * 8, 160 + 4 * 16),
        ("plain_step", ("target.block=parallel",), {"target": 1}, 80, 80),
    ],
)
def test_what_a_program_should_come_to(
    program: str, settings: tuple[str, ...], passes: dict[str, int], layers: int, reduces: int
) -> None:
    asked = recipe(program, *settings)
    assert passes_of(asked) == passes
    assert (expected_of(asked).layer_passes, expected_of(asked).all_reduces) == (layers, reduces)
    assert expected_of(replace(asked, target_degree=1, draft_degree=1)).all_reduces == 0


def test_the_best_variant_takes_least_and_copies_no_cache() -> None:
    slow, quick = (
        replace(reading(name), variant=name, known=reading(name).known | {"cache_copies": []})
        for name in ("scanned", "right")
    )
    assert best([slow, quick]) == quick
    assert best([slow]) == slow
    other = replace(slow, variant="unrolled, slower")
    assert best([other, quick]) == quick
    copying = replace(quick, known=quick.known | {"cache_copies": [{"how": "written back"}]})
    assert best([other, copying]) == other
    assert best([slow, copying]) == copying


def test_the_line_through_two_depths_meets_both() -> None:
    pair = reading("right"), replace(reading("right"), known=reading("three_reduces").known)
    for layers, expected in ((8, pair[0]), (16, pair[1])):
        found = extrapolated(pair, (8, 16), layers, DEVICE)
        assert found.known["all_reduces_in_layers"] == expected.known["all_reduces_in_layers"]
        assert found.known["hbm_bytes"] == expected.known["hbm_bytes"]
        assert found.estimated == expected.estimated
    deep = extrapolated(pair, (8, 16), 80, DEVICE)
    assert deep.known["all_reduces_in_layers"] == 4 + (6 - 4) * 9
    assert deep.variant == "unrolled, from 8 and 16 layers"


def test_what_an_extrapolation_needs_is_held_against_what_there_is() -> None:
    few, more = reading("right"), reading("right")
    grown = more.known | {"memory": more.known["memory"] | {"total_bytes": 5 * 2**30}}
    found = extrapolated((few, replace(more, known=grown)), (8, 16), 80, DEVICE)
    assert found.state == "does_not_fit"
    assert found.known["memory"]["needed_gib"] == pytest.approx(45, rel=1e-3)
    assert found.known["memory"]["available_gib"] == pytest.approx(30.75)


def test_devices_of_every_generation() -> None:
    assert device_of(topology("v4:2x2x4")).hbm_bytes_per_s == 1200e9
    half = device_of(topology("tpu7x:2x2x1"))
    assert half.hbm_bytes_per_s == 7380e9 / 2
    for name in ("v5e:4x4", "v5p:2x2x4", "v6e:4x4"):
        device = device_of(topology(name))
        assert device.compiler_bytes_per_s is not None
        assert device.compiler_bytes_per_s < device.hbm_bytes_per_s
        assert device.prices().seconds("all-reduce", 1 << 16, 16) is not None


def test_nothing_here_names_a_place_on_this_machine() -> None:
    assert not [word for word in (text("right"), text("rounds")) if str(Path.home()) in word or str(ROOT) in word]
