"""Time of collectives over X chips, as a latency and a bandwidth term.

Payload n bytes on every chip, hop latency h, fixed time b0, link bandwidth b (one link, one way):

- ring all-reduce: ``b0 + 2(X-1) h + 2 (X-1)/X n / b`` (Thakur, Rabenseifner, Gropp 2005, section 4.4); both ways
  round the ring carry half each, so b is twice a link's, except between two chips and through a switch;
- torus: one ring an axis, one after the other, each with 1/(axes) of the payload on every axis at a time; an axis that
  does not close to a ring has one way only;
- one-shot: ``b0 + h + (X-1) n / b``, everyone sends everything to everyone;
- table: measured, interpolated in the logarithm of the payload.

An all-gather has half the two terms of a ring all-reduce of the gathered size; one-shot, ``b0 + h + (X-1)/X n / b``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.cost.operations import Array, Number
from simulator.spec.hardware import AllReduceCost


@dataclass(frozen=True)
class Links:
    """What connects the chips of one model: a link's one-way bandwidth, and the axes of the slice."""

    bandwidth_bytes_per_s: float
    axes: tuple[int, ...] = ()
    wraps: tuple[bool, ...] = ()
    both_ways: bool = True
    """Whether a ring has links in both directions, so that each carries half (a torus; not a port to a switch)."""


@dataclass(frozen=True)
class CollectiveTime:
    """Seconds, in two terms."""

    latency_s: Array
    bandwidth_s: Array


def all_reduce_time(cost: AllReduceCost, links: Links, payload_bytes: Number, chips: Number) -> CollectiveTime:
    """One all-reduce of ``payload_bytes`` on each of ``chips`` chips; nothing on one chip."""
    payload = np.asarray(payload_bytes, dtype=np.float64)
    count = np.asarray(chips, dtype=np.float64)
    link = links.bandwidth_bytes_per_s * cost.link_efficiency
    if cost.algorithm == "table":
        latency, bandwidth = _table(cost, payload)
    elif cost.algorithm == "torus" and links.axes:
        latency, bandwidth = _torus(cost, links, payload, link)
    elif cost.algorithm == "one_shot":
        latency = cost.base_s + cost.hop_latency_s + 0 * count
        bandwidth = (count - 1) * payload / link
    else:
        latency = cost.base_s + 2 * (count - 1) * cost.hop_latency_s
        # Two chips have one link between them: there is no second way round.
        ways = np.where(links.both_ways & (count > 2), 2.0, 1.0)
        bandwidth = 2 * (count - 1) / count * payload / (ways * link)
    many = count > 1
    return CollectiveTime(np.where(many, latency, 0.0), np.where(many, bandwidth, 0.0))


def all_gather_time(cost: AllReduceCost, links: Links, gathered_bytes: Number, chips: Number) -> CollectiveTime:
    """One all-gather whose result is ``gathered_bytes``: half of a ring all-reduce of that size."""
    count = np.asarray(chips, dtype=np.float64)
    if cost.algorithm == "one_shot":
        link = links.bandwidth_bytes_per_s * cost.link_efficiency
        bandwidth = (count - 1) / count * np.asarray(gathered_bytes, dtype=np.float64) / link
        latency = np.where(count > 1, cost.base_s + cost.hop_latency_s, 0.0)
        return CollectiveTime(latency + 0 * bandwidth, bandwidth)
    whole = all_reduce_time(cost, links, gathered_bytes, chips)
    fixed = np.where(np.asarray(chips) > 1, cost.base_s, 0.0)
    return CollectiveTime((whole.latency_s - fixed) / 2 + fixed, whole.bandwidth_s / 2)


def _table(cost: AllReduceCost, payload: Array) -> tuple[Array, Array]:
    sizes = np.log([point.payload_bytes for point in cost.table])
    times = np.array([point.time_s for point in cost.table])
    latency = times[0]
    # Past the last row the time grows with the payload, as bandwidth does.
    beyond = np.maximum(payload / cost.table[-1].payload_bytes, 1.0)
    total = np.interp(np.log(np.maximum(payload, 1.0)), sizes, times) * beyond
    return np.minimum(latency, total), np.maximum(total - latency, 0.0)


def _torus(cost: AllReduceCost, links: Links, payload: Array, link: float) -> tuple[Array, Array]:
    """Reduce-scatter along every axis, then all-gather back; the axes carry different parts at the same time."""
    active = [(n, wrap) for n, wrap in zip(links.axes, links.wraps, strict=True) if n > 1]
    latency, slowest, carried = cost.base_s, np.zeros_like(payload), payload / max(len(active), 1)
    for n, wrap in active:
        latency = latency + 2 * (n - 1) * cost.hop_latency_s
        slowest = slowest + 2 * (n - 1) / n * carried / (link * (2 if wrap else 1))
        carried = carried / n
    return np.asarray(latency + 0 * payload), slowest
