"""Does `sps trace` say what it played, and write a file that a viewer reads?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from simulator.cli import app
from tests.synthetic import QUICKSTART, ROOT

CHINCHILLA = str(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml")


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def told(result: Result) -> dict[str, str]:
    """The numbers of the answer, by the words before them."""
    lines = [line.partition("   ") for line in result.stdout.splitlines()]
    return {name.strip(): value.strip() for name, _, value in lines if value}


@pytest.mark.parametrize("part", ["plain_step", "draft_first_step", "draft_step", "verify_step", "prefill", "round"])
def test_every_part_is_played_and_written(tmp_path: Path, part: str) -> None:
    out = tmp_path / "trace.json"
    result = sps("trace", CHINCHILLA, "--part", part, "--out", str(out), "--point", "4")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{part} of chinchilla-70b + chinchilla-draft-4b, K=4 on 16 x tpu_v4")
    assert result.stdout.splitlines()[-2:] == [
        f"trace: {out}",
        "next: open it in ui.perfetto.dev or chrome://tracing",
    ]
    assert max(map(len, result.stdout.splitlines())) <= 100
    numbers = told(result)
    assert numbers["simulated"] == numbers["closed form"]
    written = [event for event in json.loads(out.read_text("utf-8"))["traceEvents"] if event["ph"] == "X"]
    assert numbers["events"] == f"{len(written):,}"
    assert "!" not in result.stdout


def test_prefetch_and_jitter_are_told_apart(tmp_path: Path) -> None:
    words = ("trace", CHINCHILLA, "--part", "round", "--out", str(tmp_path / "t.json"), "--set", "decoding.lookahead=4")
    answer = json.loads(sps(*words, "--prefetch", "--jitter", "5us", "--json").stdout)
    assert answer["prefetch_saved_s"] > 0
    assert answer["jitter_added_s"] > 0
    expected = answer["closed_form_s"] - answer["prefetch_saved_s"] + answer["jitter_added_s"]
    assert answer["simulated_s"] == pytest.approx(expected, rel=1e-9)
    assert answer["records"] == []
    assert json.loads(sps(*words, "--jitter", "5us", "--json").stdout)["prefetch_saved_s"] == 0


def test_the_seed_is_the_scenarios_and_the_same_seed_is_the_same_bytes(tmp_path: Path) -> None:
    words = ("trace", CHINCHILLA, "--part", "draft_first_step", "--jitter", "5us", "--out")
    texts = []
    for name, more in {"a": (), "b": ("--seed", "0"), "c": ("--seed", "1")}.items():
        sps(*words, str(tmp_path / name), *more)
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1] != texts[2]


def test_what_cannot_help_says_why(tmp_path: Path) -> None:
    words = ("trace", str(QUICKSTART), "--part", "round", "--out", str(tmp_path / "t.json"))
    result = sps(*words, "--prefetch", "--jitter", "5us")
    assert "the profile of cpu gives no on_chip_memory" in result.stdout
    assert "one chip waits for no other" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--part", "draft_step"), 3, "has no draft_step at lookahead 1; it has prefill, plain_step"),
        (("--part", "round", "--point", "8"), 2, "--point 8\n    accepts  a point of the file, which has 7"),
        (("--part", "round", "--point", "0"), 2, "--point 0"),
        (("--part", "round", "--jitter", "5"), 2, "--jitter 5\n    accepts  a quantity in s"),
        (("--part", "round", "--jitter", "-5us"), 2, "at least 0 s"),
        (("--part", "tail"), 2, "plain_step"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    out = tmp_path / "trace.json"
    result = sps("trace", CHINCHILLA, "--out", str(out), *words)
    assert result.exit_code == code
    assert said in result.stderr
    assert not out.exists()
