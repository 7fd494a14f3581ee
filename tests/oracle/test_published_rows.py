"""Published values from papers, repositories and threads: are the files whole, and do their rows say what they must?"""

from __future__ import annotations

import re
from itertools import chain

import pytest

from simulator.spec.publication import PUBLISHED, Entry, Published, load_publication

SOURCES = {
    "chen2023_chinchilla_sps": 17,
    "dflash_tpu_v4_v5p": 60,
    "eagle_eagle2_2024": 14,
    "illusion2026_specdecode_bench": 25,
    "leviathan2022_t5xxl": 17,
    "medusa_2024": 5,
    "other_papers_headline": 11,
    "spec_bench_leaderboard": 13,
    "vllm_blog": 49,
    "vllm_eagle_h100": 31,
}
"""Rows of each file when it was written: fewer would mean that some were dropped."""
FILES = {name: load_publication(PUBLISHED / f"{name}.yaml") for name in SOURCES}
ENTRIES = list(chain.from_iterable(one.entries for one in FILES.values()))
SUBSTANCE = re.compile(r"tree|lossy|state|known|looked up|n-gram|bigram|random|profile")
"""What a reason for leaving a value out is about: how it drafts, how it accepts, or what the source does not say."""


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_has_its_rows_and_says_who_read_it(name: str) -> None:
    one: Published = FILES[name]
    assert one.about.name == name
    assert len(one.about.read) > 10
    assert SOURCES[name] <= len(one.entries) <= 60


def test_rows_are_many_and_more_than_half_are_modelled() -> None:
    modelled = [entry for entry in ENTRIES if entry.scenario is not None]
    assert len(ENTRIES) >= 240
    assert len(modelled) >= 170
    assert sum(entry.row.metric == "speedup" for entry in modelled) >= 60


def test_every_row_has_its_place_and_every_omission_a_reason() -> None:
    for entry in ENTRIES:
        assert len(entry.row.where) > 5, entry.place
        if entry.row.not_modelled is not None:
            assert SUBSTANCE.search(entry.row.not_modelled), entry.place


def test_no_row_names_where_it_was_kept() -> None:
    for file in PUBLISHED.glob("*.yaml"):
        assert "/work" not in file.read_text(encoding="utf-8")


def key(entry: Entry) -> tuple[object, ...]:
    return entry.row.metric, entry.row.where


def test_no_value_is_told_twice() -> None:
    for one in FILES.values():
        keys = [key(entry) for entry in one.entries]
        assert len(keys) == len(set(keys)), one.about.name
