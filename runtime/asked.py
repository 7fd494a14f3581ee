"""What a measurement is asked for beside the scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from runtime.weights import RANDOM, Weights


@dataclass(frozen=True)
class Asked:
    """Where weights come from, how layers are run, and what is timed or kept in addition."""

    weights: Weights = RANDOM
    layers: Literal["unrolled", "scanned"] = "unrolled"
    in_place: bool = False
    """Whether the parts of a round are timed inside it as well."""
    profile: Path | None = None
    """A folder for a trace of every program by JAX's profiler."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`."""
        profile = data["profile"]
        return cls(Weights.of(data["weights"]), data["layers"], data["in_place"], Path(profile) if profile else None)

    def to_json(self) -> dict[str, Any]:
        """Plain data for another process, which may run elsewhere."""
        return {
            "weights": self.weights.to_json(),
            "layers": self.layers,
            "in_place": self.in_place,
            "profile": str(self.profile.absolute()) if self.profile is not None else None,
        }


ORDINARY = Asked()
