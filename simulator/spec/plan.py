"""The search for a draft: `plan:` in a scenario."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.fields import DType, Efficiency, Name, PositiveSeconds, Probability, Strict, UsdPerHour, mistake
from simulator.spec.prior import PriorSpec

Counts = Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(min_length=1, max_length=200)]
Depths = Annotated[tuple[Annotated[int, Field(ge=1, le=10_000)], ...], Field(min_length=1, max_length=200)]
Lookaheads = Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=64)]
Ratios = Annotated[tuple[Annotated[float, Field(gt=0, le=100)], ...], Field(min_length=1, max_length=50)]
Slice = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){0,2}$")]


class DraftSpace(Strict):
    """The shapes of drafts that are tried: every combination."""

    layers: Depths
    """L of a draft."""
    d_model: Counts
    """D of a draft; a multiple of `head_dim`."""
    head_dim: Annotated[int, Field(ge=2, le=4096)] = 128
    """H of a draft."""
    d_ff_ratio: Ratios = (4.0,)
    """F over D."""
    kv_share: Ratios = (1.0,)
    """KV heads over query heads, at most 1; at least one KV head is kept."""
    vocabulary: Counts | None = None
    """Tokens of a draft, at most the target's, whose number is taken unless given; fewer are a subset of them."""
    feed_forward: Literal["gated", "plain"] = "gated"
    """Three matrices or two."""
    tied_embeddings: bool = True
    """Whether a draft's LM head is its embedding."""
    positions: Literal["rotary", "relative"] = "rotary"
    """How positions enter, as of a model."""
    max_parameters: Annotated[float, Field(gt=0, le=1e15)] | None = None
    """The most weights of a draft."""


class HeadOption(Strict):
    """Draft heads on hidden states of the target, by what they cost: no scaling law knows how often they are accepted.

    A plan says what acceptance each needs; where `acceptance` is given, it is a candidate like every other.
    """

    kind: Literal["eagle", "eagle3", "medusa", "block", "model"]
    """`eagle` (Li et al. 2024): a layer on hidden state and embedding, a pass a token; `eagle3`: on three hidden
    states, with an LM head of its own; `medusa`: an LM head for each token, all at once; `block` (DFlash): layers that
    propose all tokens in one pass; `model`: the head that `model` names."""
    model: Name | None = None
    """A head that exists, by its name."""
    layers: Depths = (1,)
    """Layers, each number a candidate; of `medusa`, residual blocks of each head."""
    vocabulary: Counts | None = None
    """Tokens of an LM head of its own, each number a candidate; all of the target's unless given. `eagle3` alone."""
    acceptance: tuple[Probability, Probability] | None = None
    """Two numbers between which the acceptance rate lies with 90 %, by your own knowledge."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if (self.kind == "model") != (self.model is not None):
            raise mistake("a name where kind is model, and none otherwise", "model")
        if self.kind == "model" and "layers" in self.model_fields_set:
            raise mistake("no layers where kind is model: it has its own", "layers")
        if self.vocabulary is not None and self.kind != "eagle3":
            raise mistake("none but for eagle3: other heads have the target's tokens", "vocabulary")
        if self.acceptance is not None and not 0 < self.acceptance[0] < self.acceptance[1] < 1:
            raise mistake("two numbers above 0 and below 1, the lower first", "acceptance")
        return self


class TargetOption(Strict):
    """Another way to serve the target, which is a candidate of its own, with and without a draft."""

    name: Name
    """A name for tables, such as int8."""
    weight_dtype: DType | None = None
    """Type of its weights; that of the scenario unless given."""
    matmul_dtype: DType | None = None
    """Type in which they are multiplied; that of the scenario unless given."""
    chips: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Chips of the deployment, all in tensor parallel; those of the scenario unless given."""
    slice: Slice | None = None
    """Chips along each axis of a torus."""


class Limits(Strict):
    """What a plan may not exceed."""

    tpot_s: PositiveSeconds | None = None
    """Time a token of a sequence."""
    price_usd_per_h: UsdPerHour | None = None
    """Price of all chips for an hour."""


class Training(Strict):
    """What training a draft costs, and what it is worth."""

    utilisation: Efficiency = 0.4
    """Achieved over peak arithmetic."""
    price_usd_per_h: UsdPerHour | None = None
    """Price of one chip for an hour; that of the chip of the scenario unless given."""
    tokens_per_day: Annotated[float, Field(gt=0, le=1e18)] | None = None
    """Output tokens that are served in a day: what savings are of."""


class Plan(Strict):
    """Which draft to train for the target of this scenario, on its chips, for its workload."""

    drafts: DraftSpace
    """Shapes that are tried."""
    existing: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    """Models that exist, by name, for comparison; their acceptance is by the same prior unless measured."""
    heads: Annotated[tuple[HeadOption, ...], Field(max_length=20)] = ()
    """Draft heads on the target's hidden states, over all of its chips."""
    draft_tensor_parallel: Counts | None = None
    """Chips over which a draft is sharded; where fewer than the target's, every group of them runs all of it. Those of
    the target unless given."""
    targets: Annotated[tuple[TargetOption, ...], Field(max_length=20)] = ()
    """Other ways to serve the target."""
    lookahead: Lookaheads = (1, 2, 3, 4, 5, 6, 7, 8)
    """K that are tried."""
    objective: Literal["latency", "cost"] = "latency"
    """`latency`: time a token of a sequence; `cost`: chips times the time of a token of the batch."""
    gain: Annotated[float, Field(gt=0, le=1000)] | None = None
    """A speedup over plain decoding that is wanted: the plan says what acceptance reaches it."""
    limits: Limits = Limits()
    """What may not be exceeded."""
    prior: PriorSpec = PriorSpec()
    """Where acceptance comes from before training."""
    training: Training = Training()
    """What training costs."""
    survivors: Annotated[int, Field(ge=10, le=2000)] = 200
    """Candidates that are drawn under uncertainty."""
    draws: Annotated[int, Field(ge=100, le=100_000)] = 500
    """Draws of acceptance and of times, together."""

    @property
    def named_models(self) -> list[tuple[str, str]]:
        """Where the plan names a model, and the name."""
        heads = [("plan.heads.model", head.model) for head in self.heads if head.model is not None]
        return [*(("plan.existing", name) for name in self.existing), *heads]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [option.name for option in self.targets]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise mistake(f"a name of its own for each; {twice[0]} stands twice", "targets")
        if twice := sorted({name for name in self.existing if self.existing.count(name) > 1}):
            raise mistake(f"each model once; {twice[0]} stands twice", "existing")
        return self
