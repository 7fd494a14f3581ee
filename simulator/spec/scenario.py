"""The scenario: target x draft x deployment x decoding x acceptance x workload."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field

from simulator.spec.acceptance import Acceptance
from simulator.spec.drafting import DraftSpec, MedusaDraft, ModelDraft
from simulator.spec.fields import OR_FILE, Name, PositiveSeconds, Says, Source, Strict, UsdPerHour
from simulator.spec.hardware import HardwareProfile
from simulator.spec.measured import Measured
from simulator.spec.model import ModelSpec
from simulator.spec.plan import Plan
from simulator.spec.terms import TIME_METRICS
from simulator.spec.topology import parse_slice

Slice = Annotated[
    str,
    Field(pattern=r"^[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){0,2}$"),
    Says("the length of each axis, such as 2x2x4"),
]


class DraftDeployment(Strict):
    """Where the draft runs."""

    placement: Literal["same_chips", "replicated", "sub_slice", "own_chips"] = "same_chips"
    """`same_chips`: sharded over the target's chips, which take turns; `replicated`: every group of `tensor_parallel`
    chips runs all of it; `sub_slice`: `tensor_parallel` of the target's chips run it, the others wait; `own_chips`:
    chips beside the target's, which get the draft's distributions over the links."""
    tensor_parallel: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Chips over which the draft is sharded; those of the target unless given, 1 on its own chips."""
    slice: Slice | None = None
    """Chips along each axis of the torus, where the draft does not lie on those of the target."""
    ahead: bool = False
    """On its own chips: drafts the next round while the target verifies, which is thrown away after a rejection."""


