"""Plain data with the place of every value: what a YAML file said, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.errors import Problem

PathKey = tuple[str | int, ...]
SHOWN = 60
"""Most letters of a value that a message quotes."""


@dataclass(frozen=True)
class Place:
    """Where a value stands: its key (``line``, ``column``, both from 1) and its own words (``text``)."""

    file: str
    line: int
    column: int
    text: str

    def problem(self, path: str, accepts: str, found: str | None = None) -> Problem:
        """A mistake that was made here; it quotes the value unless ``found`` says what to quote."""
        quoted = self.text if found is None else found
        return Problem(self.file, self.line, self.column, path, quoted, accepts)


@dataclass
class Document:
    """Plain data (dict, tuple, str, int, float, bool, None) and the place of every path in it."""

    file: str
    data: Any
    places: dict[PathKey, Place] = field(default_factory=dict)
    roots: dict[PathKey, Place] = field(default_factory=dict)
    """For what was grafted from a file of its own: where that file begins."""

    def place(self, path: PathKey) -> Place:
        """The place of ``path``, or of the nearest parent that is in the file."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return Place(self.file, 0, 0, "")

    def inside(self, path: PathKey) -> Place:
        """Where the keys of the mapping at ``path`` stand: its own file, where it was grafted from one."""
        return self.roots.get(path) or self.place(path)

    def graft(self, path: PathKey, other: Document, keep_place: bool = True) -> None:
        """Put ``other`` where ``path`` points, so that its mistakes are reported in its own file.

        The place of ``path`` itself stays that of the reference, unless ``keep_place`` is False.
        """
        set_path(self.data, path, copy_data(other.data))
        self.forget(path, but_itself=True)
        for key, place in other.places.items():
            if key or not keep_place:
                self.places[path + key] = place
        for key, place in other.roots.items():
            self.roots[path + key] = place
        if keep_place:
            self.roots[path] = other.place(())

    def forget(self, path: PathKey, but_itself: bool = False) -> None:
        """Drop the places of ``path`` and of all below it."""
        for places in (self.places, self.roots):
            for key in [key for key in places if key[: len(path)] == path and not (but_itself and key == path)]:
                del places[key]

    def part(self, path: PathKey) -> Document:
        """The value at ``path`` as a document of its own."""
        places = {key[len(path) :]: place for key, place in self.places.items() if key[: len(path)] == path}
        return Document(self.file, get_path(self.data, path), places)

    def items(self, path: PathKey) -> list[Document]:
        """The items of the list at ``path``, each as a document of its own."""
        found = [Document(self.file, value) for value in get_path(self.data, path)]
        depth = len(path)
        for key, place in self.places.items():
            if len(key) > depth and key[:depth] == path:
                found[int(key[depth])].places[key[depth + 1 :]] = place
        return found

    def copy(self) -> Document:
        """A copy that can be changed without touching this one."""
        return Document(self.file, copy_data(self.data), dict(self.places), dict(self.roots))


def shorten(text: str, most: int = SHOWN) -> str:
    """``text`` on one line, and cut where it is longer than ``most``."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def dotted(path: PathKey) -> str:
    """``('draft', 'layers', 0)`` -> ``draft.layers[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def get_path(data: Any, path: PathKey) -> Any:
    """The value at ``path``; KeyError where there is none."""
    for part in path:
        try:
            data = data[part]
        except (IndexError, TypeError) as error:
            raise KeyError(part) from error
    return data


def set_path(data: Any, path: PathKey, value: Any) -> None:
    """Set the value at ``path`` in place, making missing mappings on the way; KeyError at a list or scalar."""
    for part in path[:-1]:
        if not isinstance(data, dict):
            raise KeyError(part)
        data = data.setdefault(part, {})
    if not isinstance(data, dict):
        raise KeyError(path[-1])
    data[path[-1]] = value


def walk_paths(data: Any, path: PathKey = ()) -> Iterator[PathKey]:
    """Every path in ``data``, parents first."""
    yield path
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from walk_paths(value, (*path, key))
    elif isinstance(data, tuple):
        for index, value in enumerate(data):
            yield from walk_paths(value, (*path, index))


def copy_data(data: Any) -> Any:
    """A copy whose mappings can be changed without touching the original."""
    if isinstance(data, dict):
        return {key: copy_data(value) for key, value in data.items()}
    if isinstance(data, tuple):
        return tuple(copy_data(value) for value in data)
    return data
