"""Programs that the TPU compiler made, as the tests read them; tests/compiled_programs/make.py wrote them."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

from runtime.aot.hlo import Module, parse
from runtime.aot.known import Known, known

FOLDER = Path(__file__).parent / "compiled_programs"
CHIPS = 4
LAYERS = 2
NAMES = ("right", "scanned", "rounds", "one_row", "three_reduces", "gathered", "permuted", "restacked")
# What make.py builds them from: D, N, H, F, V, S, and B of all but one.
WIDTH, HEADS, HEAD_DIM, FEED_FORWARD, VOCABULARY, POSITIONS, BATCH = 2048, 16, 128, 8192, 8192, 1024, 2
BYTES = 2
"""Of a number in bfloat16."""
WEIGHTS = {
    "qkv": LAYERS * WIDTH * 3 * HEADS * HEAD_DIM // CHIPS,
    "output": LAYERS * HEADS * HEAD_DIM * WIDTH // CHIPS,
    "feed_forward": LAYERS * 2 * WIDTH * FEED_FORWARD // CHIPS,
    "head": WIDTH * VOCABULARY // CHIPS,
}
"""Numbers of each part's weights on one chip."""
CACHED = LAYERS * 2 * HEADS // CHIPS * POSITIONS * HEAD_DIM
"""Numbers of keys and values of one sequence on one chip."""


@functools.cache
def text(name: str) -> str:
    """One program as text."""
    return gzip.decompress((FOLDER / f"{name}.hlo.gz").read_bytes()).decode()


@functools.cache
def module(name: str) -> Module:
    """One program, read."""
    return parse(text(name))


@functools.cache
def facts(name: str) -> Known:
    """What is known of one program."""
    return known(module(name), CHIPS, {"target": 1})
