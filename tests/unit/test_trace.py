"""Is a trace what Chrome and Perfetto read: nothing negative, nothing that overlaps on a lane, the same bytes again?"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.des.chips import Event
from simulator.des.playback import phases, play
from simulator.des.trace import _us, chrome_trace
from simulator.spec.load import load_scenario
from simulator.spec.scenario import Scenario

ROOT = Path(__file__).parents[2]
PREFETCHED = {"on_chip_bytes": 128.0 * 2**20, "jitter_s": 5e-6, "seed": 3}


def asked(chips: int) -> Scenario:
    if chips == 16:
        return load_scenario(ROOT / "scenarios/chinchilla_70b_tpu_v4.yaml", ["decoding.lookahead=3"])[0].scenario
    settings = ["decoding.lookahead=3", "deployment.chips=1", "draft.model=quickstart-draft-deep"]
    return load_scenario(ROOT / "scenarios/quickstart_cpu.yaml", settings)[0].scenario


def complete(text: str) -> list[dict[str, Any]]:
    data = json.loads(text)
    assert sorted(data) == ["displayTimeUnit", "traceEvents"]
    assert data["displayTimeUnit"] == "ns"
    return [event for event in data["traceEvents"] if event["ph"] == "X"]


def lanes(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Start and end of every event, in the nanoseconds that a viewer makes of them, by process and thread."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        start = int(event["ts"] * 1000.0)
        found.setdefault((event["pid"], event["tid"]), []).append((start, start + int(event["dur"] * 1000.0)))
    return found


@pytest.mark.parametrize("chips", [1, 16])
@pytest.mark.parametrize("part", ["plain_step", "verify_step", "prefill", "round"])
@pytest.mark.parametrize("how", [{}, PREFETCHED], ids=["plain", "prefetch and jitter"])
def test_a_played_part_is_well_formed(chips: int, part: str, how: dict[str, Any]) -> None:
    scenario = asked(chips)
    played = play(phases(scenario, part), chips, **how)
    events = complete(chrome_trace(played.events))
    assert len(events) == len(played.events)
    assert {event["pid"] for event in events} == set(range(chips))
    by_lane = lanes(events)
    for spans in by_lane.values():
        assert min(start for start, _ in spans) >= 0
        assert all(later[0] >= earlier[1] for earlier, later in itertools.pairwise(sorted(spans)))
    # Whole nanoseconds: each event is off by one at most, and the steps of a chip fill the time.
    longest = sum(end - start for start, end in by_lane[0, 1])
    assert longest == pytest.approx(played.seconds * 1e9, abs=2)
    total = sum(end - start for spans in by_lane.values() for start, end in spans)
    assert total == pytest.approx(sum(e.end_s - e.start_s for e in played.events) * 1e9, abs=len(events))
    assert [(event["ts"], event["pid"], event["tid"]) for event in events] == sorted(
        (event["ts"], event["pid"], event["tid"]) for event in events
    )


def test_processes_and_threads_have_names_in_the_order_of_their_lanes() -> None:
    text = chrome_trace(play(phases(asked(16), "plain_step"), 16).events)
    named = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "M"]
    processes = {event["pid"]: event["args"]["name"] for event in named if event["name"] == "process_name"}
    assert processes == {chip: f"chip {chip}" for chip in range(16)}
    threads = {event["tid"]: event["args"]["name"] for event in named if event["name"] == "thread_name"}
    assert threads == {1: "step", 2: "core", 3: "hbm", 4: "links"}


def test_the_same_events_are_the_same_bytes_in_whatever_order() -> None:
    events = play(phases(asked(16), "plain_step"), 16).events
    shuffled = random.Random(0).sample(events, len(events))
    assert chrome_trace(shuffled) == chrome_trace(events)


def test_nothing_that_happened_is_a_trace_too() -> None:
    assert complete(chrome_trace([])) == []


def test_a_lane_of_another_name_comes_last() -> None:
    text = chrome_trace([Event(0, "links", "a", 0.0, 1e-6), Event(0, "disk", "b", 0.0, 1e-6)])
    threads = [event["args"] for event in json.loads(text)["traceEvents"] if event["name"] == "thread_name"]
    assert threads == [{"name": "links"}, {"name": "disk"}]


@given(nanoseconds=st.integers(0, 10**13))
def test_a_viewer_finds_the_nanoseconds_whether_it_rounds_or_cuts(nanoseconds: int) -> None:
    read = json.loads(json.dumps(_us(nanoseconds)))
    assert int(read * 1000.0) == nanoseconds
    assert round(read * 1000.0) == nanoseconds
