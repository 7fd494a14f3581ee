"""Measured steps beside the model's own: the factors by which the model is shifted to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Anchor:
    """What one forward pass is multiplied with, and why."""

    factor: float
    predicted_s: float
    """By the model alone."""
    how: str
    """Where the factor comes from, in words."""
    measured_s: float | None = None
    """Where this very pass was measured."""
    by_tokens: Mapping[int, Anchor] = field(default_factory=dict)
    """Of a verify step: those that were measured, by T."""

    @classmethod
    def of(cls, measured_s: float, predicted_s: float) -> Anchor:
        """The anchor of a pass that was measured itself."""
        return cls(measured_s / predicted_s, predicted_s, "measured", measured_s)

    def shared(self, predicted_s: float, how: str) -> Anchor:
        """The same factor for another pass."""
        return Anchor(self.factor, predicted_s, how)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a record."""
        data: dict[str, Any] = {"predicted_s": self.predicted_s, "factor": self.factor, "how": self.how}
        if self.measured_s is not None:
            data = {"measured_s": self.measured_s, **data}
        if self.by_tokens:
            data["by_tokens"] = {str(tokens): anchor.to_json() for tokens, anchor in self.by_tokens.items()}
        return data


def verify_anchor(by_tokens: Mapping[int, Anchor], plain: Anchor | None, tokens: int, predicted_s: float) -> Anchor:
    """The anchor of a verify step of ``tokens``: linear in T between measured ones, that of the nearest beyond them.

    Args:
        by_tokens: the verify steps that were measured, by T.
        plain: the plain step, which counts as T = 1, where it was measured.
        tokens: T of the step.
        predicted_s: what the model alone says of it.
    """
    if tokens in by_tokens:
        return replace(by_tokens[tokens], by_tokens=by_tokens)
    known = ({1: plain} if plain is not None else {}) | {at: by_tokens[at] for at in sorted(by_tokens)}
    factor = float(np.interp(tokens, list(known), [anchor.factor for anchor in known.values()]))
    names = {at: f"T {at}" if at > 1 else "the plain step" for at in known}
    below, above = [names[at] for at in known if at < tokens], [names[at] for at in known if at > tokens]
    how = f"between {below[-1]} and {above[0]}" if below and above else f"as {(below[-1:] or above[:1])[0]}"
    return Anchor(factor, predicted_s, how, by_tokens=by_tokens)
