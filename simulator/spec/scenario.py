"""The scenario: target x draft x deployment x decoding x acceptance x workload."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from simulator.spec.acceptance import Acceptance
from simulator.spec.drafting import DraftSpec, ModelDraft
from simulator.spec.fields import OR_FILE, Name, PositiveSeconds, Says, Source, Strict
from simulator.spec.hardware import HardwareProfile
from simulator.spec.model import ModelSpec
from simulator.spec.terms import TIME_METRICS


class DraftDeployment(Strict):
    """Where the draft runs."""

    tensor_parallel: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Chips over which the draft is sharded; those of the target unless given."""
    placement: Literal["same_chips"] = "same_chips"
    """`same_chips`: draft and target take turns on the target's chips."""


class Deployment(Strict):
    """Chips and how the models lie on them."""

    hardware: Annotated[HardwareProfile, Says(f"the name of a hardware profile, {OR_FILE}")]
    """The kind of chip."""
    calibration: Name | None = None
    """The calibration of that profile to use; without one, times are the datasheet floor, not a prediction."""
    chips: Annotated[int, Field(ge=1, le=100_000)] = 1
    """X, chips of the deployment."""
    slice: (
        Annotated[
            str,
            Field(pattern=r"^[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){0,2}$"),
            Says("the length of each axis, such as 2x2x4"),
        ]
        | None
    ) = None
    """Chips along each axis of the torus."""
    tensor_parallel: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Chips over which the target is sharded; all of them unless given."""
    draft: DraftDeployment = DraftDeployment()
    """Where the draft runs."""

    @property
    def target_degree(self) -> int:
        """Tensor parallel degree of the target."""
        return self.tensor_parallel or self.chips

    @property
    def draft_degree(self) -> int:
        """Tensor parallel degree of the draft."""
        return self.draft.tensor_parallel or self.target_degree


class Decoding(Strict):
    """How tokens are chosen."""

    lookahead: Annotated[int, Field(ge=0, le=64)]
    """K, draft tokens proposed per round; 0 drafts nothing."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 1.0
    """Divides the logits before sampling; 0 is greedy decoding."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus: the smallest set of tokens with this mass is kept; 1 keeps all."""


class Workload(Strict):
    """The requests: B sequences that decode in lockstep."""

    batch: Annotated[int, Field(ge=1, le=100_000)] = 1
    """B, sequences decoded together."""
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

    @property
    def cache_positions(self) -> int:
        """S as allocated by a static KV cache: prompt, output and the last round's overshoot, in blocks of 64."""
        return -(-(self.workload.prompt_tokens + self.workload.output_tokens + 66) // 64) * 64

    @property
    def mean_positions(self) -> float:
        """S as used, averaged over the output."""
        return self.workload.prompt_tokens + self.workload.output_tokens / 2

    @property
    def draft_model(self) -> ModelSpec | None:
        """The draft's shape, where it is a model of its own."""
        return self.draft.model if isinstance(self.draft, ModelDraft) else None

    @property
    def lookahead(self) -> int:
        """K; 0 where nothing drafts."""
        return self.decoding.lookahead if self.draft_model is not None else 0

    def resolved(self) -> dict[str, Any]:
        """Plain JSON data that can be read back as this scenario; of the calibrations, only the one it uses."""
        data = self.model_dump(mode="json", exclude_defaults=True)
        known = data["deployment"]["hardware"].get("calibrations", {})
        used = {name: value for name, value in known.items() if name == self.deployment.calibration}
        data["deployment"]["hardware"]["calibrations"] = used
        return data
