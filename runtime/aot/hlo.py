"""Scheduled HLO text, as ``jax.stages.Compiled.as_text()`` returns it -> computations and their operations in order.

Plain Python: reading a compiled program needs neither JAX nor the compiler. The text is XLA's
(https://openxla.org/xla/operation_semantics for the operations); what a TPU compiler adds, memory spaces and
``backend_config``, is documented nowhere and was observed with libtpu 0.0.52.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from runtime.aot.hlo_shapes import Shape, shapes_in
from simulator.errors import MeasurementError

_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(")
_OPERATION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r"([a-z][\w\-]*)\(")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_INDEX = re.compile(r"index=(\d+)")
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_TABLE = re.compile(r"(\w+)=(\d+)")


@dataclass(frozen=True)
class Operation:
    """One line of a computation."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    """Of the result; a tuple's elements one after the other, nested ones too."""
    operands: tuple[str, ...]
    inside: str
    """What stands between the brackets: of a constant its value, of a parameter its number."""
    attributes: str
    """What follows them."""
    root: bool = False

    @property
    def shape(self) -> Shape:
        """The first, mostly only, array of the result."""
        return self.shapes[0]

    @cached_property
    def cycles(self) -> int | None:
        """The compiler's estimate of the cycles of one execution, where it made one."""
        found = _CYCLES.search(self.attributes)
        return int(found[1]) if found else None

    @cached_property
    def op_name(self) -> str:
        """Where in the traced program it comes from, or the name of an argument; empty where nothing is said."""
        found = _OP_NAME.search(self.attributes)
        return found[1].replace("\\'", "'") if found else ""

    @cached_property
    def frame(self) -> int:
        """Number of its stack frame, 0 where it has none."""
        found = _FRAME.search(self.attributes)
        return int(found[1]) if found else 0

    @cached_property
    def called(self) -> tuple[str, ...]:
        """Computations that it names, in the order in which they stand."""
        lists = re.findall(r"(?:branch|called)_computations=\{([^}]*)\}", self.attributes)
        return (*_CALLED.findall(self.attributes), *(name for names in lists for name in _NAME.findall(names)))

    @cached_property
    def element(self) -> int | None:
        """Which element of a tuple it takes; None where it takes none."""
        found = _INDEX.search(self.attributes) if self.opcode == "get-tuple-element" else None
        return int(found[1]) if found else None

    def attribute(self, name: str) -> str:
        """The text of ``name=...`` up to the next comma outside braces; empty where there is none."""
        found = re.search(rf"(?:^|[ ,]){name}=(\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}}|[^,]*)", self.attributes)
        return found[1] if found else ""


@dataclass
class Computation:
    """Operations in their order, which in a scheduled module is the order of execution."""

    name: str
    operations: list[Operation] = field(default_factory=list)

    @property
    def root(self) -> Operation:
        """The operation whose result is the computation's."""
        return next(op for op in reversed(self.operations) if op.root)

    def parameters(self) -> dict[int, Operation]:
        """Its parameters by number."""
        return {int(op.inside): op for op in self.operations if op.opcode == "parameter"}


@dataclass
class Module:
    """A compiled program of one chip."""

    computations: dict[str, Computation]
    entry: Computation
    functions: dict[int, tuple[str, ...]]
    """By stack frame: the functions that were active when an operation was traced, innermost first."""
    aliased: frozenset[int]
    """Numbers of the entry's parameters whose memory a result takes over."""

    @cached_property
    def operations(self) -> dict[str, Operation]:
        """Every operation by its name, which XLA makes unique within a module."""
        return {op.name: op for computation in self.computations.values() for op in computation.operations}

    def traced_in(self, op: Operation) -> tuple[str, ...]:
        """Functions in which an operation was written, innermost first; empty where the module does not say."""
        return self.functions.get(op.frame, ())

    def operand_shapes(self, op: Operation) -> Iterator[tuple[str, Shape]]:
        """Name and shape of every operand that is one array."""
        for name in op.operands:
            source = self.operations.get(name)
            if source is not None and len(source.shapes) == 1:
                yield name, source.shape


