"""Time of a round of every draft, by the cost model, all at once: the first stage of a plan.

A group of candidates shares the target, its chips and the chips of the draft; in it a draft's passes are arrays over
all shapes, and the passes of the target are one number for each lookahead. What is added up is what
:class:`simulator.steps.Steps` adds up for one scenario, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simulator.cost.memory import does_not_fit, memory_terms
from simulator.cost.operations import head, resident_weight_bytes
from simulator.cost.shape import Pass, Shape, query_heads, split, stored
from simulator.cost.step import footprint, step_cost
from simulator.errors import RefusedError
from simulator.plan.space import Drafts
from simulator.spec.drafting import ModelDraft, NoDraft
from simulator.spec.model import ModelSpec
from simulator.spec.plan import Plan, TargetOption
from simulator.spec.scenario import Scenario
from simulator.steps import Steps

Array = npt.NDArray[np.float64]

REST = ("verify_step", "sampling", "round_overhead")
"""Components of a round that do not depend on the draft's shape: of the target, and of the choice of tokens."""
DRAFT_TERMS = ("draft weights", "draft KV cache", "draft products of distances")
"""What of :func:`memory_terms` a draft takes by its shape."""


@dataclass(frozen=True)
class Group:
    """One way to serve the target and to place its draft."""

    option: str
    """The name of the target's option; empty for the scenario's own."""
    scenario: Scenario
    degree: int
    """Chips over which the draft is sharded."""
    plain_s: float
    verify_s: dict[int, float]
    """By lookahead: the verify step, acceptance and what a round takes besides."""
    weight: float
    """What a second counts under the objective."""

    @property
    def target(self) -> str:
        """The target with the name of its option, for messages."""
        name = self.scenario.target.name
        return f"{name} ({self.option})" if self.option else name


@dataclass(frozen=True)
class Candidates:
    """Drafts in a group, by their numbers in :class:`Drafts`; arrays over them, and over the lookaheads in rows."""

    group: Group
    drafts: Drafts
    index: npt.NDArray[np.int64]
    lookahead: npt.NDArray[np.int64]
    first_s: Array
    step_s: Array
    collective_s: Array
    """Of a draft step, what its collectives take."""
    round_s: Array
    """[K, drafts]."""


def groups(scenario: Scenario, plan: Plan, drafts: Drafts) -> Iterator[Group]:
    """Every way to serve the target with every way to place a draft that the calibration knows."""
    for option in (None, *plan.targets):
        served = _served(scenario, option)
        degrees = plan.draft_tensor_parallel or (served.deployment.target_degree,)
        for degree in degrees:
            if served.deployment.target_degree % degree == 0:
                yield _group(served, plan, drafts.model(0), option.name if option else "", degree)


def _served(scenario: Scenario, option: TargetOption | None) -> Scenario:
    """The scenario with the target served in another way, and nothing that drafts."""
    target, deployment = scenario.target, scenario.deployment
    if option is not None:
        types = {"weight_dtype": option.weight_dtype, "matmul_dtype": option.matmul_dtype}
        if option.weight_dtype is not None:
            # What is not quantised stays as it is: activations, and with them cache and head.
            types |= {"activation_dtype": target.compute_dtype, "head_dtype": target.head_dtype or target.weight_dtype}
        target = target.model_copy(update={key: value for key, value in types.items() if value is not None})
        chips = {"chips": option.chips, "tensor_parallel": None} if option.chips is not None else {}
        deployment = deployment.model_copy(update=chips | ({"slice": option.slice} if option.slice else {}))
    return scenario.model_copy(update={"target": target, "deployment": deployment, "draft": NoDraft(kind="none")})


def _group(served: Scenario, plan: Plan, any_draft: ModelSpec, option: str, degree: int) -> Group:
    """The passes of the target, which do not depend on the draft."""
    plain = sum(Steps.of(served).mechanisms()["plain_step"].values())
    verify = {}
    for lookahead in plan.lookahead:
        parts = Steps.of(with_draft(served, any_draft, lookahead, degree)).mechanisms()
        verify[lookahead] = sum(sum(parts[name].values()) for name in REST)
    weight = float(served.deployment.chips) if plan.objective == "cost" else 1.0
    return Group(option, served, degree, plain, verify, weight)


