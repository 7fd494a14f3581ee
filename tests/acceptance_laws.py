"""One law of acceptance of each kind, for tests that hold for all of them."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from simulator.spec.acceptance import Acceptance

EVERY_LAW: dict[str, dict[str, Any]] = {
    "rate": {"kind": "rate", "acceptance_rate": 0.7},
    "per_position": {"kind": "per_position", "acceptance_rates": (0.9, 0.3, 0.8)},
    "forced": {"kind": "forced", "accepted": (4, 0, 2)},
    "mixture": {
        "kind": "mixture",
        "domains": {
            "code": {"share": 0.3, "acceptance_rates": (0.95, 0.9)},
            "chat": {"share": 0.5, "acceptance_rates": (0.7,)},
            "poems": {"share": 0.2, "acceptance_rates": (0.4, 0.2, 0.1)},
        },
    },
    "beta": {"kind": "beta", "mean": 0.7, "concentration": 5.0},
    "markov": {"kind": "markov", "easy_rate": 0.9, "hard_rate": 0.3, "easy_rounds": 8.0, "hard_rounds": 3.0},
    "recorded": {
        "kind": "recorded",
        "recorded_lookahead": 4,
        "requests": ((4, 4, 3, 4), (0, 1), (2, 4, 0), (1, 1, 1, 3)),
    },
    "adversarial": {"kind": "adversarial", "share": 0.25, "acceptance_rate": 0.8, "adversarial_rate": 0.05},
}
"""By kind; lists are for lookaheads of at least 4, and 12 rounds are a whole number of repetitions of each."""


def law(**data: Any) -> Any:
    """The law of acceptance that a file with these keys gives."""
    return TypeAdapter(Acceptance).validate_python(data)
