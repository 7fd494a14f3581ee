"""Time of a compiled program by playing its schedule: an estimate, and not the sum of the compiler's cycles.

The compiler estimates cycles of most operations and none of the asynchronous transfers that bring weights and cache
into on-chip memory beside them, so that the sum of its cycles falls below the time that reading HBM takes. Here the
operations run one after the other in the order of the schedule, and share one HBM channel with the transfers:

- an operation takes its estimated cycles, or longer where what it reads and writes in HBM itself takes longer;
- a transfer's start queues its bytes; the channel serves the queue, first come first served, with what bandwidth the
  operations leave; a transfer's end waits until its bytes have come ("stall");
- a collective takes what it is priced at, nothing where it has no price;
- an operation without an estimate (scalars, updates in place) takes what its bytes take;
- a loop's body is played as often as the loop runs, once where the data decides.

What comes of it is in docs/tpu/README.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from runtime.aot.collectives import collective_of
from runtime.aot.hlo import Computation, Module, Operation
from runtime.aot.loops import body, trips
from runtime.aot.matmuls import products
from runtime.aot.origins import origins
from runtime.aot.parts import ATTENTION_PARTS, part_of_operation
from runtime.aot.traffic import traffic
from runtime.aot.transfers import carried_over, is_transfer

Category = Literal["matmul", "attention", "other", "collective"]
Price = Callable[[Operation], float]
"""Seconds of one collective."""


@dataclass(frozen=True)
class Rates:
    """What turns cycles and bytes into seconds."""

    clock_per_s: float
    """Cycles per second."""
    hbm_bytes_per_s: float
    """Of one device's HBM."""


@dataclass
class Replayed:
    """Seconds of one call; the parts sum to :attr:`total_s`."""

    matmul_s: float = 0.0
    attention_s: float = 0.0
    other_s: float = 0.0
    stall_s: float = 0.0
    """Waiting for HBM."""
    collectives_s: float = 0.0
    channel_bytes: float = 0.0
    """What went through the HBM channel."""

    @property
    def total_s(self) -> float:
        """The whole call."""
        return self.matmul_s + self.attention_s + self.other_s + self.stall_s + self.collectives_s


@dataclass(frozen=True)
class _Move:
    """One step of the schedule, with all that does not depend on when it comes."""

    kind: Literal["run", "transfer", "collective", "end", "body"]
    """``collective`` is the start of one that runs beside what follows."""
    name: str
    category: Category = "other"
    cycles: int = 0
    hbm_bytes: int = 0
    waits_for: str = ""
    price_s: float = 0.0
    inner: str = ""
    times: int = 1


class _Clock:
    """The time of one replay, and the HBM channel beside it."""

    def __init__(self, rates: Rates, *, priced: bool) -> None:
        self.rates, self._priced = rates, priced
        self.found = Replayed()
        self.now_s = 0.0
        self._queued = 0.0
        self._served = 0.0
        self._last_byte: dict[str, float] = {}
        self._ready_s: dict[str, float] = {}

    def queue(self, move: _Move) -> None:
        """Ask for a transfer."""
        self._queued += move.hbm_bytes
        self._last_byte[move.name] = self._queued
        self.found.channel_bytes += move.hbm_bytes

    def start_collective(self, move: _Move) -> None:
        """Start a collective that runs beside what follows."""
        self._ready_s[move.name] = self.now_s + self._price_s(move)

    def wait(self, name: str) -> None:
        """Wait for the end of a transfer or of a collective."""
        if name in self._ready_s:
            waited_s = max(0.0, self._ready_s[name] - self.now_s)
            self.found.collectives_s += waited_s
        else:
            waited_s = max(0.0, self._last_byte.get(name, 0.0) - self._served) / self.rates.hbm_bytes_per_s
            self.found.stall_s += waited_s
        self._pass(waited_s)

    def run(self, move: _Move) -> None:
        """Run an operation or a collective to its end."""
        duration_s = move.cycles / self.rates.clock_per_s + self._price_s(move)
        found, own_s = self.found, move.hbm_bytes / self.rates.hbm_bytes_per_s
        match move.category:
            case "matmul":
                found.matmul_s += duration_s
            case "attention":
                found.attention_s += duration_s
            case "other":
                found.other_s += duration_s
            case "collective":
                found.collectives_s += duration_s
        found.stall_s += max(0.0, own_s - duration_s)
        found.channel_bytes += move.hbm_bytes
        self._pass(max(duration_s, own_s), move.hbm_bytes)

    def _price_s(self, move: _Move) -> float:
        return move.price_s if self._priced else 0.0

    def _pass(self, seconds: float, own_bytes: float = 0.0) -> None:
        """Let time pass, in which the channel moves ``own_bytes`` of an operation and serves the queue."""
        self.now_s += seconds
        left = max(0.0, seconds * self.rates.hbm_bytes_per_s - own_bytes)
        self._served = min(self._queued, self._served + left)


