"""YAML text -> plain data, with the line, the column and the very words of every value.

Stock PyYAML reads ``1e6`` as text, ``off`` as False, ``010`` as 8 and ``1:30`` as 90, and lets the later of two equal
keys win. This loader gives the scalars of YAML 1.2, and refuses duplicate keys, tags, anchors that explode and nesting
that would exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from simulator.errors import ConfigError, Problem
from simulator.spec.document import SHOWN, Document, PathKey, Place, dotted, shorten

__all__ = ["MAX_DEPTH", "MAX_FILE_BYTES", "MAX_VALUES", "Document", "PathKey", "Place", "parse", "read"]


MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 100_000
_TOO_MANY = f"at most {MAX_VALUES:,} values in one file, aliases counted in full"
_TOO_DEEP = f"values nested at most {MAX_DEPTH} deep"


class _RefusedError(yaml.MarkedYAMLError):
    """Something that YAML allows and this loader does not; ``problem`` says what is accepted."""


class _Loader(yaml.SafeLoader):
    """Scalars as YAML 1.2's core schema has them; no tags; stops early at too many or too deep values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.left = MAX_VALUES
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            shown = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            raise _RefusedError(problem=f"plain values, without a tag such as {shown}", problem_mark=event.start_mark)
        if self.left <= 0 or self.depth > MAX_DEPTH:
            raise _RefusedError(problem=_TOO_MANY if self.left <= 0 else _TOO_DEEP, problem_mark=event.start_mark)
        self.left -= 1
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})\Z"), list(_first))


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    # YAML 1.2: a leading zero does not mean octal. Python refuses integers of thousands of digits.
    text = str(loader.construct_scalar(node))
    if len(text) > 40:
        raise _RefusedError(problem="a number of at most 40 digits", problem_mark=node.start_mark)
    return int(text)


def _construct_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _RefusedError(problem="text; this escape is half a character", problem_mark=node.start_mark)
    return text


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:str", _construct_text)


def parse(text: str, file: str) -> Document:
    """Parse YAML ``text``; ``file`` is the name used in messages.

    Raises:
        ConfigError: text that is not YAML, a key given twice, a key that is not text, a tag, nesting deeper than
            ``MAX_DEPTH`` or more than ``MAX_VALUES`` values.
    """
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(file, None, {(): Place(file, 1, 1, "")})
        return _Walk(loader, file).document(node)
    except yaml.MarkedYAMLError as error:
        raise ConfigError((_syntax_problem(error, text, file),)) from None
    except yaml.reader.ReaderError as error:
        place = Place(file, *_line_and_column(text, error.position), "")
        accepts = f"text; the character U+{ord(text[error.position]):04X} may not stand in a file"
        raise ConfigError((place.problem("", accepts),)) from None
    finally:
        if loader is not None:
            loader.dispose()


