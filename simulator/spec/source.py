"""YAML text -> plain data, with the line, the column and the very words of every value.

Stock PyYAML reads ``1e6`` as text, ``off`` as False, ``010`` as 8 and ``1:30`` as 90, and lets the later of two
equal keys win. This loader gives the scalars of YAML 1.2, refuses duplicate keys, anchors that explode and
nesting that would exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from simulator.errors import ConfigError, Problem

PathKey = tuple[str | int, ...]
MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 100_000


@dataclass(frozen=True)
class Place:
    """Where a value stands: its key (``line``, ``column``, both from 1) and its own words (``text``)."""

    file: str
    line: int
    column: int
    text: str


@dataclass
class Document:
    """Plain data (dict, tuple, str, int, float, bool, None) and the place of every path in it."""

    file: str
    data: Any
    places: dict[PathKey, Place] = field(default_factory=dict)

    def place(self, path: PathKey) -> Place:
        """The place of ``path``, or of the nearest parent that is in the file."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return Place(self.file, 0, 0, "")

    def graft(self, path: PathKey, other: Document, keep_place: bool = True) -> None:
        """Put ``other`` where ``path`` points, so that its mistakes are reported in its own file.

        The place of ``path`` itself stays that of the reference, unless ``keep_place`` is False.
        """
        set_path(self.data, path, copy_data(other.data))
        for stale in [key for key in self.places if key[: len(path)] == path and key != path]:
            del self.places[stale]
        for key, place in other.places.items():
            if key or not keep_place:
                self.places[path + key] = place

    def part(self, path: PathKey) -> Document:
        """The value at ``path`` as a document of its own."""
        places = {key[len(path) :]: place for key, place in self.places.items() if key[: len(path)] == path}
        return Document(self.file, get_path(self.data, path), places)

    def copy(self) -> Document:
        """A copy that can be changed without touching this one."""
        return Document(self.file, copy_data(self.data), dict(self.places))


class _Loader(yaml.SafeLoader):
    """Scalars as YAML 1.2's core schema has them."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    # YAML 1.2: a leading zero does not mean octal, and Python refuses integers of thousands of digits.
    text = loader.construct_scalar(node)
    if len(text) > 40:
        raise yaml.constructor.ConstructorError(None, None, "a number of at most 40 digits", node.start_mark)
    return int(text)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def _problem(file: str, mark: Any, accepts: str, found: str = "") -> ConfigError:
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
    return ConfigError((Problem(file, line, column, "", found, accepts),))


def parse(text: str, file: str) -> Document:
    """Parse YAML ``text``; ``file`` is the name used in messages.

    Raises:
        ConfigError: text that is not YAML, a key given twice, a key that is not text, nesting deeper than
            ``MAX_DEPTH`` or more than ``MAX_VALUES`` values.
    """
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        document = Document(file, None)
        if node is None:
            document.places[()] = Place(file, 1, 1, "")
            return document
        document.data = _walk(loader, node, (), node.start_mark, document, [MAX_VALUES])
        return document
    except yaml.MarkedYAMLError as error:
        reason = " ".join(str(part) for part in (error.problem, error.context) if part)
        raise _problem(file, error.problem_mark or error.context_mark, f"valid YAML; {reason}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _problem(file, None, f"valid YAML; {' '.join(str(error).split())[:200]}") from None
    except RecursionError:
        raise _problem(file, None, f"values nested at most {MAX_DEPTH} deep") from None
    finally:
        if loader is not None:
            loader.dispose()


def _walk(loader: Any, node: yaml.Node, path: PathKey, mark: Any, document: Document, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise _problem(document.file, node.start_mark, f"at most {MAX_VALUES:,} values in one file, aliases expanded")
    if len(path) > MAX_DEPTH:
        raise _problem(document.file, node.start_mark, f"values nested at most {MAX_DEPTH} deep")
    document.places[path] = Place(document.file, mark.line + 1, mark.column + 1, _words(node))
    if isinstance(node, yaml.MappingNode):
        return _walk_mapping(loader, node, path, document, left)
    if isinstance(node, yaml.SequenceNode):
        return tuple(
            _walk(loader, item, (*path, index), item.start_mark, document, left) for index, item in enumerate(node.value)
        )
    return loader.construct_object(node)


def _walk_mapping(loader: Any, node: yaml.MappingNode, path: PathKey, document: Document, left: list[int]) -> Any:
    result: dict[str | int, Any] = {}
    lines: dict[Any, int] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node) if isinstance(key_node, yaml.ScalarNode) else None
        # Whole numbers are keys too: `verify_step: {2: ..., 5: ...}` is keyed by T.
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise _problem(document.file, key_node.start_mark, "a plain word or a whole number as key", _words(key_node))
        if key in lines:
            accepts = f"each key once; '{key}' was already given on line {lines[key]}"
            raise _problem(document.file, key_node.start_mark, accepts, f"{key} a second time")
        lines[key] = key_node.start_mark.line + 1
        result[key] = _walk(loader, value_node, (*path, key), key_node.start_mark, document, left)
    return result


def _words(node: yaml.Node) -> str:
    """What the file says at ``node``, on one line and not too long."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping" if node.value else "an empty mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list" if node.value else "an empty list"
    if node.start_mark.buffer is None:
        return str(node.value)
    words = node.start_mark.buffer[node.start_mark.pointer : node.end_mark.pointer].rstrip("\0")
    words = " ".join(words.split())
    return words if len(words) <= 60 else f"{words[:57]}..."


def read(path: Path, shown_as: str | None = None) -> Document:
    """Read and parse one YAML file.

    Raises:
        ConfigError: the file is missing, not a file, not UTF-8, larger than ``MAX_FILE_BYTES``, or not YAML.
    """
    name = shown_as or str(path)
    try:
        if path.is_dir():
            raise _problem(name, None, "a file; this is a folder")
        raw = path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else None
    except FileNotFoundError:
        raise _problem(name, None, "an existing file; there is none of this name") from None
    except OSError as error:
        raise _problem(name, None, f"a readable file; {error.strerror or error}") from None
    if raw is None:
        raise _problem(name, None, f"a file of at most {MAX_FILE_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _problem(name, None, f"UTF-8 text; byte {error.start} is not") from None
    return parse(text, name)


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
