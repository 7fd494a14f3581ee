"""A decoder-only transformer as the cost model and the runtime both read it.

Axes: D model width, F feed-forward width, N query heads, G KV heads, H head size, V vocabulary, L layers.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.fields import DTYPE_BYTES, DType, Name, Source, Strict, mistake


class ModelSpec(Strict):
    """A dense decoder-only transformer."""

    name: Name
    """A name for tables and plots."""
    source: Source = "not stated"
    """Where the shape comes from."""
    layers: Annotated[int, Field(ge=1, le=10_000)]
    """L, transformer layers."""
    d_model: Annotated[int, Field(ge=1, le=1_000_000)]
    """D, width of the residual stream."""
    heads: Annotated[int, Field(ge=1, le=100_000)]
    """N, query heads."""
    kv_heads: Annotated[int, Field(ge=1, le=100_000)]
    """G, key-value heads; equal to `heads` for multi-head attention, 1 for multi-query."""
    head_dim: Annotated[int, Field(ge=1, le=100_000)]
    """H, size of one head."""
    d_ff: Annotated[int, Field(ge=1, le=10_000_000)]
    """F, feed-forward width."""
    feed_forward: Literal["gated", "plain"]
    """`gated` has three matrices (SwiGLU and kin), `plain` has two."""
    vocabulary: Annotated[int, Field(ge=2, le=100_000_000)]
    """V, tokens in the vocabulary, padding included."""
    tokenizer: Name | None = None
    """Draft and target must have the same; where none is given the vocabulary size is compared."""
    tied_embeddings: bool = False
    """Whether the LM head is the embedding matrix."""
    positions: Literal["rotary", "relative", "none"] = "rotary"
    """`relative` adds a D x N x H projection of positions to each layer, which is not streamed per token."""
    weight_dtype: DType = "bfloat16"
    """Type of the weights in memory."""
    kv_dtype: DType | None = None
    """Type of the cached keys and values; the type of the weights unless given."""
    activation_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Type of activations and of what all-reduces carry; the type of the weights unless those are quantised."""
    published_parameters: Annotated[float, Field(ge=1, le=1e15)] | None = None
    """The parameter count that the source states, for the nominal bandwidth floor."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.heads % self.kv_heads:
            raise mistake(f"a divisor of heads; {self.kv_heads} does not divide {self.heads}", "kv_heads")
        if self.positions == "rotary" and self.head_dim % 2:
            raise mistake("an even number where positions are rotary: they turn pairs", "head_dim")
        return self

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return DTYPE_BYTES[self.weight_dtype]

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached element."""
        return DTYPE_BYTES[self.kv_dtype or self.weight_dtype]

    @property
    def compute_dtype(self) -> Literal["float32", "bfloat16", "float16"]:
        """Type of the activations."""
        if self.activation_dtype is not None:
            return self.activation_dtype
        return self.weight_dtype if self.weight_dtype in ("float32", "bfloat16", "float16") else "bfloat16"

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation."""
        return DTYPE_BYTES[self.compute_dtype]

    @property
    def layer_parameters(self) -> int:
        """Weights of one layer that every step streams: projections, feed-forward, two norms."""
        attention = self.d_model * self.head_dim * 2 * (self.heads + self.kv_heads)
        feed_forward = (3 if self.feed_forward == "gated" else 2) * self.d_model * self.d_ff
        return attention + feed_forward + 2 * self.d_model

    @property
    def position_parameters(self) -> int:
        """Weights of one layer's position projection (relative positions only)."""
        return self.d_model * self.heads * self.head_dim if self.positions == "relative" else 0

    @property
    def head_parameters(self) -> int:
        """Weights of the LM head, V x D."""
        return self.vocabulary * self.d_model

    @property
    def streamed_parameters(self) -> int:
        """Weights that one decode step reads: all layers, the final norm, the head; of the embedding only rows."""
        return self.layers * self.layer_parameters + self.d_model + self.head_parameters

    @property
    def parameters(self) -> int:
        """All weights, each counted once: a tied head is the embedding."""
        embeddings = self.head_parameters * (1 if self.tied_embeddings else 2)
        per_layer = self.layer_parameters + self.position_parameters
        return self.layers * per_layer + self.d_model + embeddings

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes that one position takes in the KV cache, over all layers."""
        return self.layers * 2 * self.kv_heads * self.head_dim * self.kv_bytes
