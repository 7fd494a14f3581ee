"""The forward passes and messages of one scenario: what is run, on which chips, after what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simulator.anchoring import Anchor, verify_anchor
from simulator.cost.collectives import Links, message_time
from simulator.cost.counted import LOGIT_BYTES
from simulator.cost.operations import streamed_bytes
from simulator.cost.schedule import Span, spans
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, StepCost, TimedStep, footprint, sampling_time, step_cost, timed
from simulator.cost.topology import links_between, links_of
from simulator.errors import RefusedError
from simulator.overheads import with_engine
from simulator.spec.engine import Engine
from simulator.spec.fields import DType
from simulator.spec.hardware import Calibration, CostParameters, datasheet_calibration
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from simulator.units import human_bytes, human_time

DATASHEET = "datasheet"
TOKEN_BYTES = 4.0
OTHER_MODEL = 0.1
"""A published parameter count this far from the counted one is of another model: names round to 5 %."""


@dataclass(frozen=True)
class Step:
    """One forward pass as it runs in a scenario."""

    model: ModelSpec
    forward: Pass
    machine: Machine
    footprint_bytes: float | None = None
    sampled_rows: int = 0
    factor: float = 1.0
    """What its time is multiplied with, so that the model meets what was measured."""
    encodes: bool = False
    """Whether it is the model's encoder that runs."""

    @cached_property
    def shape(self) -> Shape:
        """The numbers of the model that cost anything."""
        return Shape.of_encoder(self.model) if self.encodes else Shape.of(self.model)

    @cached_property
    def cost(self) -> StepCost:
        """Its time by mechanism."""
        alone = step_cost(self.shape, self.forward, self.machine, self.footprint_bytes, self.sampled_rows)
        shifted = {name: np.asarray(self.factor * seconds) for name, seconds in alone.mechanisms.items()}
        return replace(alone, mechanisms=shifted)

    @property
    def seconds(self) -> float:
        """Its time."""
        return sum(_floats(self.cost).values())

    def timed(self) -> TimedStep:
        """Its operations and collectives, each with its time by the model alone: not times :attr:`factor`."""
        return timed(self.shape, self.forward, self.machine, self.footprint_bytes, self.sampled_rows)

    def spans(self) -> list[Span]:
        """Its spans, in the order in which they run."""
        alone = spans(self.shape, self.forward, self.machine, self.footprint_bytes, self.sampled_rows)
        return [span.scaled(self.factor) for span in alone]

    def floor(self, positions: float) -> tuple[float, float]:
        """Bytes that one memory must give with so many cached positions, and their seconds at datasheet bandwidth."""
        profile = self.machine.profile
        own = streamed_bytes(self.shape, replace(self.forward, positions=positions), profile.tile)
        read = float(own) * (self.forward.chips if profile.shares_memory else 1)
        return read, read / profile.peaks.hbm_bandwidth.value_bytes_per_s


