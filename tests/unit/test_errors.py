"""Do exceptions survive pickling, and does a message say where, what and how many?"""

from __future__ import annotations

import pickle

import pytest

from simulator.errors import MAX_SHOWN, ConfigError, MeasurementError, Problem, RefusedError, SpsError, UnfinishedError

PROBLEM = Problem("a.yaml", 3, 5, "decoding.lookahead", "four", "a whole number, 0 to 64")


@pytest.mark.parametrize(
    "error",
    [
        ConfigError((PROBLEM,)),
        RefusedError("why"),
        MeasurementError("what"),
        UnfinishedError("where"),
        SpsError("x", 1),
    ],
)
def test_errors_survive_pickling(error: SpsError) -> None:
    # SimPy and worker processes rebuild an exception from its arguments.
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert (back.args, str(back), back.exit_code) == (error.args, str(error), error.exit_code)
    assert str(type(error)(*error.args)) == str(error)


def test_a_problem_says_where_what_and_what_is_accepted() -> None:
    assert str(PROBLEM) == "a.yaml:3:5  decoding.lookahead\n    found    four\n    accepts  a whole number, 0 to 64"
    assert str(Problem("a.yaml", 0, 0, "", "", "a file")) == "a.yaml\n    accepts  a file"
    assert str(Problem("", 0, 0, "x", "", "a key")) == "x\n    accepts  a key"


@pytest.mark.parametrize(
    ("files", "tail"),
    [
        (["a.yaml"], "1 problem in 1 file. Nothing was run."),
        (["a.yaml", "a.yaml", "b.yaml"], "3 problems in 2 files. Nothing was run."),
        (["--set x=1"], "1 problem. Nothing was run."),
        (["--set x=1", "a.yaml", ""], "3 problems in 1 file. Nothing was run."),
        (["a.yaml"] * 1200, "1,200 problems in 1 file. Nothing was run."),
    ],
)
def test_the_last_line_counts(files: list[str], tail: str) -> None:
    lines = str(ConfigError(tuple(Problem(file, 1, 1, "x", "", "y") for file in files))).splitlines()
    assert lines[-1] == tail
    assert len(lines) == 2 * min(len(files), MAX_SHOWN) + 1 + (len(files) > MAX_SHOWN)


def test_what_is_quoted_is_cut_and_harmless() -> None:
    text = str(Problem("a\x1b.yaml", 1, 1, "x" * 10_000, "\x1b[31m\u202e", "y\nz"))
    assert len(text) < 1_200
    assert text.count("\n") == 2
    assert "\x1b" not in text
    assert "\u202e" not in text
