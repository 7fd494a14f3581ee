"""What the cost model counts of a program that was compiled: FLOP, bytes, collectives and memory by part of a model.

The program is told by plain data, as a compiled record keeps it, so that neither side needs the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from simulator.cost.counted import Operation
from simulator.cost.memory import memory_terms
from simulator.cost.operations import collectives, head, operations
from simulator.cost.shape import Pass, Shape
from simulator.spec.scenario import Scenario
from simulator.steps import Step, Steps

Known = Mapping[str, Any]
"""The known part of a reading: ``asked``, ``memory`` and, where the program fits, its counts."""
Counted = Literal["flop", "bytes"]
Change = Callable[[Shape, Pass, int], tuple[Shape, Pass, int]]
"""Shape, pass and tile -> the same of a program that does something else than the cost model thinks."""

_PARTS = {"router": "experts", "shared_experts": "experts"}
_PLACES = {"layers": "layer", "embedding": "embedding", "logits": "head"}
"""Where a collective of the cost model stands, in the words of a compiled program."""
_MEMORY = {
    "target weights": ("target weights",),
    "target cache": ("target KV cache",),
    "target distances": ("products of distances",),
    "draft weights": ("draft weights",),
    "draft cache": ("draft KV cache",),
    "draft distances": ("draft products of distances",),
}
"""Arguments of a compiled program, and the terms of the cost model that they are."""
BUFFERS = ("logits and probabilities", "attention scores")
PREFILL_BUFFERS = (*BUFFERS, "activations of the prefill")


@dataclass(frozen=True)
class Run:
    """A forward pass in a program, and how often it runs in one call."""

    step: Step
    times: int


@dataclass(frozen=True)
class Program:
    """One program as the cost model counts it."""

    name: str
    scenario: Scenario
    """On the chips that it was compiled for."""
    runs: tuple[Run, ...]
    known: Known
    variant: str
    """How it was written down, in words that begin with ``unrolled`` or ``scanned``."""

    @property
    def asked(self) -> Mapping[str, Any]:
        """Sizes that the program was written down for."""
        asked: Mapping[str, Any] = self.known["asked"]
        return asked

    def amounts(self, counted: Counted, change: Change | None = None) -> dict[str, float]:
        """FLOP or bytes of one chip and one call, by part."""
        found: Counter[str] = Counter()
        for run in self.runs:
            for op in _operations(run.step, change):
                amount = op.flop if counted == "flop" else op.streamed_bytes
                found[_PARTS.get(op.name, op.name)] += run.times * float(amount)  # type: ignore[assignment]
        return dict(found)

    def collectives(self) -> dict[tuple[str, str, float], float]:
        """Collectives of one call by place, kind and payload: how many."""
        found: Counter[tuple[str, str, float]] = Counter()
        for run in self.runs:
            for part in collectives(run.step.shape, run.step.forward):
                key = (_PLACES.get(part.name, part.name), part.kind.replace("_", "-"), float(part.payload_bytes))
                found[key] += run.times * float(part.count)  # type: ignore[assignment]
        return {key: count for key, count in found.items() if count}

    def memory(self) -> dict[str, float]:
        """Bytes of a chip by what they are for, as far as the program has it, its buffers together."""
        terms = memory_terms(self.scenario if self.name == "round" else _sampled(self.scenario))
        parts = self.known["memory"].get("argument_parts_bytes", {})
        held = {name: sum(terms.get(term, 0.0) for term in names) for name, names in _MEMORY.items()}
        own = {"round": ("target", "draft"), "draft_step": ("draft",)}.get(self.name, ("target",))
        found = {name: size for name, size in held.items() if name.startswith(own) and (size or parts.get(name))}
        buffers = PREFILL_BUFFERS if self.name == "prefill" else BUFFERS
        return found | {"buffers": sum(terms[name] for name in buffers)}


def program_of(scenario: Scenario, reading: Mapping[str, Any]) -> Program:
    """The program that was read, of ``scenario``, on as many chips as it was compiled for."""
    name, known = reading["program"], reading["known"]
    steps = Steps.of(_on_chips(scenario, known["asked"]["degrees"]))
    runs = tuple(_runs(steps, name, known["asked"]))
    return Program(name, steps.scenario, runs, known, reading["variant"])


def same_machine(scenario: Scenario, asked: Mapping[str, Any]) -> bool:
    """Whether a program was compiled for the chips and the hardware of the scenario, so that times compare."""
    deployment = scenario.deployment
    degrees = {"target": deployment.target_degree, "draft": deployment.draft_degree}
    return bool(deployment.hardware.name == asked["hardware"] and degrees == asked["degrees"])


def _on_chips(scenario: Scenario, degrees: Mapping[str, int]) -> Scenario:
    deployment = scenario.deployment
    if degrees == {"target": deployment.target_degree, "draft": deployment.draft_degree}:
        return scenario
    draft = deployment.draft.model_copy(update={"tensor_parallel": degrees["draft"]})
    placed = {"chips": max(degrees.values()), "tensor_parallel": degrees["target"], "slice": None, "draft": draft}
    # No links, no times: a slice of another size has other links, and the calibration may not know it.
    moved = deployment.model_copy(update={**placed, "calibration": None})
    return scenario.model_copy(update={"deployment": moved})


def _sampled(scenario: Scenario) -> Scenario:
    """The scenario of a program that gathers logits, though greedy decoding would not."""
    decoding = scenario.decoding
    return scenario.model_copy(update={"decoding": decoding.model_copy(update={"temperature": 1.0})})


def _runs(steps: Steps, name: str, asked: Mapping[str, Any]) -> Iterator[Run]:
    """The passes of a program; a round drafts K times, the first time over two tokens."""
    if name == "round":
        passes = {"draft_first_step": 1, "draft_step": asked["tokens"] - 2, "verify_step": 1}
        yield from (Run(steps.passes[part], times) for part, times in passes.items() if times)
        return
    # Where one token is drafted, its step is the first; compiled alone it has one token like any other.
    step = steps.passes[name] if name in steps.passes else steps.passes["draft_first_step"]
    # Programs of one pass gather logits, whatever is chosen from them afterwards.
    yield Run(replace(step, forward=replace(step.forward, tokens=asked["tokens"], greedy=False)), 1)


def _operations(step: Step, change: Change | None) -> list[Operation]:
    sizes = (step.shape, step.forward, step.machine.profile.tile)
    shape, forward, tile = change(*sizes) if change is not None else sizes
    return [*operations(shape, forward, tile), head(shape, forward, tile)]
