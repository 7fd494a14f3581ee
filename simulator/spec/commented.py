"""Settings as YAML in which every key says what it means: for files that a planner goes on from.

The words are those of the schema, so they cannot fall behind it. A key that was not set stands there all the same,
commented out, with its default: taking its `# ` away changes nothing until the value is changed.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from simulator.spec.describe import Node, description, keys_of, unit_of
from simulator.spec.source import parse
from simulator.units import format_quantity

WIDTH = 100
_COLUMN = 34
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 _./+-]*[A-Za-z0-9_.+-])?")


@dataclass(frozen=True)
class Entry:
    """One line of YAML and its comment."""

    path: tuple[str, ...]
    text: str
    comment: str
    off: int | None = None
    """Commented out: how deep the outermost key stands that is."""

    @property
    def code(self) -> str:
        """The line without its comment."""
        depth = len(self.path) - 1
        return f"{'  ' * depth}{self.text}" if self.off is None else f"{self.indent}# {self._below}{self.text}"

    @property
    def indent(self) -> str:
        """The white space before the line, or before the mark that comments it out."""
        return "  " * (len(self.path) - 1 if self.off is None else self.off)

    @property
    def _below(self) -> str:
        return "  " * (len(self.path) - 1 - (self.off or 0))


def entries(
    model: type[BaseModel],
    chosen: Mapping[str, Any],
    notes: Mapping[str, str],
    path: tuple[str, ...] = (),
    off: int | None = None,
    kinds: tuple[str, ...] = (),
) -> Iterator[Entry]:
    """A line for every key of ``model``, in its order.

    Args:
        model: the schema class.
        chosen: the values that are set, by key, as a file would give them; every required key is among them.
        notes: by dotted path, what else the comment says.
        path: where ``model`` stands.
        off: how deep the outermost key above stands that is commented out.
        kinds: every word that `kind` may be, where ``model`` is one variant of several.
    """
    for key, field in keys_of(model).items():
        node, here = Node.of_field(field), (*path, key)
        if key not in chosen and field.is_required():
            raise KeyError(".".join(here))
        hidden = len(path) if off is None and key not in chosen else off
        value = chosen[key] if key in chosen else _default(node)
        said = _kind_words(model, kinds) if key == "kind" else description(node)
        comment = _sentences(said, notes.get(".".join(here), ""))
        below = node.chosen(value).model if isinstance(value, Mapping) else None
        yield Entry(here, f"{key}:" if below else f"{key}: {yaml_value(value)}", comment, hidden)
        if below is not None:
            variants = tuple(member.kind for member in node.members if member.kind)
            yield from entries(below, value, notes, here, hidden, variants)


def _default(node: Node) -> Any:
    """What ``node`` is where nothing is said, as a file would say it."""
    value = node.field.get_default(call_default_factory=True) if node.field is not None else None
    if value is PydanticUndefined or value is None:
        return None
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    return format_quantity(value, unit_of(node)) if unit_of(node) else value


def _kind_words(model: type[BaseModel], kinds: tuple[str, ...]) -> str:
    """What this variant is, and which others there are."""
    what = " ".join((model.__doc__ or "").split()).rstrip(".")
    others = ", ".join(kind for kind in kinds if kind != Node(model).kind)
    return f"{what}; other kinds: {others}" if others else what


def _sentences(*parts: str) -> str:
    return ". ".join(part.rstrip(".") for part in parts if part)


def yaml_value(value: Any) -> str:
    """A value on one line, as both this loader and any other YAML reader take it."""
    if isinstance(value, str):
        # Stock YAML reads more words as something else than this loader does; nobody may read one here.
        plain = _PLAIN.fullmatch(value) and parse(value, "").data == value == yaml.safe_load(value)
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {yaml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(yaml_value, value)) + "]"
    return json.dumps(value)


def laid_out(lines: Iterable[Entry]) -> str:
    """The lines as text: comments in one column and wrapped there; above a line that reaches into it."""
    found: list[str] = []
    for line in lines:
        if len(line.code) + 2 > _COLUMN:
            found += [f"{line.indent}# {part}" for part in _wrapped(line.comment, WIDTH - len(line.indent) - 2)]
            found.append(line.code)
            continue
        first, *rest = _wrapped(line.comment, WIDTH - _COLUMN - 2) or [""]
        found.append(f"{line.code.ljust(_COLUMN)}# {first}" if first else line.code)
        found += [f"{' ' * _COLUMN}# {part}" for part in rest]
    return "\n".join(found) + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)
