"""What connects chips: the links that a model's collectives use, and how many there are, how wide and how far.

A hop is one link. Through a switch, or the root of a host, or the network between hosts, it is two from chip to chip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from simulator.cost.collectives import Links
from simulator.spec.hardware import HardwareProfile
from simulator.spec.topology import (
    Hosts,
    HostTopology,
    MeshTopology,
    PcieTopology,
    SharedMemoryTopology,
    TorusTopology,
    hosts_of,
    parse_slice,
)


@dataclass(frozen=True)
class Connected:
    """How chips hang together."""

    chips: int
    links: int
    """Links among them, ports to a switch, a root or a network included; a link both ways is one."""
    bisection_bytes_per_s: float
    """What crosses the worst cut through the middle, one way; 0 for a single chip."""
    diameter: int
    """Hops between the two chips that are farthest apart."""


def connected(topology: TorusTopology | HostTopology, chips: int, slice_text: str | None = None) -> Connected:
    """How ``chips`` chips hang together; in a torus those of the slice, such as ``2x2x4``."""
    if isinstance(topology, TorusTopology):
        return _torus(topology, parse_slice(slice_text) if slice_text is not None else (chips,))
    if chips == 1:
        return Connected(1, 0, 0.0, 0)
    hosts = hosts_of(topology)
    if hosts is None or chips <= hosts.chips_per_host.value:
        return _host(topology, chips)
    local = hosts.chips_per_host.value
    inside, count = _host(topology, local), -(-chips // local)
    # The network is narrower than any link inside: the worst cut runs between hosts.
    cut = count // 2 * local * _network(topology, hosts)
    return Connected(chips, count * inside.links + chips, cut, max(inside.diameter, 2))


def _torus(topology: TorusTopology, lengths: tuple[int, ...]) -> Connected:
    chips, wraps = math.prod(lengths), topology.wraps(lengths)
    axes = [(n, wrap) for n, wrap in zip(lengths, wraps, strict=True) if n > 1]
    cuts = [chips // n * (2 if wrap else 1) for n, wrap in axes]
    return Connected(
        chips,
        sum(chips // n * (n if wrap else n - 1) for n, wrap in axes),
        min(cuts, default=0) * topology.link_bandwidth.value_bytes_per_s,
        sum(n // 2 if wrap else n - 1 for n, wrap in axes),
    )


def _host(topology: HostTopology, chips: int) -> Connected:
    each, half = topology.link_bandwidth.value_bytes_per_s, chips // 2
    if isinstance(topology, MeshTopology):
        return Connected(chips, chips * (chips - 1) // 2, half * (chips - half) * each, 1)
    cut = half * each
    if isinstance(topology, PcieTopology) and topology.root_bandwidth is not None:
        cut = min(cut, topology.root_bandwidth.value_bytes_per_s)
    return Connected(chips, chips, cut, 2)


def links_of(hardware: HardwareProfile, slice_text: str | None, degree: int, stages: int = 1) -> Links:
    """What connects the ``degree`` chips of one model, or of each of its ``stages``.

    The axes of the slice are known only where the model fills a whole one.
    """
    topology = hardware.topology
    if isinstance(topology, SharedMemoryTopology):
        return Links(hardware.peaks.hbm_bandwidth.value_bytes_per_s)
    bandwidth = topology.link_bandwidth.value_bytes_per_s
    if isinstance(topology, TorusTopology):
        axes = parse_slice(slice_text) if slice_text is not None else ()
        return Links(bandwidth, axes, topology.wraps(axes)) if math.prod(axes) == degree and axes else Links(bandwidth)
    return _links_in_hosts(topology, degree, stages)


def links_between(hardware: HardwareProfile, chips: int) -> Links:
    """What connects two of a deployment's ``chips`` chips: the network, where those lie on several hosts."""
    links, hosts = links_of(hardware, None, 2), hosts_of(hardware.topology)
    apart = hosts is not None and chips > hosts.chips_per_host.value
    return replace(links, crossing=1.0) if apart else links


def _links_in_hosts(topology: HostTopology, degree: int, stages: int) -> Links:
    hosts, pair = hosts_of(topology), topology.link_bandwidth.value_bytes_per_s
    local = degree if hosts is None else min(degree, hosts.chips_per_host.value)
    bandwidth = pair
    if isinstance(topology, MeshTopology):
        bandwidth = pair * max(local - 1, 1)
    elif isinstance(topology, PcieTopology) and topology.root_bandwidth is not None:
        bandwidth = pair = min(pair, topology.root_bandwidth.value_bytes_per_s / local)
    links = Links(bandwidth, both_ways=False, pair_bytes_per_s=pair)
    if hosts is None:
        return links
    per_host, network = hosts.chips_per_host.value, _network(topology, hosts)
    crossing = _crossing(max(per_host // degree, 1), stages)
    return replace(links, chips_per_host=per_host, network_bytes_per_s=network, crossing=crossing)


def _network(topology: HostTopology, hosts: Hosts) -> float:
    """Bytes/s of one chip to other hosts, one way; a card reaches them, too, over its link to the root."""
    network: float = hosts.network_bandwidth.value_bytes_per_s
    return min(network, topology.link_bandwidth.value_bytes_per_s) if isinstance(topology, PcieTopology) else network


def _crossing(per_host: int, stages: int) -> float:
    """Share of the messages between one stage and the next that leave a host which holds ``per_host`` stages."""
    return (-(-stages // per_host) - 1) / (stages - 1) if stages > 1 else 0.0
