"""What the schema says of a key, in a planner's words: for messages, for ``explain`` and for the editors' schema.

A :class:`Node` is one place of the schema (a field, an item of a list, a value of a mapping). Walking it follows
YAML keys, so nothing here or above it needs to know how a field is called in code.
"""

from __future__ import annotations

import datetime as dt
import functools
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from simulator.spec.fields import Says, Unit
from simulator.units import accepted_form

_PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "text", dt.date: "a date"}


@dataclass(frozen=True)
class Node:
    """One place of the schema: its type, the marks that constrain it, and the field where it is one."""

    base: Any
    marks: tuple[Any, ...] = ()
    field: FieldInfo | None = None

    @classmethod
    def of(cls, annotation: Any, marks: Iterable[Any] = (), field: FieldInfo | None = None) -> Node:
        """The node of an annotation, its ``Annotated`` layers and a trailing ``| None`` taken off."""
        found = list(marks)
        while True:
            if get_origin(annotation) is Annotated:
                annotation, *extra = get_args(annotation)
                for mark in extra:
                    found += mark.metadata if isinstance(mark, FieldInfo) else [mark]
                continue
            options = [option for option in _options(annotation) if option is not types.NoneType]
            if len(options) != 1 or options[0] is annotation:
                return cls(annotation, tuple(found), field)
            annotation = options[0]

    @classmethod
    def of_field(cls, field: FieldInfo) -> Node:
        """The node of a field of a schema class."""
        return cls.of(field.annotation, field.metadata, field)

    @property
    def members(self) -> tuple[Node, ...]:
        """The variants of a union; the node itself where it is none."""
        options = [option for option in _options(self.base) if option is not types.NoneType]
        if options == [self.base]:
            return (self,)
        return tuple(member for option in options for member in Node.of(option).members)

    @property
    def model(self) -> type[BaseModel] | None:
        """The schema class, where this is a mapping with keys of its own."""
        return self.base if isinstance(self.base, type) and issubclass(self.base, BaseModel) else None

    @property
    def kind(self) -> str:
        """The word that tells this variant of a union from the others; empty where there is none."""
        field = keys_of(self.model).get("kind") if self.model else None
        words = get_args(field.annotation) if field is not None else ()
        return str(words[0]) if len(words) == 1 else ""

    def child(self, part: str | int) -> tuple[Node, ...]:
        """What stands at a key or an index of this node: nothing, or one node a variant that has it."""
        found: list[Node] = []
        for member in self.members:
            arguments, origin = get_args(member.base), get_origin(member.base)
            if member.model is not None and part in keys_of(member.model):
                found.append(Node.of_field(keys_of(member.model)[str(part)]))
            elif origin is dict:
                found.append(Node.of(arguments[1]))
            elif origin is tuple and isinstance(part, int):
                found.append(Node.of(arguments[0]))
        return tuple(found)

    def chosen(self, data: Any) -> Node:
        """The variant that ``data`` names by its `kind`, or the node itself."""
        kind = data.get("kind") if isinstance(data, dict) else None
        return next((member for member in self.members if kind and member.kind == kind), self)


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The YAML keys of a schema class, in its order."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def walk(nodes: Iterable[Node], path: Iterable[str | int], data: Any = None) -> tuple[Node, ...]:
    """What stands at ``path`` under ``nodes``; ``data`` tells variants apart where it has a `kind`."""
    current = tuple(node.chosen(data) for node in nodes)
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            data = None
        current = tuple(child.chosen(data) for node in current for child in node.child(part))
    return current


@functools.cache
def every_path(model: type[BaseModel]) -> tuple[str, ...]:
    """Every dotted path of ``model`` that has a name, top down; not the items of lists or the values of mappings."""
    found: list[str] = []
    level = [("", Node(model))]
    while level:
        below = []
        for before, node in level:
            for key in accepted_keys((node,)):
                found.append(f"{before}{key}")
                below += [(f"{before}{key}.", child) for child in node.child(key)]
        level = below
    return tuple(dict.fromkeys(found))


def accepted_keys(nodes: Iterable[Node]) -> list[str]:
    """Every key that may stand at ``nodes``, without repeats."""
    models = [member.model for node in nodes for member in node.members if member.model]
    return list(dict.fromkeys(key for model in models for key in keys_of(model)))


