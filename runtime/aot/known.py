"""What the text of a compiled program says for certain: collectives, bytes, products, copies of the cache.

Nothing here is a time. Counts are of one call of the program on one device; a loop whose trips depend on the data, such
as that over rounds, counts once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runtime.aot.collectives import Collective, collectives
from runtime.aot.hlo import Module, Operation
from runtime.aot.hlo_shapes import Shape
from runtime.aot.loops import scheduled, unknown_loops
from runtime.aot.matmuls import Product, inside, products
from runtime.aot.origins import origins
from runtime.aot.parts import MATRIX_PARTS, is_cache, is_read_with_cache, model_of, part_of_argument, part_of_operation
from runtime.aot.traffic import traffic, update_of
from runtime.aot.transfers import carried_over, is_transfer

LEAST_COPY_BYTES = 1 << 16
"""Smaller writes of cached positions are appends."""


@dataclass(frozen=True)
class Moved:
    """HBM bytes of one call."""

    read: int
    written: int

    @property
    def total(self) -> int:
        """Read and written."""
        return self.read + self.written


@dataclass(frozen=True)
class CacheCopy:
    """Keys or values that are written to HBM as a whole, not just where new ones are appended."""

    operation: str
    how: str
    """``copied`` from HBM to HBM, or ``written back`` from on-chip memory, where an append happened."""
    payload_bytes: int
    """Of one."""
    count: int


@dataclass(frozen=True)
class VectorProduct:
    """A product with a weight or with the cache that the vector unit does instead of the matrix units."""

    part: str
    argument: str
    argument_bytes: int
    count: int


@dataclass(frozen=True)
class Known:
    """Facts about one compiled program."""

    collectives: tuple[Collective, ...]
    moved: Mapping[str, Moved]
    """HBM bytes by the part of the model that moves them."""
    floor_bytes: int
    """HBM bytes that must be read: weights and cache once for each pass of their model."""
    matrix_flop: Mapping[str, float]
    """FLOP on the matrix units by part, rows that are padding included."""
    vector_flop: Mapping[str, float]
    """FLOP of matrix products on the vector unit, by part."""
    rows: Mapping[str, float]
    """The most rows that weights are multiplied with, by part, padding included."""
    cache_copies: tuple[CacheCopy, ...]
    vector_products: tuple[VectorProduct, ...]
    undonated: tuple[str, ...]
    """Arguments of the cache whose memory no result takes over."""
    unknown_loops: int
    """Loops that count once because the data decides how often they run."""

    @property
    def hbm_bytes(self) -> int:
        """All HBM bytes of a call."""
        return sum(part.total for part in self.moved.values())

    @property
    def bytes_over_floor(self) -> float:
        """HBM bytes over those that must be read."""
        return self.hbm_bytes / self.floor_bytes if self.floor_bytes else 0.0

    def count(self, kind: str, place: str = "") -> int:
        """Collectives of a kind, in a place or anywhere."""
        return sum(c.count for c in self.collectives if c.kind == kind and (not place or c.place == place))


def known(module: Module, devices: int, passes: Mapping[str, int], *, reads_cache: bool = True) -> Known:
    """Read a program.

    Args:
        module: the program.
        devices: over which its mesh goes.
        passes: how often ``target`` and ``draft`` run in one call; a model that is missing does not count in the floor.
        reads_cache: False for a prefill, which attends to its own tokens alone.
    """
    named = origins(module)
    found = products(module, named)
    flop: dict[str, Counter[str]] = {"matrix": Counter(), "vector": Counter()}
    for product in found:
        flop[product.unit][product.part] += product.flop * product.run.times  # type: ignore[assignment]
    caches = {number: op for number, op in module.entry.parameters().items() if is_cache(op.op_name)}
    return Known(
        collectives=tuple(collectives(module, devices)),
        moved=_moved(module, named),
        floor_bytes=_floor_bytes(module, passes, reads_cache),
        matrix_flop=dict(flop["matrix"]),
        vector_flop=dict(flop["vector"]),
        rows=_rows(found),
        cache_copies=tuple(_cache_copies(module, named, [op.shape for op in caches.values()])),
        vector_products=_vector_products(found),
        undonated=tuple(op.op_name for number, op in caches.items() if number not in module.aliased),
        unknown_loops=len(unknown_loops(module)),
    )


def _moved(module: Module, named: Mapping[str, str]) -> dict[str, Moved]:
    read: dict[str, int] = defaultdict(int)
    written: dict[str, int] = defaultdict(int)
    skipped = carried_over(module)
    for run in scheduled(module):
        op = run.operation
        if op.name in skipped:
            continue
        moved, own = traffic(module, op), part_of_operation(module, op)
        for name, count in moved.reads:
            argument = named.get(name, "")
            # Single rows of a matrix that the head reads whole are the embedding's.
            looked_up = own == "embedding" and part_of_argument(argument) == "head"
            read[part_of_argument(argument) if argument and not looked_up else own] += count * run.times
        if moved.written:
            argument = named.get(op.name, "")
            written[part_of_argument(argument) if argument else own] += moved.written * run.times
    parts = sorted(read.keys() | written.keys(), key=lambda part: -read[part] - written[part])
    return {part: Moved(read[part], written[part]) for part in parts}


def _floor_bytes(module: Module, passes: Mapping[str, int], reads_cache: bool) -> int:
    total = 0
    for op in module.entry.parameters().values():
        part = part_of_argument(op.op_name)
        streamed = part in MATRIX_PARTS or part == "norm" or (is_read_with_cache(op.op_name) and reads_cache)
        total += op.shape.padded_bytes * passes.get(model_of(op.op_name), 0) * streamed
    return total


def _rows(found: list[Product]) -> dict[str, float]:
    rows: dict[str, float] = {}
    for product in found:
        if product.rows:
            rows[product.part] = max(rows.get(product.part, 0.0), product.rows)
    return rows


def _vector_products(found: list[Product]) -> tuple[VectorProduct, ...]:
    alike: Counter[tuple[str, str, int]] = Counter()
    for product in found:
        if product.unit == "vector" and product.argument:
            alike[product.part, product.argument, product.argument_bytes] += product.run.times
    return tuple(VectorProduct(*key, count=count) for key, count in alike.items())


def _cache_copies(module: Module, named: Mapping[str, str], caches: list[Shape]) -> Iterator[CacheCopy]:
    shapes = {(shape.dtype, shape.dims) for shape in caches}

    def of_cache(op: Operation) -> bool:
        # What is updated where it lies is no copy, however much is appended, unless it is updated with a cache.
        if update_of(module, op) is not None:
            return _appends_cache(module, op, named)
        return is_cache(named.get(op.name, "")) or any((s.dtype, s.dims) in shapes for s in op.shapes)

    for run in scheduled(module):
        op = run.operation
        written = traffic(module, op).written
        if written >= LEAST_COPY_BYTES and of_cache(op):
            from_hbm = any(shape.in_hbm for _, shape in _moved_from(module, op))
            yield CacheCopy(op.name, "copied" if from_hbm else "written back", written, run.times)


def _moved_from(module: Module, op: Operation) -> Iterator[tuple[str, Shape]]:
    """Arrays that a copy is made of: large ones, not positions and flags."""
    sources = module.operand_shapes(op)
    if is_transfer(module, op):
        yield from sources
        return
    yield from ((name, shape) for name, shape in sources if shape.bytes >= LEAST_COPY_BYTES)


def _appends_cache(module: Module, op: Operation, named: Mapping[str, str]) -> bool:
    """Whether it writes the cache of a layer into another buffer, as a scan that hands it on does."""
    updates = (part for part in inside(module, op) if part.opcode == "dynamic-update-slice")
    return any(is_cache(named.get(part.operands[1], "")) for part in updates)
