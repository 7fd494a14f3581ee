"""Which operations of a scheduled program run, and how often: its loops and their trips.

``known_trip_count`` is absent from what the TPU compiler prints (libtpu 0.0.52), so trips are read off the loop: a
counter that starts at a constant, grows by a constant and is compared with a constant. Any other loop, such as one over
rounds until enough tokens are emitted, has no trips to read, and its body is taken once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from runtime.aot.hlo import Computation, Module, Operation

_KNOWN = re.compile(r'known_trip_count"?:\{"n":"(\d+)"')
_MOVES = ("bitcast", "copy", "reshape")


@dataclass(frozen=True)
class Run:
    """An operation of the schedule, executed ``times`` times in one call of the program."""

    operation: Operation
    times: int


def scheduled(module: Module) -> Iterator[Run]:
    """Every operation that the schedule executes, the bodies of loops included, in the order of the text.

    Of a conditional all branches are taken: an upper bound.
    """
    yield from _walk(module, module.entry, 1)


def _walk(module: Module, computation: Computation, times: int) -> Iterator[Run]:
    for op in computation.operations:
        yield Run(op, times)
        if op.opcode == "while":
            yield from _walk(module, body(module, op), times * (trips(module, op) or 1))
        elif op.opcode in ("call", "conditional"):
            for name in op.called:
                yield from _walk(module, module.computations[name], times)


def unknown_loops(module: Module) -> list[str]:
    """Names of the loops that run as often as the data says."""
    loops = (run.operation for run in scheduled(module) if run.operation.opcode == "while")
    return [loop.name for loop in loops if trips(module, loop) is None]


def body(module: Module, loop: Operation) -> Computation:
    """The body of a while."""
    return module.computations[loop.attribute("body").lstrip("%")]


def trips(module: Module, loop: Operation) -> int | None:
    """How often a while runs its body; None where the data decides."""
    known = _KNOWN.search(loop.attributes)
    if known:
        return int(known[1])
    compared = module.computations[loop.attribute("condition").lstrip("%")].root
    if compared.opcode != "compare" or compared.attribute("direction") != "LT":
        return None
    counter, limit = (module.operations[name] for name in compared.operands)
    place = counter.element
    end = _value(module, loop, limit)
    if place is None or end is None:
        return None
    start = _constant(_initial(module, loop, place))
    step = _step(module, loop, place)
    if start is None or not step:
        return None
    return max(0, -(-(end - start) // step))


def _step(module: Module, loop: Operation, place: int) -> int | None:
    """By how much the body changes element ``place`` of what the loop carries, where that is a constant."""
    root = body(module, loop).root
    if root.opcode != "tuple":
        return None
    added = _behind(module, module.operations[root.operands[place]])
    if added.opcode != "add":
        return None
    terms = [_behind(module, module.operations[name]) for name in added.operands]
    counters = [term for term in terms if term.element == place]
    steps = [value for term in terms if (value := _value(module, loop, term)) is not None and term not in counters]
    return steps[0] if len(counters) == len(steps) == 1 else None


def _value(module: Module, loop: Operation, op: Operation) -> int | None:
    """The constant that an operation of a loop is, also where the loop carries it unchanged."""
    op = _behind(module, op)
    place = op.element
    if place is None:
        return _constant(op)
    root = body(module, loop).root
    if root.opcode != "tuple" or _behind(module, module.operations[root.operands[place]]).element != place:
        return None
    return _constant(_initial(module, loop, place))


def _initial(module: Module, loop: Operation, place: int) -> Operation | None:
    carried = module.operations[loop.operands[0]]
    if carried.opcode != "tuple":
        return None
    return _behind(module, module.operations[carried.operands[place]])


def _behind(module: Module, op: Operation) -> Operation:
    while op.opcode in _MOVES:
        op = module.operations[op.operands[0]]
    return op


def _constant(op: Operation | None) -> int | None:
    if op is None or op.opcode != "constant" or not re.fullmatch(r"-?\d+", op.inside):
        return None
    return int(op.inside)
