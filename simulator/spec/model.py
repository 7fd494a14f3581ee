"""A decoder-only transformer as the cost model and the runtime both read it.

Axes: D model width, F feed-forward width, N query heads, G KV heads, H head size, V vocabulary, L layers.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.fields import DTYPE_BYTES, DType, Name, Source, Strict, mistake

Layers = Annotated[int, Field(ge=1, le=10_000)]
Width = Annotated[int, Field(ge=1, le=10_000_000)]


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


class ModelSpec(Strict):
    """A decoder-only transformer."""

    name: Name
    """A name for tables and plots."""
    source: Source = "not stated"
    """Where the shape comes from."""
    layers: Layers
    """L, transformer layers."""
    d_model: Annotated[int, Field(ge=1, le=1_000_000)]
    """D, width of the residual stream."""
    heads: Annotated[int, Field(ge=1, le=100_000)]
    """N, query heads."""
    kv_heads: Annotated[int, Field(ge=1, le=100_000)]
    """G, key-value heads; equal to `heads` for multi-head attention, 1 for multi-query."""
    head_dim: Annotated[int, Field(ge=1, le=100_000)]
    """H, size of one head."""
    d_ff: Width
    """F, feed-forward width."""
    feed_forward: Literal["gated", "plain"]
    """`gated` has three matrices (SwiGLU and kin), `plain` has two."""
    block: Literal["serial", "parallel"] = "serial"
    """`parallel` adds attention and feed-forward of one norm at once: one all-reduce a layer instead of two."""
    experts: Experts | None = None
    """The experts, where feed-forwards are routed."""
    latent: LatentAttention | None = None
    """Sizes of multi-head latent attention, where keys and values are compressed."""
    window: Window | None = None
    """Layers with sliding-window attention, where there are such."""
    vocabulary: Annotated[int, Field(ge=2, le=100_000_000)]
    """V, tokens in the vocabulary, padding included."""
    tokenizer: Name | None = None
    """Draft and target must have the same; where none is given the vocabulary size is compared."""
    tied_embeddings: bool = False
    """Whether the LM head is the embedding matrix."""
    positions: Literal["rotary", "learned", "relative", "none"] = "rotary"
    """`learned` adds a row of a table to each token; `relative` (Dai et al. 2019) has a D x N x H projection of
    distances in each layer, of which a step reads the products, N x H for each distance, not the weights."""
    max_positions: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Rows of the table of learned positions; needed with it, and only there."""
    rotary_base: Annotated[float, Field(gt=0, le=1e12)] = 10_000.0
    """Base of the rotary frequencies, called theta in other places; times do not depend on it."""
    rotary_scaling: RotaryScaling | None = None
    """How the rotary frequencies are stretched, where they are; times do not depend on it."""
    norm_epsilon: Annotated[float, Field(ge=0, le=1)] = 1e-6
    """What the norms add to the mean square; times do not depend on it."""
    weight_dtype: DType = "bfloat16"
    """Type of the weights in memory."""
    weight_group: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Quantised weights of a column that share one scale, which has the type of the activations; a whole column unless
    given, whose scales are too few to be charged."""
    head_dtype: DType | None = None
    """Type of embedding and LM head, which are often left unquantised; that of the weights unless given."""
    kv_dtype: DType | None = None
    """Type of the cached keys and values; the type of the activations unless given."""
    activation_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Type of activations and of what all-reduces carry; the type of the weights unless those are quantised."""
    matmul_dtype: DType | None = None
    """Type in which matrices are multiplied; that of the activations unless given (weights alone are quantised)."""
    published_parameters: Annotated[float, Field(ge=1, le=1e15)] | None = None
    """The parameter count that the source states, for the nominal bandwidth floor."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if self.heads % self.kv_heads:
            raise mistake(f"a divisor of heads; {self.kv_heads} does not divide {self.heads}", "kv_heads")
        if self.positions == "rotary" and self.latent is None and self.head_dim % 2:
            raise mistake("an even number where positions are rotary: they turn pairs", "head_dim")
        if self.latent is not None and self.kv_heads != self.heads:
            raise mistake(f"heads, which is {self.heads}, where keys and values are compressed", "kv_heads")
        if (self.positions == "learned") != (self.max_positions is not None):
            raise mistake("a number where positions are learned, and none otherwise", "max_positions")
        if self.rotary_scaling is not None and self.positions != "rotary":
            raise mistake("no rotary_scaling: only rotary positions have frequencies", "rotary_scaling")
        if self.weight_group is not None and self.weight_dtype not in ("int8", "fp8", "int4"):
            raise mistake("no weight_group: only int8, fp8 and int4 weights have scales", "weight_group")
        for key in ("experts", "window"):
            part = getattr(self, key)
            if part is not None and (part.layers or 0) > self.layers:
                raise mistake(f"at most {self.layers} layers; the model has no more", key)
        return self

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight of a layer, its share of a scale included."""
        scale = self.activation_bytes / self.weight_group if self.weight_group else 0.0
        return DTYPE_BYTES[self.weight_dtype] + scale

    @property
    def head_bytes(self) -> float:
        """Bytes of one weight of embedding and LM head."""
        return self.weight_bytes if self.head_dtype is None else DTYPE_BYTES[self.head_dtype]

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached element."""
        return DTYPE_BYTES[self.kv_dtype or self.compute_dtype]

    @property
    def compute_dtype(self) -> Literal["float32", "bfloat16", "float16"]:
        """Type of the activations."""
        if self.activation_dtype is not None:
            return self.activation_dtype
        return self.weight_dtype if self.weight_dtype in ("float32", "bfloat16", "float16") else "bfloat16"

    @property
    def rate_dtype(self) -> DType:
        """Type in which matrices are multiplied: whose peak rate holds."""
        return self.matmul_dtype or self.compute_dtype

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation."""
        return DTYPE_BYTES[self.compute_dtype]

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return 0 if self.experts is None else self.experts.layers or self.layers

    @property
    def window_layers(self) -> int:
        """Layers that attend to a window."""
        return 0 if self.window is None else self.window.layers or self.layers

    @property
    def matrices(self) -> int:
        """Matrices of a feed-forward."""
        return 3 if self.feed_forward == "gated" else 2

    @property
    def attention_parameters(self) -> int:
        """Weights of one layer's attention, positions and norms apart."""
        latent = self.latent
        if latent is None:
            return self.d_model * self.head_dim * 2 * (self.heads + self.kv_heads)
        key, value = self.head_dim + latent.rotary_dim, latent.value_dim or self.head_dim
        query = (
            self.d_model * self.heads * key
            if latent.query_rank is None
            else latent.query_rank * (self.d_model + self.heads * key)
        )
        compress = self.d_model * (latent.kv_rank + latent.rotary_dim)
        expand = latent.kv_rank * self.heads * (self.head_dim + value)
        return query + compress + expand + self.heads * value * self.d_model

    @property
    def norm_parameters(self) -> int:
        """Weights of one layer's norms."""
        latent = self.latent
        norms = 1 if self.block == "parallel" else 2
        return norms * self.d_model + (latent.kv_rank + (latent.query_rank or 0) if latent is not None else 0)

    @property
    def feed_forward_parameters(self) -> int:
        """Weights of all feed-forwards of all layers: dense, experts, shared experts, routers."""
        each = self.matrices * self.d_model
        dense = (self.layers - self.expert_layers) * each * self.d_ff
        experts = self.experts
        if experts is None:
            return dense
        routed = each * (experts.count * experts.d_ff + experts.shared_d_ff) + self.d_model * experts.count
        return dense + self.expert_layers * routed

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
        """Weights that a decode step reads where all experts are touched: of the embedding only rows."""
        per_layer = self.attention_parameters + self.norm_parameters
        return self.layers * per_layer + self.feed_forward_parameters + self.d_model + self.head_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token is multiplied with, head included, embedding and positions not."""
        unused = 0
        if self.experts is not None:
            idle = self.experts.count - self.experts.per_token
            unused = self.expert_layers * idle * self.matrices * self.d_model * self.experts.d_ff
        return self.streamed_parameters - unused

    @property
    def parameters(self) -> int:
        """All weights, each counted once: a tied head is the embedding."""
        embedding = 0 if self.tied_embeddings else self.head_parameters
        learned = (self.max_positions or 0) * self.d_model
        return self.streamed_parameters + self.layers * self.position_parameters + embedding + learned

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes that one position takes in the KV cache, over all layers, as long as it is in every window."""
        if self.latent is not None:
            return self.layers * (self.latent.kv_rank + self.latent.rotary_dim) * self.kv_bytes
        return self.layers * 2 * self.kv_heads * self.head_dim * self.kv_bytes
