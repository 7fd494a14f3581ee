"""Do sweeps, options and bases give the points that a planner means, each with its value's own words?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simulator.errors import ConfigError
from simulator.spec import library, source
from simulator.spec.load import load_scenario, path_problem
from simulator.spec.source import Document

PARTS = Path(__file__).parents[1] / "bad_yaml/parts"
GOOD = (PARTS / "good.yaml").read_text("utf-8")


@pytest.fixture(autouse=True)
def _own_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    homes = {"model": PARTS / "models", "hardware profile": PARTS / "profiles"}
    references = {path: (what, homes[what]) for path, (what, _) in library.REFERENCES.items()}
    monkeypatch.setattr(library, "REFERENCES", references)
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, "utf-8")
    return name


def messages(name: str, *settings: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_scenario(name, settings)
    return [f"{p.file}:{p.line} {p.path}: {p.accepts}" for p in caught.value.problems]


def test_points_are_in_the_order_of_the_file_last_axis_fastest() -> None:
    points = load_scenario(write("a.yaml", GOOD + "sweep: {workload.batch: [2, 1], decoding.lookahead: [4, 0]}\n"))
    assert [(p.scenario.workload.batch, p.scenario.decoding.lookahead) for p in points] == [
        (2, 4),
        (2, 0),
        (1, 4),
        (1, 0),
    ]
    assert [p.axes for p in points][1] == {"workload.batch": 2, "decoding.lookahead": 0}


def test_axes_hold_the_words_of_the_file() -> None:
    text = GOOD + "sweep: {draft: [{kind: none}, {kind: model, model: tiny}], deployment.calibration: [~, fitted]}\n"
    axes = [point.axes for point in load_scenario(write("a.yaml", text))]
    assert [axis["draft"] for axis in axes] == ["none", "none", "model, model tiny", "model, model tiny"]
    assert [axis["deployment.calibration"] for axis in axes] == ["~", "fitted", "~", "fitted"]


def test_a_sweep_may_supply_what_is_not_stated() -> None:
    text = GOOD.replace("decoding: {lookahead: 4}\n", "sweep: {decoding.lookahead: [1, 2]}\n")
    assert [point.scenario.lookahead for point in load_scenario(write("a.yaml", text))] == [1, 2]


def test_names_can_be_swept_and_keys_inside_them_too() -> None:
    text = GOOD + "sweep: {draft.model: [tiny, tiny-draft], draft.model.layers: [2, 3], target.weight_dtype: [int8]}\n"
    points = load_scenario(write("a.yaml", text))
    found = [(p.scenario.draft_model.name, p.scenario.draft_model.layers) for p in points if p.scenario.draft_model]
    assert found == [("tiny", 2), ("tiny", 3), ("tiny-draft", 2), ("tiny-draft", 3)]
    assert {point.scenario.target.weight_dtype for point in points} == {"int8"}


def test_options_fix_what_is_swept_and_add_what_is_missing() -> None:
    text = GOOD + "sweep: {decoding.lookahead: [1, 2]}\n"
    own = "{placement: sub_slice, tensor_parallel: 2}"
    settings = ["decoding.lookahead=3", f"deployment.draft={own}", "decoding.lookahead=5", "target.heads=16"]
    (point,) = load_scenario(write("a.yaml", text), settings)
    assert point.axes == {}
    assert point.scenario.lookahead == 5
    assert point.scenario.deployment.draft_degree == 2
    assert point.scenario.target.heads == 16


def test_an_option_may_replace_a_whole_part() -> None:
    (point,) = load_scenario(write("a.yaml", GOOD), ["draft={kind: none}", "draft.kind=none", "name=other"])
    assert point.scenario.draft_model is None
    assert point.scenario.name == "other"


def test_a_model_is_looked_for_beside_the_scenario_first() -> None:
    tiny = (PARTS / "models/tiny.yaml").read_text("utf-8")
    write("mine/tiny.yaml", tiny.replace("layers: 4", "layers: 7"))
    write("mine/models/tiny-draft.yaml", tiny.replace("layers: 4", "layers: 3"))
    (point,) = load_scenario(write("mine/a.yaml", GOOD))
    assert point.scenario.target.layers == 7
    assert point.scenario.draft_model is not None
    assert point.scenario.draft_model.layers == 3


def test_a_changed_file_is_read_anew() -> None:
    tiny = (PARTS / "models/tiny.yaml").read_text("utf-8")
    name = write("a.yaml", GOOD)
    for layers in (5, 6):
        write("tiny.yaml", tiny.replace("layers: 4", f"layers: {layers}"))
        os.utime("tiny.yaml", ns=(layers, layers))
        assert load_scenario(name)[0].scenario.target.layers == layers


def test_a_large_sweep_reads_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Path] = []

    def read(path: Path, name: str) -> Document:
        files.append(path)
        return source.read(path, name)

    library._read_version.cache_clear()
    monkeypatch.setattr(library, "read", read)
    sweep = f"sweep: {{workload.batch: {list(range(1, 101))}, decoding.lookahead: [1, 2, 3]}}\n"
    assert len(load_scenario(write("a.yaml", GOOD + sweep))) == 300
    assert len(files) == 4


def test_mistakes_of_a_large_sweep_are_told_once_each() -> None:
    sweep = f"sweep: {{workload.batch: {list(range(1, 101))}, decoding.lookahead: {list(range(100))}}}\n"
    found = messages(write("a.yaml", GOOD + sweep + "gamma: 4\n"))
    assert len(found) == 1 + 35
    assert found[-1].startswith("a.yaml:14 gamma: no such key")


def test_endless_mistakes_are_cut_short() -> None:
    keys = "".join(f"lookahead{number}: 1\n" for number in range(10_000))
    sweep = f"sweep: {{workload.batch: {list(range(1, 101))}}}\n"
    with pytest.raises(ConfigError) as caught:
        load_scenario(write("a.yaml", GOOD + sweep + keys))
    assert len(caught.value.problems) == 1000
    assert "... and 900 more\n1,000 problems in 1 file." in str(caught.value)


# --- base


def test_a_base_lies_under_the_scenario() -> None:
    write("base.yaml", GOOD)
    (point,) = load_scenario(write("a.yaml", "base: base.yaml\nname: mine\nworkload: {batch: 3}\n"))
    assert point.scenario.name == "mine"
    assert (point.scenario.workload.batch, point.scenario.workload.prompt_tokens) == (3, 100)
    assert point.scenario.target.name == "tiny"


def test_a_mapping_that_names_its_kind_stands_alone() -> None:
    write("base.yaml", GOOD)
    text = "base: base.yaml\ndraft: {kind: none}\nacceptance: {acceptance_rate: 0.9}\n"
    (point,) = load_scenario(write("a.yaml", text))
    assert point.scenario.draft_model is None
    assert point.scenario.acceptance.conditional(1).tolist() == [0.9]


def test_names_in_a_base_are_relative_to_the_base() -> None:
    tiny = (PARTS / "models/tiny.yaml").read_text("utf-8")
    write("bases/near.yaml", tiny.replace("layers: 4", "layers: 7"))
    write("bases/models/tiny-draft.yaml", tiny.replace("layers: 4", "layers: 3"))
    write("bases/base.yaml", GOOD.replace("target: tiny", "target: near.yaml"))
    (point,) = load_scenario(write("mine/a.yaml", "base: ../bases/base.yaml\n"))
    assert point.scenario.target.layers == 7
    assert point.scenario.draft_model is not None
    assert point.scenario.draft_model.layers == 3
    write("mine/near.yaml", tiny.replace("layers: 4", "layers: 9"))
    for name, setting in (("own.yaml", ""), ("option.yaml", "target=near.yaml")):
        own = "" if setting else "target: near.yaml\n"
        (point,) = load_scenario(
            write(f"mine/{name}", f"base: ../bases/base.yaml\n{own}"), [setting] if setting else []
        )
        assert point.scenario.target.layers == 9


def test_names_swept_in_a_base_are_relative_to_the_base() -> None:
    tiny = (PARTS / "models/tiny.yaml").read_text("utf-8")
    write("bases/near.yaml", tiny.replace("layers: 4", "layers: 7"))
    write("bases/base.yaml", GOOD + "sweep: {target: [near.yaml, tiny]}\n")
    points = load_scenario(write("mine/a.yaml", "base: ../bases/base.yaml\n"))
    assert [point.axes["target"] for point in points] == ["near.yaml", "tiny"]
    assert [point.scenario.target.layers for point in points] == [7, 4]


def test_a_sweep_of_the_base_is_taken_over_but_for_what_is_fixed() -> None:
    write("base.yaml", GOOD + "sweep: {decoding.lookahead: [1, 2], workload.batch: [1, 2, 3]}\n")
    inherited = load_scenario(write("a.yaml", "base: base.yaml\n"))
    fixed = load_scenario(write("b.yaml", "base: base.yaml\nworkload: {batch: 7}\n"))
    own = load_scenario(write("c.yaml", "base: base.yaml\nsweep: {decoding.top_p: [0.5, 1]}\n"))
    assert len(inherited) == 6
    assert [point.axes for point in fixed] == [{"decoding.lookahead": 1}, {"decoding.lookahead": 2}]
    assert [point.axes for point in own] == [{"decoding.top_p": 0.5}, {"decoding.top_p": 1}]


def test_mistakes_stand_in_the_file_that_makes_them() -> None:
    write("bases/base.yaml", GOOD.replace("lookahead: 4", "lookahead: 99").replace("slice: 2x2x2", "slice: 2x2x4"))
    name = write("a.yaml", "base: bases/base.yaml\nworkload: {batch: 0}\n")
    assert messages(name) == [
        "a.yaml:2 workload.batch: a whole number, 1 to 100,000",
        "bases/base.yaml:10 decoding.lookahead: a whole number, 0 to 64",
    ]
    assert messages(name, "decoding.lookahead=4", "workload.batch=1") == [
        "bases/base.yaml:9 deployment.slice: axes whose product is chips; here 16 and 8"
    ]


def test_one_level_of_base_is_all() -> None:
    write("base.yaml", GOOD)
    write("middle.yaml", "base: base.yaml\n")
    (message,) = messages(write("a.yaml", "base: middle.yaml\n"))
    assert message.startswith("middle.yaml:1 base: no base here: a.yaml is based on this file")


# --- paths


@pytest.mark.parametrize(
    "path",
    [
        "decoding.lookahead",
        "draft",
        "draft.model.layers",
        "acceptance.acceptance_rates",
        "deployment.hardware.peaks.matmul.int8.value",
        "deployment.hardware.calibrations.fitted.free_parameters",
        "published",
    ],
)
def test_paths_of_a_scenario(path: str) -> None:
    assert path_problem(path) == ""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "a key of the scenario; accepted here: acceptance,"),
        ("decoding.lookahed", "a key of decoding; did you mean 'lookahead'?"),
        ("decoding.gamma", "a key of decoding; did you mean 'lookahead'?"),
        ("lookahead", "a key of the scenario; did you mean 'decoding.lookahead' or 'plan.lookahead'?"),
        ("K", "a key of the scenario; did you mean 'decoding.lookahead' or 'plan.lookahead'?"),
        ("tp", "did you mean 'deployment.tensor_parallel' or 'deployment.draft.tensor_parallel'?"),
        ("seed.x", "a path that ends at seed, which has no keys below it"),
        ("published.metric", "a path that ends at published, which has no keys below it"),
        ("decoding.", "a key of decoding; accepted here: lookahead, min_p, temperature, top_k, top_p"),
    ],
)
def test_what_is_no_path(path: str, said: str) -> None:
    assert said in path_problem(path)


def measured(*settings: str, text: str = "") -> list[tuple[float | None, dict[int, float] | None] | None]:
    points = load_scenario(write("measured.yaml", GOOD + text), settings)
    found = [point.scenario.measured for point in points]
    return [(one.plain_step_s, one.verify_step_s) if one is not None else None for one in found]


MEASURED = "measured: {plain_step: 7 ms, verify_step: {2: 7.9 ms, 5: 8.1 ms}}\n"


def test_measured_steps_come_from_the_file_and_from_options() -> None:
    assert measured() == [None]
    assert measured(text=MEASURED) == [(7e-3, {2: 7.9e-3, 5: 8.1e-3})]
    assert measured("measured.plain_step=7 ms") == [(7e-3, None)]
    changed = measured("measured.verify_step.5=9 ms", "measured.verify_step.9=10 ms", text=MEASURED)
    assert changed == [(7e-3, {2: 7.9e-3, 5: 9e-3, 9: 10e-3})]
    assert measured("measured.plain_step=null", text=MEASURED) == [(None, {2: 7.9e-3, 5: 8.1e-3})]
    assert measured("measured=null", text=MEASURED) == [None]


def test_measured_steps_of_a_base_are_kept_and_changed_one_by_one() -> None:
    write("base.yaml", GOOD + MEASURED)
    own = "base: base.yaml\nmeasured: {draft_step: 2 ms, verify_step: {5: 9 ms}}\n"
    (point,) = load_scenario(write("a.yaml", own))
    assert point.scenario.measured is not None
    assert point.scenario.measured.plain_step_s == 7e-3
    assert point.scenario.measured.draft_step_s == 2e-3
    assert point.scenario.measured.verify_step_s == {2: 7.9e-3, 5: 9e-3}


def test_measured_steps_can_be_swept_and_kept_at_points_that_draft_nothing() -> None:
    swept = "sweep: {measured.plain_step: [7 ms, 8 ms], decoding.lookahead: [0, 4]}\n"
    found = measured(text=MEASURED + swept)
    assert [one[0] for one in found if one is not None] == [7e-3, 7e-3, 8e-3, 8e-3]
    drafts = "sweep: {draft: [{kind: none}, {kind: model, model: tiny-draft}]}\n"
    assert len(measured(text=MEASURED + drafts)) == 2


def test_points_hold_what_they_have_in_common_once_and_are_what_each_is_alone() -> None:
    swept = "sweep: {target.layers: [4, 6, 4], decoding.lookahead: [0, 4]}\n"
    points = load_scenario(write("many.yaml", GOOD + swept))
    targets = [point.scenario.target for point in points]
    assert [target.layers for target in targets] == [4, 4, 6, 6, 4, 4]
    assert len({id(target) for target in targets}) == 2
    assert len({id(point.scenario.deployment.hardware) for point in points}) == 1
    for point in points:
        settings = [f"{path}={value}" for path, value in point.axes.items()]
        (alone,) = load_scenario("many.yaml", settings)
        assert alone.scenario == point.scenario
        assert alone.scenario.resolved() == point.scenario.resolved()


def test_a_sweep_has_as_many_points_as_the_verb_can_take() -> None:
    name = write("many.yaml", GOOD + "sweep: {workload.batch: [1, 2, 3], decoding.lookahead: [0, 4]}\n")
    assert len(load_scenario(name, (), 6)) == 6
    with pytest.raises(ConfigError, match="at most 5 points; this sweep has 6"):
        load_scenario(name, (), 5)