class Schedule:
    """A program made ready to be played at several rates."""

    def __init__(self, module: Module, price: Price | None = None) -> None:
        """``price`` gives a collective's seconds; without it collectives take none."""
        self._module = module
        self._price = price or (lambda _: 0.0)
        self._skipped = carried_over(module)
        self._categories = _categories(module)
        self._moves: dict[str, list[_Move]] = {}
        self._prepare(module.entry)

    def replay(self, rates: Rates, *, priced: bool = True) -> Replayed:
        """Play one call, collectives at their prices or taking no time."""
        clock = _Clock(rates, priced=priced)
        self._play(self._module.entry.name, clock)
        return clock.found

    def _prepare(self, computation: Computation) -> None:
        self._moves[computation.name] = [move for op in computation.operations if (move := self._move(op))]

    def _move(self, op: Operation) -> _Move | None:
        module = self._module
        if op.opcode == "while":
            inner = body(module, op)
            self._prepare(inner)
            return _Move("body", op.name, inner=inner.name, times=trips(module, op) or 1)
        if op.opcode == "call":
            self._prepare(module.computations[op.called[0]])
            return _Move("body", op.name, inner=op.called[0])
        if op.opcode.endswith("-done"):
            return _Move("end", op.name, waits_for=_start_of(module, op))
        moved = traffic(module, op)
        if is_transfer(module, op):
            return _Move("transfer", op.name, hbm_bytes=0 if op.name in self._skipped else moved.total)
        collective = collective_of(module, op)
        if collective is not None:
            later = op.opcode.endswith("-start")
            return _Move("collective" if later else "run", op.name, "collective", price_s=self._price(collective))
        if op.cycles is None and not moved.total:
            return None
        category = self._categories.get(op.name) or _written_in(module, op)
        return _Move("run", op.name, category, op.cycles or 0, moved.total)

    def _play(self, name: str, clock: _Clock) -> None:
        for move in self._moves[name]:
            match move.kind:
                case "body":
                    for _ in range(move.times):
                        self._play(move.inner, clock)
                case "transfer":
                    clock.queue(move)
                case "collective":
                    clock.start_collective(move)
                case "end":
                    clock.wait(move.waits_for)
                case "run":
                    clock.run(move)


def _start_of(module: Module, end: Operation) -> str:
    """Name of what an end waits for; updates may lie between."""
    begun = module.operations[end.operands[0]]
    while begun.opcode == "async-update":
        begun = module.operations[begun.operands[0]]
    return begun.name


def _categories(module: Module) -> dict[str, Category]:
    """By operation: attention where it multiplies with keys or values, matmul where with anything else."""
    found: dict[str, Category] = {}
    for product in products(module, origins(module)):
        found[product.run.operation.name] = "attention" if product.part in ATTENTION_PARTS else "matmul"
    return found


def _written_in(module: Module, op: Operation) -> Category:
    return "attention" if part_of_operation(module, op) in ATTENTION_PARTS else "other"
