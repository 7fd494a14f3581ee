"""Measurements that cannot be true, or not as they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.compare.views import Value, View, label

Code = Literal["under_floor", "above_acceptance_length"]

FLAG_WORDS: dict[Code, str] = {
    "under_floor": "under the physical floor: invalid measurement",
    "above_acceptance_length": "speedup above acceptance length: baseline weak or acceptance lossy",
}

# Each of these reads at least the target's weights once, which is what the record's floor counts.
_READS_THE_TARGET = ("plain_step_s", "verify_step_s", "round_s")


@dataclass(frozen=True)
class Flag:
    """One finding about one measured term."""

    code: Code
    point: str
    term: str
    measured: float
    limit: float
    """The floor, or the acceptance length."""

    @property
    def words(self) -> str:
        """The finding for people."""
        return FLAG_WORDS[self.code]


def flags(predicted: View, measured: View) -> tuple[Flag, ...]:
    """What cannot be true of ``measured``, by the floor and the acceptance length of both records."""
    found: list[Flag] = []
    floor = predicted.get("bandwidth_floor_s") or measured.get("bandwidth_floor_s")
    for term in _READS_THE_TARGET:
        seen = measured.get(term)
        if seen is not None and floor is not None and seen.value < floor.value:
            found.append(Flag("under_floor", label(measured), term, seen.value, floor.value))
    speedup = measured.get("speedup")
    length = measured.get("acceptance_length") or predicted.get("acceptance_length")
    if speedup is not None and length is not None and _low(speedup) > _high(length):
        found.append(Flag("above_acceptance_length", label(measured), "speedup", speedup.value, length.value))
    return tuple(found)


def _low(value: Value) -> float:
    return value.value if value.low is None else value.low


def _high(value: Value) -> float:
    return value.value if value.high is None else value.high
