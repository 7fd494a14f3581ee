"""Prices of collectives."""

from __future__ import annotations

import csv

import pytest

from runtime.aot.assumed import TABLE, Links, Override, Prices, compiler_bytes_per_s, prices

CLOCKS = {"v4": 1.05e9, "v5p": 1.75e9, "v5e": 1.5e9, "v6e": 1.75e9}
V4, V5P = Links(6, 45e9), Links(6, 90e9)


def of_v5p(lengths: tuple[int, ...] = (2, 2, 4), devices: int = 16) -> Prices:
    return prices("v5p", lengths, devices, V5P, CLOCKS)


def of_v4() -> Prices:
    return prices("v4", (2, 2, 4), 16, V4, CLOCKS, V5P)


def test_the_table_is_met_where_it_has_a_row_and_the_links_allow_it() -> None:
    with TABLE.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["generation"], row["slice"]) == ("v5p", "2x2x4")]
    assert len(rows) > 10
    for row in rows:
        size, seconds = int(row["payload_bytes"]), int(row["cycles"]) / CLOCKS["v5p"]
        wire = size * 15 / 16 * (2 if row["kind"] == "all-reduce" else 1)
        assert of_v5p().seconds(row["kind"], size, 16) == max(seconds, wire / 540e9)


def test_between_rows_it_lies_between_them() -> None:
    at = [of_v5p().seconds("all-reduce", size, 16) for size in (1 << 16, 100_000, 1 << 18)]
    assert None not in at
    assert at[0] < at[1] < at[2]  # type: ignore[operator]
    assert of_v5p().seconds("all-reduce", 1, 16) == of_v5p().seconds("all-reduce", 1 << 12, 16)
    most = of_v5p().seconds("all-reduce", 1 << 24, 16)
    assert most is not None
    assert of_v5p().seconds("all-reduce", 1 << 26, 16) == pytest.approx(4 * most)


def test_a_v4_is_a_v5p_whose_links_are_half_as_fast() -> None:
    least, same = (kind.seconds("all-reduce", 1 << 12, 16) for kind in (of_v5p(), of_v4()))
    assert least == same
    fast, slow = (kind.seconds("all-reduce", 1 << 20, 16) for kind in (of_v5p(), of_v4()))
    assert least is not None
    assert fast is not None
    assert slow == pytest.approx(least + 2 * (fast - least))
    assert "v5p" in of_v4().source
    assert "2 times" in of_v4().source


def test_nothing_is_faster_than_the_links() -> None:
    gathered = of_v5p().seconds("all-gather", 1 << 30, 16)
    assert gathered is not None
    assert gathered >= (1 << 30) * 15 / 16 / 540e9


def test_mirror_images_take_as_long() -> None:
    assert of_v5p().seconds("reduce-scatter", 1 << 20, 16) == of_v5p().seconds("all-gather", 1 << 20, 16)


def test_a_gather_that_the_compiler_died_of_is_half_an_all_reduce() -> None:
    wide = of_v5p((4, 4, 4), 64)
    reduced = wide.seconds("all-reduce", 1 << 16, 64)
    assert reduced is not None
    assert wide.seconds("all-gather", 1 << 16, 64) == reduced / 2


@pytest.mark.parametrize(("kind", "group"), [("all-to-all", 16), ("collective-permute", 16), ("all-reduce", 4)])
def test_what_nobody_knows_has_no_price(kind: str, group: int) -> None:
    assert of_v5p().seconds(kind, 1 << 16, group) is None


def test_one_device_pays_nothing() -> None:
    assert of_v5p().seconds("all-reduce", 1 << 16, 1) == 0.0


@pytest.mark.parametrize(
    ("generation", "lengths", "clocks"),
    [
        ("v5p", (3, 5, 7), CLOCKS),
        ("tpu7x", (2, 2, 4), CLOCKS),
        ("v5p", (2, 2, 4), {}),
        ("v4", (2, 2, 4), {"v4": 1.05e9}),
    ],
)
def test_a_slice_that_is_not_in_the_table_has_no_prices(
    generation: str, lengths: tuple[int, ...], clocks: dict[str, float]
) -> None:
    found = prices(generation, lengths, 16, V4, clocks, V5P)
    assert found.seconds("all-reduce", 1 << 16, 16) is None
    assert found.source.startswith("none: the table has no slice")


def test_a_price_that_is_given_counts_instead() -> None:
    given = prices("v4", (2, 2, 4), 16, V4, CLOCKS, V5P, Override(5e-6, 100e9))
    assert given.seconds("all-reduce", 16_000, 16) == pytest.approx(5e-6 + 2 * 15_000 / 100e9)
    assert given.seconds("all-gather", 16_000, 4) == pytest.approx(5e-6 + 12_000 / 100e9)
    assert given.source == "given: 5 us, then 100 GB/s"


def test_the_compiler_streams_below_the_datasheet() -> None:
    peaks = {"v4": 1200e9, "v5p": 2765e9, "v5e": 819e9, "v6e": 1638e9}
    for generation, peak in peaks.items():
        rate = compiler_bytes_per_s(generation, CLOCKS[generation])
        assert rate is not None
        assert 0.75 * peak < rate < peak
    assert compiler_bytes_per_s("v9", 1e9) is None
