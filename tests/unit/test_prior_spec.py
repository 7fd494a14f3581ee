"""What a file may say about the acceptance prior."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from simulator.spec.prior import AcceptancePoint, PriorSpec


def test_nothing_need_be_said() -> None:
    spec = PriorSpec.model_validate({})
    assert (spec.law, spec.domain, spec.points, spec.losses) == ("besiroglu-2024", "mixed", (), ())


def test_a_point_has_its_gap_either_way() -> None:
    assert AcceptancePoint.model_validate({"loss_gap": 0.25, "acceptance": 0.7}).gap == 0.25
    both = {"draft_loss": 3.0, "target_loss": 2.5, "acceptance": 0.7}
    assert AcceptancePoint.model_validate(both).gap == 0.5


@pytest.mark.parametrize(
    ("point", "says"),
    [
        ({"acceptance": 0.7}, "either loss_gap, or both"),
        ({"loss_gap": 0.2, "draft_loss": 3.0, "target_loss": 2.5, "acceptance": 0.7}, "either loss_gap, or both"),
        ({"loss_gap": 0.2, "draft_loss": 3.0, "acceptance": 0.7}, "either loss_gap, or both"),
        ({"draft_loss": 3.0, "acceptance": 0.7}, "either loss_gap, or both"),
        ({"draft_loss": 2.0, "target_loss": 2.5, "acceptance": 0.7}, "more than target_loss, which is 2.5"),
        ({"loss_gap": -0.1, "acceptance": 0.7}, "greater than 0"),
        ({"loss_gap": 0.1, "acceptance": 1.0}, "less than 1"),
    ],
)
def test_a_point_that_says_nothing_or_two_things_is_refused(point: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        AcceptancePoint.model_validate(point)


@pytest.mark.parametrize("wrong", [{"law": "kaplan-2020"}, {"domain": "poetry"}, {"training_tokens": 0.0}, {"x": 1}])
def test_other_words_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PriorSpec.model_validate(wrong)
