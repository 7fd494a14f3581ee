"""Reading scheduled HLO text."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from runtime.aot.hlo import parse
from runtime.aot.hlo_shapes import shapes_in
from runtime.aot.loops import scheduled, trips, unknown_loops
from runtime.aot.matmuls import products
from runtime.aot.origins import origins
from simulator.errors import MeasurementError
from tests.compiled_texts import BATCH, BYTES, CACHED, LAYERS, NAMES, WEIGHTS, WIDTH, module, text

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("printed", "logical", "padded", "space"),
    [
        ("bf16[6144,2000]{0,1:T(8,128)(2,1)S(3)}", 6144 * 2000 * 2, 6144 * 2000 * 2, 3),
        ("bf16[1,6144]{1,0:T(2,128)(2,1)}", 6144 * 2, 2 * 6144 * 2, 0),
        ("f32[3,100]{1,0:T(4,128)S(1)}", 1200, 4 * 128 * 4, 1),
        ("f32[3,100]{0,1:T(4,128)}", 1200, 128 * 100 * 4, 0),
        ("s32[5]{0:T(128)}", 20, 512, 0),
        ("f32[]{:T(128)S(6)}", 4, 4, 6),
        ("s4[128,128]{1,0:T(8,128)(8,1)E(4)}", 8192, 8192, 0),
        ("f8e4m3fn[64]", 64, 64, 0),
        ("pred[7]", 7, 7, 0),
        ("token[]", 0, 0, 0),
    ],
)
def test_shapes(printed: str, logical: int, padded: int, space: int) -> None:
    (shape,) = shapes_in(printed)
    assert (shape.bytes, shape.padded_bytes, shape.space) == (logical, padded, space)


def test_a_tuple_is_flattened() -> None:
    printed = "((bf16[1536,6144]{1,0:T(8,128)(2,1)}), bf16[384,6144]{1,0:T(8,128)(2,1)S(3)}, /*index=2*/s32[]{:S(2)})"
    assert [str(shape) for shape in shapes_in(printed)] == ["bf16[1536,6144]", "bf16[384,6144]", "s32[]"]


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_computation_is_an_operation(name: str) -> None:
    lines = [line for line in text(name).splitlines() if line.startswith("  ")]
    read = module(name)
    assert len(read.operations) == len(lines) == sum(len(part.operations) for part in read.computations.values())
    assert all(name in read.operations for op in read.operations.values() for name in op.operands)
    assert all(called in read.computations for op in read.operations.values() for called in op.called)


@pytest.mark.parametrize("name", ["right", "scanned", "rounds"])
def test_arguments_are_the_weights_the_cache_and_little_else(name: str) -> None:
    total = sum(op.shape.bytes for op in module(name).entry.parameters().values())
    norms, tokens, cursor = LAYERS * WIDTH, BATCH * WIDTH, 4
    assert total == BYTES * (sum(WEIGHTS.values()) + BATCH * CACHED + norms + tokens) + cursor


def test_donated_arguments_are_the_cache() -> None:
    read = module("right")
    donated = {read.entry.parameters()[number].op_name for number in read.aliased}
    assert donated == {f"target_cache['{kind}'][{layer}]" for kind in ("keys", "values") for layer in range(LAYERS)}
    assert module("restacked").aliased == frozenset()


def test_functions_of_an_operation_come_innermost_first() -> None:
    read = module("right")
    reduces = [op for op in read.operations.values() if op.opcode == "all-reduce"]
    assert reduces
    for op in reduces:
        functions = read.traced_in(op)
        assert functions.index("Program.layer") < functions.index("Program.unrolled") < functions.index("Program.step")


def test_the_trips_of_a_scan_are_read_and_those_of_rounds_are_not() -> None:
    for name, expected in (("scanned", LAYERS), ("restacked", LAYERS), ("rounds", None)):
        loops = [run.operation for run in scheduled(module(name)) if run.operation.opcode == "while"]
        assert loops
        assert {trips(module(name), loop) for loop in loops if "scatter" not in loop.op_name} == {expected}
    assert unknown_loops(module("scanned")) == []
    assert len(unknown_loops(module("rounds"))) == 1


LOOP = """HloModule loop, is_scheduled=true, entry_computation_layout={()->s32[]}

%body (p: (s32[], s32[])) -> (s32[], s32[]) {
  %p = (s32[], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %end = s32[] get-tuple-element(%p), index=1
  %by = s32[] constant(STEP)
  %next = s32[] OPCODE(%i, %by)
  ROOT %out = (s32[], s32[]) tuple(%next, %end)
}

%cond (q: (s32[], s32[])) -> pred[] {
  %q = (s32[], s32[]) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %limit = s32[] get-tuple-element(%q), index=1
  ROOT %less = pred[] compare(%j, %limit), direction=LT
}

ENTRY %main () -> s32[] {
  %from = s32[] constant(START)
  %to = s32[] constant(END)
  %init = (s32[], s32[]) tuple(%from, %to)
  %while = (s32[], s32[]) while(%init), condition=%cond, body=%body
  ROOT %last = s32[] get-tuple-element(%while), index=0
}
"""


@pytest.mark.parametrize(
    ("start", "end", "step", "opcode", "expected"),
    [
        (0, 80, 1, "add", 80),
        (2, 80, 1, "add", 78),
        (0, 7, 2, "add", 4),
        (5, 5, 1, "add", 0),
        (1, 80, 2, "multiply", None),
    ],
)
def test_counters(start: int, end: int, step: int, opcode: str, expected: int | None) -> None:
    written = LOOP.replace("STEP", str(step)).replace("START", str(start)).replace("END", str(end))
    read = parse(written.replace("OPCODE", opcode))
    assert trips(read, read.operations["while"]) == expected


@pytest.mark.parametrize("name", NAMES)
def test_products_are_traced_back_to_arguments(name: str) -> None:
    """Through transfers, slices, fusions and the loop over layers."""
    executed = Counter[str]()
    for product in products(module(name), origins(module(name))):
        executed[product.argument] += product.run.times
    stacked = name in ("scanned", "restacked")
    layers, times = (1, LAYERS) if stacked else (LAYERS, 1)
    weights = {f"target['layers'][{n}]['{key}']" for n in range(layers) for key in ("qkv", "output", "up", "down")}
    caches = {f"target_cache['{key}'][{n}]" for n in range(layers) for key in ("keys", "values")}
    expected = dict.fromkeys(weights | caches, times) | {"target['head']": 1}
    # Products of the new tokens among themselves have no argument.
    assert {argument: count for argument, count in executed.items() if argument} == expected


@pytest.mark.parametrize(
    "words", ["", "module @jit_step {", "HloModule jit_step, entry_computation_layout={()->f32[]}"]
)
def test_other_text_is_refused(words: str) -> None:
    with pytest.raises(MeasurementError, match="not the text of a compiled program"):
        parse(words)


def test_a_module_without_an_entry_is_refused() -> None:
    with pytest.raises(MeasurementError, match="no ENTRY"):
        parse(text("right").split("ENTRY")[0])


def test_reading_a_program_needs_neither_jax_nor_the_compiler() -> None:
    code = (
        "import runtime.aot.known, runtime.aot.replay, runtime.aot.lints, runtime.aot.assumed, sys; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"jax", "libtpu", "flax"}.isdisjoint(done.stdout.split())