@dataclass(frozen=True)
class Steps:
    """The parts of a scenario's decoding, by component."""

    scenario: Scenario
    calibration_name: str
    calibration: Calibration

    @classmethod
    def of(cls, scenario: Scenario) -> Steps:
        """The parts under the calibration that the scenario names; the datasheet floor where it names none."""
        name = scenario.deployment.calibration
        if name is None:
            return cls(scenario, DATASHEET, datasheet_calibration())
        return cls(scenario, name, scenario.deployment.hardware.calibrations[name])

    @property
    def positions(self) -> float:
        """Positions of the cache that a decode step reads."""
        allocated = self.calibration.cache_read == "allocated"
        return self.scenario.cache_positions if allocated else self.scenario.mean_positions

    @cached_property
    def passes(self) -> dict[str, Step]:
        """Every forward pass, by the component that it is, shifted to what was measured."""
        shifts = {name: anchor.factor for name, anchor in self.anchors.items()}
        return {name: replace(step, factor=shifts.get(name, 1.0)) for name, step in self._alone.items()}

    @cached_property
    def anchors(self) -> dict[str, Anchor]:
        """The steps that were measured, and those that are shifted with them, by component; empty without any.

        Raises:
            RefusedError: a step is said to be faster than its bytes can be read.
        """
        given, alone = self.scenario.measured, self._alone
        if given is None:
            return {}
        found: dict[str, Anchor] = {}
        if given.plain_step_s is not None:
            found["plain_step"] = self._met("plain_step", given.plain_step_s, alone["plain_step"])
            found["prefill"] = found["plain_step"].shared(alone["prefill"].seconds, "as the plain step")
        draft = self.scenario.draft_model
        if draft is None or "verify_step" not in alone:
            return found
        if given.draft_step_s is not None:
            # Where all tokens are proposed in one pass, that pass is the draft step.
            own = "draft_first_step" if in_one_pass(draft) else "draft_step"
            known = alone[own] if own in alone else self._draft(draft, 1, None)
            found[own] = self._met("draft_step", given.draft_step_s, known)
            for name in (n for n in ("draft_first_step", "draft_prefill") if n in alone and n != own):
                found[name] = found[own].shared(alone[name].seconds, "as the draft step")
        verified = {
            tokens: self._met(f"verify_step[{tokens}]", seconds, self._verify(draft, tokens))
            for tokens, seconds in sorted((given.verify_step_s or {}).items())
        }
        plain = found.get("plain_step")
        if verified or plain is not None:
            tokens, predicted_s = self.scenario.lookahead + 1, alone["verify_step"].seconds
            found["verify_step"] = verify_anchor(verified, plain, tokens, predicted_s)
        return found

    def _met(self, key: str, measured_s: float, alone: Step) -> Anchor:
        """The anchor of a measured step.

        Raises:
            RefusedError: it would be faster than its bytes can be read.
        """
        profile, model = alone.machine.profile, alone.model
        if model.experts is not None:  # which of them a step touches is chance; it must read those of one token
            one = model.experts.model_copy(update={"correlation": 1.0})
            model = model.model_copy(update={"experts": one})
        read, floor_s = replace(alone, model=model).floor(self.scenario.mean_positions)
        # What fits into memory on the chip need not be read again at every step.
        kept = profile.peaks.on_chip_memory
        if measured_s < floor_s and (kept is None or read > kept.value_bytes):
            raise RefusedError(
                f"measured.{key} cannot be {human_time(measured_s)}: at the datasheet's "
                f"{profile.peaks.hbm_bandwidth.value_bytes_per_s / 1e9:,.5g} GB/s of {profile.name} this step of "
                f"{model.name} takes at least {human_time(floor_s)}, to read {human_bytes(read)}. "
                f"Was it of another model, or on more chips than {self.scenario.deployment.chips:,}?"
            )
        return Anchor.of(measured_s, alone.seconds)

    @cached_property
    def _alone(self) -> dict[str, Step]:
        """Every forward pass by the model alone."""
        scenario = self.scenario
        draft, lookahead, prompt = scenario.draft_model, scenario.lookahead, scenario.workload.prompt_tokens
        found = {"prefill": self._target(prompt, 1, prefill=True), "plain_step": self._target(1, 1)}
        if draft is None or lookahead == 0:
            return found
        if Shape.of(draft).has_layers:
            found["draft_prefill"] = self._draft(draft, prompt, None, prefill=True)
        found["draft_first_step"] = self._first_draft(draft)
        if lookahead > 1 and not in_one_pass(draft):
            found["draft_step"] = self._draft(draft, 1, None)
        found["verify_step"] = self._verify(draft, lookahead + 1)
        return found

    def mechanisms(self) -> dict[str, dict[str, float]]:
        """Seconds of every component, by mechanism; each component is their sum."""
        scenario, lookahead = self.scenario, self.scenario.lookahead
        parts = {name: _floats(step.cost) for name, step in self.passes.items()}
        if "verify_step" not in parts:
            return parts
        if scenario.deployment.draft.placement in ("own_chips", "sub_slice"):
            parts["shipping"] = self._shipping(sum(parts.get("draft_step", {}).values()))
        parts["sampling"] = {"head_and_sampling": self.acceptance_s}
        between_s = self._parameters(scenario.deployment.target_degree).round_overhead_s
        parts["round_overhead"] = {"overhead": between_s + (self.engine.round_s if self.engine else 0.0)}
        drafted = _sum(parts, {"draft_first_step": 1, "draft_step": lookahead - 1, "shipping": 1})
        verified = _sum(parts, {"verify_step": 1, "sampling": 1, "round_overhead": 1})
        parts["round"] = _sum({"drafted": drafted, "verified": verified}, {"drafted": 1, "verified": 1})
        if scenario.deployment.draft.ahead:
            parts["round_ahead"] = max(drafted, verified, key=lambda part: sum(part.values()))
        return parts

    @property
    def acceptance_s(self) -> float:
        """Accepting or rejecting K tokens of each sequence, and drawing the last."""
        scenario = self.scenario
        parameters = self._parameters(scenario.deployment.target_degree)
        rows = scenario.workload.batch * (scenario.lookahead + 1)
        cost = parameters.verification or parameters.sampling
        return float(sampling_time(cost, scenario.target.vocabulary, rows, scenario.decoding.sorts))

    def floors(self) -> dict[str, float]:
        """The least that a plain step can take at datasheet bandwidth, with its true bytes and with published ones."""
        scenario, deployment = self.scenario, self.scenario.deployment
        target, degree = scenario.target, deployment.target_degree
        peak = deployment.hardware.peaks.hbm_bandwidth.value_bytes_per_s
        chips = 1 if deployment.hardware.shares_memory else degree * deployment.pipeline_parallel
        floors = {"bandwidth_floor_s": self.passes["plain_step"].floor(scenario.mean_positions)[1]}
        # A step of a mixture reads some of its weights, one of an encoder-decoder none of the encoder's; and a count
        # that was published is not that of a model whose sizes a scenario changed.
        whole, published = target.experts is None and target.encoder is None, target.published_parameters
        if whole and published is not None and abs(target.parameters / published - 1) < OTHER_MODEL:
            floors["nominal_floor_s"] = published * target.weight_bytes / chips / peak
        return floors

    @property
    def _greedy(self) -> bool:
        return self.scenario.decoding.temperature == 0

    def _first_draft(self, draft: ModelSpec) -> Step:
        """The first pass of the draft in a round, after the target ran.

        A model of its own reads the last two tokens. A head reads the hidden states of all that were just accepted, up
        to K + 1, because those in its cache were its own guesses; one that proposes a block has a row for each of them.
        """
        reads, lookahead = draft.hidden_states, self.scenario.lookahead
        if reads is None:
            return self._draft(draft, 2, self._footprint(draft))
        rows = {"heads": 1, "block": lookahead, "one_by_one": 1}[reads.proposes]
        tokens = 1 if reads.proposes == "heads" else lookahead + 1
        step = self._draft(draft, tokens, self._footprint(draft))
        forward = replace(step.forward, head_tokens=rows, projects=True)
        return replace(step, forward=forward, sampled_rows=lookahead if in_one_pass(draft) else 1)

    def _target(self, tokens: int, sampled: int, footprint_bytes: float | None = None, prefill: bool = False) -> Step:
        deployment, model = self.scenario.deployment, self.scenario.target
        degree = deployment.target_degree
        forward = Pass(
            self.scenario.workload.batch,
            tokens,
            0 if prefill else self.positions,
            degree,
            # Who draws a token wants the logits of the last position only; verification wants all.
            sampled or None,
            deployment.expert_parallel,
            deployment.expert_dispatch == "all_to_all",
            deployment.pipeline_parallel,
            self._greedy and not prefill,
            self._encoded(model),
            self.scenario.width_parts,
            self.scenario.sequence_groups,
        )
        links = links_of(deployment.hardware, deployment.slice, degree, deployment.pipeline_parallel)
        step = Step(model, forward, self._machine(model, degree, links), footprint_bytes, sampled)
        return self._reading(step, prefill)

    def _draft(self, model: ModelSpec, tokens: int, footprint_bytes: float | None, prefill: bool = False) -> Step:
        deployment, batch = self.scenario.deployment, self.scenario.workload.batch
        degree = deployment.draft_degree
        same = deployment.draft.placement == "same_chips"
        links = links_of(deployment.hardware, deployment.slice if same else deployment.draft.slice, degree)
        greedy = self._greedy and not prefill
        forward = Pass(
            batch,
            tokens,
            0 if prefill else self.positions,
            degree,
            0 if prefill else 1,
            greedy=greedy,
            encoded=self._encoded(model),
            projects=prefill or model.hidden_states is None or model.hidden_states.projected == "every_pass",
        )
        machine = self._machine(model, degree, links, draft=True)
        step = Step(model, forward, machine, footprint_bytes, 0 if prefill else 1)
        return self._reading(step, prefill)

    def _encoded(self, model: ModelSpec) -> int:
        return self.scenario.workload.prompt_tokens if model.encoder is not None else 0

    def _reading(self, step: Step, prefill: bool) -> Step:
        """The step itself, but that an encoder reads a prompt where there is one, and draws nothing."""
        if not prefill or step.model.encoder is None:
            return step
        return replace(step, encodes=True, sampled_rows=0, forward=replace(step.forward, head_tokens=0))

    @property
    def engine(self) -> Engine | None:
        """What is known of the engine that the scenario names; None where it names none or nothing is known of it."""
        deployment = self.scenario.deployment
        return deployment.hardware.engines.get(deployment.engine or "")

    def _machine(self, model: ModelSpec, degree: int, links: Links, draft: bool = False) -> Machine:
        hardware, parameters = self.scenario.deployment.hardware, self._parameters(degree, model.rate_dtype)
        if (engine := self.engine) is not None:
            parameters = with_engine(parameters, engine, draft=draft)
        return Machine(hardware, parameters, links, model.rate_dtype, self.scenario.decoding.sorts)

    def _parameters(self, degree: int, dtype: DType | None = None) -> CostParameters:
        parameters = self.calibration.for_chips(degree, dtype or self.scenario.target.rate_dtype)
        if parameters is None:  # reading a scenario refuses this; one built in code may come here
            raise RefusedError(f"the calibration knows nothing of {degree} chips")
        return parameters

    def _verify(self, draft: ModelSpec, tokens: int) -> Step:
        return self._target(tokens, 0, self._footprint(draft))

    def _footprint(self, draft: ModelSpec) -> float | None:
        """What a chip streams between two uses of one model's weights in a round; None for the model's own weights."""
        deployment, hardware = self.scenario.deployment, self.scenario.deployment.hardware
        if deployment.own_draft_chips:
            return None
        # On the same chips target and draft take turns, so each finds the other's weights in the caches.
        target = footprint(Shape.of(self.scenario.target), deployment.target_degree, hardware)
        return float(target + footprint(Shape.of(draft), deployment.draft_degree, hardware))

    def _shipping(self, draft_step_s: float) -> dict[str, float]:
        """Handing the draft's tokens and distributions to the target's chips, as far as nothing hides it.

        K messages of B ids and, unless decoding is greedy, B V probabilities in float32, spread over the draft's chips;
        each travels while the next token is drafted, so that only the last is waited for, and what is slower than a
        draft step. Chips of its own are told in a message of ids what was accepted.
        """
        scenario, deployment = self.scenario, self.scenario.deployment
        draft, degree, batch = scenario.draft_model, deployment.draft_degree, scenario.workload.batch
        own = deployment.own_draft_chips > 0
        parameters = self._parameters(deployment.target_degree)
        links = links_between(deployment.hardware, deployment.chips)
        away = 1.0 if own else 1 - degree / deployment.target_degree
        whole = draft.vocabulary * LOGIT_BYTES if draft is not None and scenario.decoding.temperature > 0 else 0.0
        payload = batch * (TOKEN_BYTES + whole / degree * away)
        costs = parameters.point_to_point, parameters.all_reduce, links
        one = message_time(*costs, payload, parameters.network)
        back = message_time(*costs, batch * TOKEN_BYTES, parameters.network)
        latency, carried = float(one.latency_s), float(one.bandwidth_s)
        at_once = draft is not None and in_one_pass(draft)
        each = carried if at_once else max(latency + carried - draft_step_s, 0.0)
        exposed = carried + (scenario.lookahead - 1) * each
        return {
            "collective_latency": latency + (float(back.latency_s) if own else 0.0),
            "collective_bandwidth": exposed + (float(back.bandwidth_s) if own else 0.0),
        }


def in_one_pass(draft: ModelSpec) -> bool:
    """Whether a draft proposes all tokens of a round in one pass."""
    return draft.hidden_states is not None and draft.hidden_states.proposes != "one_by_one"


def _floats(cost: StepCost) -> dict[str, float]:
    return {name: float(value) for name, value in cost.mechanisms.items() if float(value) != 0.0}


def _sum(parts: Mapping[str, Mapping[str, float]], times: Mapping[str, int]) -> dict[str, float]:
    """Mechanisms of several parts together, each as often as ``times`` says."""
    total: dict[str, float] = {}
    for name, count in times.items():
        for mechanism, seconds in parts.get(name, {}).items():
            total[mechanism] = total.get(mechanism, 0.0) + count * seconds
    return total
