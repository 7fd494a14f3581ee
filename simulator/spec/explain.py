"""What a key of a scenario, a hardware profile or a model means: ``explain('decoding.lookahead')``.

Everything said comes from the schema, so it cannot fall behind it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from simulator.errors import ConfigError, Problem
from simulator.spec.axes import path_problem
from simulator.spec.describe import Node, description, keys_of, one_of, range_words, unit_of, words
from simulator.spec.hardware import HardwareProfile
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario

_WIDTH = 100
_ROOTS: tuple[type[BaseModel], ...] = (Scenario, HardwareProfile, ModelSpec)
# What a scenario file may say besides the keys of the schema classes.
MORE_KEYS = {
    "base": "Another scenario file, relative to this one; what is not stated here is taken from there. Optional.",
    "sweep": "Dotted paths and the values that each takes, such as decoding.lookahead: [2, 4]; one point for every "
    "combination, the last path fastest. Optional.",
}


def explain(path: str = "") -> str:
    """What ``path`` means, in text of at most 100 columns; the keys of a whole scenario where it is empty.

    A path may start at a scenario, at a hardware profile (``peaks.hbm_bandwidth``) or at a model (``layers``).

    Raises:
        ConfigError: there is no such key; the message names the nearest.
    """
    if path in MORE_KEYS:
        return _entry(path, MORE_KEYS[path])
    nodes = _nodes(path)
    if not nodes:
        first = path.partition(".")[0]
        root = next((root for root in _ROOTS if first in keys_of(root)), Scenario)
        raise ConfigError((Problem("", 0, 0, path, "", path_problem(path, root)),))
    lines = (
        [_entry(path, _said(path, nodes))]
        if path
        else ["The keys of a scenario.", "", *map(_entry, MORE_KEYS, MORE_KEYS.values())]
    )
    return "\n".join([*lines, *_sections(nodes)])


def _nodes(path: str) -> tuple[Node, ...]:
    for root in _ROOTS:
        nodes: tuple[Node, ...] = (Node(root),)
        for part in path.replace("[", ".").replace("]", "").split(".") if path else ():
            nodes = tuple(child for node in nodes for child in _below(node, part))
        if nodes:
            return nodes
    return ()


def _below(node: Node, part: str) -> Iterator[Node]:
    """What stands at ``part``; in a list, the item itself or, without its number, what stands in it."""
    yield from node.child(part)
    for member in node.members:
        if get_origin(member.base) is tuple:
            item = Node.of(get_args(member.base)[0])
            yield from (item,) if part.isdecimal() else item.child(part)


def _said(path: str, nodes: Iterable[Node]) -> str:
    """What a key is; where variants of a union share it, what it is in each."""
    if path.endswith("kind"):
        kinds = one_of(word for node in nodes for word in get_args(node.base))
        return f"Which variant it is. {kinds[:1].upper()}{kinds[1:]}. Required."
    return " ".join(dict.fromkeys(_sentences(node) for node in nodes))


def _sentences(node: Node) -> str:
    accepted = words(node) + (range_words(node, f" {unit_of(node)}") if unit_of(node) else "")
    parts = [description(node), f"{accepted[:1].upper()}{accepted[1:]}", _default(node)]
    return " ".join(f"{part}." for part in parts if part)


def _default(node: Node) -> str:
    if node.field is None:
        return ""
    if node.field.is_required():
        return "Required"
    value = node.field.default
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel) or value in ((), {}):
        return "Optional"
    return f"Default: {_shown(value)}{' ' if unit_of(node) else ''}{unit_of(node)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sections(nodes: Iterable[Node]) -> Iterator[str]:
    """The keys below, a line each; of a union, those of every variant under its kind."""
    for model in dict.fromkeys(model for node in nodes for model in _models(node)):
        kind = Node(model).kind
        yield ""
        if kind:
            yield _entry(f"  kind: {kind}", " ".join((model.__doc__ or "").split()))
        for key, field in keys_of(model).items():
            if key != "kind":
                yield _entry(f"{'    ' if kind else '  '}{key}", _sentences(Node.of_field(field)))


def _models(node: Node) -> Iterator[type[BaseModel]]:
    """The schema classes of a key, of the items of its list, or of the values of its mapping."""
    for member in node.members:
        inner = (
            Node.of(get_args(member.base)[-1 if get_origin(member.base) is dict else 0])
            if get_args(member.base)
            else member
        )
        if inner.model is not None:
            yield inner.model


def _entry(name: str, text: str) -> str:
    indent = "  " * (len(name) - len(name.lstrip()) + 1)
    return textwrap.fill(f"{name}   {text}", _WIDTH, subsequent_indent=indent, break_long_words=False)
