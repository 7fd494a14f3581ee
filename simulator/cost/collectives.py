"""Time of collectives over X chips, as a latency and a bandwidth term.

Payload n bytes on every chip, hop latency h, fixed time b0, link bandwidth b (one link, one way):

- ring all-reduce: ``b0 + 2(X-1) h + 2 (X-1)/X n / b`` (Thakur, Rabenseifner, Gropp 2005, section 4.4); both ways
  round the ring carry half each, so b is twice a link's, except between two chips and through a switch;
- torus: one ring an axis, one after the other, a part of the payload on every axis at a time; an axis that does not
  close to a ring has one way only;
- one-shot: ``b0 + h + (X-1) n / b``, everyone sends everything to everyone;
- two-shot: ``b0 + 2 h + 2 (X-1)/X n / b``, everyone adds up one part and sends it to everyone, through a switch;
- tree: ``b0 + 2 log2(X) h + 2 n / b``, up and down two trees that each carry half of the payload (Sanders, Speck and
  Traeff 2009), pipelined;
- in-switch: ``b0 + 2 h + n / b``, the switch adds up what every chip sends once and sends the sum back meanwhile
  (Klenk et al. 2020);
- table: measured, interpolated in the logarithm of the payload.

Libraries change the algorithm with the payload: `larger` names from where on which one holds. vLLM's own all-reduce,
for example, is one-shot below 512 KiB on up to 4 GPUs and below 256 KiB on 8, two-shot from there on, and leaves 8 MiB
and more to NCCL (csrc/custom_all_reduce.cuh and distributed/device_communicators/custom_all_reduce.py).

An all-gather and a reduce-scatter have half the two terms of a ring all-reduce of the same size (Thakur et al.); where
the all-reduce is not a ring, that ring's all-gather is still how it is done, except one-shot: ``b0 + h + (X-1)/X n/b``.
An all-to-all of n bytes that each chip spreads evenly crosses the middle of the longest axis; that half of the links
binds: ``n k / (8 b)`` for a ring of k chips both ways, twice that for a line, ``(X-1)/X n / b`` through a switch, with
``b0`` and the hops to the farthest chip. A message between two chips takes ``b0 + h + n / b``.

Over H hosts of g chips, each chip with its share r of the network and a message there taking a, an all-reduce is a
reduce-scatter in every host, an all-reduce of the g-th part among the chips with the same place in their hosts, and an
all-gather in every host (Cho et al. 2019, BlueConnect; Jia et al. 2018, arXiv 1807.11205):
``2 t(all-gather of n over g) + 2(H-1) a + 2 (H-1)/H (n/g) / r``; an all-gather has half of it. Of an all-to-all the
H-th part stays in the host, while the rest goes over the network at once: the slower of both. A table is of all chips
on which it was measured, network included.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.cost.shape import Array, Number
from simulator.spec.hardware import AllReduceCost, MessageCost


@dataclass(frozen=True)
class Links:
    """What connects the chips of one model: a link's one-way bandwidth, and the axes of the slice."""

    bandwidth_bytes_per_s: float
    axes: tuple[int, ...] = ()
    wraps: tuple[bool, ...] = ()
    both_ways: bool = True
    """Whether a ring has links in both directions, so that each carries half (a torus; not a port to a switch)."""
    pair_bytes_per_s: float | None = None
    """Bandwidth between two chips, where that is less than all links of one together (a full mesh)."""
    chips_per_host: int | None = None
    """Chips that these links reach; beyond, there is the network. All, where absent."""
    network_bytes_per_s: float = 0.0
    """One chip's share of the network between hosts, one way."""
    crossing: float = 0.0
    """Share of the messages between two chips that go over the network."""


@dataclass(frozen=True)
class CollectiveTime:
    """Seconds, in two terms."""

    latency_s: Array
    bandwidth_s: Array

    @property
    def seconds(self) -> Array:
        """The sum of both."""
        return np.asarray(self.latency_s + self.bandwidth_s)


Time = Callable[[AllReduceCost, Links, Number, Number], CollectiveTime]


