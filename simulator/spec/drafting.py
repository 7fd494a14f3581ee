"""What proposes tokens: nothing, or a model of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simulator.spec.fields import OR_FILE, Says, Strict
from simulator.spec.model import ModelSpec


class NoDraft(Strict):
    """Plain decoding."""

    kind: Literal["none"]


class ModelDraft(Strict):
    """A draft transformer of its own that proposes token by token."""

    kind: Literal["model"]
    model: Annotated[ModelSpec, Says(f"the name of a model, {OR_FILE}")]
    """The draft."""
    vocabulary_map: Literal["same", "subset"] = "same"
    """`same`: the target's tokens; `subset`: some of them, each with the same meaning, by a map."""


DraftSpec = Annotated[NoDraft | ModelDraft, Field(discriminator="kind")]