class _Walk:
    """From composed nodes to data and places; mistakes about keys are gathered, so that all are told at once."""

    def __init__(self, loader: Any, file: str) -> None:
        self.loader, self.file = loader, file
        self.above: list[yaml.Node] = []
        self.places: dict[PathKey, Place] = {}
        self.problems: list[Problem] = []

    def document(self, node: yaml.Node) -> Document:
        data = self.value(node, (), node.start_mark)
        if self.problems:
            raise ConfigError(tuple(self.problems))
        return Document(self.file, data, self.places)

    def value(self, node: yaml.Node, path: PathKey, mark: Any) -> Any:
        self.refuse_excess(node, path)
        self.places[path] = self.place(node, mark)
        if isinstance(node, yaml.ScalarNode):
            return self.loader.construct_object(node)
        self.above.append(node)
        data: Any
        if isinstance(node, yaml.MappingNode):
            data = self.mapping(node, path)
        else:
            data = tuple(self.value(item, (*path, i), item.start_mark) for i, item in enumerate(node.value))
        self.above.pop()
        return data

    def refuse_excess(self, node: yaml.Node, path: PathKey) -> None:
        # Composing counted the values of the text; aliases repeat them.
        accepts = _TOO_DEEP if len(path) > MAX_DEPTH else _TOO_MANY if len(self.places) >= MAX_VALUES else ""
        if any(node is parent for parent in self.above):
            accepts = "an alias of something else; what is anchored here contains itself"
        if accepts:
            raise _RefusedError(problem=accepts, problem_mark=node.start_mark)

    def mapping(self, node: yaml.MappingNode, path: PathKey) -> dict[str | int, Any]:
        result: dict[str | int, Any] = {}
        lines: dict[str | int, int] = {}
        for key_node, value_node in node.value:
            key: Any = self.loader.construct_object(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if accepts := _key_problem(key, lines):
                self.problems.append(self.place(key_node, key_node.start_mark).problem(dotted(path), accepts))
                continue
            lines[key] = key_node.start_mark.line + 1
            result[key] = self.value(value_node, (*path, key), key_node.start_mark)
        return result

    def place(self, node: yaml.Node, mark: Any) -> Place:
        return Place(self.file, mark.line + 1, mark.column + 1, _words(node))


def _key_problem(key: Any, lines: Mapping[str | int, int]) -> str:
    # Whole numbers are keys too: `verify_step: {2: ..., 5: ...}` is keyed by T.
    if isinstance(key, bool) or not isinstance(key, str | int):
        return "a plain word or a whole number as key"
    if key == "<<":
        return "keys written out; '<<' merges nothing here"
    return f"each key once; '{shorten(str(key))}' was already given on line {lines[key]}" if key in lines else ""


def _words(node: yaml.Node) -> str:
    """What the file says at ``node``, on one line and not too long."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping" if node.value else "an empty mapping"
    if isinstance(node, yaml.SequenceNode):
        return f"a list of {len(node.value):,}" if node.value else "an empty list"
    start, end = node.start_mark.pointer, node.end_mark.pointer
    # Aliases can repeat a long text many times: look at no more of it than is shown.
    words = str(node.start_mark.buffer or "")[start : min(end, start + 4 * SHOWN)]
    return shorten(words.rstrip("\0")) or "nothing"


# What PyYAML says, and what a planner can do about it. The first that fits.
_SYNTAX = (
    (r"character '\\t'", "spaces; a tab cannot indent"),
    (r"found character '(.)' that cannot start", r"quotes around text that starts with \1"),
    (r"another document", "one document a file; here a second one begins"),
    (r"mapping values are not allowed", "one 'key: value' a line, level with the others; quotes around text with ': '"),
    (r"could not find expected ':'", "'key: value'; the colon is missing, or a quote or bracket before it is open"),
    (r"expected <block end>", "keys or items of one level in one column"),
    (r"expected ',' or '(.)'", r"a comma or \1 in what was opened with a bracket"),
    (r"quoted scalar.*unexpected end|unexpected end.*quoted scalar", "a quote that closes this text"),
    (r"unknown escape character", "an escape that YAML knows; between 'single quotes' a backslash is plain text"),
    (r"undefined alias", "an anchor of that name earlier in the file; quotes around text that starts with *"),
    (r"duplicate anchor", "each anchor once"),
    (r"scanning an? (?:alias|anchor)", "a name after * or &; quotes around text that starts with one of them"),
    (r"expected '?<document start>", "one mapping of keys; here something else begins"),
    (r"sequence entries are not allowed", "a list item on a line of its own"),
    (r"tag", "plain values, without a tag"),
    (r"directive|incompatible YAML", "a file without % directives"),
)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    reason = " ".join(str(part) for part in (error.problem, error.context) if part)
    mark: Any = error.problem_mark or error.context_mark
    if error.context_mark is not None and re.search("unexpected end of stream|expected ':'", reason):
        mark = error.context_mark  # the quote that was opened, the key without a colon: not where that was noticed
    lines = text.splitlines()
    words = shorten(lines[mark.line]) if mark.line < len(lines) else ""
    place = Place(file, mark.line + 1, mark.column + 1, words)
    if isinstance(error, _RefusedError):
        return place.problem("", str(error.problem))
    for pattern, accepts in _SYNTAX:
        if match := re.search(pattern, reason):
            return place.problem("", match.expand(accepts) if match.groups() else accepts)
    return place.problem("", "valid YAML")


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def read(
    path: Path,
    shown_as: str | None = None,
    parser: Callable[[str, str], Document] = parse,
    most_bytes: int = MAX_FILE_BYTES,
) -> Document:
    """Read and parse one file, of YAML unless ``parser`` reads something else.

    Raises:
        ConfigError: the file is missing, not a file, not UTF-8, larger than ``most_bytes``, or not YAML.
    """
    name = shown_as or str(path)
    line = column = 0
    try:
        return parser(_text(path, most_bytes), name)
    except OSError as error:
        reasons = {
            FileNotFoundError: "an existing file; there is none of this name",
            IsADirectoryError: "a file; this is a folder",
            PermissionError: "a file that may be read; permission was denied",
        }
        accepts = reasons.get(type(error), f"a file that can be read; {error.strerror or 'it cannot'}")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig", "replace")
        line, column = _line_and_column(before, len(before))
        accepts = "UTF-8 text; here it is encoded in another way"
    except OverflowError:
        accepts = f"a file of at most {most_bytes:,} bytes"
    except ValueError:
        accepts = "the name of a file; this one has a character that no name may have"
    raise ConfigError((Place(name, line, column, "").problem("", accepts),))


def _text(path: Path, most_bytes: int) -> str:
    # One byte more than is accepted, and no more: the file may be a pipe or a device without end.
    with path.open("rb") as file:
        raw = file.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise OverflowError
    return raw.decode("utf-8-sig")
