"""Whatever is asked for, a first scenario loads and is what was asked, or nothing is written."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import ConfigError
from simulator.spec import library, starter_text
from simulator.spec.describe import keys_of
from simulator.spec.explain import MORE_KEYS
from simulator.spec.load import load_text
from simulator.spec.scenario import Scenario
from simulator.spec.starter import Asked, starter
from simulator.spec.starter_text import most_cubic

MODELS, CHIPS = library.names(library.MODELS), library.names(library.PROFILES)
HERE = Path("scenario.yaml")
OFF = re.compile(r"^( {0,4})# ((?: {2})*[a-z_.]+:(?: .*)?)$")
"""A key that is commented out, not a comment that goes on from the line above."""

QUESTIONS = st.builds(
    Asked,
    model=st.sampled_from(MODELS),
    hardware=st.sampled_from(CHIPS),
    chips=st.integers(1, 64),
    draft=st.sampled_from([None, "none", *MODELS]),
    batch=st.none() | st.integers(1, 64),
    prompt_tokens=st.integers(1, 10_000),
    output_tokens=st.integers(2, 2_000),
    lookahead=st.integers(0, 64),
)


def covers_all(_scenario: Scenario) -> str:
    return ""


@settings(max_examples=150)
@given(asked=QUESTIONS)
def test_the_text_loads_and_says_what_was_asked(asked: Asked) -> None:
    try:
        made = starter(asked, HERE, covers_all)
    except ConfigError as error:
        # In terms of the options: whoever asked never saw the text.
        strange = [problem for problem in error.problems if not problem.file.startswith("--")]
        if strange:
            raise
        return
    (point,) = load_text(made.text, HERE)
    assert point.scenario == made.scenario
    scenario = made.scenario
    assert (scenario.target.name, scenario.deployment.hardware.name) == (asked.model, asked.hardware)
    assert scenario.deployment.chips == asked.chips
    assert scenario.decoding.lookahead == asked.lookahead
    workload = scenario.workload
    assert (workload.prompt_tokens, workload.output_tokens) == (asked.prompt_tokens, asked.output_tokens)
    assert workload.batch == (asked.batch or 1)
    if asked.draft == "none":
        assert scenario.draft_model is None
    elif asked.draft is not None:
        assert scenario.draft_model is not None
        assert scenario.draft_model.name == asked.draft


def without_marks(text: str) -> str:
    """The text with every optional key taken in; not the example of a draft, nor a base that does not exist."""
    skipped = ("# draft: {", "# base:", "# sweep:", "#   decoding.lookahead:")
    lines = [line for line in text.splitlines() if not line.startswith(skipped)]
    return "\n".join(OFF.sub(r"\1\2", line) for line in lines) + "\n"


@settings(max_examples=60)
@given(asked=QUESTIONS)
def test_taking_the_optional_keys_in_changes_nothing(asked: Asked) -> None:
    try:
        made = starter(asked, HERE, covers_all)
    except ConfigError:
        return
    text = without_marks(made.text)
    assert len(re.findall(r"^ {0,6}# +[a-z_]+:", text, re.MULTILINE)) == 0
    (point,) = load_text(text, HERE)
    assert point.scenario == made.scenario


def test_every_key_of_the_schema_stands_there_with_its_words() -> None:
    made = starter(Asked("chinchilla-70b", "tpu_v4", 16), HERE, covers_all)
    keys = re.findall(r"^(?:# )?([a-z_]+):", made.text, re.MULTILINE)
    assert keys == [*keys_of(Scenario), *MORE_KEYS]
    told = " ".join(re.sub(r"^ *#?|#", " ", line) for line in made.text.splitlines())
    flat = " ".join(told.split())
    for words in (
        "K, draft tokens proposed per round; 0 drafts nothing",
        "Seed of every random stream",
        "The requests",
    ):
        assert words in flat


def test_the_sweep_is_one_when_it_is_taken_in() -> None:
    made = starter(Asked("chinchilla-70b", "tpu_v4", 16), HERE, covers_all)
    text = made.text.replace("# sweep:", "sweep:").replace("#   decoding.lookahead:", "  decoding.lookahead:")
    assert [point.scenario.lookahead for point in load_text(text, HERE)] == [1, 2, 4, 6, 8]


def test_the_example_of_a_draft_is_a_draft_when_it_is_taken_in() -> None:
    made = starter(Asked("chinchilla-70b", "tpu_v4", 16, draft="none"), HERE, covers_all)
    whole, kind = re.compile(r"^draft:.*\n", re.MULTILINE), re.compile(r"^  kind: none.*\n", re.MULTILINE)
    text = kind.sub("", whole.sub("", made.text, count=1), count=1).replace("# draft: {", "draft: {")
    assert load_text(text, HERE)[0].scenario.draft_model is not None


@given(chips=st.integers(1, 300), axes=st.integers(1, 3))
def test_the_slice_holds_all_chips_and_no_slice_is_nearer_to_a_cube(chips: int, axes: int) -> None:
    sides = most_cubic(chips, axes)
    assert math.prod(sides) == chips
    assert len(sides) == axes
    assert list(sides) == sorted(sides)
    others = [
        (a, b, chips // (a * b))[3 - axes :]
        for a in range(1, 2 if axes < 3 else chips + 1)
        for b in range(1, 2 if axes < 2 else chips // a + 1)
        if chips % (a * b) == 0
    ]
    assert sum(sides) == min(map(sum, others))


@pytest.mark.parametrize(
    ("chips", "axes", "sides"),
    [(16, 3, (2, 2, 4)), (4, 3, (1, 2, 2)), (1, 3, (1, 1, 1)), (64, 3, (4, 4, 4)), (12, 3, (2, 2, 3)), (16, 2, (4, 4))],
)
def test_slices_that_people_know(chips: int, axes: int, sides: tuple[int, ...]) -> None:
    assert most_cubic(chips, axes) == sides


def test_the_first_line_leads_to_the_schema(tmp_path: Path) -> None:
    marked = re.compile(r"# yaml-language-server: \$schema=(\S+)")
    asked = Asked("chinchilla-70b", "tpu_v4", 16)
    inside = marked.match(starter(asked, library.SCENARIOS / "new.yaml", covers_all).text)
    committed = (library.SCENARIOS / "chinchilla_70b_tpu_v4.yaml").read_text("utf-8")
    assert inside is not None
    assert inside[0] == committed.partition("\n")[0]
    elsewhere = marked.match(starter(asked, tmp_path / "new.yaml", covers_all).text)
    assert elsewhere is not None
    assert Path(elsewhere[1].removeprefix("file://")).is_file()


def test_where_no_schema_lies_the_first_line_names_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(starter_text, "SCHEMAS", tmp_path)
    text = starter(Asked("chinchilla-70b", "tpu_v4", 16), HERE, covers_all).text
    assert text.startswith("# A scenario; `sps explain KEY` says more about each key.\nname: ")


def test_a_model_in_a_file_is_named_from_where_the_scenario_lies(tmp_path: Path) -> None:
    text = (library.MODELS / "chinchilla-7b.yaml").read_text("utf-8").replace("name: chinchilla-7b", "name: my-7b")
    (tmp_path / "my-7b.yaml").write_text(text, "utf-8")
    asked = Asked(os.path.relpath(tmp_path / "my-7b.yaml"), "tpu_v4", 4)
    beside = starter(asked, tmp_path / "new.yaml", covers_all)
    assert "\ntarget: my-7b.yaml " in beside.text
    (tmp_path / "deep").mkdir()
    above = starter(asked, tmp_path / "deep" / "new.yaml", covers_all)
    assert '\ntarget: "../my-7b.yaml" ' in above.text
    # In a folder that is still to be made there is no way up yet.
    nowhere = starter(asked, tmp_path / "new" / "new.yaml", covers_all)
    assert {made.scenario.target.name for made in (beside, above, nowhere)} == {"my-7b"}
