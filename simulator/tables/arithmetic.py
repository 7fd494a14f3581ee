"""The terms of a component as lines of arithmetic, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from simulator.arithmetic import Line
from simulator.tables.layout import WIDTH
from simulator.units import human_time

_INDENT = 18


def arithmetic(name: str, lines: Sequence[Line]) -> Iterator[str]:
    """A heading with the whole, then every term, those of one mechanism together."""
    whole = sum(line.seconds for line in lines)
    yield ""
    yield f"{name.replace('_', ' ')} = {human_time(whole, 4)}"
    for mechanism in dict.fromkeys(line.mechanism for line in lines):
        terms = [line for line in lines if line.mechanism == mechanism]
        total = sum(line.seconds for line in terms)
        share = f", {total / whole:.0%}" if whole else ""
        yield f"  {mechanism.replace('_', ' ')} {human_time(total, 4)}{share}"
        for line in terms:
            yield from _term(line)


def _term(line: Line) -> Iterator[str]:
    words = f"{line.words} = {human_time(line.seconds, 4)}"
    wrapped = textwrap.wrap(words, WIDTH - _INDENT - 4, break_on_hyphens=False)
    yield f"    {line.what.replace('_', ' ').ljust(_INDENT)}{wrapped[0]}"
    for more in wrapped[1:]:
        yield " " * (_INDENT + 6) + more