class Deployment(Strict):
    """Chips and how the models lie on them."""

    hardware: Annotated[HardwareProfile, Says(f"the name of a hardware profile, {OR_FILE}")]
    """The kind of chip."""
    calibration: Name | None = None
    """The calibration of that profile to use; without one, times are the datasheet floor, not a prediction."""
    engine: Name | None = None
    """The serving engine, such as vllm-0.9: what the profile knows of it is added to the kernels' times."""
    chips: Annotated[int, Field(ge=1, le=100_000)] = 1
    """X, chips of the deployment, those of the draft included."""
    slice: Slice | None = None
    """Chips along each axis of the torus, of the target."""
    tensor_parallel: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Chips over which each layer of the target is sharded; unless given, all that no other degree takes."""
    pipeline_parallel: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Stages of consecutive layers of the target, each on `tensor_parallel` chips of its own."""
    expert_parallel: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Groups over which the target's experts are spread; the chips of a group share each of its experts."""
    expert_dispatch: Literal["all_reduce", "all_to_all"] = "all_reduce"
    """How tokens reach their experts: every chip has all tokens (`all_reduce`), or each is sent (`all_to_all`)."""
    weight_layout: Literal["one_dimensional", "two_dimensional"] = "one_dimensional"
    """How the target's matrices are split: heads and feed-forward over all chips (`one_dimensional`, Megatron's), or
    over all axes of the slice but the first, which splits the model's width (`two_dimensional`)."""
    attention_sharding: Literal["heads", "batch"] = "heads"
    """What of the target's cache a chip has: its `heads`, or all heads of its own sequences of the `batch`; where there
    are fewer sequences than chips, the heads are split among the chips of a sequence."""
    price_usd_per_h: UsdPerHour | None = None
    """What you pay for one chip for an hour; the price in the hardware profile unless given."""
    draft: DraftDeployment = DraftDeployment()
    """Where the draft runs."""

    @property
    def chip_usd_per_h(self) -> float | None:
        """What one chip costs for an hour, where somebody said."""
        listed = self.hardware.price.value_usd_per_h if self.hardware.price is not None else None
        return self.price_usd_per_h or listed

    @property
    def own_draft_chips(self) -> int:
        """Chips that only the draft uses."""
        return (self.draft.tensor_parallel or 1) if self.draft.placement == "own_chips" else 0

    @property
    def target_chips(self) -> int:
        """Chips that the target lies on."""
        return self.chips - self.own_draft_chips

    @property
    def target_degree(self) -> int:
        """Tensor parallel degree of the target."""
        return self.tensor_parallel or max(self.target_chips // self.pipeline_parallel, 1)

    @property
    def draft_degree(self) -> int:
        """Tensor parallel degree of the draft."""
        return self.draft.tensor_parallel or (1 if self.draft.placement == "own_chips" else self.target_degree)


class Decoding(Strict):
    """How tokens are chosen."""

    lookahead: Annotated[int, Field(ge=0, le=64)]
    """K, draft tokens proposed per round; 0 drafts nothing."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 1.0
    """Divides the logits before sampling; 0 is greedy decoding."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus: the smallest set of tokens with this mass is kept, of those that `top_k` kept; 1 keeps all."""
    top_k: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """The k most likely tokens are kept; all unless given."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Tokens at least this many times as likely as the likeliest are kept; 0 keeps all."""

    @property
    def sorts(self) -> bool:
        """Whether choosing a token needs the logits in order."""
        return (self.top_p < 1 or self.top_k is not None) and self.temperature > 0


class Workload(Strict):
    """The requests: B sequences that decode together."""

    batch: Annotated[int, Field(ge=1, le=100_000)] = 1
    """B, sequences decoded together."""
    batching: Literal["static", "continuous"] = "static"
    """`static`: the batch ends with its slowest sequence; `continuous`: a fresh one follows each that ends, whose
    prefill is not charged to the others."""
    prompt_tokens: Annotated[int, Field(ge=1, le=100_000_000)]
    """Positions in the cache when decoding starts."""
    output_tokens: Annotated[int, Field(ge=2, le=10_000_000)]
    """N, tokens that each sequence emits; the first comes with the prefill, decoding makes the others."""


class PublishedValue(Strict):
    """A value that somebody else measured, to be set beside the prediction."""

    metric: Literal[TIME_METRICS]  # type: ignore[valid-type]
    """Which metric of a record it is."""
    value_s: PositiveSeconds
    """The published time."""
    where: Source
    """Table, figure or section."""
    source: Source
    """The publication."""
    confidence: Source = "read in the source"
    """How it was read."""
    use: Literal["fit", "test"]
    """`fit`: the calibration was fitted to it. `test`: it was not."""
    at: dict[str, int | float | str] = {}
    """The points of the sweep that it belongs to, as path: value; all of them where empty."""


class Scenario(Strict):
    """One question: this target, with this draft, on these chips, decoded so, for this workload."""

    name: Name
    """A name for tables and files."""
    description: Source = "not described"
    """What is asked, in words."""
    target: Annotated[ModelSpec, Says(f"the name of a model, {OR_FILE}")]
    """The served model."""
    draft: DraftSpec
    """What proposes tokens."""
    deployment: Deployment
    """Chips and how the models lie on them."""
    decoding: Decoding
    """How tokens are chosen."""
    acceptance: Acceptance
    """How many of the proposed tokens a round keeps."""
    workload: Workload
    """The requests."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Seed of every random stream."""
    published: tuple[PublishedValue, ...] = ()
    """What others measured for the same scenario."""
    plan: Plan | None = None
    """Which draft to train: the search of `sps plan`."""
    measured: Measured | None = None
    """Steps of this scenario that you measured, such as {plain_step: 7.07 ms}; the model is shifted to them."""

    @property
    def cache_positions(self) -> int:
        """S as allocated by a static KV cache: prompt, output and the last round's overshoot, in blocks of 64.

        Where an encoder reads the prompt, the decoder's own cache holds the output alone.
        """
        return -(-(self._decoded_prompt + self.workload.output_tokens + 66) // 64) * 64

    @property
    def _decoded_prompt(self) -> int:
        return 0 if self.target.encoder is not None else self.workload.prompt_tokens

    @property
    def width_parts(self) -> int:
        """Parts into which the rows of the target's matrices are split: the first axis of a two-dimensional layout."""
        axes = self._target_axes
        return axes[0] if self.deployment.weight_layout == "two_dimensional" and axes else 1

    @property
    def sequence_groups(self) -> int:
        """Groups of the target's chips that attend to sequences of their own.

        They lie along the last axes of the slice, along as many as the batch divides among them.
        """
        if self.deployment.attention_sharding == "heads":
            return 1
        batch, axes = self.workload.batch, self._target_axes
        if not axes:
            return math.gcd(batch, self.deployment.target_degree)
        return max(g for at in range(len(axes) + 1) if batch % (g := math.prod(axes[at:])) == 0)

    @property
    def _target_axes(self) -> tuple[int, ...]:
        """Chips along each axis of the target's slice, where its layers fill one."""
        axes = parse_slice(self.deployment.slice) if self.deployment.slice is not None else ()
        return axes if math.prod(axes) == self.deployment.target_degree else ()

    @property
    def mean_positions(self) -> float:
        """S as used, averaged over the output."""
        return self._decoded_prompt + self.workload.output_tokens / 2

    @property
    def draft_model(self) -> ModelSpec | None:
        """The draft's shape; None where nothing drafts."""
        if isinstance(self.draft, MedusaDraft):
            return self.draft.on(self.target)
        return self.draft.model if isinstance(self.draft, ModelDraft) else None

    @property
    def lookahead(self) -> int:
        """K; 0 where nothing drafts."""
        return self.decoding.lookahead if self.draft_model is not None else 0

    def resolved(self) -> dict[str, Any]:
        """Plain JSON data that can be read back as this scenario, its calibration and engine alone, no plan."""
        data = self.model_dump(mode="json", exclude_defaults=True)
        data.pop("plan", None)  # what else might be asked is no part of what was answered
        known = data["deployment"]["hardware"].get("calibrations", {})
        used = {name: value for name, value in known.items() if name == self.deployment.calibration}
        data["deployment"]["hardware"]["calibrations"] = used
        if engines := data["deployment"]["hardware"].pop("engines", None):
            own = {name: value for name, value in engines.items() if name == self.deployment.engine}
            data["deployment"]["hardware"] |= {"engines": own} if own else {}
        return data
