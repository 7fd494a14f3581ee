"""A compiled program against the cost model: counts part by part, each alike, explained or not; and times."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from simulator.compare.allowed import IN_ALL, UNCOUNTED, Case, Quantity
from simulator.compare.counts import Counted, Program, program_of
from simulator.compare.reasons import explained
from simulator.compare.timed import Times, times_of
from simulator.spec.record import RunRecord
from simulator.spec.scenario import Scenario
from simulator.units import GIB

TOLERANCE = 0.02
"""A count that differs by more is listed with its reason."""
Reading = Mapping[str, Any]


@dataclass(frozen=True)
class Count:
    """One count of one program, on one chip and for one call."""

    program: str
    quantity: Quantity
    part: str
    predicted: float
    compiled: float
    whole: float
    """What the difference is a part of: the prediction itself, or that of all parts where the cost model has none."""
    state: Literal["alike", "explained", "unexplained"]
    reasons: tuple[str, ...] = ()
    """Names of those of ``REASONS`` that explain it."""

    @property
    def difference(self) -> float:
        """Compiled less predicted, relative."""
        return (self.compiled - self.predicted) / self.whole if self.whole else float(self.compiled != 0)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return dataclasses.asdict(self) | {"difference": self.difference}


@dataclass(frozen=True)
class CompiledComparison:
    """All programs of one scenario point."""

    point: str
    """Which one."""
    counts: tuple[Count, ...]
    times: tuple[Times, ...]

    @property
    def listed(self) -> tuple[Count, ...]:
        """Counts that differ by more than the tolerance."""
        return tuple(count for count in self.counts if count.state != "alike")

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        times = [dataclasses.asdict(each) for each in self.times]
        return {"point": self.point, "counts": [count.to_json() for count in self.counts], "times": times}


def chosen(record: RunRecord) -> list[Reading]:
    """Of each program of a compiled record the variant that it reports."""
    names: Mapping[str, str] = record.provenance.get("chosen", {})
    programs: Sequence[Reading] = record.provenance.get("programs", ())
    return [reading for reading in programs if reading["variant"] == names.get(reading["program"])]


def compared(point: str, scenario: Scenario, readings: Sequence[Reading]) -> CompiledComparison:
    """Set programs against the cost model's counts of the same scenario.

    Args:
        point: what to call it.
        scenario: with the calibration that times are predicted by.
        readings: plain data, as a compiled record keeps it; one a program.
    """
    counts: list[Count] = []
    times: list[Times] = []
    for reading in readings:
        program = program_of(scenario, reading)
        if reading["state"] != "ok":
            counts.append(_of_too_large(program))
            continue
        counts += _parts(program, "flop", _flop(reading))
        counts += _parts(program, "bytes", _bytes(reading))
        counts += _collectives(program)
        counts += _memory(program)
        times += times_of(scenario, program, reading)
    return CompiledComparison(point, tuple(counts), tuple(times))


def _flop(reading: Reading) -> dict[str, float]:
    known = reading["known"]
    return dict(Counter(known["matrix_flop"]) + Counter(known["vector_flop"]))


def _bytes(reading: Reading) -> dict[str, float]:
    return {part: moved["read"] + moved["written"] for part, moved in reading["known"]["moved_bytes"].items()}


def _parts(program: Program, counted: Counted, compiled: Mapping[str, float]) -> Iterator[Count]:
    """Every part that the cost model counts, what it does not count, and the sum."""
    predicted = program.amounts(counted)
    whole = sum(predicted.values())
    found = [_count(program, counted, part, amount, compiled.get(part, 0.0)) for part, amount in predicted.items()]
    others = sum(amount for part, amount in compiled.items() if part not in predicted)
    if others:
        found.append(_count(program, counted, UNCOUNTED, 0.0, others, whole))
    yield from found
    yield _sum_of(found, whole)


def _sum_of(parts: Sequence[Count], predicted: float) -> Count:
    """The sum, explained where every part is."""
    compiled = sum(part.compiled for part in parts)
    first = parts[0]
    alike = abs(compiled - predicted) <= TOLERANCE * predicted
    reasons = tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))
    unexplained = any(part.state == "unexplained" for part in parts)
    state: Literal["alike", "explained", "unexplained"]
    state = "alike" if alike else "unexplained" if unexplained else "explained"
    return Count(first.program, first.quantity, IN_ALL, predicted, compiled, predicted, state, () if alike else reasons)


def _collectives(program: Program) -> Iterator[Count]:
    """How many of each kind in each place, and what they carry together."""
    predicted, compiled = program.collectives(), _found_collectives(program)
    number, carried = ([Counter[str](), Counter[str]()] for _ in range(2))
    for side, found in enumerate((predicted, compiled)):
        for (place, kind, payload), count in found.items():
            number[side][f"{place} {kind}"] += count  # type: ignore[assignment]
            carried[side][place] += count * payload  # type: ignore[assignment]
    for quantity, (ours, theirs) in (("collectives", number), ("collective bytes", carried)):
        whole = float(sum(ours.values()))
        for name in dict.fromkeys([*ours, *theirs]):
            yield _count(program, quantity, name, float(ours[name]), float(theirs[name]), ours[name] or whole)  # type: ignore[arg-type]


def _found_collectives(program: Program) -> dict[tuple[str, str, float], float]:
    found: Counter[tuple[str, str, float]] = Counter()
    for each in program.known["collectives"]:
        found[each["place"], each["kind"], float(each["payload_bytes"])] += each["count"]
    return dict(found)


def _memory(program: Program) -> Iterator[Count]:
    memory, predicted = program.known["memory"], program.memory()
    whole = sum(predicted.values())
    compiled = memory["argument_parts_bytes"] | {"buffers": memory["temporaries_bytes"] + memory["outputs_bytes"]}
    for part, size in predicted.items():
        yield _count(program, "memory", part, size, compiled.get(part, 0), whole if part == "buffers" else size)
    yield _count(program, "memory", IN_ALL, whole, memory["total_bytes"])


def _of_too_large(program: Program) -> Count:
    """What a program needs that does not fit; nothing else is known of it."""
    whole = sum(program.memory().values())
    return _count(program, "memory", IN_ALL, whole, program.known["memory"]["needed_gib"] * GIB)


def _count(
    program: Program, quantity: Quantity, part: str, predicted: float, compiled: float, whole: float | None = None
) -> Count:
    whole = predicted if whole is None else whole
    values = program.name, quantity, part, predicted, float(compiled), float(whole)
    tolerance = TOLERANCE * whole
    if abs(compiled - predicted) <= tolerance:
        return Count(*values, "alike")
    reasons = explained(Case(program, quantity, part, predicted, compiled, whole), tolerance)
    if reasons is None:
        return Count(*values, "unexplained")
    return Count(*values, "explained", tuple(reason.name for reason in reasons))
