"""The one table of known reasons why a compiled program's counts are not those of the cost model.

A reason is not a word but an amount: what it adds to the predicted count, at least and at most. A difference is
explained only where the compiled count lies within what the reasons of its part allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.compare import allowed
from simulator.compare.allowed import CACHED, IN_ALL, UNCOUNTED, Bounds, Case, Quantity


@dataclass(frozen=True)
class Reason:
    """Why a count may differ, and by how much."""

    name: str
    words: str
    quantities: tuple[Quantity, ...]
    parts: tuple[str, ...]
    """Of a model; all where empty."""
    allow: Callable[[Case, Bounds], Bounds]
    """The bounds with this reason, from those of the reasons before it."""

    def applies(self, case: Case) -> bool:
        """Whether the count is of its kind."""
        return case.quantity in self.quantities and (not self.parts or case.part in self.parts)


REASONS = (
    Reason(
        "allocated",
        "the program reads every allocated position of a cache of fixed size; the calibration counts those in use",
        ("flop", "bytes"),
        CACHED,
        allowed.allocated,
    ),
    Reason(
        "masked",
        "scores of keys that lie ahead of a token are computed and masked: the whole square of a prefill, of a step "
        "all allocated positions and a tile of new keys",
        ("flop",),
        ("attention",),
        allowed.masked,
    ),
    Reason(
        "all distances",
        "a prefill multiplies its queries with the products of all allocated distances",
        ("flop", "bytes"),
        ("distances",),
        allowed.all_distances,
    ),
    Reason(
        "all experts",
        "the program multiplies every row with every expert and reads all of them; the cost model counts those chosen",
        ("flop", "bytes"),
        ("experts",),
        allowed.all_experts,
    ),
    Reason(
        "gathered experts",
        "few rows gather a copy of the weights of each expert that they chose: read, written and read again",
        ("bytes",),
        ("experts",),
        allowed.gathered_experts,
    ),
    Reason(
        "two rows",
        "one row is padded to two, since the compiler would take one row from the matrix units to the vector unit",
        ("flop",),
        (),
        allowed.padded_rows,
    ),
    Reason(
        "no tiles",
        "the cost model charges whole tiles of the matrix units; the program's FLOP are counted without padding",
        ("flop",),
        (),
        allowed.tile,
    ),
    Reason(
        "written back",
        "the cache of some layers is brought into on-chip memory, appended to there and written back whole",
        ("bytes",),
        ("attention",),
        allowed.written_back,
    ),
    Reason(
        "appended",
        "new keys and values are read and written in whole tiles of memory: of 8 positions, or, where a head is "
        "narrower than a tile, of as many positions as a tile has columns",
        ("bytes",),
        ("attention",),
        allowed.appended,
    ),
    Reason(
        "stacked",
        "a scan over layers stacks their new keys and values before they are appended",
        ("bytes",),
        ("attention", UNCOUNTED),
        allowed.stacked,
    ),
    Reason(
        "on chip",
        "what of the draft's weights fits in on-chip memory is not fetched again for every draft step",
        ("bytes",),
        (),
        allowed.kept_on_chip,
    ),
    Reason(
        "activations",
        "activations and logits that do not stay on chip pass through HBM, which the cost model does not count",
        ("bytes",),
        (UNCOUNTED,),
        allowed.activations,
    ),
    Reason(
        "code",
        "the program itself lies in HBM; the cost model counts no code",
        ("memory",),
        (IN_ALL,),
        allowed.code,
    ),
    Reason(
        "buffers on chip",
        "activations that fit in on-chip memory take no HBM; the cost model counts them all",
        ("memory",),
        ("buffers", IN_ALL),
        allowed.buffers_on_chip,
    ),
)
"""In the order in which they change a count."""


def explained(case: Case, tolerance: float) -> tuple[Reason, ...] | None:
    """The fewest reasons that explain a count to ``tolerance``; None where all of them do not.

    One after the other is left out, from the last, so that exact amounts stay before those that are only a range.
    """
    known = [reason for reason in REASONS if reason.applies(case)]
    if not _within(case, known, tolerance):
        return None
    for reason in reversed(known.copy()):
        fewer = [each for each in known if each is not reason]
        if _within(case, fewer, tolerance):
            known = fewer
    return tuple(known)


def _within(case: Case, reasons: Sequence[Reason], tolerance: float) -> bool:
    bounds = (case.predicted, case.predicted)
    for reason in reasons:
        bounds = reason.allow(case, bounds)
    return bounds[0] - tolerance <= case.compiled <= bounds[1] + tolerance
