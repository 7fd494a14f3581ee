"""Which argument of a program a value is, however often it was copied, prefetched, cut or laid out anew."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.aot.hlo import Computation, Module, Operation
from runtime.aot.loops import body
from runtime.aot.transfers import JOINED, is_transfer

Leaves = tuple[str, ...]
"""Of each array of a value the argument that it is; empty where it was computed."""

_SAME = frozenset(
    {
        "bitcast",
        "copy",
        "copy-start",
        "copy-done",
        "slice-start",
        "slice-done",
        "async-done",
        "reshape",
        "transpose",
        "convert",
        "slice",
        "dynamic-slice",
        "dynamic-update-slice",
        "gather",
        "reverse",
        "pad",
        "bitcast-convert",
        "optimization-barrier",
    }
)
"""Operations whose result is their first operand, moved, cut, updated in places or in another type."""


def origins(module: Module) -> dict[str, str]:
    """By the name of an operation of any computation: the name of the entry's argument that its result is.

    Arguments are named as they were when the program was traced (``op_name`` of a parameter). What a loop carries is
    what it started with, so an updated cache is the cache.
    """
    found: dict[str, Leaves] = {}
    entry = module.entry
    given: dict[int, Leaves] = {number: (op.op_name or op.name,) for number, op in entry.parameters().items()}
    _visit(module, entry, given, found)
    return {name: leaves[0] for name, leaves in found.items() if len(leaves) == 1 and leaves[0]}


def _visit(module: Module, computation: Computation, given: dict[int, Leaves], found: dict[str, Leaves]) -> Leaves:
    """Origins of a computation's root, those of all its operations being noted in ``found``."""
    for op in computation.operations:
        found[op.name] = _leaves(module, op, given, found)
    return found[computation.root.name]


def _leaves(module: Module, op: Operation, given: dict[int, Leaves], found: dict[str, Leaves]) -> Leaves:
    operands: Sequence[Leaves] = [found.get(name, ("",)) for name in op.operands]
    computed: Leaves = ("",) * len(op.shapes)
    match op.opcode:
        case "parameter":
            return given.get(int(op.inside), computed)
        case "tuple":
            return tuple(leaf for leaves in operands for leaf in leaves)
        case "get-tuple-element":
            place = op.element or 0
            return operands[0][place : place + 1] or computed
        case "async-start" if is_transfer(module, op):
            return operands[0][:1]
        case "while":
            _visit(module, body(module, op), {0: operands[0]}, found)
            return operands[0]
        case "fusion" | "call":
            inner = module.computations[op.called[0]]
            return _visit(module, inner, dict(enumerate(operands)), found)
        case "custom-call" if JOINED in op.attributes:
            return operands[0][:1]
        case opcode if opcode in _SAME and operands:
            return operands[0][:1]
    return computed
