"""Keys of a configuration, read with their types: mistakes are gathered, defaults that are taken are reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.errors import Problem
from simulator.importing.keys import NAMES
from simulator.spec.document import Document, PathKey, dotted, get_path

LARGEST = 10**12
"""The largest whole number that any key may have."""


@dataclass(frozen=True)
class Inferred:
    """A value that the file does not have, and why it is what it is."""

    field: str
    value: Any
    reason: str


@dataclass(frozen=True)
class LeftOut:
    """Something that the model has and the schema cannot say; ``weights`` of it, 0 where it has none."""

    what: str
    weights: int = 0
    reason: str = ""


@dataclass
class Report:
    """What an import tells beside its result."""

    inferred: list[Inferred] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def infer(self, name: str, value: Any, reason: str) -> None:
        """Say that ``name`` is ``value`` although the file does not say so."""
        found = Inferred(name, value, reason)
        if found not in self.inferred:
            self.inferred.append(found)

    def leave(self, what: str, weights: int = 0, reason: str = "") -> None:
        """Say that something is not modelled."""
        self.left_out.append(LeftOut(what, weights, reason))

    def note(self, text: str) -> None:
        """Say something else, once."""
        if text not in self.notes:
            self.notes.append(text)


class Reader:
    """The mapping at ``path`` of a document, with the defaults of its family below it."""

    def __init__(
        self, document: Document, path: PathKey, problems: list[Problem], report: Report, defaults: Mapping[str, Any]
    ) -> None:
        self.document, self.path, self.problems, self.report = document, path, problems, report
        self.defaults = defaults
        self.data: dict[str, Any] = get_path(document.data, path)

    def has(self, key: str) -> bool:
        """Whether the file gives ``key`` a value other than null."""
        return self.data.get(key) is not None

    def refuse(self, key: str | PathKey, accepts: str) -> None:
        """The value of ``key`` is a mistake."""
        path = (*self.path, *((key,) if isinstance(key, str) else key))
        known = path in self.document.places
        found = None if known else ""
        self.problems.append(self.document.place(path).problem(dotted(path), accepts, found))

    def lacks(self, name: str, why: str = "") -> None:
        """The key that is called ``name`` in :data:`NAMES`, or is a key itself, is missing."""
        first, *others = NAMES.get(name, (name,))
        also = f" (or {', '.join(others[:6])})" if others else ""
        self.refuse(first, f"the key '{first}'{also}, which is missing{why}")

    def key(self, name: str) -> str | None:
        """Under which of its names ``name`` stands in the file; two of them with different values are a mistake."""
        found = [key for key in NAMES.get(name, (name,)) if self.has(key)]
        for other in found[1:]:
            if self.data[other] != self.data[found[0]]:
                value = self.document.place((*self.path, found[0])).text
                self.refuse(other, f"the same as {found[0]}, which is {value}: both mean {name.replace('_', ' ')}")
        return found[0] if found else None

    def where(self, name: str) -> PathKey:
        """The path of ``name`` in the file."""
        return (*self.path, self.key(name) or NAMES.get(name, (name,))[0])

    def get(self, name: str) -> tuple[str, Any]:
        """The key and value of ``name``: from the file, or else the default of the family, or None."""
        key = self.key(name)
        if key is not None:
            return key, self.data[key]
        names = NAMES.get(name, (name,))
        # An explicit null is an answer; only a key that is not there has a default.
        default = next((k for k in names if k in self.defaults and not any(n in self.data for n in names)), None)
        if default is None or self.defaults[default] is None:
            return names[0], None
        value = self.defaults[default]
        self.report.infer(default, value, "not in the file; the default of its family in Transformers")
        return default, value

    def whole(self, name: str, least: int = 1, most: int = LARGEST) -> int | None:
        """A whole number; None where there is none, or, with a mistake noted, where there is something else."""
        key, value = self.get(name)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        same = isinstance(value, float) and abs(value) < LARGEST and value == int(value)
        write = f"; write {int(value)}" if same else ""
        self.refuse(key, f"a whole number from {least:,} to {most:,}{write}")
        return None

    def need(self, name: str, most: int = LARGEST) -> int | None:
        """As :meth:`whole`, of something that no model is without."""
        before = len(self.problems)
        value = self.whole(name, most=most)
        if value is None and len(self.problems) == before:
            self.lacks(name)
        return value

    def real(self, name: str, above: float, most: float) -> float | None:
        """A number."""
        key, value = self.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and above < value <= most:
            return float(value)
        self.refuse(key, f"a number of more than {above:g} and at most {most:g}")
        return None

    def flag(self, name: str) -> bool | None:
        """True or false."""
        key, value = self.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.refuse(key, "true or false")
        return None

    def word(self, name: str) -> str | None:
        """Text."""
        key, value = self.get(name)
        if value is None or isinstance(value, str):
            return value
        self.refuse(key, "text")
        return None

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list of texts."""
        return self._list(name, str, "a list of texts")

    def wholes(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers."""
        return self._list(name, int, "a list of whole numbers")

    def _list(self, name: str, kind: type, accepts: str) -> tuple[Any, ...] | None:
        key, value = self.get(name)
        if value is None:
            return None
        if isinstance(value, tuple) and all(isinstance(v, kind) and not isinstance(v, bool) for v in value):
            return value
        self.refuse(key, accepts)
        return None

    def has_any(self, name: str) -> bool:
        """Whether ``name`` stands in the file under any of its names."""
        return any(self.has(key) for key in NAMES.get(name, (name,)))

    def problems_at(self, name: str) -> bool:
        """Whether a mistake was found in ``name``."""
        paths = {dotted((*self.path, key)) for key in NAMES.get(name, (name,))}
        return any(problem.path in paths for problem in self.problems)

    def part(self, key: str, defaults: Mapping[str, Any] | None = None) -> Reader | None:
        """The mapping that ``key`` is."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, dict):
            return Reader(self.document, (*self.path, key), self.problems, self.report, defaults or {})
        self.refuse(key, "a mapping of keys")
        return None

    def says(self, keys: Iterable[str]) -> str | None:
        """The first of ``keys`` that the file has."""
        return next((key for key in keys if self.has(key)), None)
