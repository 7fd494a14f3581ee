"""`sps plan` over a sweep and on other processes: the same answers wherever they come from, and one draft for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.sweep.plans import OneForAll, one_for_all

HERE = Path(__file__).resolve().parent
LOADS: dict[str, Any] = {"workload.batch": [1, 64], "workload.prompt_tokens": [8, 256]}


def sps(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small plan at four points."""
    data: dict[str, Any] = yaml.safe_load((HERE / "tiny.yaml").read_text("utf-8"))
    data |= {"draft": {"kind": "none"}, "sweep": LOADS}
    data["plan"] = {"drafts": {"layers": [1, 2], "d_model": [32, 64], "head_dim": 32}, "lookahead": [1, 2, 4]}
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(data), "utf-8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("plans.json", "plans.csv")}


def test_every_point_has_the_plan_that_it_has_alone(file: Path, tmp_path: Path) -> None:
    result = sps(str(file), "--out", str(tmp_path / "out"), "--jobs", "1")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "plans.json").read_text("utf-8"))
    assert [point["axes"] for point in found["points"]] == [
        {"workload.batch": b, "workload.prompt_tokens": p} for b in (1, 64) for p in (8, 256)
    ]
    for point in found["points"]:
        settings = [word for path, value in point["axes"].items() for word in ("--set", f"{path}={value}")]
        alone = json.loads(sps(str(file), *settings, "--json").stdout)["plan"]["candidates"]
        same = ("name", "lookahead", "gain", "p_best", "regret", "value_s")
        for here, there in zip(point["candidates"], alone, strict=True):
            assert [here[key] for key in same] == [there[key] for key in same]
        assert sum(one["p_best"] for one in point["candidates"]) == pytest.approx(1.0)
        for one in point["candidates"]:
            assert one["tokens_per_s"] == pytest.approx(point["axes"]["workload.batch"] / one["value_s"])
    shown = [line.split() for line in result.stdout.splitlines()]
    assert [line[2] for line in shown if line[:1] in (["1"], ["64"])] == [
        point["candidates"][0]["name"].removeprefix("draft-").split()[0] for point in found["points"]
    ]


def test_two_processes_give_the_bytes_of_one_and_what_is_there_is_not_computed_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for jobs in ("1", "2"):
        assert sps(str(file), "--out", str(tmp_path / jobs), "--jobs", jobs).exit_code == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    before = contents(tmp_path / "1")

    def never(*_: object) -> dict[str, Any]:
        raise AssertionError

    monkeypatch.setattr("simulator.sweep.plans.plan", never)
    assert sps(str(file), "--out", str(tmp_path / "1"), "--jobs", "1").exit_code == 0
    assert contents(tmp_path / "1") == before
    failed = sps(str(file), "--out", str(tmp_path / "3"), "--jobs", "1", "--seed", "7")
    assert failed.exit_code == 5
    assert "4 of 4 points failed" in failed.stderr


def test_one_point_elsewhere_gives_the_lines_and_the_files_of_one_here(file: Path, tmp_path: Path) -> None:
    one = (str(file), "--set", "workload.batch=1", "--set", "workload.prompt_tokens=8", "--seed", "3")
    here, there = (
        sps(*one, "--out", str(tmp_path / name), *more) for name, more in (("a", ()), ("b", ("--jobs", "1")))
    )
    assert here.exit_code == there.exit_code == 0, there.output
    assert here.stdout == there.stdout
    for name in ("plan.json", "plan.csv", "plan.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert json.loads(sps(*one, "--jobs", "1", "--out", str(tmp_path / "b"), "--json").stdout)["plan"]["candidates"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--simulate", "2"), "one point that is planned here"),
        (("--confirm", "1", "--jobs", "1", "--set", "workload.batch=1"), "one point that is planned here"),
        (("--executor", "cloud"), "local, or dask://HOST:PORT"),
        (("--executor", "dask://127.0.0.1:1", "--jobs", "2"), "nothing beside --executor dask://"),
    ],
)
def test_options_that_do_not_go_together_are_refused(file: Path, options: tuple[str, ...], said: str) -> None:
    result = sps(str(file), *options)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_points_without_an_answer_say_why_and_the_others_are_answered(file: Path, tmp_path: Path) -> None:
    data = yaml.safe_load(file.read_text("utf-8"))
    data["sweep"] = {"plan.limits.tpot": ["1 s", "1 ns"]}
    file.write_text(yaml.safe_dump(data), "utf-8")
    result = sps(str(file), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert "no answer (-): " in result.stdout
    assert "nothing is within plan.limits.tpot" in result.stdout
    data["sweep"] = {"plan.limits.tpot": ["2 ns", "1 ns"]}
    file.write_text(yaml.safe_dump(data), "utf-8")
    none = sps(str(file), "--out", str(tmp_path / "none"))
    assert none.exit_code == 3
    assert "no point has an answer" in none.stderr


def candidate(name: str, regret: float, *, drafts: bool = True, lookahead: int = 4) -> dict[str, Any]:
    return {"name": name, "regret": regret, "drafts": drafts, "lookahead": lookahead if drafts else 0, "option": ""}


def test_one_draft_for_all_is_the_least_mean_regret_and_off_where_plain_decoding_costs_less() -> None:
    points = [
        [candidate("a", 0.0), candidate("b", 0.02), candidate("here", 0.01), candidate("no draft", 0.9, drafts=False)],
        [candidate("no draft", 0.0, drafts=False), candidate("a", 0.3, lookahead=1), candidate("b", 0.1)],
        [candidate("b", 0.0), candidate("a", 0.06), candidate("no draft", 0.5, drafts=False)],
    ]
    answers = [{"candidates": each} for each in points]
    answers.insert(1, {"candidates": []})
    assert one_for_all(answers) == [
        OneForAll("b", pytest.approx(0.02 / 3), 0.02, 0, (4, 0, 0, 4)),
        OneForAll("a", pytest.approx(0.02), 0.06, 3, (4, 0, 0, 4)),
    ]
    assert one_for_all([{"candidates": []}]) == []
