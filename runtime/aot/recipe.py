"""Everything that determines one compiled program, and nothing else: what a child is asked, and the key of a result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from runtime.aot.compiled import ProgramName, Variant
from runtime.aot.topologies import Topology
from runtime.executed import not_executed
from simulator.errors import RefusedError
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario


@dataclass(frozen=True)
class Recipe:
    """One program of one scenario for one topology."""

    program: ProgramName
    topology: str
    variant: Variant
    target: ModelSpec | None
    """None where the program has nothing of it."""
    draft: ModelSpec | None
    target_degree: int
    """Devices over which each layer of the target is sharded."""
    draft_degree: int
    batch: int
    """B."""
    tokens: int
    """T, new tokens of each sequence in a step: the prompt in prefill, K+1 in a verify step and in a round."""
    positions: int
    """S, allocated positions of each cache."""
    output_tokens: int = 0
    """N of a loop of rounds; 0 in a step, which does not depend on it."""
    sampling: Mapping[str, Any] | None = None
    """How a loop of rounds chooses tokens: the fields of ``runtime.sampling.Sampling``; None in a step."""

    @property
    def spec(self) -> ModelSpec:
        """The model of a step."""
        spec = self.draft if self.target is None else self.target
        if spec is None:
            raise RefusedError("a program without a model is none")
        return spec

    @property
    def degree(self) -> int:
        """Devices over which the model of a step is sharded."""
        return self.draft_degree if self.target is None else self.target_degree

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        specs = {
            role: spec.model_dump_json(exclude_defaults=True) if spec is not None else None
            for role, spec in (("target", self.target), ("draft", self.draft))
        }
        return dataclasses.asdict(replace(self, target=None, draft=None)) | specs

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`."""
        specs = {
            role: ModelSpec.model_validate_json(data[role]) if data[role] is not None else None
            for role in ("target", "draft")
        }
        return cls(**{**data, **specs, "variant": Variant(**data["variant"])})


def recipe_of(scenario: Scenario, program: ProgramName, where: Topology, variant: Variant) -> Recipe:
    """The recipe of one program of ``scenario`` on a slice, which need not be the scenario's own.

    Degrees that the scenario states are kept; otherwise a model lies on every device of the slice.

    Raises:
        RefusedError: the scenario asks for what is not executed, has no draft where the program needs one, or its
            degrees do not fill the slice.
    """
    if words := not_executed(scenario):
        raise RefusedError(f"{words} is modelled, not executed: there is no program to compile")
    target_degree, draft_degree = degrees(scenario, where)
    workload, lookahead = scenario.workload, scenario.lookahead
    drafts = program in ("draft_step", "round")
    if (drafts or program == "verify_step") and lookahead == 0:
        raise RefusedError(f"a {program} needs a draft model and a lookahead of at least 1")
    tokens = {"prefill": workload.prompt_tokens, "verify_step": lookahead + 1, "round": lookahead + 1}
    step = Recipe(
        program,
        where.name,
        variant,
        scenario.target if program != "draft_step" else None,
        scenario.draft_model if drafts else None,
        target_degree,
        draft_degree,
        workload.batch,
        tokens.get(program, 1),
        scenario.cache_positions,
    )
    if program != "round":
        return step
    decoding = scenario.decoding
    sampling = {name: getattr(decoding, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    return replace(step, output_tokens=workload.output_tokens, sampling=sampling)


def degrees(scenario: Scenario, where: Topology) -> tuple[int, int]:
    """Devices of the slice over which target and draft are sharded.

    Raises:
        RefusedError: they do not fill the slice, or do not divide each other.
    """
    deployment = scenario.deployment
    target = deployment.tensor_parallel or where.devices
    draft = deployment.draft.tensor_parallel or target
    if max(target, draft) != where.devices:
        asked = f"tensor_parallel {target}" + (f", of the draft {draft}" if draft != target else "")
        accepts = f"a degree of {where.devices} of target or draft, or a slice of {max(target, draft)}"
        raise RefusedError(f"topology {where.name} has {where.devices} devices, {asked}\n    accepts  {accepts}")
    if max(target, draft) % min(target, draft):
        accepts = "degrees of target and draft of which one divides the other"
        raise RefusedError(f"tensor_parallel {target} beside {draft} of the draft\n    accepts  {accepts}")
    return target, draft
