"""P(best) is as often right as it says in worlds like those the planner believes in; in worse ones the loss is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.plan_worlds import BELIEVED, CARELESS, Choice, choices, table

RECORD = Path(__file__).resolve().parents[2] / "docs" / "planner" / "calibration.txt"


@pytest.fixture(scope="module")
def believed() -> list[Choice]:
    """A thousand choices in worlds as the planner believes them to be."""
    return list(choices(BELIEVED))


def share_right(found: list[Choice], low: float, high: float) -> tuple[float, int]:
    """How many of the choices with such a chance were right, and their number."""
    inside = [one.right for one in found if low <= one.p_best < high]
    return float(np.mean(inside)), len(inside)


def test_of_choices_given_80_to_90_percent_as_many_are_right(believed: list[Choice]) -> None:
    right, count = share_right(believed, 0.8, 0.9)
    assert count >= 50
    assert 0.75 <= right <= 0.95


def test_all_chances_hold_within_their_noise(believed: list[Choice]) -> None:
    for low, high in ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.9, 1.01)):
        inside = [one for one in believed if low <= one.p_best < high]
        said, right = np.mean([one.p_best for one in inside]), np.mean([one.right for one in inside])
        assert abs(said - right) < 3 * np.sqrt(said * (1 - said) / len(inside)) + 0.01


def test_a_planner_that_takes_its_numbers_for_exact_is_found_out() -> None:
    found = list(choices(CARELESS, 300))
    assert np.mean([one.p_best for one in found]) - np.mean([one.right for one in found]) > 0.2


def test_what_is_lost_in_worse_worlds_is_on_record(fix: bool) -> None:
    text = table()
    if fix:
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(text, "utf-8")
    assert text == RECORD.read_text("utf-8")
