"""Whatever stands in a log or a result file, importing it gives values in bounds or a ConfigError to read."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from simulator.cli import app
from simulator.errors import ConfigError
from simulator.importing.measurements import FORMATS, import_source, source_of, with_scenario
from simulator.importing.measurements.words import data_of, report_lines
from simulator.spec.load import Point
from tests.builders import scenario
from tests.measurement_files import FILES, REFUSED

TEXTS = {**{name: text for name, (_, text) in FILES.items()}, **{name: text for name, (*_, text) in REFUSED.items()}}
NUMBERS = (
    *("NaN", "nan", "-nan", "inf", "Infinity", "-Infinity", "-1", "-0.0", "0", "1e400", "1e-400", "9" * 60, "9" * 5000),
    *(
        "1e15",
        "0.0000001",
        "true",
        "null",
        '"text"',
        '"7"',
        "[]",
        "{}",
        "[[[[]]]]",
        "1,000",
        "1.2.3",
        "0x10",
        "1e999999",
    ),
)
JUNK = (
    "\x00",
    "\x1b[31m",
    "\ufeff",
    "\r",
    "\N{PILE OF POO}",
    "\u202e",
    "{",
    "}",
    '"',
    "\\u12",
    "\x85",
    "{'a': None}",
    "\t",
    "#",
)
POINTS = [
    Point(scenario(decoding__lookahead=k, workload__batch=b), {"decoding.lookahead": k, "workload.batch": b})
    for k in (3, 4)
    for b in (1, 4)
]


def mutated(text: str, rng: random.Random) -> str:
    """``text`` with one to three things wrong."""
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(MUTATIONS)(text, rng)
    return text


def cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def behead(text: str, rng: random.Random) -> str:
    return text[rng.randrange(len(text) + 1) :]


def number(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", text))
    if not found:
        return text
    at = rng.choice(found)
    return text[: at.start()] + rng.choice((*NUMBERS, f"-{at[0]}", at[0] + "0", at[0][:-1])) + text[at.end() :]


def shuffled(text: str, rng: random.Random) -> str:
    rows = text.split("\n")
    rng.shuffle(rows)
    return "\n".join(rows)


def swapped(text: str, rng: random.Random) -> str:
    rows = text.split("\n")
    if len(rows) > 1:
        at = rng.randrange(len(rows) - 1)
        rows[at], rows[at + 1] = rows[at + 1], rows[at]
    return "\n".join(rows)


def dropped(text: str, rng: random.Random) -> str:
    rows = text.split("\n")
    del rows[rng.randrange(len(rows))]
    return "\n".join(rows)


def repeated(text: str, rng: random.Random) -> str:
    rows = text.split("\n")
    at = rng.randrange(len(rows))
    return "\n".join([*rows[: at + 1], rows[at], *rows[at + 1 :]])


def junk(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(JUNK) + text[at:]


def mixed(text: str, rng: random.Random) -> str:
    """Two logs in one file, line by line."""
    rows, others = text.split("\n"), rng.choice(list(TEXTS.values())).split("\n")
    for other in others:
        rows.insert(rng.randrange(len(rows) + 1), other)
    return "\n".join(rows)


def ends(text: str, rng: random.Random) -> str:
    return text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", "\x1b[0m\n")))


def word(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"[A-Za-z_]{3,}", text))
    if not found:
        return text
    at = rng.choice(found)
    return text[: at.start()] + rng.choice(("", at[0].upper(), f"{at[0]}_x", "null", "batch")) + text[at.end() :]


MUTATIONS = (cut, behead, number, number, number, shuffled, swapped, dropped, repeated, junk, mixed, ends, word)


def readable(error: ConfigError) -> None:
    """Every problem has a place and says what is accepted, in nobody's programming language."""
    assert error.problems
    for said in ("Traceback", "pydantic", "NoneType", "<class", "ValueError", "KeyError", "PathKey", "Finding("):
        assert said not in "\n".join(problem.accepts + problem.path for problem in error.problems)
    for problem in error.problems:
        assert problem.accepts
        assert (problem.line > 0 and problem.column > 0) or problem.file.startswith("--"), problem


def check(text: str, format_name: str | None = None) -> bool:
    """Whether it was imported; anything but values in bounds or readable problems fails."""
    try:
        found = import_source(source_of(text, "x"), format_name)
    except ConfigError as error:
        readable(error)
        return False
    for finding in found.outcome.findings:
        assert finding.place.line > 0
        assert all(math.isfinite(value) and value >= 0 for value in finding.metrics.values())
        assert 1 <= finding.metrics.get("acceptance_length", 1.0) <= 65
        assert 0 <= finding.metrics.get("draft_acceptance_ratio", 0.0) <= 1
    assert all(line.isprintable() for line in report_lines(found))
    json.dumps(data_of(found), allow_nan=False)
    if found.outcome.findings:
        try:
            made = with_scenario(found, POINTS, "s.yaml")
        except ConfigError as error:
            readable(error)
        else:
            assert all(not record.inconsistency() for record in made.records)
    return True


@pytest.mark.parametrize("name", TEXTS)
def test_mutations_are_imported_or_explained(name: str) -> None:
    rng = random.Random(f"measurement {name}")
    known = FILES[name][0] if name in FILES else name
    outcomes = [check(mutated(TEXTS[name], rng), known if rng.random() < 0.4 else None) for _ in range(120)]
    if name in FILES:
        # Not one or the other alone: both ways are really walked.
        assert 5 < sum(outcomes) < 118, sum(outcomes)


def test_every_prefix_of_a_small_file_is_imported_or_explained() -> None:
    for name in ("vllm-log", "sglang-log", "llama-speculative", "golden-acceptance", "spec-bench"):
        text = TEXTS[name]
        for end in range(0, len(text), 7):
            check(text[:end], FILES[name][0])


@pytest.mark.parametrize("one", [one.name for one in FORMATS])
def test_any_file_read_as_any_format(one: str) -> None:
    for text in TEXTS.values():
        check(text, one)


@given(st.text(max_size=80), st.sampled_from([one.name for one in FORMATS]))
def test_any_text_read_as_any_format(text: str, name: str) -> None:
    check(text, name)


def test_mutations_through_the_command(tmp_path: Path) -> None:
    rng = random.Random(11)
    file, out = tmp_path / "log.txt", tmp_path / "out.yaml"
    codes = set()
    for turn in range(60):
        name = rng.choice(list(FILES))
        file.write_text(mutated(TEXTS[name], rng), encoding="utf-8", newline="")
        writes = turn % 3 == 0
        words = ["import", "measurement", str(file), *(("--out", str(out)) if writes else ())]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        codes.add(result.exit_code)
        assert "Traceback" not in result.stderr
        assert ("Nothing was run." in result.stderr) == (result.exit_code == 2)
        assert (result.stdout == "") == (result.exit_code == 2)
        assert out.exists() == (writes and result.exit_code == 0)
        out.unlink(missing_ok=True)
        assert [path.name for path in tmp_path.iterdir()] == ["log.txt"]
    assert codes == {0, 2}
