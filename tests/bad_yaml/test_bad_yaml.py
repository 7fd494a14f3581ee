"""Are mistakes explained: each ``case.yaml`` here has the message that a planner sees in ``case.expected.txt``.

A case states its `--set` options in first lines ``# set: path=value``. After a change of wording run
``pytest tests/bad_yaml --fix`` and read every difference as the planner who has to act on it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.errors import ConfigError
from simulator.spec import library
from simulator.spec.load import load_scenario

HERE = Path(__file__).parent
CASES = sorted(path.stem for path in HERE.glob("*.yaml"))


@pytest.fixture(autouse=True)
def _own_library(monkeypatch: pytest.MonkeyPatch) -> None:
    # The lists in messages are those of parts/, whatever the toolkit ships, and files are shown as typed here.
    homes = {"model": HERE / "parts/models", "hardware profile": HERE / "parts/profiles"}
    references = {path: (what, homes[what]) for path, (what, _) in library.REFERENCES.items()}
    monkeypatch.setattr(library, "REFERENCES", references)
    monkeypatch.chdir(HERE)


def _message(case: str) -> str:
    text = Path(f"{case}.yaml").read_text("utf-8", errors="replace")
    with pytest.raises(ConfigError) as caught:
        load_scenario(f"{case}.yaml", re.findall(r"^# set: (.*)$", text, re.MULTILINE))
    return f"{caught.value}\n"


@pytest.mark.parametrize("case", CASES)
def test_message(case: str, fix: bool) -> None:
    expected, message = Path(f"{case}.expected.txt"), _message(case)
    if fix:
        expected.write_text(message, "utf-8")
    assert message == expected.read_text("utf-8")


@pytest.mark.parametrize("case", CASES)
def test_message_is_in_a_planners_words(case: str) -> None:
    # What the message quotes may say anything; what it accepts may not.
    accepts = re.findall(r"^    accepts  (.*)$", _message(case).replace("!!int", "").replace("!!str", ""), re.MULTILINE)
    assert all(len(text) > 5 for text in accepts)
    assert not re.search(r"pydantic|<class|Error|\b(None|str|int|dict|tuple|validation|input)\b", "\n".join(accepts))


def test_every_expected_text_has_its_case() -> None:
    assert sorted(path.name.removesuffix(".expected.txt") for path in HERE.glob("*.expected.txt")) == CASES


def test_the_file_that_cases_are_based_on_is_good() -> None:
    (point,) = load_scenario("parts/good.yaml")
    assert point.scenario.target.name == "tiny"
    assert point.axes == {}
