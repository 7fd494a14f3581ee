"""JSON text -> plain data with the line, the column and the words of every value.

Python's own reader lets the later of two equal keys win, reads NaN as a number, and forgets where things stood.
"""

from __future__ import annotations

import bisect
import json
import re
from itertools import accumulate
from typing import Any, NoReturn

from simulator.errors import ConfigError, Problem
from simulator.spec.document import SHOWN, Document, PathKey, Place, dotted, shorten
from simulator.spec.source import MAX_DEPTH, MAX_VALUES

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_WORD = re.compile(r"[A-Za-z_0-9.+-]+")
_WORDS = {"true": True, "false": False, "null": None}
_DECODER = json.JSONDecoder()
_LONGEST = 40
"""Digits of a number, at most."""


def parse_json(text: str, file: str) -> Document:
    """Parse JSON ``text``; ``file`` is the name used in messages.

    Raises:
        ConfigError: text that is not JSON, a key given twice, NaN, nesting deeper than ``MAX_DEPTH`` or more than
            ``MAX_VALUES`` values.
    """
    return _Parser(text, file).document()


class _Parser:
    """Reads from left to right; the first mistake in the syntax ends it, keys given twice are gathered."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.at = text, file, 0
        self.lines = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
        self.places: dict[PathKey, Place] = {}
        self.twice: list[Problem] = []

    def document(self) -> Document:
        self.skip()
        if self.at == len(self.text):
            return Document(self.file, None, {(): Place(self.file, 1, 1, "")})
        data = self.value((), self.at)
        self.skip()
        if self.at < len(self.text):
            self.refuse("the end of the file; one JSON value is all there is")
        if self.twice:
            raise ConfigError(tuple(self.twice))
        return Document(self.file, data, self.places)

    def value(self, path: PathKey, start: int) -> Any:
        """The value here; its place is ``start``, where its key stands."""
        if len(path) > MAX_DEPTH:
            self.refuse(f"values nested at most {MAX_DEPTH} deep")
        if len(self.places) >= MAX_VALUES:
            self.refuse(f"at most {MAX_VALUES:,} values in one file")
        self.places[path] = self.place(start, "")
        begin, letter = self.at, self.text[self.at : self.at + 1]
        if letter in ("{", "["):
            data: Any = self.mapping(path) if letter == "{" else self.sequence(path)
            what = "mapping" if letter == "{" else "list"
            size = f"a list of {len(data):,}" if letter == "[" else "a mapping"
            words = size if data else f"an empty {what}"
        else:
            data = self.string() if letter == '"' else self.scalar()
            words = shorten(self.text[begin : min(self.at, begin + 4 * SHOWN)])
        self.places[path] = self.place(start, words)
        return data

    def mapping(self, path: PathKey) -> dict[str | int, Any]:
        found: dict[str | int, Any] = {}
        lines: dict[str, int] = {}
        while self.another("}", first=not lines):
            start = self.at
            if self.text[start : start + 1] != '"':
                self.refuse("a key in double quotes")
            key = self.string()
            self.skip()
            if self.text[self.at : self.at + 1] != ":":
                self.refuse("a colon after the key")
            self.at += 1
            self.skip()
            if key in lines:
                accepts = f"each key once; '{shorten(key)}' was already given on line {lines[key]}"
                self.twice.append(self.place(start, shorten(key)).problem(dotted((*path, key)), accepts))
            lines.setdefault(key, self.place(start, "").line)
            found[key] = self.value((*path, key), start)
        return found

    def sequence(self, path: PathKey) -> tuple[Any, ...]:
        found: list[Any] = []
        while self.another("]", first=not found):
            found.append(self.value((*path, len(found)), self.at))
        return tuple(found)

    def another(self, end: str, first: bool) -> bool:
        """Whether one more item follows; moves to it, or behind the closing bracket."""
        self.at += first
        self.skip()
        letter = self.text[self.at : self.at + 1]
        if letter == end:
            self.at += 1
            return False
        if not first:
            if letter != ",":
                self.refuse(f"a comma or {end} here")
            self.at += 1
            self.skip()
            if self.text[self.at : self.at + 1] == end:
                self.refuse("another item after the comma; JSON has none before the closing bracket")
        return True

    def string(self) -> str:
        try:
            data, self.at = _DECODER.raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            self.at = min(error.pos, max(len(self.text) - 1, 0))
            self.refuse("text between double quotes, without line breaks, and escapes that JSON knows")
        found = str(data)
        if any("\ud800" <= letter <= "\udfff" for letter in found):
            self.refuse("text; this escape is half a character")
        return found

    def scalar(self) -> Any:
        word = _WORD.match(self.text, self.at)
        text = word[0] if word else ""
        if text in _WORDS:
            self.at += len(text)
            return _WORDS[text]
        if text.lstrip("+-") in ("NaN", "Infinity"):
            self.refuse("a number or null; JSON has neither NaN nor Infinity")
        number = _NUMBER.fullmatch(text)
        if number is None:
            self.refuse("a JSON value: text in double quotes, a number, true, false, null, {...} or [...]")
        if len(text) > _LONGEST:
            self.refuse(f"a number of at most {_LONGEST} digits")
        value = float(text) if number[1] else int(text)
        if value in (float("inf"), float("-inf")):
            self.refuse("a number that is not too large for a computer")
        self.at += len(text)
        return value

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def place(self, at: int, words: str) -> Place:
        line = bisect.bisect_right(self.lines, at)
        return Place(self.file, line, at - self.lines[line - 1] + 1, words)

    def refuse(self, accepts: str) -> NoReturn:
        found = self.text[self.at : self.at + 4 * SHOWN].partition("\n")[0]
        words = shorten(found) or "the end of the file" * (self.at >= len(self.text))
        raise ConfigError((self.place(self.at, words).problem("", accepts),))