def collective_time(
    kind: str,
    cost: AllReduceCost | None,
    links: Links,
    payload_bytes: Number,
    chips: Number,
    message: MessageCost | None = None,
    *,
    network: MessageCost | None = None,
) -> CollectiveTime:
    """One collective of ``kind``; nothing on one chip, a message between two chips apart.

    ``cost`` may be None where no all-reduce was measured, ``network`` where no message between hosts was: reading a
    scenario refuses that wherever one is needed.
    """
    if kind == "point_to_point":
        return message_time(message, cost, links, payload_bytes, network)
    if cost is None:
        return CollectiveTime(np.zeros(()), np.zeros(()))
    inside = _TIMES[kind](cost, links, payload_bytes, chips)
    if network is None or links.chips_per_host is None or cost.algorithm == "table":
        return inside
    spread = _ACROSS[kind](cost, network, links, payload_bytes, chips)
    many = np.asarray(chips) > links.chips_per_host
    return CollectiveTime(
        np.where(many, spread.latency_s, inside.latency_s), np.where(many, spread.bandwidth_s, inside.bandwidth_s)
    )


def _by_payload(time: Time) -> Time:
    """``time`` with every payload charged by the algorithm that holds for it."""

    def chosen(cost: AllReduceCost, links: Links, payload_bytes: Number, chips: Number) -> CollectiveTime:
        if not cost.larger:
            return time(cost, links, payload_bytes, chips)
        ranges = cost.by_payload()
        found = time(ranges[0][1], links, payload_bytes, chips)
        for start, larger in ranges[1:]:
            other, holds = time(larger, links, payload_bytes, chips), np.asarray(payload_bytes) >= start
            latency = np.where(holds, other.latency_s, found.latency_s)
            found = CollectiveTime(latency, np.where(holds, other.bandwidth_s, found.bandwidth_s))
        return found

    return functools.wraps(time)(chosen)


@_by_payload
def all_reduce_time(cost: AllReduceCost, links: Links, payload_bytes: Number, chips: Number) -> CollectiveTime:
    """One all-reduce of ``payload_bytes`` on each of ``chips`` chips; nothing on one chip."""
    payload = np.asarray(payload_bytes, dtype=np.float64)
    count = np.asarray(chips, dtype=np.float64)
    link, hop = links.bandwidth_bytes_per_s * cost.link_efficiency, cost.hop_latency_s
    if cost.algorithm == "table":
        latency, bandwidth = _table(cost, payload)
    elif cost.algorithm == "torus" and links.axes:
        latency, bandwidth = _torus(cost, links, payload, link)
    elif cost.algorithm == "one_shot":
        latency, bandwidth = cost.base_s + hop + 0 * count, (count - 1) * payload / link
    elif cost.algorithm == "two_shot":
        latency, bandwidth = cost.base_s + 2 * hop + 0 * count, 2 * (count - 1) / count * payload / link
    elif cost.algorithm == "tree":
        latency, bandwidth = cost.base_s + 2 * np.ceil(np.log2(np.maximum(count, 1))) * hop, 2 * payload / link
    elif cost.algorithm == "in_switch":
        latency, bandwidth = cost.base_s + 2 * hop + 0 * count, payload / link
    else:
        latency, bandwidth = _ring(cost, links, payload, count)
    return _only_many(count, latency, bandwidth)


@_by_payload
def all_gather_time(cost: AllReduceCost, links: Links, gathered_bytes: Number, chips: Number) -> CollectiveTime:
    """One all-gather whose result is ``gathered_bytes``: half of a ring all-reduce of that size."""
    count, payload = np.asarray(chips, dtype=np.float64), np.asarray(gathered_bytes, dtype=np.float64)
    if cost.algorithm == "one_shot":
        link = links.bandwidth_bytes_per_s * cost.link_efficiency
        return _only_many(count, cost.base_s + cost.hop_latency_s + 0 * count, (count - 1) / count * payload / link)
    if cost.algorithm in ("tree", "in_switch"):
        latency, bandwidth = _ring(cost, links, payload, count)
        whole = _only_many(count, latency, bandwidth)
    else:
        whole = all_reduce_time(cost, links, payload, chips)
    fixed = np.where(count > 1, cost.base_s, 0.0)
    return CollectiveTime((whole.latency_s - fixed) / 2 + fixed, whole.bandwidth_s / 2)


