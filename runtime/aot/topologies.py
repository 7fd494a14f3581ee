"""Slices of TPUs for which the compiler can compile, named as ``v4:2x2x4``.

The datasheet of each generation is its hardware profile. Here stands what the compiler wants to know besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from simulator.errors import RefusedError
from simulator.spec.scenario import Deployment
from simulator.spec.topology import parse_slice


@dataclass(frozen=True)
class Generation:
    """One kind of TPU."""

    name: str
    """As the compiler calls it, before the colon."""
    profile: str
    """The hardware profile with its datasheet."""
    axes: int
    """Dimensions of its torus."""
    most_chips: int
    """Of the largest slice, from the same pages as the profile's ``max_chips``."""
    chip_config: str | None
    """``megacore`` joins the two cores of a chip to one device; None where a chip is what the compiler makes it."""
    devices_per_chip: int
    """What the compiler's topology has of devices a chip, counted in libtpu 0.0.52."""
    clock_hz: float | None
    """Cycles a second; None where no source gives it and none can be derived."""
    clock_source: str


_DERIVED = "derived: its bfloat16 peak over 2 x 128 x 128 a cycle of each of its"
GENERATIONS = (
    Generation("v4", "tpu_v4", 3, 4096, "megacore", 1, 1.05e9, "Jouppi et al. 2023 (arXiv 2304.01433), table 4"),
    Generation("v5e", "tpu_v5e", 2, 256, None, 1, 1.5e9, f"{_DERIVED} 4 matrix units"),
    Generation("v5p", "tpu_v5p", 3, 8960, "megacore", 1, 1.75e9, f"{_DERIVED} 8 matrix units"),
    Generation("v6e", "tpu_v6e", 2, 256, None, 1, 1.75e9, f"{_DERIVED} 16 units' worth (4 of 256 x 256, assumed)"),
    Generation("tpu7x", "tpu_v7x", 3, 9216, None, 2, None, "not published"),
)
ALIASES = {"7x": "tpu7x", "v7x": "tpu7x"}


@dataclass(frozen=True)
class Topology:
    """A slice of one generation."""

    generation: Generation
    lengths: tuple[int, ...]
    """Chips along each axis."""

    @property
    def name(self) -> str:
        """As the compiler reads it."""
        return f"{self.generation.name}:{'x'.join(map(str, self.lengths))}"

    @property
    def chips(self) -> int:
        """X."""
        return math.prod(self.lengths)

    @property
    def devices(self) -> int:
        """Over as many a program is sharded; on TPU7x two are a chip."""
        return self.chips * self.generation.devices_per_chip


def topology(name: str) -> Topology:
    """The slice of that name.

    Raises:
        RefusedError: no such generation, or not as many axes or chips as it can have; with what is accepted. Which of
            the rest there really is only the compiler knows.
    """
    kind, _, shape = name.strip().lower().partition(":")
    generation = next((each for each in GENERATIONS if each.name == ALIASES.get(kind, kind)), None)
    if generation is None:
        raise RefusedError(f"topology {name!r}: no generation of that name\n    accepts  {_examples()}")
    parts = shape.split("x")
    lengths = tuple(int(part) for part in parts if part.isdecimal() and len(part) < 6)
    if len(lengths) != len(parts) or len(lengths) != generation.axes or min(lengths, default=0) < 1:
        wanted = f"{generation.axes} lengths of at least 1, such as {_example(generation)}"
        words = f"{generation.name} is a torus of {generation.axes} axes"
        raise RefusedError(f"topology {name!r}: {words}\n    accepts  {wanted}")
    found = Topology(generation, lengths)
    if found.chips > generation.most_chips:
        most = f"at most {generation.most_chips:,} chips"
        raise RefusedError(f"topology {name!r} has {found.chips:,} chips\n    accepts  {most}")
    return found


def topology_of(deployment: Deployment) -> Topology:
    """The slice of a scenario's target and draft.

    Raises:
        RefusedError: hardware that is no TPU, or a number of chips that is no power of two and no slice is given.
    """
    profile, chips = deployment.hardware.name, deployment.target_chips
    generation = next((each for each in GENERATIONS if each.profile == profile), None)
    if generation is None:
        known = ", ".join(each.profile for each in GENERATIONS)
        raise RefusedError(
            f"hardware {profile}: the TPU compiler compiles for TPUs alone\n"
            f"    accepts  {known}; or --topology, {_examples()}"
        )
    if deployment.slice is not None:
        lengths = parse_slice(deployment.slice)
        return topology(f"{generation.name}:{'x'.join(map(str, lengths + (1,) * (generation.axes - len(lengths))))}")
    if chips & (chips - 1):
        accepts = f"deployment.slice, or --topology, such as {_example(generation)}"
        raise RefusedError(f"no slice is known for {chips} chips, which are no power of two\n    accepts  {accepts}")
    return topology(f"{generation.name}:{'x'.join(map(str, evenly(chips, generation.axes)))}")


def evenly(chips: int, axes: int) -> tuple[int, ...]:
    """A power of two, spread over axes as Google Cloud's slices are: 1x1x1, 1x1x2, 2x2x1, 2x2x2, 2x2x4, 2x4x4, ..."""
    if axes == 3 and chips == 4:
        return (2, 2, 1)
    lengths = [1] * axes
    for step in range(chips.bit_length() - 1):
        lengths[axes - 1 - step % axes] *= 2
    return tuple(lengths)


def _example(generation: Generation) -> str:
    return f"{generation.name}:{'x'.join(map(str, evenly(16, generation.axes)))}"


def _examples() -> str:
    return ", ".join(f"{_example(each)} ({each.axes} axes)" for each in GENERATIONS)
