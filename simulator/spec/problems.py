"""Validation errors -> located problems in a planner's words.

The message quotes the file, never a Python repr, and never names a class or the validation library.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from simulator.errors import Problem
from simulator.spec.describe import (
    Node,
    accepted_keys,
    description,
    either,
    every_path,
    number,
    one_of,
    unit_of,
    walk,
    words,
)
from simulator.spec.document import Document, PathKey, dotted, get_path, shorten

MAX_MISTAKES = 1000
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
# What papers, servers and model cards call the same thing.
_OTHER_WORDS = {
    "alpha": "acceptance_rate",
    "gamma": "lookahead",
    "k": "lookahead",
    "num_speculative_tokens": "lookahead",
    "speculative_tokens": "lookahead",
    "nextn": "lookahead",
    "tp": "tensor_parallel",
    "tp_size": "tensor_parallel",
    "tensor_parallel_size": "tensor_parallel",
    "bs": "batch",
    "batch_size": "batch",
    "input_tokens": "prompt_tokens",
    "input_len": "prompt_tokens",
    "output_len": "output_tokens",
    "num_layers": "layers",
    "n_layers": "layers",
    "num_hidden_layers": "layers",
    "hidden_size": "d_model",
    "num_attention_heads": "heads",
    "n_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "n_kv_heads": "kv_heads",
    "intermediate_size": "d_ff",
    "vocab_size": "vocabulary",
    "vocab": "vocabulary",
    "tie_word_embeddings": "tied_embeddings",
    "torch_dtype": "weight_dtype",
    "dtype": "weight_dtype",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "fp8_e4m3": "fp8",
    "float8": "fp8",
}


def from_validation(
    error: ValidationError, document: Document, model: type[BaseModel], more_keys: tuple[str, ...] = ()
) -> list[Problem]:
    """Every mistake that ``error`` found in ``document``, which was read as ``model``.

    ``more_keys`` are top-level keys that the file may have although ``model`` does not know them.
    """
    items = error.errors(include_url=False, include_input=False)[:MAX_MISTAKES]
    mistakes = [_mistake(dict(item), document, model, more_keys) for item in items]
    # A misspelt key also leaves the right one missing: one mistake, told once.
    misspelt = {(*m.path[:-1], closest(str(m.path[-1]), m.known)) for m in mistakes if m.kind == "unknown"}
    holders = {m.path[:depth] for m in mistakes for depth in range(len(m.path))}
    found: dict[tuple[PathKey, str], Problem] = {}
    for mistake in mistakes:
        if (mistake.kind == "missing" and mistake.path in misspelt) or _is_echo(mistake, holders):
            continue
        accepts = _accepts(mistake, document)
        found.setdefault((mistake.path, accepts), _located(mistake, document, accepts))
    return list(found.values())


def in_file_order(problems: Iterable[Problem], first: str = "") -> tuple[Problem, ...]:
    """Sorted by file, then by line and column; what stands in ``first`` before all others."""
    return tuple(sorted(problems, key=lambda p: (p.file != first, p.file, p.line, p.column)))


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'lookahead'?`` or the list of what there is."""
    names = sorted(known)
    if close := closest(word, names):
        return f"; did you mean '{close}'?"
    shown = ", ".join(names[:16]) + (", ..." if len(names) > 16 else "")
    return f"; accepted here: {shown}" if names else ""


def closest(word: str, known: Iterable[str]) -> str:
    """The one of ``known`` that ``word`` was probably meant to be; empty where none is near."""
    names = sorted(known)
    other = _OTHER_WORDS.get(word.lower().replace("-", "_"), "")
    if other in names:
        return other
    close = difflib.get_close_matches(word[:100], names, n=1, cutoff=0.6)
    return close[0] if close else ""


def elsewhere(word: str, model: type[BaseModel], refused: str = "") -> str:
    """``; did you mean 'decoding.lookahead'?`` where ``word`` is a key, but of another place than ``refused``."""
    wanted = _OTHER_WORDS.get(word.lower(), word)
    paths = [f"'{path}'" for path in every_path(model) if path.rpartition(".")[2] == wanted and path != refused]
    return f"; did you mean {' or '.join(paths[:2])}?" if paths else ""


@dataclass(frozen=True)
class _Mistake:
    """One error of the validator, seen from the file."""

    kind: str
    """`missing`, `unknown`, `key`, `tag`, `problem`, or the validator's own word."""
    context: dict[str, Any]
    path: PathKey
    nodes: tuple[Node, ...]
    """What may stand at ``path``; for a mistake about a `kind`, the union that it belongs to."""
    parents: tuple[Node, ...]
    known: list[str]
    """The keys that may stand beside it."""
    model: type[BaseModel]


