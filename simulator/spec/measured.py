"""Steps of a scenario that somebody measured, to which the model is shifted."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from simulator.spec.fields import PositiveSeconds, Says, Strict, mistake

MAX_TOKENS = 65
"""T of the longest verification, K+1."""


def _read_tokens(value: object) -> object:
    # JSON and dotted paths have no numbers as keys.
    return int(value) if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,3}", value) else value


VerifiedTokens = Annotated[
    int,
    BeforeValidator(_read_tokens),
    Field(ge=2, le=MAX_TOKENS),
    Says(f"T, the tokens of a verify step: K+1, a whole number, 2 to {MAX_TOKENS}; T = 1 is plain_step"),
    WithJsonSchema({"type": "string", "pattern": r"^([2-9]|[1-5][0-9]|6[0-5])$"}),
]


class Measured(Strict):
    """Times of steps of this very scenario: the same models, chips, batch and cached positions."""

    plain_step_s: PositiveSeconds | None = None
    """Time of a step of plain decoding, drawing its token included. Its factor over the model also shifts the prefill,
    and the verify step where that is not measured itself."""
    draft_step_s: PositiveSeconds | None = None
    """Time in which the draft proposes one token. Its factor over the model also shifts the first draft step of a round
    and the draft's prefill."""
    verify_step_s: (
        Annotated[
            dict[VerifiedTokens, PositiveSeconds],
            Field(min_length=1, json_schema_extra={"additionalProperties": False}),
            Says(f"times by T, the tokens of the pass (K+1, 2 to {MAX_TOKENS}), such as {{2: 7.9 ms, 5: 8.1 ms}}"),
        ]
        | None
    ) = None
    """Time in which the target verifies K tokens, by T = K+1. Between two T the factor over the model is linear in T,
    beyond them that of the nearest; a plain step counts as T = 1."""

    @model_validator(mode="after")
    def _something_is_measured(self) -> Self:
        if not self.model_fields_set - {name for name, value in self if value is None}:
            raise mistake("at least one of plain_step, draft_step, verify_step")
        return self