def words(node: Node) -> str:
    """What ``node`` accepts: ``a whole number, 0 to 64``."""
    says = next((mark.accepts for mark in node.marks if isinstance(mark, Says)), "")
    if says or unit_of(node):
        return says or accepted_form(unit_of(node))
    if len(node.members) > 1:
        return _union_words(node.members)
    if node.model is not None:
        return f"a mapping with the keys {_listed(keys_of(node.model), 8)}"
    if get_origin(node.base) is Literal:
        return one_of(map(str, get_args(node.base)))
    if get_origin(node.base) is dict:
        return _mapping_words(Node.of(get_args(node.base)[0]))
    if get_origin(node.base) is tuple:
        return _list_words(node)
    if node.base is str:
        return _text_words(node)
    return _PLAIN.get(node.base, "a value") + range_words(node)


def unit_of(node: Node) -> str:
    """The SI unit of a quantity; empty where ``node`` is none."""
    return next((mark.symbol for mark in node.marks if isinstance(mark, Unit)), "")


def description(node: Node) -> str:
    """The docstring of a field, on one line and without its full stop."""
    text = (node.field.description or "") if node.field is not None else ""
    return " ".join(text.replace("`", "'").split()).rstrip(".")


def _union_words(members: tuple[Node, ...]) -> str:
    kinds = [member.kind for member in members]
    if all(kinds):
        return f"a mapping whose 'kind' is {one_of(kinds)}"
    # Whoever accepts any number need not say that it may be whole.
    shown = [m for m in members if m.base is not int or all(other.base is not float for other in members)]
    return either(words(member) for member in sorted(shown, key=lambda m: get_origin(m.base) is tuple))


def _mapping_words(key: Node) -> str:
    if get_origin(key.base) is Literal:
        return f"a mapping with keys among {', '.join(map(str, get_args(key.base)))}"
    return "a mapping"


def _list_words(node: Node) -> str:
    item = Node.of(get_args(node.base)[0])
    low, high = _mark(node, bounds.MinLen, "min_length"), _mark(node, bounds.MaxLen, "max_length")
    size = f"; {low:,} to {high:,} of them" if low and high else f"; at least {low:,} of them" if low else ""
    if item.model is not None:
        return f"a list of mappings with the keys {_listed(keys_of(item.model), 4)}{size}"
    return f"a list, each {words(item)}{size}"


def _text_words(node: Node) -> str:
    low, high = _mark(node, bounds.MinLen, "min_length"), _mark(node, bounds.MaxLen, "max_length")
    return f"text of {low:,} to {high:,} characters" if low and high else "text"


def range_words(node: Node, unit: str = "") -> str:
    """The bounds of a number, with a comma before: ``, 0 to 64``."""
    ge, gt, le = _mark(node, bounds.Ge, "ge"), _mark(node, bounds.Gt, "gt"), _mark(node, bounds.Le, "le")
    if ge is not None and le is not None:
        return f", {number(ge)} to {number(le)}{unit}"
    low = (
        f"at least {number(ge)}{unit}" if ge is not None else f"more than {number(gt)}{unit}" if gt is not None else ""
    )
    high = f"at most {number(le)}{unit}" if le is not None else ""
    return f", {' and '.join(part for part in (low, high) if part)}" if low or high else ""


def _mark(node: Node, kind: type[Any], name: str) -> Any:
    return next((getattr(mark, name) for mark in node.marks if isinstance(mark, kind)), None)


def one_of(names: Iterable[str]) -> str:
    """``one of a, b``."""
    every = list(names)
    return f"one of {', '.join(every)}" if len(every) > 1 else f"only {''.join(every)}"


def either(said: Iterable[str]) -> str:
    """``a number or text``; with a semicolon where the parts have commas of their own."""
    every = list(dict.fromkeys(said))
    return ("; or " if any("," in part or ";" in part for part in every) else " or ").join(every)


def number(value: float) -> str:
    """A bound as people write it: ``10,000``, ``0.5``, ``1e+21``."""
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:g}".replace("e+", "e")


def _listed(names: Iterable[str], most: int) -> str:
    every = list(names)
    return ", ".join(every[:most]) + (" and more" if len(every) > most else "")
