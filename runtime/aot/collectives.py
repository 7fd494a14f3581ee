"""Collectives of a compiled program: kind, place, payload, group and the algorithm that the compiler chose."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from runtime.aot.hlo import Module, Operation
from runtime.aot.loops import scheduled
from runtime.aot.parts import in_layer, part_of_operation

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
_EMITTER = re.compile(r'"emitter":"(\w+)"')
_STRATEGY = re.compile(r'"strategy":"(\w+)"')
_SIZES = re.compile(r"dim_sizes:([\d,]+)")
_GROUP = re.compile(r"\{\{([\d,]*)\}")
_IOTA = re.compile(r"replica_groups=\[\d+,(\d+)\]<=")


@dataclass(frozen=True)
class Collective:
    """Collectives of a program that do the same."""

    kind: str
    place: str
    """``layer``, or the part of the model around the layers: ``embedding``, ``head``, ``sampling``, ``other``."""
    payload_bytes: int
    """Of one: what each device holds when it is done, without padding."""
    group: int
    """Devices that take part in one."""
    algorithm: str
    """The compiler's names for it, with the sizes of the torus axes it uses; empty where it names none."""
    count: int
    """In one call of the program, trips of loops included."""


def collectives(module: Module, devices: int) -> list[Collective]:
    """Every collective that the schedule executes, alike ones together, in the order of their first.

    ``devices`` is the size of a group that names nobody, which means all.
    """
    found: Counter[tuple[str, str, int, int, str]] = Counter()
    for run in scheduled(module):
        op = collective_of(module, run.operation)
        if op is not None:
            place = "layer" if in_layer(module, op) else part_of_operation(module, op)
            key = (kind_of(op), place, payload_bytes(op), group_size(op, devices), _algorithm(op))
            found[key] += run.times
    return [Collective(*key, count=count) for key, count in found.items()]


def collective_of(module: Module, op: Operation) -> Operation | None:
    """The collective that a scheduled operation is, starts, or is fused with."""
    if kind_of(op):
        return op
    # A TPU7x hands some over to another core: a custom call, started beside the rest, holds the collective.
    if op.opcode in ("fusion", "async-start", "custom-call"):
        inner = (part for name in op.called for part in module.computations[name].operations)
        return next((found for part in inner if (found := collective_of(module, part)) is not None), None)
    return None


def kind_of(op: Operation) -> str:
    """Which collective an operation is or starts; empty where none."""
    kind = op.opcode.removesuffix("-start")
    return kind if kind in KINDS else ""


def payload_bytes(op: Operation) -> int:
    """Bytes of a collective's result on one device."""
    arrays = [shape for shape in op.shapes if shape.dims]
    if op.opcode in ("all-gather-start", "collective-permute-start"):
        # The start's result holds the operands beside the results.
        arrays = arrays[len(op.operands) :]
    return sum(shape.bytes for shape in arrays)


def group_size(op: Operation, devices: int) -> int:
    """Devices of one group."""
    if iota := _IOTA.search(op.attributes):
        return int(iota[1])
    groups = _GROUP.search(op.attribute("replica_groups"))
    if groups and groups[1]:
        return groups[1].count(",") + 1
    pairs = op.attribute("source_target_pairs")
    return len(set(re.findall(r"\d+", pairs))) if pairs else devices


def _algorithm(op: Operation) -> str:
    words = [found[1] for pattern in (_EMITTER, _STRATEGY) if (found := pattern.search(op.attributes))]
    sizes = _SIZES.search(op.attributes)
    return " ".join([*words, *([sizes[1].replace(",", "x")] if sizes else [])])
