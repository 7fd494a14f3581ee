"""What proposes tokens: nothing, or a model of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simulator.spec.fields import OR_FILE, Says, Strict
from simulator.spec.model import HiddenStates, ModelSpec


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


class MedusaDraft(Strict):
    """Heads on the target's last hidden state, each of which proposes one more token (Cai et al. 2024, 2401.10774)."""

    kind: Literal["medusa"]
    heads: Annotated[int, Field(ge=1, le=64)]
    """How many there are: the largest lookahead."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 1
    """Residual blocks of a head, each a D x D matrix, before its own LM head."""

    def on(self, target: ModelSpec) -> ModelSpec:
        """The heads as a model: on hidden states of ``target``, over its vocabulary, in the types of its weights."""
        reads = HiddenStates(proposes="heads", lm_heads=self.heads, inputs=0, shares_embedding=True, shares_head=False)
        widths = {key: getattr(target, key) for key in ("d_model", "heads", "kv_heads", "head_dim", "vocabulary")}
        kept = ("tokenizer", "weight_dtype", "weight_group", "weight_scale_dtype", "head_dtype", "activation_dtype")
        return ModelSpec(
            name=f"medusa-{self.heads}x{self.layers}",
            layers=self.layers,
            d_ff=target.d_model,
            feed_forward="plain",
            positions="none",
            matmul_dtype=target.matmul_dtype,
            hidden_states=reads,
            **widths,
            **{key: getattr(target, key) for key in kept},
        )


DraftSpec = Annotated[NoDraft | ModelDraft | MedusaDraft, Field(discriminator="kind")]