def parse(text: str) -> Module:
    """Read a module.

    Raises:
        MeasurementError: it is no scheduled HLO text.
    """
    head = text.split("\n", 1)[0]
    if not head.startswith("HloModule") or "is_scheduled=true" not in head:
        raise MeasurementError(f"not the text of a compiled program: it starts with {head[:60]!r}, not HloModule")
    computations: dict[str, Computation] = {}
    current, entry = None, None
    for line in text.splitlines():
        if line.startswith((" ", "}")):
            if current is not None and (op := _operation(line)):
                current.operations.append(op)
        elif line.endswith("{") and (match := _COMPUTATION.match(line)):
            current = computations[match[2]] = Computation(match[2])
            entry = current if match[1] else entry
    if entry is None or not entry.operations:
        raise MeasurementError("not the text of a compiled program: it has no ENTRY computation")
    aliased = re.search(r"input_output_alias=\{(.*?)\}, \w+=", head)
    numbers = frozenset(int(n) for n in re.findall(r": \((\d+),", aliased[1])) if aliased else frozenset[int]()
    return Module(computations, entry, _functions(text), numbers)


def _operation(line: str) -> Operation | None:
    match = _OPERATION.match(line)
    if match is None:
        return None
    end = _end_of_shape(line, match.end())
    opcode = _OPCODE.match(line, end + 1)
    if opcode is None:
        return None
    close = _closing(line, opcode.end() - 1) if opcode[1] == "constant" else line.find(")", opcode.end())
    inside = line[opcode.end() : close]
    return Operation(
        name=match[2],
        opcode=opcode[1],
        shapes=tuple(shapes_in(line[match.end() : end])),
        operands=() if opcode[1] == "constant" else tuple(_NAME.findall(inside)),
        inside=inside,
        attributes=line[close + 1 :],
        root=match[1] is not None,
    )


def _end_of_shape(line: str, start: int) -> int:
    """Index of the blank behind a shape; one of a tuple has blanks inside."""
    return _closing(line, start) + 1 if line[start] == "(" else line.find(" ", start)


def _closing(line: str, start: int) -> int:
    """Index of the bracket that closes the one at ``start``."""
    depth = 0
    for place in range(start, len(line)):
        depth += (line[place] == "(") - (line[place] == ")")
        if depth == 0:
            return place
    return len(line)


def _functions(text: str) -> dict[int, tuple[str, ...]]:
    """The chain of function names of every stack frame.

    The tables stand apart from the computations: names by number, locations with a function's number, frames with a
    location and a parent. The parent of a frame is printed one too high, so that 1 means none (libtpu 0.0.52).
    """
    names = {int(n): name for n, name in re.findall(r'^(\d+) "(.*)"$', _section(text, "FunctionNames"), re.MULTILINE)}
    places = {number: row.get("function_name_id", 0) for number, row in _rows(text, "FileLocations")}
    found: dict[int, tuple[str, ...]] = {}
    for number, row in _rows(text, "StackFrames"):
        parent = row.get("parent_frame_id", 1) - 1
        name = names.get(places.get(row.get("file_location_id", 0), 0), "")
        # Parents stand before their children.
        found[number] = (name, *found.get(parent, ()))
    return found


def _rows(text: str, title: str) -> Iterator[tuple[int, dict[str, int]]]:
    for number, row in re.findall(r"^(\d+) \{(.*)\}$", _section(text, title), re.MULTILINE):
        yield int(number), {key: int(value) for key, value in _TABLE.findall(row)}


def _section(text: str, title: str) -> str:
    found = re.search(rf"^{title}\n((?:\d+ .*\n?)*)", text, re.MULTILINE)
    return found[1] if found else ""
