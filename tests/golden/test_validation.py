"""The committed validation follows from its committed times, and the README says what it found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simulator import tables
from simulator.spec.design import Design
from simulator.spec.probe import HostDescription
from simulator.validation import Outcome, Summary, read_table
from simulator.validation.judged import PROFILE, TIMES, VALIDATION, judged
from simulator.validation.machine import design_for, profile_for, profile_yaml, read_profile

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(file.parent for file in (ROOT / "docs" / "validation").glob(f"*/{VALIDATION}"))
SHOWN = ("plain_step", "verify_step", "draft_first_step", "round", "round_cost", "speedup_given_acceptance")
TABLE = re.compile(r"(?<=<!-- errors -->\n```\n).*?(?=```\n)", re.DOTALL)


def committed(folder: Path) -> tuple[dict[str, Any], HostDescription, Design]:
    data = json.loads((folder / VALIDATION).read_text(encoding="utf-8"))
    host = HostDescription.model_validate_json(json.dumps(data["host"]))
    design = design_for(host.platform)
    assert data["design"].startswith(f"{design.name} ")
    return data, host, design


def again(folder: Path) -> Outcome:
    _, host, design = committed(folder)
    outcome, _ = judged(read_table(folder / TIMES, design, host), design, profile_for(host), None)
    return outcome


def test_there_is_one() -> None:
    assert FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_outcome_follows_from_the_times(folder: Path) -> None:
    data, _, _ = committed(folder)
    found = again(folder).to_json()
    assert (found["design"], found["verdict"]) == (data["design"], data["verdict"])
    assert found["pairs_of_drafts"] == data["pairs_of_drafts"]
    for old, new in zip(data["criteria"], found["criteria"], strict=True):
        assert (new["name"], new["met"]) == (old["name"], old["met"])
        assert new["value"] == pytest.approx(old["value"], abs=2e-3)
    for old, new in zip(data["held_out"], found["held_out"], strict=True):
        assert (new["quantity"], new["key"]) == (old["quantity"], old["key"])
        assert [new[n] for n in ("predicted", "low", "high")] == pytest.approx(
            [old[n] for n in ("predicted", "low", "high")], rel=5e-3
        )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_profile_can_be_named_and_says_how_it_came_out(folder: Path) -> None:
    data, _, _ = committed(folder)
    profile = read_profile(str(folder / PROFILE))
    claim = profile.calibrations["this-host"].validation
    assert claim is not None
    assert claim.passed is (data["verdict"] != "failed")
    text = (folder / PROFILE).read_text(encoding="utf-8")
    assert profile_yaml(profile, "").splitlines()[1:] == text.splitlines()[1:]


def test_the_readme_shows_the_errors_of_the_first(fix: bool) -> None:
    data, _, _ = committed(FOLDERS[0])
    found = [Summary(**summary) for summary in data["summaries"]]
    shown = tables.validation_errors([summary for summary in found if summary.quantity in SHOWN])
    table = "\n".join(line.rstrip() for line in shown.text().splitlines()) + "\n"
    readme = ROOT / "README.md"
    if fix:
        readme.write_text(TABLE.sub(lambda _: table, readme.read_text(encoding="utf-8")), encoding="utf-8")
    pairs = data["pairs_of_drafts"]
    words = f"ordered rightly in {pairs['ordered_rightly']} of {pairs['differ_by_more_than_noise']} pairs"
    assert words in readme.read_text(encoding="utf-8")
    assert all(criterion["met"] for criterion in data["criteria"])
    assert TABLE.findall(readme.read_text(encoding="utf-8")) == [table]