@_by_payload
def all_to_all_time(cost: AllReduceCost, links: Links, payload_bytes: Number, chips: Number) -> CollectiveTime:
    """One all-to-all of ``payload_bytes`` that each of ``chips`` chips spreads evenly over all."""
    payload, count = np.asarray(payload_bytes, dtype=np.float64), np.asarray(chips, dtype=np.float64)
    link = links.bandwidth_bytes_per_s * cost.link_efficiency
    if cost.algorithm == "table":
        # Nobody measured it: each chip sends what it would in an all-gather of the same bytes.
        return all_gather_time(cost, links, payload, chips)
    if not links.both_ways:
        return _only_many(count, cost.base_s + cost.hop_latency_s + 0 * count, (count - 1) / count * payload / link)
    # Without known axes the chips form one ring; two chips have one link.
    known: list[tuple[Number, Number]] = list(zip(links.axes, links.wraps, strict=True))
    axes = known or [(count, count > 2)]
    hops = sum(np.where(wrap, np.floor(np.asarray(n) / 2), np.asarray(n) - 1) for n, wrap in axes)
    crossing = [payload * n / (np.where(wrap, 8, 4) * link) for n, wrap in axes]
    return _only_many(count, cost.base_s + hops * cost.hop_latency_s, np.max(np.broadcast_arrays(*crossing), axis=0))


def message_time(
    cost: MessageCost | None,
    all_reduce: AllReduceCost | None,
    links: Links,
    payload_bytes: Number,
    network: MessageCost | None = None,
) -> CollectiveTime:
    """One message between two chips, over the network as often as the links say; the mean of several.

    It goes by the all-reduce's hop where no message was measured. Of a measured table the first row stands for the
    latency: an all-reduce is there and back, so this is an upper end.
    """
    payload = np.asarray(payload_bytes, dtype=np.float64)
    if cost is not None:
        latency, efficiency = cost.base_s, cost.link_efficiency
    elif all_reduce is None:
        latency, efficiency = 0.0, 1.0
    elif all_reduce.algorithm == "table":
        latency, efficiency = all_reduce.table[0].time_s, 1.0
    else:
        latency, efficiency = all_reduce.base_s + all_reduce.hop_latency_s, all_reduce.link_efficiency
    wire = payload / ((links.pair_bytes_per_s or links.bandwidth_bytes_per_s) * efficiency)
    if network is not None and links.crossing:
        away = payload / (links.network_bytes_per_s * network.link_efficiency)
        latency += links.crossing * (network.base_s - latency)
        wire = (1 - links.crossing) * wire + links.crossing * away
    return CollectiveTime(np.asarray(latency + 0 * payload), wire)


def all_reduce_across(
    cost: AllReduceCost, network: MessageCost, links: Links, payload_bytes: Number, chips: Number
) -> CollectiveTime:
    """One all-reduce over the hosts of ``chips`` chips: there and back of an all-gather."""
    half = all_gather_across(cost, network, links, payload_bytes, chips)
    return CollectiveTime(2 * half.latency_s, 2 * half.bandwidth_s)


def all_gather_across(
    cost: AllReduceCost, network: MessageCost, links: Links, gathered_bytes: Number, chips: Number
) -> CollectiveTime:
    """One all-gather over hosts: among the chips with the same place in their hosts, then in every host."""
    payload = np.asarray(gathered_bytes, dtype=np.float64)
    local, hosts, per_s = _spread(network, links, chips)
    inside = all_gather_time(cost, links, payload, local)
    latency = inside.latency_s + (hosts - 1) * network.base_s
    return CollectiveTime(latency, inside.bandwidth_s + (hosts - 1) / hosts * payload / local / per_s)


