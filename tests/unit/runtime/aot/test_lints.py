"""Each lint, tripped by a program that the TPU compiler made, and by nothing else that is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.aot.known import CacheCopy
from runtime.aot.lints import Expected, findings
from tests.compiled_texts import LAYERS, facts

TWO = Expected(LAYERS, 2 * LAYERS)


@pytest.mark.parametrize("name", ["right", "scanned", "rounds"])
def test_nothing_is_wrong(name: str) -> None:
    assert findings(facts(name), TWO) == []


@pytest.mark.parametrize(
    ("name", "lints", "words"),
    [
        (
            "three_reduces",
            ["all_reduces_per_layer"],
            "6 all-reduces in 2 layers, 3 a layer; 2 a layer are needed, 4 in all",
        ),
        ("gathered", ["collective_in_layer"], "2 all-gather of 4.10 kB"),
        ("permuted", ["collective_in_layer"], "2 collective-permute of 8.19 kB"),
        ("one_row", ["vector_matmul"], "9 matrix products are vector code (qkv, output, feed_forward, head)"),
        ("restacked", ["bytes_over_floor", "cache_copied"], "1.44 times the 67.1 MB of weights and cache"),
    ],
)
def test_a_program_that_is_wrong_trips_its_lint(name: str, lints: list[str], words: str) -> None:
    found = findings(facts(name), TWO)
    assert [finding.lint for finding in found] == lints
    assert words in found[0].reason


def test_what_is_expected_depends_on_the_program() -> None:
    parallel = replace(TWO, all_reduces=LAYERS)
    (found,) = findings(facts("right"), parallel)
    assert found.reason == "4 all-reduces in 2 layers, 2 a layer; 1 a layer are needed, 2 in all"
    prefill = replace(TWO, bound_by_bytes=False)
    assert [finding.lint for finding in findings(facts("restacked"), prefill)] == ["cache_copied"]


def test_a_cache_that_is_copied_is_told_from_one_that_is_written_back() -> None:
    copy = CacheCopy("copy.1", "copied", 1 << 20, 3)
    (found,) = findings(replace(facts("right"), cache_copies=(copy,)), TWO)
    assert (found.lint, found.reason.split(";")[0]) == ("cache_copied", "the cache is copied 3 times, 3.15 MB in all")
    assert findings(replace(facts("right"), cache_copies=(replace(copy, how="written back"),)), TWO) == []
