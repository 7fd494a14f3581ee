"""A file of measurements as text and lines, whatever wrote it: marks, line ends and colours are taken off."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.errors import ConfigError, Problem
from simulator.importing.json_text import parse_json
from simulator.importing.measurements.details import emptied
from simulator.importing.measurements.fields import Fields
from simulator.spec.document import Document, Place, shorten
from simulator.spec.source import parse, read

MAX_BYTES = 64 << 20
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# A rate without bound is written in a way that JSON does not know; the same width keeps columns.
_ENDLESS_RATE = re.compile(r'("request_rate"\s*:\s*)Infinity\b')
_MOST_PROBLEMS = 50


@dataclass(frozen=True)
class Source:
    """One file."""

    file: str
    """Its name in messages."""
    text: str

    @functools.cached_property
    def lines(self) -> tuple[str, ...]:
        """Its lines, from 1 at index 0, without line ends."""
        return tuple(line.rstrip("\r") for line in self.text.split("\n"))

    def place(self, line: int) -> Place:
        """The place of a line."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return Place(self.file, line, 1, shorten(text))

    def refusal(self, line: int, path: str, accepts: str, found: str | None = None) -> ConfigError:
        """A mistake in a line."""
        return ConfigError((self.place(line).problem(path, accepts, found),))

    def yaml(self) -> Document:
        """The file as YAML."""
        return parse(self.text, self.file)

    def json(self) -> Fields:
        """The file as one JSON mapping."""
        problems: list[Problem] = []
        return Fields.of(self._parsed(self.text, 0), (), 0, problems)

    def records(self) -> list[Fields]:
        """The mappings of a JSON list, of a file with one on each line, or the only one of a file.

        Raises:
            ConfigError: text that is not JSON, by line; a line that is cut.
        """
        first = next((line for line in self.lines if line.strip()), "").strip()
        problems: list[Problem] = []
        if first.startswith("{") and first.endswith("}"):
            return list(self._by_line(problems))
        document = self._parsed(self.text, 0)
        if isinstance(document.data, tuple):
            return [Fields.of(document, (index,), 0, problems) for index in range(len(document.data))]
        return [Fields.of(document, (), 0, problems)]

    def _by_line(self, problems: list[Problem]) -> Iterator[Fields]:
        broken: list[Problem] = []
        for number, line in enumerate(self.lines):
            if not line.strip():
                continue
            try:
                yield Fields.of(self._parsed(line, number), (), number, problems)
            except ConfigError as error:
                broken += error.problems
                if len(broken) >= _MOST_PROBLEMS:
                    break
        if broken:
            raise ConfigError(tuple(broken))

    def _parsed(self, text: str, before: int) -> Document:
        try:
            return parse_json(emptied(_ENDLESS_RATE.sub(r'\1"inf"   ', text)), self.file)
        except ConfigError as error:
            raise ConfigError(tuple(replace(p, line=p.line + before) for p in error.problems)) from None


def read_source(path: Path, shown_as: str | None = None) -> Source:
    """Read a file.

    Raises:
        ConfigError: it is missing, not a file, not UTF-8 or too large.
    """
    name = shown_as or str(path)
    texts: list[str] = []

    def keep(text: str, file: str) -> Document:
        texts.append(text)
        return Document(file, None)

    read(path, name, keep, MAX_BYTES)
    return source_of(texts[0], name)


def source_of(text: str, file: str) -> Source:
    """Text that was read already."""
    return Source(file, _COLOUR.sub("", text.removeprefix("\ufeff")))
