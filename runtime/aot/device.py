"""What a slice's devices are, in the numbers that reading a program needs: from the profile and from the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.aot.assumed import DERIVED_FROM, Links, Override, Prices, compiler_bytes_per_s, prices
from runtime.aot.topologies import GENERATIONS, Generation, Topology
from simulator.errors import RefusedError
from simulator.spec.hardware import HardwareProfile
from simulator.spec.named import find_all
from simulator.spec.topology import TorusTopology


@dataclass(frozen=True)
class Device:
    """One device of a slice: a chip, or where the compiler makes several of it, its even part."""

    topology: Topology
    profile: str
    """Name of the hardware profile whose peaks these are."""
    hbm_bytes_per_s: float
    """Of the datasheet."""
    compiler_bytes_per_s: float | None
    """At which the compiler itself has operations stream; None where the table has none."""
    hbm_usable_bytes: float
    """What of its HBM a program may use."""
    matmul_flop_per_s: Mapping[str, float]
    """Of the datasheet, by type."""
    links: Links

    @property
    def clock_per_s(self) -> float | None:
        """Cycles per second; None where nobody knows."""
        return self.topology.generation.clock_hz

    def compute_bound_rows(self, dtype: str, weight_bytes: float) -> float | None:
        """Rows from which a product is bound by the matrix units, not by reading its weights from HBM.

        At R rows a weight takes 2 R FLOP and its bytes once (Williams et al. 2009). None without a peak for the type.
        """
        peak = self.matmul_flop_per_s.get(dtype)
        return peak * weight_bytes / (2 * self.hbm_bytes_per_s) if peak is not None else None

    def prices(self, override: Override | None = None) -> Prices:
        """What collectives over the whole slice are assumed to take."""
        generation = self.topology.generation
        source = DERIVED_FROM.get(generation.name)
        return prices(
            generation.name,
            self.topology.lengths,
            self.topology.devices,
            self.links,
            {each.name: each.clock_hz for each in GENERATIONS if each.clock_hz is not None},
            device_of(Topology(_named(source), self.topology.lengths)).links if source is not None else None,
            override,
        )


def device_of(topology: Topology, own: HardwareProfile | None = None) -> Device:
    """A device of ``topology``; ``own`` is a scenario's profile, which counts where it is the generation's.

    Raises:
        RefusedError: the profile's chips are no torus.
    """
    generation = topology.generation
    profile = own if own is not None and own.name == generation.profile else _profile(generation)
    if not isinstance(profile.topology, TorusTopology):
        raise RefusedError(f"hardware {profile.name}: a torus is needed, not a {profile.topology.kind}")
    share, clock = generation.devices_per_chip, generation.clock_hz
    link = profile.topology.link_bandwidth.value_bytes_per_s
    return Device(
        topology,
        profile.name,
        profile.peaks.hbm_bandwidth.value_bytes_per_s / share,
        compiler_bytes_per_s(generation.name, clock) if clock is not None else None,
        (profile.peaks.hbm_usable or profile.peaks.hbm_capacity).value_bytes / share,
        {dtype: peak.value_flop_per_s / share for dtype, peak in profile.peaks.matmul.items()},
        Links(2 * profile.topology.axes, link),
    )


def _profile(generation: Generation) -> HardwareProfile:
    (found,) = find_all([("--topology", generation.profile, "hardware profile")], Path())
    profile: HardwareProfile = found.spec
    return profile


def _named(name: str) -> Generation:
    return next(each for each in GENERATIONS if each.name == name)
