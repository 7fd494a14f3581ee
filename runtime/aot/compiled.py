"""What one compilation for a TPU topology came to, as plain data.

The text of the program lies beside it in a file of its own, gzip. It is the optimised and scheduled HLO module as
``compiled.as_text()`` gives it: operations of a computation stand in the order in which they run.
"""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

ProgramName = Literal["prefill", "plain_step", "draft_step", "verify_step", "round"]
"""Forward passes up to the gathered logits, without a choice of tokens; and the loop over whole rounds."""
PROGRAMS: tuple[ProgramName, ...] = ("prefill", "plain_step", "draft_step", "verify_step", "round")


@dataclass(frozen=True)
class Variant:
    """How a program was written down for the compiler; the same mathematics in each."""

    layers: Literal["unrolled", "scanned"] = "unrolled"
    barrier: bool = False
    """Whether the fused QKV product is kept from dictating the layout of its weight; see ``Lowering.qkv_barrier``."""
    options: Mapping[str, str | bool] = field(default_factory=dict)
    """Named options of the compiler."""

    @property
    def words(self) -> str:
        """In a few words."""
        parts = [self.layers, *(["barrier"] if self.barrier else []), *(f"{k}={v}" for k, v in self.options.items())]
        return ", ".join(parts)


@dataclass(frozen=True)
class Memory:
    """Bytes of one device, as XLA's buffer assignment gives them."""

    arguments: int
    outputs: int
    aliased: int
    """Of the outputs, those that lie in donated arguments."""
    temporaries: int
    """In HBM; on-chip memories are not in it."""
    code: int


@dataclass(frozen=True)
class Compiled:
    """One program of one scenario, compiled for one topology."""

    program: ProgramName
    topology: str
    """Such as ``v4:2x2x4``."""
    devices: int
    """Devices of the mesh, over which the larger model is sharded; a chip may be two of them (TPU7x)."""
    variant: Variant
    state: Literal["ok", "does_not_fit"]
    hlo: str
    """Name of the file with the program's text, in the folder of this record; empty where it does not fit."""
    memory: Memory | None
    """None where it does not fit."""
    argument_parts: Mapping[str, int]
    """Bytes of one device's arguments, from shapes and shardings alone: ``target weights``, ``target cache``, ``target
    distances``, the same of the draft, and ``other``. Keys and values only count as cache."""
    needed_gib: float | None
    """What the program needs of a device where it does not fit, as the compiler says; the arguments are in it."""
    available_gib: float | None
    """What a device has, as the compiler says it where a program does not fit."""
    lower_s: float
    compile_s: float
    peak_rss_bytes: int
    """The most memory that the compiling process held."""
    versions: Mapping[str, str]
    """Of jax, jaxlib and libtpu."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`."""
        memory = Memory(**data["memory"]) if data["memory"] is not None else None
        return cls(**{**data, "variant": Variant(**data["variant"]), "memory": memory})

    def text(self, folder: Path) -> str:
        """The program's HLO text, which lies in ``folder``."""
        with gzip.open(folder / self.hlo, "rt", encoding="utf-8") as file:
            return file.read()
