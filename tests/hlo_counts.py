"""Collectives of a compiled program, loops multiplied out."""

from __future__ import annotations

import re
from collections import Counter

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_COLLECTIVE = re.compile(rf" ({'|'.join(KINDS)})(?:-start)?\(")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def collectives(text: str) -> tuple[Counter[str], Counter[str]]:
    """What a program does once, and what it does in each turn of its loops of unknown length; by kind."""
    bodies, entry = _computations(text)
    once: Counter[str] = Counter()
    each: Counter[str] = Counter()
    _walk(bodies, entry, 1, once, each)
    return once, each


def matmuls_of_loops(text: str) -> list[int]:
    """Matrix multiplications in the body of each loop that has some, in rising order; loops inside it count apart."""
    bodies, _ = _computations(text)

    def of(name: str) -> int:
        lines = [line for line in bodies[name] if " while(" not in line]
        called = [own for line in lines for own in re.findall(r"(?:to_apply|calls)=%?([\w.-]+)", line)]
        return sum(" dot(" in line for line in lines) + sum(of(own) for own in called)

    counts = [of(body) for body in re.findall(r" while\(.*body=%?([\w.-]+)", text)]
    return sorted(count for count in counts if count)


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    bodies: dict[str, list[str]] = {}
    entry, name = "", ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            name = found.group(2)
            bodies[name] = []
            entry = name if found.group(1) else entry
        elif name:
            bodies[name].append(line)
    return bodies, entry


def _walk(bodies: dict[str, list[str]], name: str, times: int, once: Counter[str], each: Counter[str]) -> None:
    for line in bodies[name]:
        if found := _COLLECTIVE.search(line):
            once[found.group(1)] += times
        elif " while(" in line:
            body = re.search(r"body=%?([\w.-]+)", line)
            trips = _TRIPS.search(line)
            assert body is not None
            if trips is not None:
                _walk(bodies, body.group(1), times * int(trips.group(1)), once, each)
            else:
                assert times == 1, "a loop of unknown length inside another"
                _walk(bodies, body.group(1), 1, each, each)
        else:
            for called in re.findall(r"(?:to_apply|calls)=%?([\w.-]+)", line):
                if " call(" in line or " fusion(" in line:
                    _walk(bodies, called, times, once, each)
