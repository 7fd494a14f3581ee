"""Is every figure of every profile sourced, near a second source, and such as chips have; do planted mistakes show?"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ValidationError

from simulator.spec import library
from simulator.spec.hardware import HardwareProfile
from simulator.spec.plausible import doubts
from simulator.spec.source import read
from simulator.spec.sourced import SourcedBandwidth, SourcedBytes, SourcedCount, SourcedFlopPerSecond, SourcedPrice
from simulator.spec.topology import SharedMemoryTopology, TorusTopology

NAMES = library.names(library.PROFILES)
SOURCED = (SourcedBandwidth, SourcedBytes, SourcedCount, SourcedFlopPerSecond, SourcedPrice)


def plain(name: str) -> dict[str, Any]:
    data: dict[str, Any] = copy.deepcopy(read(library.PROFILES / f"{name}.yaml").data)
    return data


def profile(data: dict[str, Any]) -> HardwareProfile:
    return HardwareProfile.model_validate(data)


def sources(part: BaseModel, path: str = "") -> Iterator[tuple[str, str]]:
    """Every sourced figure below ``part`` and what its source says; calibrations have their own tests."""
    if isinstance(part, SOURCED):
        yield path, part.source
    for name in type(part).model_fields:
        value = getattr(part, name)
        below = value.values() if isinstance(value, dict) else [value]
        for inner in below if name != "calibrations" else ():
            if isinstance(inner, BaseModel):
                yield from sources(inner, f"{path}.{name}")


def empty_words(source: str) -> bool:
    return len(source.strip()) < 12 or source.strip().lower().rstrip(".") in {"the datasheet", "common knowledge"}


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_source_of_substance(name: str) -> None:
    known = profile(plain(name))
    found = dict(sources(known))
    assert {".peaks.hbm_bandwidth", ".peaks.hbm_capacity", ".peaks.matmul"} <= found.keys()
    assert not [path for path, source in found.items() if empty_words(source)]
    if isinstance(known.topology, TorusTopology):
        assert not empty_words(known.topology.wrap_source or "")
    assert known.name == name


def test_a_missing_or_an_empty_source_is_noticed() -> None:
    data = plain("h100_sxm")
    data["peaks"]["hbm_bandwidth"]["source"] = "n/a"
    assert [path for path, source in sources(profile(data)) if empty_words(source)] == [".peaks.hbm_bandwidth"]
    for change in ({"source": ""}, {"source": None}):
        data["peaks"]["hbm_bandwidth"] |= change
        with pytest.raises(ValidationError):
            profile(data)
    del data["peaks"]["hbm_bandwidth"]["source"]
    with pytest.raises(ValidationError):
        profile(data)


def test_what_nobody_confirmed_says_so() -> None:
    remembered = {f"{n}{path}" for n in NAMES for path, source in sources(profile(plain(n))) if "remembered" in source}
    half = {f"{chip}.peaks.matmul" for chip in ("l40s", "mi300x", "rtx_3090", "rtx_4090")}  # float16 as bfloat16
    assert remembered == half | {"rtx_4090.topology.link_bandwidth"}


class Second(NamedTuple):
    """Figures of another source than the profile's; no link where the chip has none."""

    bf16: float
    hbm: float
    capacity: float
    link: float = 0.0


