"""What is known beforehand about the acceptance of a draft that does not exist yet: `prior:`.

The prior itself is :mod:`simulator.prior`; here stands only what a file may say about it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.fields import Probability, Strict, mistake

LawName = Literal["besiroglu-2024", "hoffmann-2022"]
Domain = Literal["code", "prose", "chat", "mixed"]
Tokens = Annotated[float, Field(ge=1, le=1e18)]
Parameters = Annotated[float, Field(ge=1, le=1e15)]
Loss = Annotated[float, Field(gt=0, le=50)]
"""Nats per token."""


class LossPoint(Strict):
    """A model that was trained: its loss, on the text that the target is to write, in the target's tokens."""

    parameters: Parameters
    """All weights, embeddings included."""
    tokens: Tokens
    """Tokens that it was trained on."""
    loss: Loss
    """Mean cross-entropy in nats per token; only losses of one data set and one tokenizer may stand together."""


class AcceptancePoint(Strict):
    """A draft whose acceptance by this target was measured, and by how much its loss exceeds the target's."""

    loss_gap: Annotated[float, Field(gt=0, le=50)] | None = None
    """Loss of the draft minus that of the target, in nats per token; or draft_loss and target_loss."""
    draft_loss: Loss | None = None
    """Loss of the draft in nats per token."""
    target_loss: Loss | None = None
    """Loss of the target on the same text."""
    acceptance: Annotated[Probability, Field(gt=0, lt=1)]
    """P(a draft token is accepted, given that all before it in the round were)."""

    @model_validator(mode="after")
    def _one_gap(self) -> Self:
        losses = (self.draft_loss, self.target_loss)
        if (self.loss_gap is None) != (losses != (None, None)) or losses.count(None) == 1:
            raise mistake("either loss_gap, or both draft_loss and target_loss", "loss_gap")
        if self.draft_loss is not None and self.target_loss is not None and self.draft_loss <= self.target_loss:
            raise mistake(f"more than target_loss, which is {self.target_loss:g}", "draft_loss")
        return self

    @property
    def gap(self) -> float:
        """Loss of the draft minus that of the target."""
        if self.draft_loss is not None and self.target_loss is not None:
            return self.draft_loss - self.target_loss
        return float(self.loss_gap or 0.0)


class PriorSpec(Strict):
    """Where the acceptance of a draft that is not trained yet comes from."""

    law: LawName = "besiroglu-2024"
    """The scaling law: Besiroglu et al. 2024 (the refit), or Hoffmann et al. 2022 as printed."""
    domain: Domain = "mixed"
    """What the target writes."""
    training_tokens: Tokens | None = None
    """Tokens that the draft is to be trained on; 20 for each of its parameters unless given."""
    target_tokens: Tokens | None = None
    """Tokens that the target was trained on; the published number where it is known, else 20 for each parameter."""
    target_parameters: Parameters | None = None
    """Weights of a dense model that would be as good as the target; its own number unless given. Needed where the
    target has experts: the laws are of dense models."""
    points: Annotated[tuple[AcceptancePoint, ...], Field(max_length=1000)] = ()
    """Drafts of this target that were measured: they replace the published level of acceptance."""
    losses: Annotated[tuple[LossPoint, ...], Field(max_length=1000)] = ()
    """Models of this family that were trained: they replace the constants of the law."""