def all_to_all_across(
    cost: AllReduceCost, network: MessageCost, links: Links, payload_bytes: Number, chips: Number
) -> CollectiveTime:
    """One all-to-all over hosts: what stays in a host and what leaves it travel at the same time."""
    payload = np.asarray(payload_bytes, dtype=np.float64)
    local, hosts, per_s = _spread(network, links, chips)
    inside = all_to_all_time(cost, links, payload / hosts, local)
    away = np.asarray((hosts - 1) / hosts * payload / per_s)
    return CollectiveTime(np.maximum(inside.latency_s, network.base_s), np.maximum(inside.bandwidth_s, away))


_TIMES: dict[str, Time] = {
    "all_reduce": all_reduce_time,
    "all_gather": all_gather_time,
    "reduce_scatter": all_gather_time,  # the same messages the other way round
    "all_to_all": all_to_all_time,
}
_ACROSS: dict[str, Callable[[AllReduceCost, MessageCost, Links, Number, Number], CollectiveTime]] = {
    "all_reduce": all_reduce_across,
    "all_gather": all_gather_across,
    "reduce_scatter": all_gather_across,
    "all_to_all": all_to_all_across,
}


def _spread(network: MessageCost, links: Links, chips: Number) -> tuple[Array, Array, float]:
    """Chips in a host, hosts, and the bytes/s at which a chip reaches the network."""
    count = np.asarray(chips, dtype=np.float64)
    local = np.minimum(count, float(links.chips_per_host or 1))
    return local, count / local, links.network_bytes_per_s * network.link_efficiency


def _only_many(count: Array, latency: Number, bandwidth: Number) -> CollectiveTime:
    return CollectiveTime(np.where(count > 1, latency, 0.0), np.where(count > 1, bandwidth, 0.0))


def _ring(cost: AllReduceCost, links: Links, payload: Array, count: Array) -> tuple[Array, Array]:
    # Two chips have one link between them: there is no second way round.
    ways = np.where(links.both_ways & (count > 2), 2.0, 1.0)
    link = links.bandwidth_bytes_per_s * cost.link_efficiency
    latency = cost.base_s + 2 * (count - 1) * cost.hop_latency_s
    return np.asarray(latency), np.asarray(2 * (count - 1) / count * payload / (ways * link))


def _table(cost: AllReduceCost, payload: Array) -> tuple[Array, Array]:
    sizes = np.log([point.payload_bytes for point in cost.table])
    times = np.array([point.time_s for point in cost.table])
    latency = times[0]
    # Past the last row the time grows with the payload, as bandwidth does.
    beyond = np.maximum(payload / cost.table[-1].payload_bytes, 1.0)
    total = np.interp(np.log(np.maximum(payload, 1.0)), sizes, times) * beyond
    return np.minimum(latency, total), np.maximum(total - latency, 0.0)


def _torus(cost: AllReduceCost, links: Links, payload: Array, link: float) -> tuple[Array, Array]:
    """Reduce-scatter along every axis, then all-gather back.

    The payload is cut into as many parts as there are axes; each part starts at another axis and goes round them, so
    that all axes carry at the same time, and a phase lasts as long as its slowest axis. The better way round is taken.
    """
    active = [(n, wrap) for n, wrap in zip(links.axes, links.wraps, strict=True) if n > 1]
    latency = cost.base_s + sum(2 * (n - 1) * cost.hop_latency_s for n, _ in active) + 0 * payload
    ways = [_rotated(order, payload, link) for order in (active, active[::-1])]
    return np.asarray(latency), np.minimum(*ways)


def _rotated(axes: list[tuple[int, bool]], payload: Array, link: float) -> Array:
    total, count = np.zeros_like(payload), len(axes)
    for phase in range(count):
        times = []
        for part in range(count):
            passed = [axes[(part + step) % count][0] for step in range(phase)]
            n, wrap = axes[(part + phase) % count]
            carried = payload / count / np.prod(passed, initial=1.0)
            times.append(2 * (n - 1) / n * carried / (link * (2 if wrap else 1)))
        total = total + np.max(times, axis=0)
    return total
