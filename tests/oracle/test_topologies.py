"""Chips, links, bisection and diameter of slices, switches, meshes, cards and hosts, against counts by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from simulator.cost.collectives import Links, collective_time, message_time
from simulator.cost.topology import Connected, connected, links_between, links_of
from simulator.predict import predict_scenario
from simulator.spec import library
from simulator.spec.hardware import AllReduceCost, HardwareProfile, MessageCost
from simulator.spec.source import read
from simulator.spec.topology import SharedMemoryTopology, TorusTopology, parse_slice
from tests.builders import scenario


def profile(name: str) -> HardwareProfile:
    return HardwareProfile.model_validate(read(library.PROFILES / f"{name}.yaml").data)


def of(name: str, chips: int, slice_text: str | None = None) -> Connected:
    topology = profile(name).topology
    assert not isinstance(topology, SharedMemoryTopology)
    return connected(topology, chips, slice_text)


@pytest.mark.parametrize(
    ("name", "slice_text", "wraps", "chips", "links", "crossing", "diameter"),
    [
        # Three rings of 4 through each of 64 chips; the cut crosses the 16 rings of an axis twice.
        ("tpu_v4", "4x4x4", (True, True, True), 64, 192, 32, 6),
        # 8 + 8 links along the axes of two, never doubled, and 4 lines of 4: less than a cube, so nothing closes.
        ("tpu_v4", "2x2x4", (False, False, False), 16, 28, 4, 5),
        ("tpu_v4", "4x2x4", (False, False, False), 32, 64, 8, 7),
        ("tpu_v4", "2x2x1", (False, False, False), 4, 4, 2, 2),
        ("tpu_v4", "16x16x16", (True, True, True), 4096, 12_288, 512, 24),
        ("tpu_v4", "6x1x1", (False, False, False), 6, 5, 1, 5),
        # 4 rows and 4 columns of 3 links.
        ("tpu_v5e", "4x4", (False, False), 16, 24, 4, 6),
        # 8 rings of 16 one way, 16 lines of 7 links the other; the cut across the rings crosses 16, as does the other.
        ("tpu_v5e", "8x16", (False, True), 128, 240, 16, 15),
        ("tpu_v5e", "16x16", (True, True), 256, 512, 32, 16),
        ("tpu_v6e", "2x4", (False, False), 8, 10, 2, 4),
        ("tpu_v7x", "4x4x8", (True, True, True), 128, 384, 32, 8),
    ],
)
def test_slices_by_hand(
    name: str, slice_text: str, wraps: tuple[bool, ...], chips: int, links: int, crossing: int, diameter: int
) -> None:
    topology = profile(name).topology
    assert isinstance(topology, TorusTopology)
    assert topology.wraps(parse_slice(slice_text)) == wraps
    each = {"tpu_v4": 45e9, "tpu_v5e": 45e9, "tpu_v6e": 90e9, "tpu_v7x": 90e9}[name]
    assert of(name, chips, slice_text) == Connected(chips, links, crossing * each, diameter)


def test_an_axis_of_two_has_one_link_whatever_the_rule_of_wrapping() -> None:
    link = {"value": "50 GB/s", "source": "invented"}
    torus = TorusTopology.model_validate({"kind": "torus", "axes": 2, "link_bandwidth": link, "wrap_multiple": 2})
    assert torus.wraps((2, 4)) == (False, True)
    assert connected(torus, 8, "2x4") == Connected(8, 4 + 8, 4 * 50e9, 3)
    assert connected(torus, 1, "1x1") == Connected(1, 0, 0.0, 0)


@pytest.mark.parametrize(
    ("name", "chips", "links", "bisection", "diameter"),
    [
        ("h100_sxm", 8, 8, 4 * 450e9, 2),
        ("h100_sxm", 2, 2, 450e9, 2),
        ("h100_sxm", 1, 0, 0.0, 0),
        ("h100_sxm", 16, 16 + 16, 8 * 50e9, 2),  # 8 ports to a switch in each of 2 hosts, 16 to the network
        ("h100_sxm", 24, 24 + 24, 8 * 50e9, 2),  # of 3 hosts one is cut off
        ("rtx_4090", 4, 4, 2 * 32e9, 2),
        ("l40s", 16, 16 + 16, 8 * 32e9, 2),  # the network's 50 GB/s a card go through its link of 32
        ("mi300x", 8, 28, 16 * 64e9, 1),  # each to each; 4 x 4 links between the halves
        ("mi300x", 2, 1, 64e9, 1),
    ],
)
def test_hosts_by_hand(name: str, chips: int, links: int, bisection: float, diameter: int) -> None:
    assert of(name, chips) == Connected(chips, links, bisection, diameter)


@pytest.mark.parametrize(
    ("name", "slice_text", "published"),
    [("tpu_v4", "16x16x16", 24e12), ("tpu_v5e", "16x16", 1.6e12), ("tpu_v6e", "16x16", 3.2e12)],
)
def test_bisection_of_a_pod_is_the_published_one(name: str, slice_text: str, published: float) -> None:
    # Google's TPU pages count 50 and 100 GB/s a link where How to Scale Your Model, which we follow, has 45 and 90.
    found = of(name, math.prod(parse_slice(slice_text)), slice_text).bisection_bytes_per_s
    assert found == pytest.approx(published, rel=0.11)


RING = AllReduceCost.model_validate({"algorithm": "ring", "base": "2 us", "hop_latency": "1 us"})
NETWORK = MessageCost.model_validate({"base": "10 us", "link_efficiency": 0.8})


def test_an_all_reduce_over_two_hosts_by_hand() -> None:
    links = links_of(profile("h100_sxm"), None, 16)
    n = 8e6
    found = collective_time("all_reduce", RING, links, n, 16, network=NETWORK)
    # In each host 7/8 of n there and 7/8 back over 450 GB/s; between the hosts half of n/8 twice, over 40 of 50 GB/s.
    assert found.bandwidth_s == pytest.approx(2 * 7e6 / 450e9 + 2 * 0.5e6 / 40e9)
    assert found.latency_s == pytest.approx(2 * (2e-6 + 7e-6) + 2 * 10e-6)
    gathered = collective_time("all_gather", RING, links, n, 16, network=NETWORK)
    assert gathered.seconds == pytest.approx(found.seconds / 2)
    sent = collective_time("all_to_all", RING, links, n, 16, network=NETWORK)
    assert sent.bandwidth_s == pytest.approx(4e6 / 40e9)  # 7/8 of the 4 MB that stay are there sooner
    assert sent.latency_s == pytest.approx(10e-6)


def test_within_a_host_the_network_costs_nothing_and_arrays_broadcast() -> None:
    links = links_of(profile("h100_sxm"), None, 8)
    chips, payload = np.array([1.0, 2.0, 8.0, 16.0, 32.0]), np.array([[1e3], [1e6]])
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        together = collective_time(kind, RING, links, payload, chips, network=NETWORK)
        for i, j in np.ndindex(2, 5):
            alone = collective_time(kind, RING, links, float(payload[i, 0]), float(chips[j]), network=NETWORK)
            assert np.broadcast_to(together.seconds, (2, 5))[i, j] == pytest.approx(float(alone.seconds), rel=1e-14)
            if chips[j] <= 8:
                flat = collective_time(kind, RING, links, float(payload[i, 0]), float(chips[j]))
                assert alone.seconds == pytest.approx(float(flat.seconds), rel=1e-14)


def test_a_table_is_of_all_chips_it_was_measured_on() -> None:
    table = AllReduceCost.model_validate(
        {"algorithm": "table", "table": ({"payload": "1 kB", "time": "10 us"}, {"payload": "1 MB", "time": "30 us"})}
    )
    links = links_of(profile("h100_sxm"), None, 16)
    assert collective_time("all_reduce", table, links, 1e6, 16, network=NETWORK).seconds == pytest.approx(30e-6)


def test_a_mesh_gives_a_pair_one_link_and_a_group_all_of_theirs() -> None:
    mesh = profile("mi300x")
    for chips in (2, 4, 8):
        found = collective_time("all_reduce", RING, links_of(mesh, None, chips), 1e6, chips)
        # 2 (X-1)/X n over X-1 links of 64 GB/s.
        assert found.bandwidth_s == pytest.approx(2 / chips * 1e6 / 64e9)
    assert message_time(None, RING, links_of(mesh, None, 8), 1e6).bandwidth_s == pytest.approx(1e6 / 64e9)


def test_a_root_is_shared_by_the_cards_of_a_host() -> None:
    data: dict[str, Any] = profile("rtx_4090").model_dump()
    data["topology"]["root_bandwidth"] = {"value": "48 GB/s", "source": "invented"}
    shared = HardwareProfile.model_validate(data)
    assert not isinstance(shared.topology, SharedMemoryTopology)
    assert connected(shared.topology, 4) == Connected(4, 4, 48e9, 2)
    assert [links_of(shared, None, chips).bandwidth_bytes_per_s for chips in (1, 2, 4)] == [32e9, 24e9, 12e9]


@pytest.mark.parametrize(
    ("degree", "stages", "crossing"),
    # 2 stages of 4 share a host; 4 stages lie on 2 hosts, so one of 3 messages crosses; stages of 8 all cross.
    [(4, 1, 0.0), (4, 2, 0.0), (4, 4, 1 / 3), (8, 2, 1.0), (16, 2, 1.0)],
)
def test_stages_talk_over_the_network_where_a_host_ends(degree: int, stages: int, crossing: float) -> None:
    links = links_of(profile("h100_sxm"), None, degree, stages)
    assert links.crossing == pytest.approx(crossing)
    found = message_time(MessageCost.model_validate({"base": "4 us"}), RING, links, 1e6, NETWORK)
    inside, across = 4e-6 + 1e6 / 450e9, 10e-6 + 1e6 / 40e9
    assert found.seconds == pytest.approx((1 - crossing) * inside + crossing * across)


def test_a_draft_on_another_host_ships_over_the_network() -> None:
    assert links_between(profile("h100_sxm"), 8).crossing == 0
    assert links_between(profile("h100_sxm"), 9).crossing == 1
    assert links_between(profile("tpu_v4"), 64) == Links(45e9)


def test_crossing_hosts_costs_what_the_datasheet_says_at_least() -> None:
    data = profile("h100_sxm").model_dump()
    wide = scenario(
        target={**scenario().target.model_dump(), "heads": 16, "kv_heads": 16},
        deployment={"hardware": data, "chips": 16},
        draft={"kind": "none"},
    )
    step = predict_scenario(wide).mechanisms["plain_step"]
    # 16 layers with two all-reduces of 1,024 bfloat16, and what the head and the embedding exchange.
    each = 2 * 7 / 8 * 2048 / 450e9 + 2 * 0.5 * 256 / 50e9
    assert step["collective_bandwidth"] >= 32 * each
    assert step["collective_bandwidth"] < 60 * each
