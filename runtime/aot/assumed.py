"""What is assumed of a compiled program because no compiler says it: the price of a collective.

The TPU compiler estimates no time of a collective in a program of ours. ``collective_prices.csv`` holds the cycles
that its static profile gives to programs that are nothing but one collective, for v5p, v5e and v6e;
``docs/tpu/collectives.py`` wrote it. Nobody checked these on a device, and they are rough: between neighbouring sizes
they jump, and large gathers come out faster than the links. So no price is below what the datasheet's links allow.

For a v4 there is no profile. Its prices are a v5p's of the same slice, whose torus and number of links are the same:
the time of the smallest payload, and of larger ones as much more as its links are slower. Any price can be overridden.
"""

from __future__ import annotations

import csv
import functools
import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("collective_prices.csv")
DERIVED_FROM = {"v4": "v5p"}
"""Generations without a profile, and the one of the same torus that has one."""

_SAME_AS = {"reduce-scatter": "all-gather"}
"""The mirror image of another takes as long."""
_WIRE = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0}
"""Times the payload that each device sends, but for its own part (Thakur et al. 2005, sections 4.1 and 4.5)."""


@dataclass(frozen=True)
class Links:
    """The links of a chip, from its datasheet."""

    count: int
    bytes_per_s: float
    """Of one link, one way."""


@dataclass(frozen=True)
class Override:
    """A price that the user names: ``latency_s`` and the wire bytes at ``bytes_per_s``."""

    latency_s: float
    bytes_per_s: float = math.inf


@dataclass(frozen=True)
class Prices:
    """What collectives of one slice take."""

    source: str
    """In words for people."""
    devices: int
    points: dict[str, tuple[tuple[int, float], ...]]
    """By kind: bytes of the result and seconds, ascending."""
    links: Links
    override: Override | None = None

    def seconds(self, kind: str, payload_bytes: int, group: int) -> float | None:
        """What one collective takes; None where nobody knows."""
        wire = _WIRE.get(kind)
        if group <= 1:
            return 0.0
        if wire is None:
            return None
        sent = wire * payload_bytes * (group - 1) / group
        if self.override is not None:
            return self.override.latency_s + sent / self.override.bytes_per_s
        points = self._points(kind)
        if group != self.devices or points is None:
            return None
        return max(_interpolated(points, payload_bytes), sent / (self.links.count * self.links.bytes_per_s))

    def _points(self, kind: str) -> tuple[tuple[int, float], ...] | None:
        kind = _SAME_AS.get(kind, kind)
        if kind in self.points:
            return self.points[kind]
        # An all-reduce is a reduce-scatter and an all-gather.
        halves = self.points.get("all-reduce") if kind == "all-gather" else None
        return tuple((size, seconds / 2) for size, seconds in halves) if halves else None


def prices(  # noqa: PLR0917
    generation: str,
    lengths: tuple[int, ...],
    devices: int,
    links: Links,
    clocks: dict[str, float],
    links_of_source: Links | None = None,
    override: Override | None = None,
) -> Prices:
    """The prices of one slice.

    Args:
        generation: as the compiler names it, such as ``v4``.
        lengths: chips along each axis.
        devices: of the whole slice.
        links: of the generation.
        clocks: cycles per second by generation; one that is missing has no prices.
        links_of_source: those of the generation that this one is derived from, if it is.
        override: what to take instead of the table.
    """
    if override is not None:
        rate = "" if math.isinf(override.bytes_per_s) else f", then {override.bytes_per_s / 1e9:g} GB/s"
        return Prices(f"given: {override.latency_s * 1e6:g} us{rate}", devices, {}, links, override)
    source = DERIVED_FROM.get(generation, generation)
    slice_name = "x".join(map(str, lengths))
    rows, clock = _rows().get((source, slice_name)), clocks.get(source)
    if rows is None or clock is None:
        return Prices(f"none: the table has no slice {slice_name} of a {source}", devices, {}, links)
    points = {kind: tuple((size, cycles / clock) for size, cycles in sorted(row)) for kind, row in rows.items()}
    words = f"static profile of libtpu 0.0.52 for a {source} of {slice_name}, at {clock / 1e9:g} GHz"
    if source != generation and links_of_source is not None:
        slower = links_of_source.count * links_of_source.bytes_per_s / (links.count * links.bytes_per_s)
        points = {kind: _slower(row, slower) for kind, row in points.items()}
        words += f"; what grows with the payload taken {slower:g} times, as the links of a {generation} are slower"
    return Prices(words, devices, points, links)


def compiler_bytes_per_s(generation: str, clock_per_s: float) -> float | None:
    """At which rate the compiler itself has operations stream from HBM; None for a generation not in the table.

    From the cycles of two products that differ in the size of their weights alone.
    """
    streams = [row for (kind, _), rows in _rows().items() if kind == generation for row in rows.get("stream", [])]
    if len(streams) < 2:
        return None
    (small, fewer), (large, more) = sorted(streams)[:: len(streams) - 1]
    return (large - small) / (more - fewer) * clock_per_s


def _slower(points: tuple[tuple[int, float], ...], times: float) -> tuple[tuple[int, float], ...]:
    latency_s = points[0][1]
    return tuple((size, latency_s + max(0.0, seconds - latency_s) * times) for size, seconds in points)


def _interpolated(points: tuple[tuple[int, float], ...], payload_bytes: int) -> float:
    """Straight lines between the points; in front of the first its time, behind the last in proportion."""
    sizes = [size for size, _ in points]
    place = bisect_left(sizes, payload_bytes)
    if place == 0:
        return points[0][1]
    if place == len(points):
        size, seconds = points[-1]
        return seconds * payload_bytes / size
    (low, below), (high, above) = points[place - 1 : place + 1]
    return below + (above - below) * (payload_bytes - low) / (high - low)


@functools.cache
def _rows() -> dict[tuple[str, str], dict[str, list[tuple[int, int]]]]:
    """By generation and slice, by kind: bytes and cycles."""
    found: dict[tuple[str, str], dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["generation"], row["slice"]][row["kind"]].append((int(row["payload_bytes"]), int(row["cycles"])))
    return found
