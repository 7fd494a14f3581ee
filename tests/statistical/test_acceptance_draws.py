"""Do drawn rounds keep as many tokens as their law says?

Of n rounds, the number that keep at least k tokens is binomial with the product of the first k conditional rates, so
its tails are exact: all checks of one test together raise a false alarm with probability at most 1e-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.stats import binom

from simulator.spec.acceptance import Acceptance

FALSE_ALARM = 1e-6
ROUNDS = 50_000


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "rate", "acceptance_rate": 0.7},
        {"kind": "rate", "acceptance_rate": 0.02},
        {"kind": "rate", "acceptance_rate": 0.99},
        {"kind": "per_position", "acceptance_rates": (0.9, 0.3, 0.8)},
        {"kind": "per_position", "acceptance_rates": (1.0, 0.5)},
    ],
)
def test_survival_of_every_position(data: dict[str, Any]) -> None:
    lookahead = 6
    law: Any = TypeAdapter(Acceptance).validate_python(data)
    drawn = law.draw(lookahead, np.arange(ROUNDS), np.random.default_rng(20_251_129))
    survival = np.cumprod(law.conditional(lookahead))
    for position in range(1, lookahead + 1):
        kept, chance = int((drawn >= position).sum()), float(survival[position - 1])
        # Two tails at each of the positions share the false alarm.
        tail = min(binom.cdf(kept, ROUNDS, chance), binom.sf(kept - 1, ROUNDS, chance))
        assert tail >= FALSE_ALARM / (2 * lookahead), (
            f"{kept} of {ROUNDS} rounds kept {position}, expected {chance:.4f}"
        )


def test_rounds_are_independent_of_each_other() -> None:
    # Pairs of neighbouring rounds that both keep a token are binomial too, if rounds do not know of each other.
    law: Any = TypeAdapter(Acceptance).validate_python({"kind": "rate", "acceptance_rate": 0.7})
    drawn = law.draw(4, np.arange(2 * ROUNDS), np.random.default_rng(7)) >= 1
    both = int((drawn[::2] & drawn[1::2]).sum())
    tail = min(binom.cdf(both, ROUNDS, 0.49), binom.sf(both - 1, ROUNDS, 0.49))
    assert tail >= FALSE_ALARM / 2