def with_draft(served: Scenario, draft: ModelSpec, lookahead: int, degree: int) -> Scenario:
    """The scenario with a draft, sharded over ``degree`` chips: over all of them, or by every group of them."""
    target_degree = served.deployment.target_degree
    placed = {} if degree == target_degree else {"placement": "replicated", "tensor_parallel": degree}
    subset: Literal["same", "subset"] = "subset" if draft.vocabulary != served.target.vocabulary else "same"
    where = served.deployment.draft.model_copy(update=placed)
    return served.model_copy(
        update={
            "draft": ModelDraft(kind="model", model=draft, vocabulary_map=subset),
            "deployment": served.deployment.model_copy(update={"draft": where}),
            "decoding": served.decoding.model_copy(update={"lookahead": lookahead}),
        }
    )


def screen(group: Group, drafts: Drafts, plan: Plan) -> Candidates:
    """Every draft that fits, in one group; none where the target leaves no room.

    Raises:
        RefusedError: the target alone does not fit.
    """
    scenario, degree = group.scenario, group.degree
    if reason := does_not_fit(scenario, memory_terms(scenario)):
        raise RefusedError(f"{group.target} does not fit: {reason}")
    drafted = with_draft(scenario, drafts.model(0), max(plan.lookahead), degree)
    fits = np.flatnonzero((drafts.heads >= degree) & (_memory(drafted, drafts, degree) <= _room(drafted)))
    shape = drafts.shape(fits)
    template = Steps.of(drafted)
    hardware = scenario.deployment.hardware
    both = footprint(Shape.of(scenario.target), scenario.deployment.target_degree, hardware)
    both = both + footprint(shape, degree, hardware)
    first = template.passes["draft_first_step"]
    one: Any = replace(first.forward, tokens=1)
    cold = step_cost(shape, first.forward, first.machine, both, 1)
    warm = step_cost(shape, one, first.machine, None, 1)
    wires = warm.mechanisms["collective_latency"] + warm.mechanisms["collective_bandwidth"]
    depth = np.array(plan.lookahead, dtype=np.int64)
    rest = np.array([group.verify_s[k] for k in plan.lookahead])
    rounds = cold.seconds[None, :] + (depth[:, None] - 1) * warm.seconds[None, :] + rest[:, None]
    return Candidates(group, drafts, fits, depth, cold.seconds, warm.seconds, wires + 0 * warm.seconds, rounds)


def _room(drafted: Scenario) -> float:
    """Bytes of one chip that the draft may take: what all else leaves."""
    hardware, chips = drafted.deployment.hardware, drafted.deployment.chips
    usable = hardware.usable_bytes() / (chips if hardware.shares_memory else 1)
    return usable - sum(size for name, size in memory_terms(drafted).items() if name not in DRAFT_TERMS)


def _memory(drafted: Scenario, drafts: Drafts, degree: int) -> Array:
    """Weights and cache of every draft on one chip, as :func:`simulator.cost.memory.memory_terms` counts them."""
    tile, shape, space = drafted.deployment.hardware.tile, drafts.shape(), drafts.space
    matrices = 1 if space.tied_embeddings else 2
    weights = resident_weight_bytes(shape, degree, tile)
    weights = weights + matrices * head(shape, Pass(1, 1, 0, degree), tile).streamed_bytes
    kept = stored(drafted.cache_positions, shape.head_dim, tile)
    if space.positions == "relative":
        heads = query_heads(shape, degree)
        weights = weights + shape.layers * stored(shape.d_model, heads * shape.head_dim, tile) * shape.weight_bytes
        weights = weights + shape.layers * heads * kept * shape.activation_bytes
    norms = (shape.layers * 2 * shape.d_model + shape.d_model) * shape.activation_bytes
    cache = shape.layers * 2 * split(shape.kv_heads, degree) * kept * shape.kv_bytes * drafted.workload.batch
    return np.asarray(weights + norms + cache, dtype=np.float64)
