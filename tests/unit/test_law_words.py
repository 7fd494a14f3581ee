"""Is every law of acceptance told in words, above the tables that rest on it?"""

from __future__ import annotations

import pytest

from simulator.compare.views import View, question
from simulator.spec.record import new_record
from tests.acceptance_laws import EVERY_LAW
from tests.builders import scenario

WORDS = {
    "rate": "0.7 per token, given those before it",
    "per_position": "by position 0.9/0.3/0.8",
    "forced": "forced, 2.00 draft tokens a round",
    "mixture": "by domain chat (0.5) 0.7 and code (0.3) 0.95/0.9 and poems (0.2) 0.4/0.2/0.1",
    "beta": "0.7 per token on average, each sequence its own (beta, concentration 5)",
    "markov": "0.9 per token in easy stretches of 8 rounds, 0.3 in hard ones of 3",
    "recorded": "replayed from 4 recorded requests",
    "adversarial": "0.8 per token, 0.05 for the 25 % of requests that are adversarial",
}


@pytest.mark.parametrize("kind", EVERY_LAW)
def test_a_question_tells_its_law(kind: str) -> None:
    asked = scenario(acceptance=EVERY_LAW[kind])
    assert question([View(new_record("analytic", asked, metrics={}), asked)]).endswith(f", acceptance {WORDS[kind]}")


def test_many_domains_are_counted() -> None:
    domains = {f"d{i}": {"share": 0.1, "acceptance_rates": (0.5,)} for i in range(10)}
    asked = scenario(acceptance={"kind": "mixture", "domains": domains})
    assert question([View(new_record("analytic", asked, metrics={}), asked)]).endswith("d3 (0.1) 0.5 and 6 more")