# Capacity 8 %, for sources mix GB and GiB up; links 12 %, for Google's pages round them up by a ninth.
TOLERANCE = Second(0.05, 0.05, 0.08, 0.12)
SECOND = {
    "tpu_v4": Second(275e12, 1.23e12, 32e9, 270e9 / 6),  # scaling book; link: Pope et al. 2022
    "tpu_v5e": Second(197e12, 810e9, 16e9, 400e9 / 8),  # scaling book; link: Google's page
    "tpu_v5p": Second(459e12, 2.8e12, 96e9, 86.3e9),  # scaling book; link: measured, marin issue 6736
    "tpu_v6e": Second(920e12, 1.6e12, 32 * 2**30, 86.8e9),  # scaling book, page of TPU7x; measured, marin issue 6736
    "tpu_v7x": Second(2.3e15, 7.37e12, 192e9, 1200e9 / 12),  # scaling book, pull request 115; Google's benchmarks
    "a100_sxm": Second(312e12, 2.0e12, 80e9, 600e9 / 2),  # datasheet as quoted by others
    "a100_sxm_40gb": Second(312e12, 1.55e12, 40e9, 600e9 / 2),  # ai-infra-learning/docs pull request 11
    "h100_sxm": Second(989.4e12, 3.35e12, 80e9, 900e9 / 2),  # the same; the rate is that of the H200, the same chip
    "h200_sxm": Second(989.4e12, 4.8e12, 141e9, 900e9 / 2),  # alpharomercoma/MI300X-vs-H200; MLCommons
    "b200_sxm": Second(2.25e15, 7.672e12, 192e9, 1800e9 / 2),  # pytorch/ao pull request 4002; product pages
    "l40s": Second(362e12, 864e9, 48e9, 16e9 / 8 * 16 * 128 / 130),  # datasheet; 16 lanes of 16 GT/s, 128b/130b
    "rtx_4090": Second(165.2e12, 384 / 8 * 21e9, 24e9, 16e9 / 8 * 16 * 128 / 130),  # gigagpu.com; bus times data rate
    # 82 processors x 512 multiply-adds a cycle x 1.695 GHz, half of it with sums in float32; bus times data rate.
    "rtx_3090": Second(82 * 512 * 2 * 1.695e9 / 2, 384 / 8 * 19.5e9, 24e9, 16e9 / 8 * 16 * 128 / 130),
    "mi300x": Second(1307e12, 5.3e12, 192e9, 32e9 / 8 * 16),  # third-party tables; 16 lanes of 32 Gbit/s
    "rtx_3060": Second(2 * 12.74e12, 192 / 8 * 15e9, 12e9, 16e9 / 8 * 16 * 128 / 130),  # twice its float32; as above
    "rtx_2080_ti": Second(4 * 13.45e12, 352 / 8 * 14e9, 11e9, 8e9 / 8 * 16 * 128 / 130),  # four times its float32
    "rx_6900_xt": Second(2 * 23.04e12, 256 / 8 * 16e9, 16 * 2**30, 16e9 / 8 * 16 * 128 / 130),  # fpsbench.com
    # The RX 9070 XT, the same chip, in huggingface.js pull request 1453; ROCm's documents; lanes of 32 Gbit/s.
    "r9700": Second(97.32e12, 256 / 8 * 20e9, 32 * 2**30, 32e9 / 8 * 16 * 128 / 130),
    "apple_m1_ultra": Second(21.2e12 * 48 / 64, 819e9, 64e9),  # cpu-monkey.com, that with 64 GPU cores
    "apple_m3_ultra": Second(60 * 128 * 2 * 1.398e9, 800e9, 96e9),  # lanes x clock (hmc-tech.com); llmcheck.net
    "apple_m4": Second(1280 * 2 * 1.47e9, 120e9, 24e9),  # lanes x clock (hmc-tech.com); sudoingX/qwen38-mtp
}


def figures(known: HardwareProfile) -> Second:
    topology = known.topology
    return Second(
        known.peaks.matmul["bfloat16"].value_flop_per_s,
        known.peaks.hbm_bandwidth.value_bytes_per_s,
        known.peaks.hbm_capacity.value_bytes,
        0.0 if isinstance(topology, SharedMemoryTopology) else topology.link_bandwidth.value_bytes_per_s,
    )


def off(known: HardwareProfile, name: str) -> list[str]:
    """Which figures are not those of the second source."""
    rows = zip(Second._fields, figures(known), SECOND[name], TOLERANCE, strict=True)
    return [field for field, found, other, tolerance in rows if abs(found - other) > tolerance * other]


def test_every_accelerator_has_a_second_source() -> None:
    assert {*SECOND, "cpu"} == set(NAMES)


