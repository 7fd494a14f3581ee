"""What holds of a replayed program at any rates."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.aot.loops import scheduled
from runtime.aot.replay import Rates, Replayed, Schedule
from tests.compiled_texts import NAMES, facts, module

CLOCK, BANDWIDTH = 1.05e9, 1.2e12
programs = st.sampled_from(NAMES)
clocks = st.floats(1e8, 1e10)
bandwidths = st.floats(1e11, 1e13)


@cache
def schedule(name: str) -> Schedule:
    return Schedule(module(name))


def cycles(name: str) -> int:
    """The compiler's, of all that is executed."""
    return sum(run.times * (run.operation.cycles or 0) for run in scheduled(module(name)))


def parts(replayed: Replayed) -> tuple[float, ...]:
    return replayed.matmul_s, replayed.attention_s, replayed.other_s, replayed.stall_s, replayed.collectives_s


@given(programs, clocks, bandwidths)
def test_no_faster_than_the_bytes_nor_than_the_cycles(name: str, clock: float, bandwidth: float) -> None:
    replayed = schedule(name).replay(Rates(clock, bandwidth))
    assert replayed.total_s >= replayed.channel_bytes / bandwidth * (1 - 1e-9)
    assert replayed.total_s >= cycles(name) / clock * (1 - 1e-9)
    assert replayed.total_s <= (replayed.channel_bytes / bandwidth + cycles(name) / clock) * (1 + 1e-9)
    assert all(part >= 0 for part in parts(replayed))
    assert replayed.total_s == pytest.approx(sum(parts(replayed)), rel=1e-12)


@given(programs, clocks, bandwidths, st.floats(1, 10))
def test_more_bandwidth_and_a_faster_clock_are_never_slower(
    name: str, clock: float, bandwidth: float, times: float
) -> None:
    total_s = schedule(name).replay(Rates(clock, bandwidth)).total_s
    assert schedule(name).replay(Rates(clock, bandwidth * times)).total_s <= total_s * (1 + 1e-9)
    assert schedule(name).replay(Rates(clock * times, bandwidth)).total_s <= total_s * (1 + 1e-9)


@given(programs, clocks, bandwidths, st.floats(0.1, 10))
def test_time_has_no_scale_of_its_own(name: str, clock: float, bandwidth: float, times: float) -> None:
    total_s = schedule(name).replay(Rates(clock, bandwidth)).total_s
    assert schedule(name).replay(Rates(clock * times, bandwidth * times)).total_s == pytest.approx(total_s / times)


@given(programs, st.floats(0, 1e-3))
def test_collectives_take_what_they_are_priced_at_and_hide_stalls_at_most(name: str, price_s: float) -> None:
    rates = Rates(CLOCK, BANDWIDTH)
    without = schedule(name).replay(rates)
    priced = Schedule(module(name), lambda _: price_s).replay(rates)
    count = sum(each.count for each in facts(name).collectives)
    assert priced.total_s <= without.total_s + count * price_s + 1e-12
    assert priced.total_s >= without.total_s - 1e-12
    assert priced.collectives_s <= count * price_s * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_channel_carries_what_is_known_to_move(name: str) -> None:
    replayed = schedule(name).replay(Rates(CLOCK, BANDWIDTH))
    assert replayed.channel_bytes == pytest.approx(facts(name).hbm_bytes, rel=2e-3)


def test_the_right_program_is_near_its_floor_and_the_others_are_slower() -> None:
    rates = Rates(CLOCK, BANDWIDTH)
    seconds = {name: schedule(name).replay(rates).total_s for name in NAMES}
    assert facts("right").floor_bytes / BANDWIDTH <= seconds["right"] < 1.5 * facts("right").floor_bytes / BANDWIDTH
    assert seconds["right"] < seconds["scanned"] < seconds["restacked"]
    # Half the batch, and yet three times slower: vector code.
    assert seconds["one_row"] > 3 * seconds["right"]
