"""Bytes of HBM that an operation of the schedule reads and writes.

Counted from shapes, layouts and memory spaces, padding included, as XLA's HloCostAnalysis does: an array that is only
sliced counts for the slice, an update in place for what it writes. What lies in on-chip memory is free. XLA's own
``bytes accessed`` takes bodies of loops once and does not tell memories apart, so it is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.aot.hlo import Computation, Module, Operation
from runtime.aot.hlo_shapes import Shape
from runtime.aot.transfers import JOINED, is_transfer

# Names of values, control, and the ends of transfers that their starts account for.
_FREE = frozenset(
    {
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "while",
        "call",
        "conditional",
        "after-all",
        "partition-id",
        "replica-id",
        "copy-done",
        "slice-done",
        "async-done",
        "async-update",
        "all-reduce-done",
        "all-gather-done",
        "collective-permute-done",
        "optimization-barrier",
        "add-dependency",
        "iota",
        "domain",
    }
)
_CUT = frozenset({"slice", "dynamic-slice", "gather"})
_VIEWS = frozenset({"bitcast", "reshape"})


@dataclass(frozen=True)
class Traffic:
    """What one execution moves."""

    reads: tuple[tuple[str, int], ...] = ()
    """Name of the operand and bytes, of operands in HBM."""
    written: int = 0

    @property
    def read(self) -> int:
        """Bytes read."""
        return sum(count for _, count in self.reads)

    @property
    def total(self) -> int:
        """Bytes read and written."""
        return self.read + self.written


def traffic(module: Module, op: Operation) -> Traffic:
    """HBM bytes of one execution of a scheduled operation, the bodies of loops apart."""
    if op.opcode in _FREE or (op.opcode == "custom-call" and JOINED in op.attributes):
        return Traffic()
    if is_transfer(module, op):
        return _transfer(op)
    operands = list(module.operand_shapes(op))
    if op.opcode == "fusion":
        inner = module.computations[op.called[0]]
        places = {name: place for place, name in enumerate(op.operands)}
        reads = tuple(
            (name, min(shape.padded_bytes, _used(module, inner, places[name], shape)))
            for name, shape in operands
            if shape.in_hbm
        )
        return Traffic(reads, _written(module, op, inner))
    if op.opcode == "dynamic-update-slice":
        name, update = operands[1]
        count = update.padded_bytes
        return Traffic(((name, count),) if update.in_hbm else (), count if op.shape.in_hbm else 0)
    sliced = op.opcode in _CUT
    reads = tuple(
        (name, op.shape.padded_bytes if sliced and name == op.operands[0] else shape.padded_bytes)
        for name, shape in operands
        if shape.in_hbm
    )
    return Traffic(reads, sum(shape.padded_bytes for shape in op.shapes if shape.in_hbm))


def _transfer(op: Operation) -> Traffic:
    """Of ``copy-start`` the first array is the destination, of the others the last."""
    arrays = [shape for shape in op.shapes if shape.dims]
    source, destination = (arrays[1], arrays[0]) if op.opcode == "copy-start" else (arrays[0], arrays[-1])
    count = destination.padded_bytes
    return Traffic(((op.operands[0], count),) if source.in_hbm else (), count if destination.in_hbm else 0)


def _used(module: Module, computation: Computation, place: int, whole: Shape) -> int:
    """Bytes of a fused computation's parameter that it looks at; all of them where a result is the parameter."""
    looked, escapes = _looked_at(module, computation, computation.parameters()[place].name, whole)
    return whole.padded_bytes if escapes else looked


def _looked_at(module: Module, computation: Computation, name: str, whole: Shape) -> tuple[int, bool]:
    """Bytes that users of a value look at, and whether it is the computation's result."""
    total, escapes = 0, computation.root.name == name
    for user in computation.operations:
        for place, operand in enumerate(user.operands):
            if operand != name:
                continue
            looked, passed = _by_user(module, user, place, whole)
            total += looked
            if passed:
                more, out = _looked_at(module, computation, user.name, whole)
                total, escapes = total + more, escapes or out
    return total, escapes


def _by_user(module: Module, user: Operation, place: int, whole: Shape) -> tuple[int, bool]:
    """Bytes that one user looks at itself, and whether its result is the value still."""
    if user.opcode in _VIEWS:
        return 0, True
    if user.opcode in _CUT and place == 0:
        return user.shape.padded_bytes, False
    if user.opcode == "dynamic-update-slice" and place == 0:
        return 0, False
    if user.opcode == "fusion":
        inner = module.computations[user.called[0]]
        return _looked_at(module, inner, inner.parameters()[place].name, whole)
    return whole.padded_bytes, False


def _written(module: Module, op: Operation, inner: Computation) -> int:
    """Bytes that a fusion's results write to HBM; of an update in place only the update."""
    roots = inner.root.operands if inner.root.opcode == "tuple" else (inner.root.name,)
    total = 0
    for name, shape in zip(roots, op.shapes, strict=False):
        if shape.in_hbm:
            update = update_of(module, module.operations[name])
            total += min(shape.padded_bytes, update.padded_bytes) if update is not None else shape.padded_bytes
    return total


def update_of(module: Module, op: Operation) -> Shape | None:
    """What a value updates in place, if that is how it is made."""
    while op.opcode in _VIEWS:
        op = module.operations[op.operands[0]]
    if op.opcode == "fusion":
        return update_of(module, module.computations[op.called[0]].root)
    return module.operations[op.operands[1]].shape if op.opcode == "dynamic-update-slice" else None
