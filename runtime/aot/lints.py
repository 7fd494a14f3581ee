"""What is wrong with a compiled program: each finding fails the command that compiled it, with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from runtime.aot.known import Known
from simulator.units import human_bytes

Lint = Literal["all_reduces_per_layer", "collective_in_layer", "bytes_over_floor", "vector_matmul", "cache_copied"]

BYTES_OVER_FLOOR = 1.2
"""HBM bytes over those that must be read; writing back the cache and small arrays account for some 5 %."""
_SHOWN = 3


@dataclass(frozen=True)
class Expected:
    """What a program should come to."""

    layer_passes: int
    """Layers that run in one call: those of each model times its passes."""
    all_reduces: int
    """Of all of them. Of Megatron sharding (Shoeybi et al. 2019, arXiv 1909.08053, section 3) 2 a layer, of a parallel
    block 1, on one device 0."""
    bound_by_bytes: bool = True
    """False for a prefill, whose activations move more than its weights do."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    lint: Lint
    reason: str


def findings(known: Known, expected: Expected) -> list[Finding]:
    """All that is wrong with a program, empty where nothing is."""
    return [
        *_all_reduces(known, expected),
        *_other_collectives(known),
        *(_bytes(known) if expected.bound_by_bytes else ()),
        *_vector_products(known),
        *_copies(known),
    ]


def _all_reduces(known: Known, expected: Expected) -> Iterator[Finding]:
    found, layers = known.count("all-reduce", "layer"), max(expected.layer_passes, 1)
    if found != expected.all_reduces:
        yield Finding(
            "all_reduces_per_layer",
            f"{found} all-reduces in {layers} layers, {found / layers:.4g} a layer; "
            f"{expected.all_reduces / layers:.4g} a layer are needed, {expected.all_reduces} in all",
        )


def _other_collectives(known: Known) -> Iterator[Finding]:
    others = [c for c in known.collectives if c.place == "layer" and c.kind != "all-reduce"]
    if others:
        words = ", ".join(f"{c.count} {c.kind} of {human_bytes(c.payload_bytes)}" for c in others[:_SHOWN])
        yield Finding("collective_in_layer", f"inside the layers stand {words}; all-reduces alone are needed")


def _bytes(known: Known) -> Iterator[Finding]:
    if known.bytes_over_floor > BYTES_OVER_FLOOR:
        most = ", ".join(f"{part} {human_bytes(moved.total)}" for part, moved in list(known.moved.items())[:_SHOWN])
        yield Finding(
            "bytes_over_floor",
            f"{human_bytes(known.hbm_bytes)} of HBM moved, {known.bytes_over_floor:.2f} times the "
            f"{human_bytes(known.floor_bytes)} of weights and cache; at most {BYTES_OVER_FLOOR:g} times is accepted; "
            f"most by {most}",
        )


def _vector_products(known: Known) -> Iterator[Finding]:
    found = known.vector_products
    if found:
        count = sum(product.count for product in found)
        parts = ", ".join(dict.fromkeys(product.part for product in found))
        largest = max(found, key=lambda product: product.argument_bytes)
        yield Finding(
            "vector_matmul",
            f"{count} matrix products are vector code ({parts}), the largest reads {largest.argument} of "
            f"{human_bytes(largest.argument_bytes)}; two rows or more, or no strength reduction of dots, keep them on "
            "the matrix units",
        )


def _copies(known: Known) -> Iterator[Finding]:
    copied = [copy for copy in known.cache_copies if copy.how == "copied"]
    if copied:
        total = sum(copy.payload_bytes * copy.count for copy in copied)
        yield Finding(
            "cache_copied",
            f"the cache is copied {sum(copy.count for copy in copied)} times, {human_bytes(total)} in all; it can be "
            "updated where it lies",
        )
    if known.undonated:
        named = ", ".join(known.undonated[:_SHOWN])
        yield Finding("cache_copied", f"{len(known.undonated)} parts of the cache are not updated in place: {named}")
