"""What the command says on stderr, in lines that fit a terminal."""

from __future__ import annotations

import textwrap

WIDTH = 100
_LABELS = ("    found    ", "    accepts  ")


def within_width(text: str) -> str:
    """``text`` with its long lines broken between words; what goes on stands under the words of a problem."""
    return "\n".join(part for line in text.splitlines() for part in _broken(line))


def _broken(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    label = next((label for label in _LABELS if line.startswith(label)), "")
    indent = " " * (len(label) or 4)
    fill = textwrap.TextWrapper(WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return fill.wrap(line)
