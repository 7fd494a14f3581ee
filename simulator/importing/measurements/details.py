"""Lists of a result file that go request by request: emptied before the file is read, for they can be huge."""

from __future__ import annotations

import re

KEYS = (
    "itls",
    "ttfts",
    "input_lens",
    "output_lens",
    "generated_texts",
    "errors",
    "start_times",
    "latencies",
    "samples_ns",
    "samples_ts",
)
_START = re.compile(rf'"({"|".join(KEYS)})"\s*:\s*\[')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]]', re.DOTALL)
_VISIBLE = re.compile(r"[^\n]")


def emptied(text: str) -> str:
    """``text`` with spaces in these lists, so that all else keeps its line and column; a list that is cut stays."""
    parts, at = [], 0
    while match := _START.search(text, at):
        end = _end(text, match.end())
        if end < 0:
            break
        parts += [text[at : match.end()], _VISIBLE.sub(" ", text[match.end() : end])]
        at = end
    return "".join([*parts, text[at:]])


def _end(text: str, at: int) -> int:
    """Where the bracket is that closes the list which begins before ``at``; -1 where there is none."""
    depth = 1
    for token in _TOKEN.finditer(text, at):
        depth += {"[": 1, "]": -1}.get(token[0], 0)
        if not depth:
            return token.start()
    return -1
