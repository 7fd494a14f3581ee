"""Chips laid out in time against the closed form of the same step."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cost.collectives import Links
from simulator.cost.schedule import Span, spans
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, step_cost
from simulator.cost.topology import links_of
from simulator.des.chips import Chips, step_time
from simulator.spec import library
from simulator.spec.hardware import HardwareProfile, MessageCost
from simulator.spec.source import read
from tests.builders import scenario

SMALL = scenario()
HARDWARE = SMALL.deployment.hardware
MACHINE = Machine(HARDWARE, HARDWARE.calibrations["made-up"].parameters[0], Links(50e9), "bfloat16")
SHAPE = Shape.of(SMALL.target)
H100 = HardwareProfile.model_validate(read(library.PROFILES / "h100_sxm.yaml").data)


@settings(max_examples=40, deadline=None)
@given(
    chips=st.sampled_from([1, 2, 4, 16]),
    tokens=st.integers(1, 9),
    batch=st.integers(1, 64),
    positions=st.integers(0, 5000),
    sampled=st.integers(0, 1),
)
def test_without_jitter_and_prefetch_it_is_the_closed_form(
    chips: int, tokens: int, batch: int, positions: int, sampled: int
) -> None:
    forward = Pass(batch, tokens, positions, chips)
    laid_out = spans(SHAPE, forward, MACHINE, sampled_rows=sampled)
    seconds, _ = step_time(laid_out, chips)
    assert seconds == pytest.approx(float(step_cost(SHAPE, forward, MACHINE, None, sampled).seconds), rel=1e-9)


@pytest.mark.parametrize(("chips", "stages"), [(4, 1), (16, 1), (4, 4), (8, 2)])
def test_over_several_hosts_it_is_the_closed_form_too(chips: int, stages: int) -> None:
    network = MessageCost.model_validate({"base": "7 us", "link_efficiency": 0.6})
    parameters = MACHINE.parameters.model_copy(update={"network": network})
    links = links_of(H100, None, chips, stages)
    machine = Machine(HARDWARE, parameters, links, "bfloat16")
    forward = Pass(2, 3, 500, chips, stages=stages)
    seconds, _ = step_time(spans(SHAPE, forward, machine), chips)
    assert seconds == pytest.approx(float(step_cost(SHAPE, forward, machine).seconds), rel=1e-9)
    inside = replace(machine, links=replace(links, chips_per_host=None, crossing=0.0))
    if chips * stages > 8:
        assert seconds > float(step_cost(SHAPE, forward, inside).seconds)


@pytest.mark.parametrize("block", ["parallel", "serial"])
@pytest.mark.parametrize(("parts", "groups"), [(2, 1), (4, 16), (1, 4), (2, 2)])
def test_in_two_dimensions_and_over_sequences_it_is_the_closed_form_too(block: str, parts: int, groups: int) -> None:
    shape = Shape.of(SMALL.target.model_copy(update={"block": block}))
    known = MACHINE.parameters.model_copy(update={"collective_overlap": 0.5})
    machine = replace(MACHINE, parameters=known, links=Links(50e9, (parts, 16 // parts), (False, True)))
    forward = Pass(16, 2, 300, 16, width_parts=parts, sequence_groups=groups)
    seconds, _ = step_time(spans(shape, forward, machine, sampled_rows=1), 16)
    assert seconds == pytest.approx(float(step_cost(shape, forward, machine, None, 1).seconds), rel=1e-9)


@pytest.mark.parametrize("on_chip_bytes", [1e5, 1e6, 1e9])
@pytest.mark.parametrize("batch", [1, 32])
def test_prefetch_hides_the_shorter_of_stream_and_collective(on_chip_bytes: float, batch: int) -> None:
    laid_out = spans(SHAPE, Pass(batch, 1, 100, 4), MACHINE)
    whole, _ = step_time(laid_out, 4)
    with_prefetch, _ = step_time(laid_out, 4, on_chip_bytes=on_chip_bytes)
    saved = 0.0
    for span, following in itertools.pairwise(laid_out):
        share = min(1.0, on_chip_bytes / following.weights_bytes) if following.weights_bytes else 0.0
        saved += min(share * following.weights_s, span.collective_s)
    assert saved > 0
    assert whole - with_prefetch == pytest.approx(saved, rel=1e-9)


@pytest.mark.parametrize("chips", [1, 4, 16])
def test_exponential_jitter_costs_the_harmonic_number(chips: int) -> None:
    layers, mean = 40, 1e-5
    each = [Span("attention", 1e-5, 1.0, collective_s=1e-6), Span("feed_forward", 2e-5, 1.0, collective_s=1e-6)]
    laid_out = each * layers
    still, _ = step_time(laid_out, chips)
    late = [step_time(laid_out, chips, jitter_s=mean, seed=seed)[0] - still for seed in range(60)]
    expected = 2 * layers * mean * sum(1 / k for k in range(1, chips + 1))
    # The maximum of X exponentials has variance m^2 sum 1/k^2, and a step is the sum of 2 L of them.
    error = mean * np.sqrt(2 * layers * sum(1 / k**2 for k in range(1, chips + 1)) / len(late))
    assert np.mean(late) == pytest.approx(expected, abs=3 * error)


def test_two_models_on_the_same_chips_share_channel_and_links() -> None:
    laid_out = spans(SHAPE, Pass(1, 1, 100, 4), MACHINE)
    alone, _ = step_time(laid_out, 4)
    env = simpy.Environment()
    chips = Chips(env, 4)
    both = [env.process(chips.run_step(laid_out)) for _ in range(2)]
    env.run(env.all_of(both))
    on_channel = sum(span.weights_s + span.kv_s for span in laid_out)
    assert alone < env.now <= 2 * alone + 1e-12
    assert env.now >= 2 * on_channel
    for chip in range(4):
        busy = sorted((e.start_s, e.end_s) for e in chips.events if e.chip == chip and e.lane == "hbm")
        assert all(later[0] >= earlier[1] - 1e-15 for earlier, later in itertools.pairwise(busy))
