"""A design: which shapes are measured to fit a machine's calibration, and which to test it, written down beforehand.

A design is a YAML of groups. Every key of a group may be a list; the group stands for all combinations. Models are
written in short, as ``LAYERSxWIDTHxFEED_FORWARD``, and where it differs from the design's with ``hN``, N heads, and
``vN``, a vocabulary of N: ``4x1024x2816 h8 v16384``.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from simulator.errors import ConfigError
from simulator.spec import library
from simulator.spec.fields import Bytes, DType, Name, Source, Strict, mistake
from simulator.spec.load import tuples
from simulator.spec.model import ModelSpec
from simulator.spec.probe import ProbeKind, ProbePoint, Role
from simulator.spec.problems import from_validation, in_file_order

DESIGNS = library.SCENARIOS / "designs"
SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)(?: h(\d+))?(?: v(\d+))?")

ShapeText = Annotated[str, Field(pattern=r"^[1-9]\d{0,2}x[1-9]\d{0,4}x[1-9]\d{0,5}( h[1-9]\d{0,3})?( v[1-9]\d{0,6})?$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class PairText(Strict):
    """A draft and the target that it drafts for."""

    draft: ShapeText
    """The model that drafts, such as 2x512x1408."""
    target: ShapeText
    """The model that verifies."""


class Group(Strict):
    """Shapes of one kind; every list stands for each of its values."""

    kind: ProbeKind
    """What is timed."""
    chips: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    """Devices X."""
    shapes: tuple[ShapeText, ...] = ()
    """Models, for kinds that run one."""
    pairs: tuple[PairText, ...] = ()
    """Drafts and targets, for kinds that run two."""
    batch: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    """Sequences B."""
    tokens: tuple[Count, ...] = ()
    """Tokens T of a pass; of a round K + 1."""
    positions: tuple[Count, ...] = ()
    """Allocated positions S of the cache; the design's unless given."""
    payload_bytes: tuple[Bytes, ...] = ()
    """Bytes on every chip, for all-reduces."""


class Design(Strict):
    """What is measured, in which role."""

    name: Name
    """What it is called."""
    description: Source
    """What it is for, in a sentence or two."""
    dtype: DType
    """Type of weights and arithmetic."""
    vocabulary: Count
    """V, unless a shape says another."""
    head_dim: Count
    """Width of a head, unless a shape says how many heads there are."""
    positions: Count
    """S, unless a group says another."""
    controls: Annotated[tuple[ShapeText, ...], Field(min_length=1)]
    """Models whose decode steps are timed in every process: by how much they differ between processes is drift."""
    replicates: Annotated[int, Field(ge=1, le=20)] = 1
    """In how many processes each shape is timed."""
    replicated: tuple[Count, ...] = ()
    """On which numbers of devices it is timed in so many; on all unless given."""
    points_per_process: Annotated[int, Field(ge=2, le=500)] = 24
    """Shapes that one process times in turn."""
    edge_bytes: tuple[Bytes, Bytes] | None = None
    """Between which sizes weights are half in a cache, and reported apart."""
    fit: Annotated[tuple[Group, ...], Field(min_length=1)]
    """What the calibration is fitted to."""
    test: tuple[Group, ...] = ()
    """What it is tested on."""

    def spec(self, text: str) -> ModelSpec:
        """The model that a short description stands for."""
        found = SHAPE.fullmatch(text)
        if found is None:
            raise mistake("a shape such as 4x1024x2816", text)
        layers, width, d_ff, heads, vocabulary = (int(part) if part else 0 for part in found.groups())
        count = heads or max(width // self.head_dim, 1)
        return ModelSpec.model_validate(
            {
                "name": "shape-" + re.sub(r"\W", "-", text),
                "layers": layers,
                "d_model": width,
                "heads": count,
                "kv_heads": count,
                "head_dim": width // count,
                "d_ff": d_ff,
                "feed_forward": "gated",
                "vocabulary": vocabulary or self.vocabulary,
                "tied_embeddings": True,
                "weight_dtype": self.dtype,
            }
        )

    def points(self, chips: tuple[int, ...] | None = None) -> list[ProbePoint]:
        """Every shape once, in the order of the file; of ``chips`` devices only, where given."""
        found: dict[str, ProbePoint] = {}
        roles: tuple[tuple[Role, tuple[Group, ...]], ...] = (("fit", self.fit), ("test", self.test))
        for role, groups in roles:
            for point in (point for group in groups for point in self._of(group, role)):
                if chips is None or point.chips in chips:
                    found.setdefault(point.key, point)
        return list(found.values())

    def control_points(self, chips: int) -> tuple[ProbePoint, ...]:
        """The decode steps that every process times."""
        return tuple(
            ProbePoint(kind="decode_step", role="control", chips=chips, positions=self.positions, model=self.spec(text))
            for text in self.controls
        )

    def _of(self, group: Group, role: Role) -> list[ProbePoint]:
        models: list[dict[str, Any]] = [{"model": self.spec(text)} for text in group.shapes]
        models += [{"model": self.spec(pair.draft), "partner": self.spec(pair.target)} for pair in group.pairs]
        payloads = [{"payload_bytes": float(size)} for size in group.payload_bytes]
        cached = bool(models) and group.kind != "verification"
        made = []
        for chips, what, batch, tokens, positions in itertools.product(
            group.chips,
            models + payloads or [{}],
            group.batch,
            group.tokens or (2 if group.kind == "first_draft_step" else 1,),
            (group.positions or (self.positions,)) if cached else (0,),
        ):
            made.append(
                ProbePoint(
                    kind=group.kind, role=role, chips=chips, batch=batch, tokens=tokens, positions=positions, **what
                )
            )
        return made


def load_design(path: str | Path) -> Design:
    """Read a design.

    Raises:
        ConfigError: every problem of the file, located.
    """
    document = library.read_mapping(Path(path), str(path))
    try:
        design = Design.model_validate(tuples(document.data))
    except ValidationError as error:
        raise ConfigError(in_file_order(from_validation(error, document, Design, ()))) from None
    try:
        design.points()
    except ValidationError as error:
        words = "; ".join(str(item["msg"]) for item in error.errors())
        raise ConfigError((document.place(()).problem("", f"shapes that make models: {words}"),)) from None
    return design
