"""Shapes as scheduled HLO prints them: type, sizes, layout, tiles and memory space.

``bf16[6144,2000]{0,1:T(8,128)(2,1)S(3)}`` is a matrix whose axis 0 is the fastest, in tiles of 8 x 128 elements, in
memory space 3. XLA's layout notation: https://openxla.org/xla/tiled_layout. Space 0, which is not printed, is HBM;
on a TPU v4 space 3 is CMEM, 1 is VMEM, 6 is scalar memory (observed with libtpu 0.0.52).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

HBM = 0

_BITS = {
    **{f"{kind}{bits}": bits for kind in "su" for bits in (2, 4, 8, 16, 32, 64)},
    "pred": 8,
    "bf16": 16,
    "f16": 16,
    "f32": 32,
    "f64": 64,
    "c64": 64,
    "c128": 128,
}
_SHAPE = re.compile(r"([a-z]\w*)\[([\d,]*)\](?:\{([^{}]*)\})?")
_SPACE = re.compile(r"S\((\d+)\)")
_ELEMENT_BITS = re.compile(r"E\((\d+)\)")
_TILE = re.compile(r"T\(([\d,]+)\)")


@dataclass(frozen=True)
class Shape:
    """One array, or a token or other value without elements, which takes no bytes."""

    dtype: str
    dims: tuple[int, ...]
    layout: tuple[int, ...] = ()
    """Axes from the fastest to the slowest; empty where none is printed: the last axis is then the fastest."""
    tile: tuple[int, ...] = ()
    """Sizes of the outermost tile, of the slower axis first."""
    space: int = HBM
    element_bits: int = 0
    """As the layout says; 0 where the type says it."""

    @cached_property
    def elements(self) -> int:
        """Elements without padding."""
        return math.prod(self.dims)

    @cached_property
    def bytes(self) -> int:
        """Bytes without padding."""
        return -(-self.elements * self._bits // 8)

    @cached_property
    def padded_bytes(self) -> int:
        """Bytes in memory: the fastest axes are filled up to whole tiles."""
        order = self.layout or tuple(range(len(self.dims)))[::-1]
        sizes = [self.dims[axis] for axis in order]
        for place, tile in enumerate(reversed(self.tile)):
            if place < len(sizes):
                sizes[place] = -(-sizes[place] // tile) * tile
        return -(-math.prod(sizes) * self._bits // 8)

    @property
    def _bits(self) -> int:
        if self.element_bits:
            return self.element_bits
        # Types of 8 bits have many names: f8e4m3fn, f8e5m2, ...
        return _BITS.get(self.dtype, 8 if self.dtype.startswith("f8") else 0)

    @property
    def in_hbm(self) -> bool:
        """Whether it lies in HBM."""
        return self.space == HBM

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


def shapes_in(text: str) -> Iterator[Shape]:
    """Every shape of a text, in order; a tuple's elements one after the other."""
    for match in _SHAPE.finditer(text):
        dtype, dims, layout = match.groups()
        yield _shape(dtype, _numbers(dims), layout or "")


def _shape(dtype: str, dims: tuple[int, ...], layout: str) -> Shape:
    order, _, rest = layout.partition(":")
    tile, space, bits = _TILE.search(rest), _SPACE.search(rest), _ELEMENT_BITS.search(rest)
    return Shape(
        dtype,
        dims,
        _numbers(order),
        _numbers(tile[1]) if tile else (),
        int(space[1]) if space else HBM,
        int(bits[1]) if bits else 0,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)
