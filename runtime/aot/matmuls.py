"""Matrix products of a compiled program: their FLOP, their rows, and whether the matrix units do them.

The TPU compiler writes a product as a ``convolution``, batch axes as base-dilated windows, inside a fusion. A product
of one row it rewrites to a multiplication and a sum on the vector unit ("dot strength reduction"), which reads the
matrix several times slower; such a ``reduce`` keeps the name of the ``dot_general`` that it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from runtime.aot.hlo import Module, Operation
from runtime.aot.hlo_shapes import Shape
from runtime.aot.loops import Run, scheduled
from runtime.aot.parts import MATRIX_PARTS, OTHER, part_of_argument, part_of_operation

_DOT = "dot_general"
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"window=\{([^}]*)\}")


@dataclass(frozen=True)
class Product:
    """One matrix product."""

    run: Run
    """The scheduled operation in which it happens."""
    unit: str
    """``matrix`` or ``vector``."""
    part: str
    """As ``runtime.aot.parts`` names them."""
    argument: str
    """The argument of the program that is multiplied with; empty where both sides were computed."""
    argument_bytes: int
    """Of what is multiplied with, in one execution; 0 without an argument."""
    flop: float
    """Of one execution, padding of rows included: two for each multiplication and addition."""
    rows: float
    """Rows that are multiplied with the argument, padding included; 0 without an argument."""


def products(module: Module, named: dict[str, str]) -> list[Product]:
    """Every product that the schedule executes; ``named`` gives the argument that a value is.

    A sum over one element, which needs no ``reduce``, is not found.
    """
    return [product for run in scheduled(module) for product in _of(module, run, named)]


def _of(module: Module, run: Run, named: dict[str, str]) -> Iterator[Product]:
    for op in inside(module, run.operation):
        if op.opcode == "convolution":
            flop, unit, operands = convolution_flop(module, op), "matrix", op.operands
        elif op.opcode == "dot":
            flop, unit, operands = _dot_flop(module, op), "matrix", op.operands
        elif op.opcode == "reduce" and _DOT in op.op_name:
            summed = module.operations[op.operands[0]]
            flop, unit, operands = 2.0 * summed.shape.elements, "vector", _factors(module, summed)
        else:
            continue
        argument, shape = _argument(module, operands, named)
        part = part_of_argument(argument) if argument else part_of_operation(module, op)
        if part == OTHER:
            part = part_of_operation(module, run.operation)
        rows = flop / (2 * shape.elements) if shape is not None and part in MATRIX_PARTS else 0.0
        yield Product(run, unit, part, argument, shape.bytes if shape is not None else 0, flop, rows)


def inside(module: Module, op: Operation) -> Iterator[Operation]:
    """An operation itself, or all that a fusion is made of, fusions in it too."""
    if op.opcode != "fusion":
        yield op
        return
    for inner in module.computations[op.called[0]].operations:
        yield from inside(module, inner)


def _argument(module: Module, operands: tuple[str, ...], named: dict[str, str]) -> tuple[str, Shape | None]:
    """The weight or cache among some operands."""
    for name in operands:
        argument = named.get(name, "")
        if argument and part_of_argument(argument) not in (OTHER, "norm"):
            return argument, module.operations[name].shape
    return "", None


def _factors(module: Module, op: Operation) -> tuple[str, ...]:
    """What is multiplied in a product that the vector unit does."""
    while op.opcode in ("bitcast", "reshape", "convert", "copy", "transpose"):
        op = module.operations[op.operands[0]]
    return op.operands if op.opcode == "multiply" else ()


def convolution_flop(module: Module, op: Operation) -> float:
    """FLOP of a convolution, two for each element and weight that meet; so counts XLA's HloCostAnalysis."""
    labels, window = _LABELS.search(op.attributes), _WINDOW.search(op.attributes)
    left, right = (module.operations[name].shape for name in op.operands[:2])
    if labels is None:
        return 0.0
    lhs, rhs, out = labels.groups()
    asked = dict(part.split("=") for part in window[1].split()) if window else {}
    meetings = 1
    for place, digit in enumerate(sorted(letter for letter in out if letter.isdigit())):
        sizes = (
            left.dims[lhs.index(digit)],
            op.shape.dims[out.index(digit)],
            *(_of_axis(asked, key, place) for key in ("size", "stride", "lhs_dilate", "rhs_dilate")),
        )
        meetings *= _meetings(*sizes, low=_padding(asked, place))
    batch, features = op.shape.dims[out.index("b")], op.shape.dims[out.index("f")]
    return 2.0 * batch * features * right.dims[rhs.index("i")] * meetings


def _of_axis(asked: dict[str, str], key: str, place: int) -> int:
    return int(asked[key].split("x")[place]) if key in asked else 1


def _padding(asked: dict[str, str], place: int) -> int:
    return int(asked["pad"].split("x")[place].split("_")[0]) if "pad" in asked else 0


@lru_cache(maxsize=4096)
def _meetings(  # noqa: PLR0917
    entries: int, results: int, size: int, stride: int, dilated: int, spread: int, low: int = 0
) -> int:
    """Pairs of a result and a window position, along one axis, where an element lies."""
    last = (entries - 1) * dilated
    places = (result * stride + position * spread - low for result in range(results) for position in range(size))
    return sum(0 <= place <= last and place % dilated == 0 for place in places)


def _dot_flop(module: Module, op: Operation) -> float:
    left = module.operations[op.operands[0]].shape
    summed = [int(axis) for axis in re.findall(r"\d+", op.attribute("lhs_contracting_dims"))]
    flop = 2.0 * op.shape.elements
    for axis in summed:
        flop *= left.dims[axis]
    return flop
