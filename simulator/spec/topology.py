"""How chips are connected: a torus, a switch, a full mesh, the tree below a host, and hosts over a network."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from simulator.spec.fields import Source, Strict
from simulator.spec.sourced import SourcedBandwidth, SourcedCount


class Hosts(Strict):
    """Servers that a network joins, each with chips that are connected among themselves."""

    chips_per_host: SourcedCount
    """Chips of one host; on more than these a model uses the network."""
    network_bandwidth: SourcedBandwidth
    """One chip's share of its host's network, one way."""


class TorusTopology(Strict):
    """Chips on a grid whose axes may close to rings."""

    kind: Literal["torus"]
    axes: Annotated[int, Field(ge=1, le=3)]
    """Dimensions of the grid."""
    link_bandwidth: SourcedBandwidth
    """One link, one way."""
    wrap_multiple: Annotated[int, Field(ge=2, le=1024)] | None = None
    """An axis closes to a ring when its length is a multiple of this; never, where absent."""
    wrap_cubes: bool = False
    """Whether axes close only where every one is such a multiple: the switches that close them join whole cubes."""
    wrap_source: Source | None = None
    """Where the rule of wrapping is printed."""
    max_chips: SourcedCount | None = None
    """Chips of a whole pod, which no slice exceeds."""
    max_axis: SourcedCount | None = None
    """The longest that an axis can be, where the grid is fixed."""

    def wraps(self, lengths: tuple[int, ...]) -> tuple[bool, ...]:
        """Whether each axis of a slice closes to a ring; two chips have one link, not two."""
        multiple = [self.wrap_multiple is not None and n % self.wrap_multiple == 0 for n in lengths]
        closed = all(multiple) or not self.wrap_cubes
        return tuple(closed and own and n > 2 for own, n in zip(multiple, lengths, strict=True))


class SwitchTopology(Strict):
    """Every chip of a host reaches every other through a switch."""

    kind: Literal["switch"]
    link_bandwidth: SourcedBandwidth
    """One chip to the switch, one way, all its links together."""
    hosts: Hosts | None = None
    """Hosts and their network; one switch joins all chips, where absent."""


class MeshTopology(Strict):
    """Every chip of a host has a link of its own to every other: fewer chips use fewer links each."""

    kind: Literal["mesh"]
    link_bandwidth: SourcedBandwidth
    """The link between two chips, one way."""
    hosts: Hosts | None = None
    """Hosts and their network; every chip has a link to all others, where absent."""


class PcieTopology(Strict):
    """Cards below the root of their host, with no links among themselves.

    What two cards say to each other goes up one link and down another, through the root. Whether it rests in the
    host's memory in between (cards without peer-to-peer access) is latency, which a calibration knows.
    """

    kind: Literal["pcie"]
    link_bandwidth: SourcedBandwidth
    """One card to the root, one way."""
    root_bandwidth: SourcedBandwidth | None = None
    """What the cards of a host together can send each other through the root, one way; that of their links, where
    absent."""
    hosts: Hosts | None = None
    """Hosts and their network; one root joins all cards, where absent."""


class SharedMemoryTopology(Strict):
    """Devices of one host that share its memory bus and cores (virtual CPU devices)."""

    kind: Literal["shared_memory"]


HostTopology = SwitchTopology | MeshTopology | PcieTopology
Topology = Annotated[TorusTopology | HostTopology | SharedMemoryTopology, Field(discriminator="kind")]


def hosts_of(topology: Topology) -> Hosts | None:
    """The hosts over which a model may be spread; None where the links reach every chip."""
    return topology.hosts if isinstance(topology, HostTopology) else None


def parse_slice(text: str) -> tuple[int, ...]:
    """``'2x2x4'`` -> ``(2, 2, 4)``."""
    return tuple(int(part) for part in text.split("x"))


def slice_chips(text: str) -> int:
    """``'2x2x4'`` -> 16."""
    return math.prod(parse_slice(text))
