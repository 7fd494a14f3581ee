"""By how much each known reason lets a compiled count differ from the cost model's, at least and at most."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from simulator.compare.counts import Change, Counted, Program
from simulator.cost.counted import LOGIT_BYTES
from simulator.cost.shape import Pass, Shape, query_heads, split, tiled

Quantity = Literal["flop", "bytes", "collectives", "collective bytes", "memory"]
Bounds = tuple[float, float]
"""The least and the most that a count may be."""

CACHED = ("attention", "distances")
UNCOUNTED, IN_ALL = "uncounted", "in all"
"""Parts that the cost model has no operation for, together; and everything together."""
LEAST_ROWS = 2
"""`Lowering.min_rows` of the runtime on a TPU."""
LEAST_NEW = 8
"""`Lowering.min_new` of the runtime on a TPU; also the rows of a tile of memory."""


@dataclass(frozen=True)
class Case:
    """One count of one program."""

    program: Program
    quantity: Quantity
    part: str
    predicted: float
    compiled: float
    whole: float
    """What is predicted of all parts together."""

    @property
    def counted(self) -> Counted:
        """What the cost model counts of it."""
        return "flop" if self.quantity == "flop" else "bytes"

    @property
    def prefill(self) -> bool:
        """Whether it is of a prefill."""
        return self.program.name == "prefill"

    def ratio(self, change: Change, before: Change | None = None) -> float:
        """By what factor a change of the passes changes this count."""
        old, new = (self.program.amounts(self.counted, each).get(self.part, 0.0) for each in (before, change))
        return new / old if old else 1.0


def _scaled(bounds: Bounds, least: float, most: float) -> Bounds:
    return bounds[0] * least, bounds[1] * most


def _reading_allocated(case: Case) -> Change:
    """The change to a pass over all S allocated positions, its own T among them."""
    positions = case.program.asked["positions"]

    def change(shape: Shape, step: Pass, tile: int) -> tuple[Shape, Pass, int]:
        return shape, step if case.prefill else replace(step, positions=positions - step.tokens), tile

    return change


def allocated(case: Case, bounds: Bounds) -> Bounds:
    """All S allocated positions in place of those in use; exact."""
    if case.prefill:
        return bounds
    factor = case.ratio(_reading_allocated(case))
    return _scaled(bounds, factor, factor)


def masked(case: Case, bounds: Bounds) -> Bounds:
    """Of a prefill all of the square, of a step at most S positions and a tile of new ones."""

    def square(shape: Shape, step: Pass, tile: int) -> tuple[Shape, Pass, int]:
        shape, step, tile = before(shape, step, tile)
        shape = replace(shape, causal=False)
        if case.prefill:
            return shape, step, tile
        new = tiled(step.tokens, LEAST_NEW) - step.tokens
        return shape, replace(step, positions=step.positions + step.tokens + new), tile

    before = _reading_allocated(case)
    factor = case.ratio(square, before)
    return _scaled(bounds, factor if case.prefill else 1.0, factor)


def all_distances(case: Case, bounds: Bounds) -> Bounds:
    """The products of all S allocated distances, of a prefill; exact."""
    if not case.prefill:
        return bounds
    factor = case.program.asked["positions"] / case.program.asked["tokens"]
    return _scaled(bounds, factor, factor)


def padded_rows(case: Case, bounds: Bounds) -> Bounds:
    """Between the rows that there are and two."""

    def padded(shape: Shape, step: Pass, tile: int) -> tuple[Shape, Pass, int]:
        # Of attention the rows are the queries of one sequence that share keys; of a matrix those of all sequences.
        group = max(float(query_heads(shape, step.attending)) / float(split(shape.kv_heads, step.attending)), 1.0)
        rows = {"attention": step.tokens * group, "head": float(step.head_rows)}.get(case.part, float(step.rows))
        factor = max(LEAST_ROWS / rows, 1.0) if rows else 1.0
        return shape, replace(step, batch=step.batch * factor), tile

    return _scaled(bounds, 1.0, case.ratio(padded))


def tile(case: Case, bounds: Bounds) -> Bounds:
    """Between no padding at all and whole tiles."""

    def untiled(shape: Shape, step: Pass, _: int) -> tuple[Shape, Pass, int]:
        return shape, step, 1

    return _scaled(bounds, case.ratio(untiled), 1.0)


def _every_expert(shape: Shape, step: Pass, tile: int) -> tuple[Shape, Pass, int]:
    if shape.experts is None:
        return shape, step, tile
    return replace(shape, experts=replace(shape.experts, per_token=shape.experts.count)), step, tile


def _multiplies_all_experts(case: Case) -> bool:
    known, every = case.program.known, case.program.amounts("flop", _every_expert)
    found = known["matrix_flop"].get("experts", 0.0) + known["vector_flop"].get("experts", 0.0)
    return bool(found >= 0.9 * every["experts"])


def all_experts(case: Case, bounds: Bounds) -> Bounds:
    """Every expert read and multiplied with every row, where the FLOP are of all of them; exact."""
    if not _multiplies_all_experts(case):
        return bounds
    factor = case.ratio(_every_expert)
    return _scaled(bounds, factor, factor)


def gathered_experts(case: Case, bounds: Bounds) -> Bounds:
    """Of each row a copy of its experts: read, written and read again."""
    if _multiplies_all_experts(case):
        return bounds
    most = 0.0
    for run in case.program.runs:
        if (experts := run.step.shape.experts) is not None:
            whole = replace(case.program, runs=(run,)).amounts("bytes", _every_expert)["experts"]
            most += 3 * float(run.step.forward.rows) * experts.per_token / experts.count * whole
    return bounds[0], max(bounds[1], most)


def written_back(case: Case, bounds: Bounds) -> Bounds:
    """What the record says was written back; exact."""
    copies = case.program.known["cache_copies"]
    size = sum(each["payload_bytes"] * each["count"] for each in copies if each["how"] == "written back")
    return bounds[0] + size, bounds[1] + size


def appended(case: Case, bounds: Bounds) -> Bounds:
    """Whole tiles of positions, and one more where they lie across two, read and written."""
    if case.prefill:
        return bounds

    def tiles_alone(shape: Shape, step: Pass, tile: int) -> tuple[Shape, Pass, int]:
        # Where a head is narrower than a tile, positions lie along the columns of tiles, which are more.
        positions = max(LEAST_NEW, tile) if shape.head_dim % tile else LEAST_NEW
        return shape, replace(step, positions=0, tokens=2 * (tiled(step.tokens, positions) + positions)), tile

    return bounds[0], bounds[1] + case.program.amounts("bytes", tiles_alone)["attention"]


def stacked(case: Case, bounds: Bounds) -> Bounds:
    """New keys and values of all layers, written or read once more."""
    if not case.program.variant.startswith("scanned"):
        return bounds

    def new_alone(shape: Shape, step: Pass, tile: int) -> tuple[Shape, Pass, int]:
        return shape, replace(step, positions=0, tokens=tiled(step.tokens, LEAST_NEW)), tile

    return bounds[0], bounds[1] + case.program.amounts("bytes", new_alone)["attention"]


def kept_on_chip(case: Case, bounds: Bounds) -> Bounds:
    """What a loop of draft steps need not fetch again: of a part all of it, as far as on-chip memory goes."""
    repeated = [run for run in case.program.runs if run.times > 1]
    limit = _on_chip_bytes(case)
    saved = 0.0
    for run in repeated:
        part = replace(case.program, runs=(replace(run, times=1),)).amounts("bytes").get(case.part, 0.0)
        saved += run.times * min(part, limit)
    return bounds[0] - saved, bounds[1]


def _on_chip_bytes(case: Case) -> float:
    """On-chip memory; no limit where the profile does not say how much there is."""
    size = case.program.runs[0].step.machine.profile.peaks.on_chip_memory
    return size.value_bytes if size is not None else math.inf


def activations(case: Case, bounds: Bounds) -> Bounds:
    """What stands between the matrices of a layer, and the logits: in float32, written and read."""
    most = 0.0
    for run in case.program.runs:
        shape, step = run.step.shape, run.step.forward
        inner = (2 * shape.d_ff + 2 * shape.heads * shape.head_dim) / step.columns
        layers = float(tiled(step.rows, LEAST_NEW)) * shape.layers * (4 * shape.d_model + inner)
        most += run.times * 2 * LOGIT_BYTES * (layers + float(tiled(step.head_rows, LEAST_NEW)) * shape.vocabulary)
    return bounds[0], bounds[1] + most


def code(case: Case, bounds: Bounds) -> Bounds:
    """The program itself; exact."""
    size = case.program.known["memory"].get("code_bytes", 0)
    return bounds[0] + size, bounds[1] + size


def buffers_on_chip(case: Case, bounds: Bounds) -> Bounds:
    """Between all buffers in HBM and none."""
    return bounds[0] - min(case.program.memory()["buffers"], _on_chip_bytes(case)), bounds[1]
