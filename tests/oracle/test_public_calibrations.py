"""Calibrations from public tables of kernels: rows that no fit has seen are met, and planted numbers are found."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.calibration.all_reduces import OUTLYING, AllReduce, AllReduces, fit_all_reduces, third
from simulator.calibration.kernels import FIT, HELD_OUT, Attention, Chip, Gemm, fit_attention, fit_matmuls, spread
from simulator.calibration.tables import small_messages
from simulator.cost.collectives import Links, all_reduce_time
from simulator.spec.hardware import AllReduceCost

ROOT = Path(__file__).resolve().parents[2]
BOUND = 0.15
CHIP = Chip(2e12, 400e12, 40e6)
RANGES = {2: [(0.0, "one_shot")], 8: [(0.0, "one_shot"), (262144.0, "two_shot")]}
LINKS = {chips: Links(300e9, both_ways=False) for chips in RANGES}


@pytest.fixture(scope="module")
def fitted() -> dict[tuple[str, str], Any]:
    script = runpy.run_path(str(ROOT / "docs" / "calibrations" / "public_kernels.py"))
    return {(one.profile.name, one.dtype): one for one in script["fits"]()}


@pytest.mark.parametrize("chip", ["a100_sxm", "h100_sxm", "h200_sxm"])
def test_small_all_reduces_that_were_held_out_are_predicted(fitted: dict[tuple[str, str], Any], chip: str) -> None:
    own = [one for (profile, _), one in fitted.items() if profile == chip]
    assert own
    for one in own:
        reduces: AllReduces = one.kernels.all_reduces
        small = spread(small_messages(reduces), HELD_OUT)
        assert small["count"] >= 13
        assert small["median"] <= BOUND
        assert spread(reduces.rows, HELD_OUT)["median"] <= BOUND


def test_a_third_is_held_out_of_every_number_of_chips(fitted: dict[tuple[str, str], Any]) -> None:
    for one in fitted.values():
        if one.kernels.all_reduces is None:
            continue
        for chips in one.kernels.all_reduces.costs:
            roles = [row.role for row in one.kernels.all_reduces.rows if row.key.startswith(f"{chips} chips")]
            assert abs(roles.count(HELD_OUT) / len(roles) - 1 / 3) < 0.05


def test_the_one_bad_all_reduce_is_named(fitted: dict[tuple[str, str], Any]) -> None:
    one = fitted["a100_sxm", "bfloat16"]
    assert [row.key for row in one.kernels.all_reduces.rows if row.role == OUTLYING] == ["8 chips, 4096 B"]
    assert any("8 chips, 4096 B" in assumption for assumption in one.data["assumptions"])


def test_formulas_need_fewer_numbers_than_tables_and_miss_less(fitted: dict[tuple[str, str], Any]) -> None:
    for one in fitted.values():
        if one.tabulated is not None:
            formulas = one.kernels.all_reduces
            assert formulas.free_numbers < one.tabulated.free_numbers / 2
            assert spread(formulas.rows, HELD_OUT)["rms"] < spread(one.tabulated.rows, HELD_OUT)["rms"]


def test_no_row_in_a_fit_is_faster_than_the_memory(fitted: dict[tuple[str, str], Any]) -> None:
    for one in fitted.values():
        assert one.kernels.matmuls.hbm_efficiency < 1
        assert one.kernels.cached.kv_efficiency < 1


def planted_cost() -> dict[int, AllReduceCost]:
    two_shot = {"payload": "262144 B", "algorithm": "two_shot", "base": "11 us", "link_efficiency": 0.8}
    one_shot = {"algorithm": "one_shot", "base": "5 us", "link_efficiency": 0.6}
    return {
        2: AllReduceCost.model_validate(one_shot),
        8: AllReduceCost.model_validate(one_shot | {"larger": (two_shot,)}),
    }


def planted_all_reduces() -> list[AllReduce]:
    return [
        AllReduce(chips, float(size), float(all_reduce_time(cost, LINKS[chips], size, chips).seconds))
        for chips, cost in planted_cost().items()
        for size in 256 * 2 ** np.arange(18)
    ]


@pytest.mark.parametrize("mistaken", [False, True])
def test_planted_all_reduces_are_found(mistaken: bool) -> None:
    rows = planted_all_reduces()
    if mistaken:
        index = next(index for index, out in enumerate(third(rows)) if not out and rows[index].chips == 8)
        rows[index] = AllReduce(8, rows[index].payload_bytes, 3 * rows[index].seconds)
    found = fit_all_reduces(rows, RANGES, LINKS)
    for chips, cost in planted_cost().items():
        for (_, known), (_, fit) in zip(cost.by_payload(), found.costs[chips].by_payload(), strict=True):
            assert fit.base_s == pytest.approx(known.base_s, rel=0.01)
            assert fit.link_efficiency == pytest.approx(known.link_efficiency, rel=0.01)
    assert sum(row.role == OUTLYING for row in found.rows) == mistaken


def gemm(rows: int, contract: int, out: int) -> Gemm:
    """A matrix multiplication of 4 us and what is longer: bytes at 0.8 of the peak, FLOP at 0.7 of it."""
    ideal = Gemm(rows, contract, out, 2.0, 0.0, copies=6)
    longer = max(ideal.weight_bytes / (0.8 * CHIP.bytes_per_s), ideal.flop / (0.7 * CHIP.flop_per_s))
    return Gemm(rows, contract, out, 2.0, 4e-6 + longer, copies=6)


def test_planted_matrix_multiplications_are_found() -> None:
    sizes = [(2048, 4096), (4096, 4096), (8192, 4096), (8192, 8192), (16384, 8192)]
    gemms = [gemm(rows, *size) for size in sizes for rows in (1, 4, 16, 512, 2048)]
    found = fit_matmuls(gemms, [False] * len(gemms), CHIP)
    assert found.kernel_s == pytest.approx(4e-6, rel=0.01)
    assert found.hbm_efficiency == pytest.approx(0.8, rel=0.01)
    rates = dict(found.matmul_efficiency)
    assert [rates[512], rates[2048]] == pytest.approx([0.7, 0.7], rel=0.01)
    assert spread(found.rows, FIT)["worst"] < 0.01


def call(batch: int, positions: int, tokens: int = 1) -> Attention:
    """An attention of 12 us and what is longer: bytes at 0.9 of the peak, FLOP at 0.5 of it."""
    ideal = Attention(32, 8, 128, batch, tokens, positions, 0.0)
    arithmetic = ideal.flop / (0.5 * CHIP.flop_per_s) if tokens > 1 else 0.0
    longer = max(ideal.kv_bytes / (0.9 * CHIP.bytes_per_s), arithmetic)
    return Attention(32, 8, 128, batch, tokens, positions, 12e-6 + longer)


def test_planted_attention_is_found() -> None:
    calls = [call(batch, positions) for batch in (1, 4, 16) for positions in (15, 127, 16383, 65535)]
    calls += [call(1, 0, tokens) for tokens in (16, 4096, 8192)]
    found = fit_attention(calls, [False] * len(calls), CHIP, (16, 4096, 8192))
    assert found.kernel_s == pytest.approx(12e-6, rel=0.01)
    assert found.kv_efficiency == pytest.approx(0.9, rel=0.01)
    assert dict(found.attention_efficiency) == {4096: pytest.approx(0.5, rel=0.01), 8192: pytest.approx(0.5, rel=0.01)}


def test_rows_that_beat_the_memory_are_left_out_and_change_nothing() -> None:
    calls = [call(batch, positions) for batch in (1, 4, 16) for positions in (15, 127, 16383, 65535)]
    # What a table says that does not tell a window of 128 tokens from none: 134 MB in 14 us.
    window = Attention(64, 8, 128, 1, 1, 32767, 13.8e-6)
    clean = fit_attention(calls, [False] * len(calls), CHIP, ())
    found = fit_attention([*calls, window], [False] * (len(calls) + 1), CHIP, ())
    assert found.rows[-1].role == "faster than the memory"
    assert (found.kernel_s, found.kv_efficiency) == (clean.kernel_s, clean.kv_efficiency)


def test_weights_that_a_cache_holds_are_left_out() -> None:
    held = Gemm(1, 1024, 1024, 2.0, 2e-6, copies=6)
    gemms = [gemm(rows, 8192, out) for out in (4096, 8192) for rows in (1, 512)] + [held]
    found = fit_matmuls(gemms, [False] * len(gemms), CHIP)
    assert [row.role for row in found.rows].count("weights in the cache") == 1
    assert found.hbm_efficiency == pytest.approx(0.8, rel=0.01)
