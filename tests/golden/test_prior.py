"""The acceptance prior is what comes out of the committed rows, and is worth what it says on held-out families."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from simulator.prior import fitted
from simulator.prior.acceptance import AcceptancePrior
from simulator.spec.prior import PriorSpec

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "prior"
SCRIPT = FOLDER / "fit.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def outcome(script: dict[str, Any]) -> tuple[Any, Any]:
    return script["outcome"]()


def close(new: Any, old: Any, where: str = "") -> None:
    """The same keys, texts and counts, and numbers that agree."""
    if isinstance(old, dict):
        assert new.keys() == old.keys(), where
        for key in old:
            close(new[key], old[key], f"{where}.{key}")
    elif isinstance(old, list):
        assert len(new) == len(old), where
        for index, value in enumerate(old):
            close(new[index], value, f"{where}[{index}]")
    elif isinstance(old, float):
        assert new == pytest.approx(old, rel=5e-3, abs=1e-3), where
    else:
        assert new == old, where


def test_the_committed_numbers_are_those_of_the_rows(outcome: tuple[Any, Any]) -> None:
    for found, file in zip(outcome, (fitted.FILE, FOLDER / "record.json"), strict=True):
        close(found, json.loads(file.read_text("utf-8")))


@pytest.mark.parametrize("law", ["besiroglu-2024", "hoffmann-2022"])
def test_held_out_families(outcome: tuple[Any, Any], law: str) -> None:
    worth = fitted.HeldOut(**outcome[0]["curves"][law]["held_out"])
    assert worth.rank_correlation >= 0.9
    assert worth.coverage >= 0.85
    assert worth.families >= 9
    statement = AcceptancePrior.of(PriorSpec(law=law)).statement  # type: ignore[arg-type]
    assert f"error {worth.error:.3f}, beside {worth.constant_error:.3f} of the best constant" in statement
    assert ("gives only the order of drafts" in statement) is not worth.beats_constant
    # With one draft measured it predicts the others, which is what a planner needs it for.
    assert worth.one_point_error <= fitted.WORTH * worth.one_point_constant_error
    assert worth.one_point_coverage >= 0.85


def test_every_pair_names_its_source_and_every_other_its_rule(script: dict[str, Any]) -> None:
    for row in script["read"]("pairs.csv"):
        assert row["source"], row
        assert row["place"], row
        assert row["confidence"].startswith("read in"), row
        assert row["use"] == "yes" or row["use"].startswith("no: "), row


def test_no_pair_is_left_out_for_how_it_fits(script: dict[str, Any]) -> None:
    rules = {row["use"] for row in script["read"]("pairs.csv")} - {"yes"}
    named = (
        "mixtures of experts",
        "lookahead not stated",
        "drafting stops where the draft is unsure",
        " tokens",
        "pair not named",
        "best of several",
    )
    assert all(any(word in rule for word in named) for rule in rules)


def test_the_order_of_a_sweep_that_is_left_out_is_right_too(script: dict[str, Any]) -> None:
    prior = AcceptancePrior.of()
    sweep = [row for row in script["read"]("pairs.csv") if row["source"].startswith("inventivehq")]
    said = [prior.mean(script["sizes"](r, "target"), script["sizes"](r, "draft"), "code", 0.0)[0] for r in sweep]
    assert sorted(sweep, key=lambda r: float(r["value"])) == [row for _, row in sorted(zip(said, sweep, strict=True))]
