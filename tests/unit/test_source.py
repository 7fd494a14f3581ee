"""Is YAML read as YAML 1.2, with the place of everything, and is hostile text refused quickly?"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import ConfigError, Problem
from simulator.spec.document import Document, dotted, get_path, set_path, shorten, walk_paths
from simulator.spec.source import MAX_DEPTH, MAX_FILE_BYTES, parse, read


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    return caught.value.problems


def only(text: str) -> Problem:
    (problem,) = problems(text)
    return problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e6", 1e6),
        ("1E-3", 1e-3),
        (".5", 0.5),
        ("5.", 5.0),
        ("+5", 5),
        ("-0", 0),
        ("010", 10),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2024-01-05", "2024-01-05"),
        ("off", "off"),
        ("yes", "yes"),
        ("No", "No"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("nil", "nil"),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("'5'", "5"),
        ('"true"', "true"),
        ("1e999", float("inf")),
        ("1e", "1e"),
        ("=", "="),
        ("<<", "<<"),
        ("100 GB/s", "100 GB/s"),
        ("[]", ()),
        ("{}", {}),
        ("[1, [2, a]]", (1, (2, "a"))),
        ("{2: a, b: {c: 1}}", {2: "a", "b": {"c": 1}}),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    given = parse(f"k: {text}", "f.yaml").data["k"]
    assert given == value
    assert type(given) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(parse("k: .nan", "f.yaml").data["k"])


def test_every_path_has_its_place_and_its_words() -> None:
    text = "# first\na: {b: 1e6, 'c d': [ x,  y ]}\ne:\n  - f: |\n      long\n      text\n  -\n"
    document = parse(text, "f.yaml")
    assert set(document.places) == set(walk_paths(document.data))
    shown = {dotted(path): (place.line, place.column, place.text) for path, place in document.places.items()}
    assert shown == {
        "": (2, 1, "a mapping"),
        "a": (2, 1, "a mapping"),
        "a.b": (2, 5, "1e6"),
        "a.c d": (2, 13, "a list of 2"),
        "a.c d[0]": (2, 22, "x"),
        "a.c d[1]": (2, 26, "y"),
        "e": (3, 1, "a list of 2"),
        "e[0]": (4, 5, "a mapping"),
        "e[0].f": (4, 5, "| long text"),
        "e[1]": (5 + 2, 4, "nothing"),
    }


def test_words_are_cut_and_on_one_line() -> None:
    place = parse(f"k: {'x ' * 100}", "f.yaml").place(("k",))
    assert len(place.text) == 60
    assert place.text.endswith("...")


def test_place_of_what_is_not_there_is_that_of_its_parent() -> None:
    document = parse("a: {b: 1}", "f.yaml")
    assert document.place(("a", "x", 3)).column == 1
    assert document.place(("a", "b", "x")).text == "1"
    assert Document("f.yaml", None).place(("a",)).line == 0


def test_all_duplicate_keys_are_told() -> None:
    found = problems("a: 1\nb: {c: 1, c: 2}\na: 3\n1: x\n1: y\n'1': z\n")
    assert [(p.line, p.column, p.path) for p in found] == [(2, 11, "b"), (3, 1, ""), (5, 1, "")]
    assert found[1].accepts == "each key once; 'a' was already given on line 1"


@pytest.mark.parametrize(
    "text", ["!!python/object:os.system {}", "!!set {a, b}", "!!omap [a: 1]", "!!float x", "!x 1", "! 1"]
)
@pytest.mark.parametrize("frame", ["{}", "k: {}", "- {}", "{}: k"])
def test_tags_are_refused(text: str, frame: str) -> None:
    assert "plain values, without a tag" in only(frame.replace("{}", text, 1)).accepts


@pytest.mark.parametrize("text", ["<<: {a: 1}", "a: &a {b: 1}\nc: {<<: *a, b: 2}"])
def test_merge_keys_are_refused(text: str) -> None:
    assert only(text).found == "<<"


def test_second_document_is_refused() -> None:
    assert only("a: 1\n---\nb: 2\n").accepts == "one document a file; here a second one begins"
    assert parse("---\na: 1\n...\n", "f.yaml").data == {"a": 1}


def test_tab_is_named() -> None:
    assert only("a:\n\tb: 1\n").accepts == "spaces; a tab cannot indent"


def test_aliases_repeat_data_and_stay_apart() -> None:
    document = parse("a: &x {b: 1}\nc: *x\n", "f.yaml")
    document.data["c"]["b"] = 2
    assert document.data["a"] == {"b": 1}
    assert document.place(("c", "b")).line == 1


def laughs(levels: int, text: str = "x") -> str:
    lines = [f"a0: &a0 [{', '.join([text] * 9)}]"]
    return "\n".join([*lines, *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels))])


@pytest.mark.parametrize(
    ("text", "accepts"),
    [
        pytest.param(laughs(30), "at most 100,000 values", id="billion laughs"),
        pytest.param(laughs(30, "&b {}"), "each anchor once", id="laughing anchors"),
        pytest.param("a: &a [*a, *a, *a]", "contains itself", id="alias of itself"),
        pytest.param("a: &a {b: [{c: *a}]}", "contains itself", id="deep alias of itself"),
        pytest.param("a: &a " + "x" * 500_000 + "\nb: [" + "*a, " * 110_000 + "]", "at most 100,000", id="long alias"),
        pytest.param("[" * 5_000, "nested at most 32 deep", id="brackets"),
        pytest.param("{a: " * 5_000, "nested at most 32 deep", id="braces"),
        pytest.param("- " * 5_000, "nested at most 32 deep", id="dashes"),
        pytest.param("? " * 5_000, "nested at most 32 deep", id="questions"),
        pytest.param("".join(f"{' ' * i}a:\n" for i in range(1_200)), "nested at most 32 deep", id="indentation"),
        pytest.param("a: " + "7" * 100_000, "at most 40 digits", id="digits"),
        pytest.param("[" + "1," * 400_000 + "]", "at most 100,000 values", id="many numbers"),
        pytest.param("a: \x00", "U+0000", id="zero byte"),
        pytest.param('a: "\\uDC00"', "half a character", id="surrogate"),
        pytest.param('"\\uDC00": a', "half a character", id="surrogate key"),
        pytest.param("a: \ud800", "U+D800", id="raw surrogate"),
    ],
)
def test_hostile_text_is_refused(text: str, accepts: str) -> None:
    problem = only(text)
    assert accepts in problem.accepts
    assert problem.line >= 1
    assert len(str(problem)) < 500


def test_nesting_up_to_the_limit_is_read() -> None:
    parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f.yaml")
    assert "nested" in only("[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1)).accepts


@pytest.mark.parametrize(
    ("raw", "line", "accepts"),
    [
        (b"name: caf\xe9\n", 1, "UTF-8 text; here it is encoded in another way"),
        (b"a: 1\nb: \xff\n", 2, "UTF-8 text; here it is encoded in another way"),
        ("name: x\n".encode("utf-16"), 1, "UTF-8 text; here it is encoded in another way"),
        (bytes(range(256)), 2, "UTF-8 text; here it is encoded in another way"),
        (b"\x1f\x8b\x08\x00", 1, "UTF-8 text; here it is encoded in another way"),
        (b"a: 1\n" * (MAX_FILE_BYTES // 5 + 1), 0, "a file of at most 1,048,576 bytes"),
        (b"#" * (MAX_FILE_BYTES + 1), 0, "a file of at most 1,048,576 bytes"),
    ],
)
def test_bytes_that_are_no_yaml(raw: bytes, line: int, accepts: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path / "f.yaml", "f.yaml")
    assert [(p.file, p.line, p.accepts) for p in caught.value.problems] == [("f.yaml", line, accepts)]


def test_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    document = read(tmp_path / "f.yaml")
    assert document.data == {"a": 1, "b": 2}
    assert document.place(("b",)).line == 2


def test_largest_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("a: " + "x" * (MAX_FILE_BYTES - 3))
    assert len(read(tmp_path / "f.yaml").data["a"]) == MAX_FILE_BYTES - 3


@pytest.mark.parametrize(
    ("name", "accepts"),
    [
        ("nothing.yaml", "an existing file; there is none of this name"),
        (".", "a file; this is a folder"),
        ("a\0b", "the name of a file; this one has a character that no name may have"),
        ("x" * 300, "a file that can be read; File name too long"),
    ],
)
def test_files_that_cannot_be_read(name: str, accepts: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path / name, "f.yaml")
    assert [(p.line, p.accepts) for p in caught.value.problems] == [(0, accepts)]


@pytest.mark.skipif(not hasattr(os, "mkfifo") or not Path("/dev/zero").exists(), reason="needs pipes and /dev/zero")
def test_endless_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 1,048,576 bytes"):
        read(Path("/dev/zero"))


def test_message_cannot_steer_a_terminal() -> None:
    problem = only('"\\e[31m": 1\n"\\e[31m": 2\n')
    assert "\x1b" not in str(problem)
    assert "\x1b" not in str(Problem("a\x1b.yaml", 1, 1, "\x1b", "\x1b", "x\ny"))


def test_paths() -> None:
    data = {"a": {"b": (1, {"c": 2})}}
    assert get_path(data, ("a", "b", 1, "c")) == 2
    for path in [("x",), ("a", "b", 7), ("a", "b", "c"), ("a", "b", 0, "d")]:
        with pytest.raises(KeyError):
            get_path(data, path)
    set_path(data, ("a", "new", "deep"), 3)
    assert data["a"]["new"] == {"deep": 3}
    with pytest.raises(KeyError):
        set_path(data, ("a", "b", "c"), 3)


def test_graft_tells_mistakes_where_they_stand() -> None:
    whole, part = parse("# here\na: name\nb: 1\n", "whole.yaml"), parse("\nc: {d: 1}\n", "part.yaml")
    whole.graft(("a",), part)
    assert whole.data == {"a": {"c": {"d": 1}}, "b": 1}
    assert (whole.place(("a",)).file, whole.place(("a",)).line) == ("whole.yaml", 2)
    assert (whole.place(("a", "c", "d")).file, whole.place(("a", "c", "d")).line) == ("part.yaml", 2)
    assert whole.inside(("a",)).file == "part.yaml"
    whole.data["a"]["c"]["d"] = 2
    assert part.data == {"c": {"d": 1}}


@pytest.mark.parametrize(
    "text",
    [
        "a: b: c",
        "a: [1",
        'a: "x',
        "a: 'x\n---",
        "a: @b",
        "a: `b`",
        "a: %b",
        "a\nb: 1",
        "a: *b",
        "- a\nb: 1",
        "a: 1\n b: 2",
        "a: |7x\n",
        "a: >-x",
        "{a: 1, ]",
        "&a &b c",
        "? [a",
        "!<a: b",
        "%YAML 9.9\n---\n",
        "%TAG\n---\na: 1",
        '"\\xZ": 1',
        "a: &\n",
        "]",
        "a: - b",
    ],
)
def test_syntax_messages_name_no_internals(text: str) -> None:
    problem = only(text)
    assert problem.line >= 1
    assert problem.accepts != ""
    assert not any(word in problem.accepts for word in ("<", "token", "0x", "block mapping", "None"))
    assert shorten(problem.found) == problem.found
