"""Validation errors -> located problems in a planner's words.

The message quotes the file, never a Python repr, and never names a class or the validation library.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from simulator.errors import Problem
from simulator.spec.source import Document, PathKey, get_path

_COMPARISONS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "union_tag_not_found": "a mapping with the key 'kind'",
}


def from_validation(error: ValidationError, document: Document, model: type[BaseModel]) -> list[Problem]:
    """Every mistake that ``error`` found in ``document``, which was read as ``model``."""
    found: dict[tuple[PathKey, str], Problem] = {}
    for item in error.errors(include_url=False):
        path = _path_in_file(item["loc"], document)
        missing = item["type"] == "missing"
        if item["type"] == "union_tag_invalid":
            path = (*path, "kind")
        place = document.place(path[:-1] if missing else path)
        accepts = _accepts(dict(item), model, path)
        words = "" if missing else place.text
        if item["type"] == "extra_forbidden":
            words = place.text if place.text not in ("a mapping", "a list") else f"{path[-1]}: {place.text}"
        problem = Problem(place.file, place.line, place.column, dotted(path), words, accepts)
        found.setdefault((path, accepts), problem)
    return list(found.values())


def in_file_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sorted by file, then by line and column."""
    return tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column, p.path)))


def dotted(path: PathKey) -> str:
    """``('draft', 'layers', 0)`` -> ``draft.layers[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(word: str, words: Iterable[str]) -> str:
    """``; did you mean 'lookahead'?`` or the list of what there is."""
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return f"; accepted here: {shown}" if known else ""


def _path_in_file(loc: tuple[int | str, ...], document: Document) -> PathKey:
    """Drop what the validator put into a location but the file does not have: tags of unions."""
    path: PathKey = ()
    for index, part in enumerate(loc):
        try:
            get_path(document.data, (*path, part))
        except KeyError:
            # A missing key is the last part; anything else that is not in the file is a tag.
            if index == len(loc) - 1 and isinstance(part, str) and not part.startswith("function-"):
                path = (*path, part)
            continue
        path = (*path, part)
    return path


def _accepts(item: dict[str, Any], model: type[BaseModel], path: PathKey) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind == "quantity":
        return str(context["accepts"])
    if kind in ("problem", "value_error", "assertion_error"):
        return str(context.get("accepts", context.get("error", item["msg"])))
    if kind == "missing":
        return f"the key '{path[-1]}', which is missing{_describe(model, path)}"
    if kind == "extra_forbidden":
        return f"no such key{nearest(str(path[-1]), _keys_at(model, path[:-1], item))}"
    if kind in _COMPARISONS:
        name, words = _COMPARISONS[kind]
        return f"{words} {context[name]:,}" if isinstance(context[name], int) else f"{words} {context[name]:g}"
    if kind in ("literal_error", "enum"):
        return f"one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')}"
    if kind == "union_tag_invalid":
        tags = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
        return f"one of {', '.join(tags)}{_guess(str(context['tag']), tags)}"
    if kind in ("too_short", "string_too_short"):
        return f"at least {context.get('min_length', 1)} of them" if kind == "too_short" else "text that is not empty"
    if kind in ("too_long", "string_too_long"):
        return f"at most {context['max_length']:,} {'of them' if kind == 'too_long' else 'characters'}"
    if kind == "string_pattern_mismatch":
        return "a name of letters, digits and . _ + -, at most 80"
    message = str(item["msg"])
    return _TYPES.get(kind, message[:1].lower() + message[1:])


def _guess(word: str, words: list[str]) -> str:
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def _describe(model: type[BaseModel], path: PathKey) -> str:
    for candidate in models_at(model, path[:-1]):
        for name, info in candidate.model_fields.items():
            if path[-1] in (name, info.alias) and info.description:
                return f": {' '.join(info.description.split())}"
    return ""


def _keys_at(model: type[BaseModel], path: PathKey, item: dict[str, Any]) -> list[str]:
    """The keys that were accepted where an unknown one stood; for a union, those of the variant that was read."""
    candidates = models_at(model, path)
    tags = {str(part) for part in item["loc"]}
    tagged = [m for m in candidates if tags & {str(tag) for tag in _tags(m)}]
    return [info.alias or name for m in (tagged or candidates) for name, info in m.model_fields.items()]


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(model.model_fields["kind"].annotation) if "kind" in model.model_fields else ()


def models_at(model: type[BaseModel], path: PathKey) -> list[type[BaseModel]]:
    current: list[type[BaseModel]] = [model]
    for part in path:
        if isinstance(part, int):
            continue
        following: list[type[BaseModel]] = []
        for candidate in current:
            hit = [i for n, i in candidate.model_fields.items() if part in (n, i.alias)]
            following += [m for info in hit for m in models_in(info.annotation)]
        current = following or current
    return current


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is None:
        return []
    return [m for argument in get_args(annotation) for m in models_in(argument)]
