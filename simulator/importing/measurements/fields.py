"""Values of a JSON mapping, read with their types and bounds; mistakes are gathered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from simulator.errors import ConfigError, Problem
from simulator.spec.document import Document, PathKey, Place, dotted, get_path

LARGEST = 1e15
"""The largest number that any measurement may be."""
LONGEST_S = 1e7
"""The longest time in seconds."""


@dataclass
class Fields:
    """The mapping at ``path`` of a document that begins after line ``before`` of its file."""

    document: Document
    path: PathKey
    before: int
    problems: list[Problem]
    data: dict[str, Any]

    @classmethod
    def of(cls, document: Document, path: PathKey, before: int, problems: list[Problem]) -> Fields:
        """The mapping at ``path``.

        Raises:
            ConfigError: something else stands there.
        """
        data = get_path(document.data, path)
        found = cls(document, path, before, problems, data if isinstance(data, dict) else {})
        if not isinstance(data, dict):
            raise ConfigError((found.place().problem(dotted(path), "a mapping of keys, between { and }"),))
        return found

    def place(self, *keys: str | int) -> Place:
        """Where a value of the mapping stands."""
        place = self.document.place((*self.path, *keys))
        return replace(place, line=place.line + self.before if place.line else self.before + 1)

    def refuse(self, keys: PathKey | str, accepts: str) -> None:
        """The value of a key is a mistake."""
        path = (keys,) if isinstance(keys, str) else keys
        there = (*self.path, *path) in self.document.places
        name = dotted(tuple(part for part in (*self.path, *path)))
        self.problems.append(self.place(*path).problem(name, accepts, None if there else ""))

    def check(self) -> None:
        """Raise what was gathered."""
        if self.problems:
            raise ConfigError(tuple(dict.fromkeys(self.problems)))

    def has(self, key: str) -> bool:
        """Whether the file gives ``key`` a value other than null."""
        return self.data.get(key) is not None

    def number(
        self, key: str, least: float = 0.0, most: float = LARGEST, need: bool = False, above: bool = False
    ) -> float | None:
        """A number from ``least`` (or ``above`` it) to ``most``; None, with a mistake noted, where there is another."""
        value = self.data.get(key)
        if value is None:
            if need:
                self.refuse(key, f"the key '{key}', which is missing" if key not in self.data else "a number, not null")
            return None
        whole = isinstance(value, int | float) and not isinstance(value, bool)
        if whole and least <= value <= most and not (above and value <= least):
            return float(value)
        self.refuse(
            key, f"a number {'of more than' if above else 'from'} {least:g} {'and at most' if above else 'to'} {most:g}"
        )
        return None

    def whole(self, key: str, least: int = 0, most: int = 10**15, need: bool = False) -> int | None:
        """A whole number."""
        value = self.number(key, least, most, need)
        if value is None or value == int(value):
            return None if value is None else int(value)
        self.refuse(key, "a whole number")
        return None

    def seconds(self, key: str, scale: float, need: bool = False) -> float | None:
        """A time of more than 0 in units of ``scale`` seconds, as seconds."""
        value = self.number(key, 0.0, LONGEST_S / scale, need, above=True)
        return None if value is None else value * scale

    def word(self, key: str, need: bool = False) -> str | None:
        """Text."""
        value = self.data.get(key)
        if value is None and not need:
            return None
        if isinstance(value, str):
            return value
        self.refuse(key, "text" if key in self.data else f"the key '{key}', which is missing")
        return None

    def numbers(self, key: str, least: float, most: float, whole: bool = False) -> tuple[float, ...] | None:
        """A list of numbers, each from ``least`` to ``most``."""
        value = self.data.get(key)
        if not isinstance(value, tuple):
            self.refuse(key, "a list of numbers" if key in self.data else f"the key '{key}', which is missing")
            return None
        what = "a whole number" if whole else "a number"
        before = len(self.problems)
        for index, one in enumerate(value):
            good = isinstance(one, int if whole else int | float) and not isinstance(one, bool)
            if not (good and least <= one <= most) and len(self.problems) < before + 10:
                self.refuse((key, index), f"{what} from {least:g} to {most:g}")
        return None if len(self.problems) > before else tuple(value)

    def part(self, *keys: str) -> Fields | None:
        """The mapping below some keys; None where there is none."""
        data: Any = self.data
        for key in keys:
            data = data.get(key) if isinstance(data, dict) else None
        if not isinstance(data, dict):
            return None
        return Fields(self.document, (*self.path, *keys), self.before, self.problems, data)

    def items(self, key: str) -> Iterator[Fields]:
        """The mappings of a list; anything else is a mistake."""
        value = self.data.get(key)
        if not isinstance(value, tuple) or not value:
            self.refuse(key, "a list of mappings" if key in self.data else f"the key '{key}', which is missing")
            return
        for index, one in enumerate(value):
            if isinstance(one, dict):
                yield Fields(self.document, (*self.path, key, index), self.before, self.problems, one)
            else:
                self.refuse((key, index), "a mapping of keys")
