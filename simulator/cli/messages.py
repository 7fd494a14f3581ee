"""What the command says on stderr, in lines that fit a terminal."""

from __future__ import annotations

import re
import textwrap

WIDTH = 100
_LABELS = ("    found    ", "    accepts  ")
_PLACE = re.compile(r"\S.*:\d+:\d+(  \S+)?$")
"""Where a problem is: editors and `grep` read it, so it stays on one line, however long the path."""


def within_width(text: str) -> str:
    """``text`` with its long lines broken between words; what goes on stands under the words of a problem."""
    return "\n".join(part for line in text.splitlines() for part in _broken(line))


def _broken(line: str) -> list[str]:
    if len(line) <= WIDTH or _PLACE.match(line):
        return [line]
    label = next((label for label in _LABELS if line.startswith(label)), "")
    indent = " " * (len(label) or 4)
    fill = textwrap.TextWrapper(WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return fill.wrap(line)