def _mistake(item: dict[str, Any], document: Document, model: type[BaseModel], more_keys: tuple[str, ...]) -> _Mistake:
    kind, context = item["type"], item.get("ctx", {})
    # The validator marks a mistake in a key itself; a file may have a key of that very name, which is then unknown.
    of_key = item["loc"][-1:] == ("[key]",) and kind not in ("extra_forbidden", "invalid_key")
    path = _path_in_file(item["loc"][:-1] if of_key else item["loc"], model)
    data = document.data
    nodes, parents = walk((Node(model),), path, data), walk((Node(model),), path[:-1], data)
    if kind == "union_tag_invalid":
        kind, path = "tag", (*path, "kind")
    elif kind == "union_tag_not_found" and isinstance(_value(document, path), dict):
        kind, path = "missing", (*path, "kind")
    elif of_key:
        kind = "key"
    elif kind in ("extra_forbidden", "invalid_key"):
        kind = "unknown"
    elif kind == "problem" and (key := context.get("key")) and isinstance(_value(document, path), dict):
        path = (*path, *key.split("."))
    known = accepted_keys(parents) + list(more_keys if len(path) == 1 else ())
    return _Mistake(kind, context, path, nodes, parents, known, model)


def _path_in_file(loc: tuple[int | str, ...], model: type[BaseModel]) -> PathKey:
    """A location without what the validator puts in and the file does not have: the variants of unions."""
    path: PathKey = ()
    nodes: tuple[Node, ...] = (Node(model),)
    for part in loc:
        if any(len(node.members) > 1 for node in nodes):
            members = tuple(member for node in nodes for member in node.members)
            nodes = tuple(member for member in members if member.kind == part) or members
            continue
        path = (*path, part)
        nodes = tuple(child for node in nodes for child in node.child(part))
    return path


def _is_echo(mistake: _Mistake, holders: set[PathKey]) -> bool:
    """Whether ``mistake`` only repeats that something inside is wrong; ``holders`` are the paths that hold mistakes.

    A list with wrong items also counts as too short, and a union also says what its other variants would be.
    """
    may_be = mistake.kind == "too_short" or any(len(node.members) > 1 for node in mistake.nodes)
    return may_be and mistake.path in holders


def _located(mistake: _Mistake, document: Document, accepts: str) -> Problem:
    name = dotted(mistake.path)
    if mistake.kind == "missing":
        return document.inside(mistake.path[:-1]).problem(name, accepts, "")
    words = shorten(str(mistake.path[-1])) if mistake.kind == "key" else None
    return document.place(mistake.path).problem(name, accepts, words)


def _accepts(mistake: _Mistake, document: Document) -> str:
    name, text = str(mistake.path[-1]) if mistake.path else "", document.place(mistake.path).text
    if mistake.kind == "problem":
        return str(mistake.context["accepts"])
    if mistake.kind == "missing":
        return f"the key '{name}', which is missing: {_missing(mistake)}"
    if mistake.kind == "unknown":
        kinds = [parent.kind for parent in mistake.parents if parent.kind]
        here = f" where kind is {kinds[0]}" if kinds else ""
        guess = "" if closest(name, mistake.known) else elsewhere(name, mistake.model, dotted(mistake.path))
        return f"no such key{here}{guess or nearest(name, mistake.known)}"
    if mistake.kind == "tag":
        return _with_guess(one_of(_kinds(mistake.nodes)), text, _kinds(mistake.nodes))
    if mistake.kind == "key":
        keys = [Node.of(get_args(m.base)[0]) for n in mistake.parents for m in n.members if get_origin(m.base) is dict]
        return _either(keys, name)
    unit = next((unit_of(node) for node in mistake.nodes if unit_of(node)), "")
    if unit and mistake.kind in _BOUNDS:
        bound, comparison = _BOUNDS[mistake.kind]
        return f"{comparison} {number(mistake.context[bound])} {unit}"
    return _either(mistake.nodes, text) + _rewritten(mistake.nodes, _value(document, mistake.path))


def _missing(mistake: _Mistake) -> str:
    if mistake.path[-1] == "kind" and mistake.kind == "missing":
        return one_of(_kinds(mistake.nodes))
    return either("; ".join(text for text in (description(node), words(node)) if text) for node in mistake.nodes)


def _kinds(nodes: Iterable[Node]) -> list[str]:
    return [member.kind for node in nodes for member in node.members if member.kind]


def _either(nodes: Iterable[Node], text: str) -> str:
    """What any of ``nodes`` accepts, with the word that ``text`` was probably meant to be."""
    said = []
    for node in nodes:
        choices = get_args(node.base) if get_origin(node.base) is Literal else ()
        write = f"; write {{kind: {text}}}" if text in _kinds((node,)) else ""
        said.append(_with_guess(words(node), text, choices) + write)
    return either(said) or "something else"


def _with_guess(said: str, text: str, choices: Iterable[Any]) -> str:
    close = closest(text.strip("'\""), map(str, choices))
    return f"{said}; did you mean '{close}'?" if close else said


def _rewritten(nodes: Iterable[Node], value: Any) -> str:
    """How to write ``1e6`` where only a whole number will do, and ``70 %`` where a number is wanted."""
    kinds = {member.base for node in nodes for member in node.members}
    if int in kinds and isinstance(value, float) and abs(value) < 1e15 and value == int(value):
        return f"; write {int(value)}"
    percent = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?%", value) if isinstance(value, str) else None
    return f"; write {float(percent[1]) / 100:g}" if percent and float in kinds else ""


def _value(document: Document, path: PathKey) -> Any:
    """What the file has at ``path``; None where it has nothing."""
    try:
        return get_path(document.data, path)
    except KeyError:
        return None