@pytest.mark.parametrize("name", SECOND)
def test_figures_are_those_of_a_second_source_and_no_others(name: str) -> None:
    assert off(profile(plain(name)), name) == []
    for factor in (0.5, 2.0):
        for field, (section, key, unit) in {
            "bf16": ("matmul", "bfloat16", "FLOP/s"),
            "hbm": ("peaks", "hbm_bandwidth", "B/s"),
            "link": ("topology", "link_bandwidth", "B/s"),
        }.items():
            data = plain(name)
            place = data["peaks"]["matmul"] if section == "matmul" else data[section]
            if key not in place:
                continue  # shared memory has no link
            right = getattr(figures(profile(data)), field)
            place[key]["value"] = f"{factor * right!r} {unit}"
            assert off(profile(data), name) == [field]


@pytest.mark.parametrize(
    ("name", "path", "value", "field"),
    [
        ("tpu_v4", ("peaks", "matmul", "bfloat16"), "459 TFLOP/s", "bf16"),  # that of v5p
        ("h100_sxm", ("peaks", "matmul", "bfloat16"), "1979 TFLOP/s", "bf16"),  # with sparsity
        ("l40s", ("peaks", "matmul", "bfloat16"), "733 TFLOP/s", "bf16"),
        ("a100_sxm", ("peaks", "hbm_bandwidth"), "1555 GB/s", "hbm"),  # that of the 40 GB
        ("a100_sxm_40gb", ("peaks", "hbm_capacity"), "80 GB", "capacity"),
        ("h100_sxm", ("topology", "link_bandwidth"), "900 GB/s", "link"),  # both ways
        ("tpu_v4", ("topology", "link_bandwidth"), "22.5 GB/s", "link"),
        ("tpu_v5p", ("topology", "link_bandwidth"), "1200 GB/s", "link"),  # all six, both ways
        ("rtx_3090", ("peaks", "matmul", "bfloat16"), "142 TFLOP/s", "bf16"),  # with sums in float16
    ],
)
def test_mistakes_that_were_published_are_caught(name: str, path: tuple[str, ...], value: str, field: str) -> None:
    data = plain(name)
    place = data
    for key in path:
        place = place[key]
    place["value"] = value
    assert off(profile(data), name) == [field]


@pytest.mark.parametrize("name", ["h100_sxm", "h200_sxm", "b200_sxm", "l40s", "rtx_4090", "mi300x", "tpu_v7x"])
def test_eight_bits_are_twice_as_fast_as_sixteen(name: str) -> None:
    rates = profile(plain(name)).peaks.matmul
    assert rates["fp8"].value_flop_per_s == pytest.approx(2 * rates["bfloat16"].value_flop_per_s, rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_doubtful_in_what_we_ship(name: str) -> None:
    assert doubts(profile(plain(name))) == []


@pytest.mark.parametrize(
    ("name", "path", "value", "said"),
    [
        ("h100_sxm", ("peaks", "matmul", "fp8"), "3958 TFLOP/s", "fp8 is 4 times"),
        ("h100_sxm", ("peaks", "matmul", "bfloat16"), "494.5 TFLOP/s", "fp8 is 4 times"),
        ("tpu_v6e", ("peaks", "hbm_bandwidth"), "1638 TB/s", "0.56 FLOP"),
        ("tpu_v4", ("peaks", "hbm_bandwidth"), "120 GB/s", "is read in 286 ms"),
        ("tpu_v5e", ("peaks", "hbm_capacity"), "16 MiB", "is read in 0.0205 ms"),
        ("b200_sxm", ("topology", "link_bandwidth"), "14400 GB/s", "in bits"),
        ("mi300x", ("topology", "link_bandwidth"), "896 GB/s", "in bits"),
    ],
)
def test_each_doubt_is_raised_by_its_mistake(name: str, path: tuple[str, ...], value: str, said: str) -> None:
    data = plain(name)
    place = data
    for key in path:
        place = place[key]
    place["value"] = value
    assert any(said in words for words in doubts(profile(data)))


def test_a_rate_of_nothing_is_refused() -> None:
    for path in (("peaks", "hbm_bandwidth"), ("topology", "link_bandwidth")):
        data = plain("h100_sxm")
        data[path[0]][path[1]]["value"] = "0 GB/s"
        with pytest.raises(ValidationError):
            profile(data)
    data = plain("h100_sxm")
    data["peaks"]["matmul"]["bfloat16"]["value"] = "0 TFLOP/s"
    with pytest.raises(ValidationError):
        profile(data)
