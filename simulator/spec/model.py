"""A transformer as the cost model and the runtime both read it.

Axes: D model width, F feed-forward width, N query heads, G KV heads, H head size, V vocabulary, L layers.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.fields import DTYPE_BYTES, DType, Name, Source, Strict, mistake
from simulator.spec.model_parts import (
    Encoder,
    Experts,
    HiddenStates,
    LatentAttention,
    Layers,
    RecurrentAttention,
    RotaryScaling,
    Width,
    Window,
)

__all__ = [
    "Encoder",
    "Experts",
    "HiddenStates",
    "LatentAttention",
    "ModelSpec",
    "RecurrentAttention",
    "RotaryScaling",
    "Window",
]
_QUANTISED = ("int8", "fp8", "int4", "fp4")


class ModelSpec(Strict):
    """A transformer: a decoder, or an encoder and a decoder; or a draft head that reads hidden states of the target."""

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
    recurrent: RecurrentAttention | None = None
    """Layers of linear attention, which keep a state instead of keys and values, where there are such."""
    encoder: Encoder | None = None
    """The encoder, where there is one; all other sizes are those of the decoder."""
    hidden_states: HiddenStates | None = None
    """What a draft head reads of the target; a model of its own has none."""
    attention_gate: bool = False
    """Whether each head's output is multiplied with a gate of its size, which takes a matrix more (Qwen3-Next)."""
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
    """Quantised weights that share one scale; a whole column unless given, whose scales are too few to be charged."""
    weight_scale_dtype: DType | None = None
    """Type of those scales; that of the activations unless given."""
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
        for key in ("experts", "window", "recurrent"):
            part = getattr(self, key)
            if part is not None and (part.layers or 0) > self.layers:
                raise mistake(f"at most {self.layers} layers; the model has no more", key)
        return self

    @model_validator(mode="after")
    def _scales_are_of_something(self) -> Self:
        own = self.experts.weight_dtype if self.experts is not None else None
        if self.weight_group is not None and not {self.weight_dtype, own}.intersection(_QUANTISED):
            raise mistake("no weight_group: only int8, fp8, int4 and fp4 weights have scales", "weight_group")
        if self.weight_scale_dtype is not None and self.weight_group is None:
            raise mistake("no weight_scale_dtype without a weight_group", "weight_scale_dtype")
        return self

    @model_validator(mode="after")
    def _modelled_together(self) -> Self:
        if self.window_layers + self.recurrent_layers > self.layers:
            raise mistake(f"at most the {self.layers - self.window_layers} layers without a window", "recurrent")
        if self.latent is not None and (self.recurrent is not None or self.attention_gate):
            raise mistake("no latent: it is not modelled beside recurrent layers or a gate", "latent")
        if self.encoder is not None and (self.latent is not None or self.hidden_states is not None):
            raise mistake("no encoder: it is modelled with plain attention alone", "encoder")
        return self

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight of a layer, its share of a scale included."""
        return self._bytes_of(self.weight_dtype)

    @property
    def expert_bytes(self) -> float:
        """Bytes of one weight of a routed expert, its share of a scale included."""
        own = self.experts.weight_dtype if self.experts is not None else None
        return self._bytes_of(own or self.weight_dtype)

    def _bytes_of(self, dtype: DType) -> float:
        if self.weight_group is None or dtype not in _QUANTISED:
            return DTYPE_BYTES[dtype]
        return DTYPE_BYTES[dtype] + DTYPE_BYTES[self.weight_scale_dtype or self.compute_dtype] / self.weight_group

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
    def recurrent_layers(self) -> int:
        """Layers of linear attention."""
        return 0 if self.recurrent is None else self.recurrent.layers

    @property
    def matrices(self) -> int:
        """Matrices of a feed-forward."""
        return 3 if self.feed_forward == "gated" else 2

    @property
    def attention_parameters(self) -> int:
        """Weights of one layer's attention, positions and norms apart."""
        latent = self.latent
        if latent is None:
            queries = self.heads * (2 if self.attention_gate else 1)
            return self.d_model * self.head_dim * (queries + self.heads + 2 * self.kv_heads)
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
    def cross_parameters(self) -> int:
        """Weights of one decoder layer's attention to the encoder."""
        return 0 if self.encoder is None else self.d_model * self.head_dim * 2 * (self.heads + self.kv_heads)

    @property
    def recurrent_parameters(self) -> int:
        """Weights of one layer of linear attention: queries, keys, values and their gate, two rates a head, output."""
        own = self.recurrent
        if own is None:
            return 0
        into = 2 * own.key_width + 2 * own.value_width + 2 * own.value_heads
        return self.d_model * (into + own.value_width) + own.convolution * (2 * own.key_width + own.value_width)

    @property
    def encoder_parameters(self) -> int:
        """Weights of the encoder, its last norm included."""
        if self.encoder is None:
            return 0
        layer = self.attention_parameters + self.norm_parameters + self.matrices * self.d_model * self.d_ff
        return self.encoder.layers * layer + self.d_model

    @property
    def projection_parameters(self) -> int:
        """Weights that a draft head has to read hidden states of the target, and the width that its attention adds."""
        own = self.hidden_states
        if own is None:
            return 0
        wider = (own.attention_inputs - 1) * self.d_model * self.head_dim * (self.heads + 2 * self.kv_heads)
        return own.inputs * (own.width or self.d_model) * self.d_model + wider

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
        if self.hidden_states is not None and self.hidden_states.proposes == "heads":
            return self.hidden_states.lm_heads * (self.layers * self.d_model**2 + self.head_parameters)
        attending = self.layers - self.recurrent_layers
        attention = attending * self.attention_parameters + self.recurrent_layers * self.recurrent_parameters
        layers = attention + self.layers * (self.norm_parameters + self.cross_parameters) + self.feed_forward_parameters
        return layers + self.d_model + self.head_parameters + self.projection_parameters

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
        """All weights, each counted once: a tied head is the embedding, and the target's are not a draft head's."""
        read = self.hidden_states
        embedding = 0 if self.tied_embeddings or (read is not None and read.shares_embedding) else self.head_parameters
        if read is not None and read.shares_head:
            embedding -= read.lm_heads * self.head_parameters
        learned = (self.max_positions or 0) * self.d_model
        positions = self.layers * self.position_parameters
        return self.streamed_parameters + self.encoder_parameters + positions + embedding + learned

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes that one position takes in the KV cache, over all layers, as long as it is in every window."""
        return (self.layers - self.recurrent_layers) * self._kv_bytes_a_layer

    @property
    def kv_bytes_per_far_token(self) -> float:
        """The same of a position that has left every window."""
        return (self.layers - self.recurrent_layers - self.window_layers) * self._kv_bytes_a_layer

    @property
    def state_bytes_per_sequence(self) -> float:
        """Bytes of the states of the layers of linear attention, in float32."""
        own = self.recurrent
        return 0.0 if own is None else 4.0 * own.layers * own.value_width * own.key_dim

    @property
    def _kv_bytes_a_layer(self) -> float:
        if self.latent is not None:
            return (self.latent.kv_rank + self.latent.rotary_dim) * self.kv_bytes
        return 2 * self.kv_heads * self.head_dim * self.kv_bytes
