"""Parts of a model that not every model has: experts, compressed keys, windows, recurrent layers, an encoder.

Axes: D model width, F feed-forward width, N query heads, G KV heads, H head size, V vocabulary, L layers.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.fields import DType, Name, Strict, mistake

Layers = Annotated[int, Field(ge=1, le=10_000)]
Width = Annotated[int, Field(ge=1, le=10_000_000)]
Heads = Annotated[int, Field(ge=1, le=100_000)]


class Experts(Strict):
    """The routed feed-forwards of a mixture of experts."""

    count: Annotated[int, Field(ge=2, le=100_000)]
    """E, experts of a layer."""
    per_token: Annotated[int, Field(ge=1, le=100_000)]
    """k, experts that each token is routed to."""
    d_ff: Width
    """Width of one expert."""
    shared_d_ff: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Width of the experts that every token passes, together; 0 where there are none."""
    layers: Layers | None = None
    """Layers with experts; the others have a dense feed-forward of width `d_ff`. All layers unless given."""
    weight_dtype: DType | None = None
    """Type of their weights in memory, where they alone are quantised; that of the other weights unless given."""
    correlation: Annotated[float, Field(ge=0, le=1)] = 0.0
    """How alike tokens are routed: n tokens touch as many experts as 1 + (n - 1)(1 - correlation) independent ones."""

    @model_validator(mode="after")
    def _routed_to_some(self) -> Self:
        if self.per_token > self.count:
            raise mistake(f"at most count, which is {self.count}", "per_token")
        return self


class LatentAttention(Strict):
    """Multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434): keys and values are cached compressed."""

    kv_rank: Annotated[int, Field(ge=1, le=100_000)]
    """Size of the compressed keys and values of a position."""
    rotary_dim: Annotated[int, Field(ge=1, le=100_000)]
    """Size of the rotary part of a key, which all heads share; `head_dim` is the part without it."""
    query_rank: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Size of the compressed query; queries are not compressed unless given."""
    value_dim: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Size of a head's value; `head_dim` unless given."""


class Window(Strict):
    """Layers that attend to the last positions only."""

    positions: Annotated[int, Field(ge=1, le=100_000_000)]
    """W, how many positions back they see."""
    layers: Layers | None = None
    """How many layers are so; all unless given."""


class RotaryScaling(Strict):
    """Rotary frequencies stretched for longer contexts than were trained on (Llama 3.1, arXiv 2407.21783).

    A pair that turns fewer than `low_frequency_factor` times within `original_positions` turns `factor` times slower,
    one that turns more than `high_frequency_factor` times as before, and those between something in between.
    """

    factor: Annotated[float, Field(ge=1, le=1e6)]
    """How many times slower the slow pairs turn."""
    low_frequency_factor: Annotated[float, Field(gt=0, le=1e6)]
    """Turns within the original positions below which a pair counts as slow."""
    high_frequency_factor: Annotated[float, Field(gt=0, le=1e6)]
    """Turns within the original positions above which a pair is left alone."""
    original_positions: Annotated[int, Field(ge=1, le=100_000_000)]
    """Positions that the model was first trained on."""

    @model_validator(mode="after")
    def _low_below_high(self) -> Self:
        if self.low_frequency_factor >= self.high_frequency_factor:
            accepts = f"more than low_frequency_factor, which is {self.low_frequency_factor:g}"
            raise mistake(accepts, "high_frequency_factor")
        return self


class RecurrentAttention(Strict):
    """Layers of linear attention with a state of fixed size in place of a cache (Gated DeltaNet, arXiv 2412.06464)."""

    layers: Layers
    """How many layers are so; the others attend to a cache."""
    key_heads: Heads
    """Heads of queries and keys."""
    value_heads: Heads
    """Heads of values, each with a state of its own; a multiple of `key_heads`."""
    key_dim: Heads
    """Size of a key."""
    value_dim: Heads
    """Size of a value; a head's state has key_dim x value_dim numbers in float32."""
    convolution: Annotated[int, Field(ge=1, le=1024)] = 4
    """Positions that the convolution before the recurrence spans."""

    @property
    def key_width(self) -> int:
        """Columns of all keys together."""
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        """Columns of all values together."""
        return self.value_heads * self.value_dim

    @model_validator(mode="after")
    def _values_share_keys(self) -> Self:
        if self.value_heads % self.key_heads:
            raise mistake(f"a multiple of key_heads, which is {self.key_heads}", "value_heads")
        return self


class Encoder(Strict):
    """The encoder of an encoder-decoder, which reads the prompt once; every layer of the decoder attends to it."""

    layers: Layers
    """Layers of the encoder; their widths are those of the decoder."""


class HiddenStates(Strict):
    """What a draft head is made of that reads hidden states of the target, beside its layers."""

    of: Name | None = None
    """The target that the head was trained for, by which lists find it."""
    proposes: Literal["one_by_one", "block", "heads"] = "one_by_one"
    """`one_by_one`: a pass a token, each fed with the last (EAGLE, MTP); `block`: all K tokens in one pass of as many
    rows (DFlash, P-EAGLE); `heads`: an LM head for each of them, all on one row, each behind `layers` residual blocks
    of D x D (Medusa)."""
    lm_heads: Annotated[int, Field(ge=1, le=64)] = 1
    """LM heads, where each proposes a token."""
    inputs: Annotated[int, Field(ge=0, le=100)]
    """Vectors that are put side by side and projected to `d_model`: hidden states, and the embedding where it is one
    of them; 0 where nothing is projected."""
    projected: Literal["every_pass", "once_a_round"] = "every_pass"
    """`every_pass`: with the embedding of each token (EAGLE, MTP); `once_a_round`: hidden states of the target alone,
    for the tokens that it has just accepted (EAGLE-3, DFlash)."""
    width: Width | None = None
    """Width of those vectors, the target's `d_model`; that of the head unless given."""
    attention_inputs: Annotated[int, Field(ge=1, le=8)] = 1
    """Vectors of width `d_model`, side by side, that queries, keys and values are made of: 2 in EAGLE-3."""
    shares_embedding: bool = True
    """Whether the embedding is the target's, so that it takes no memory of its own."""
    shares_head: bool = True
    """Whether the LM head is the target's; it is read at every pass all the same."""
