"""One step or one round of a scenario, played on its chips layer by layer.

Without jitter and prefetch it takes exactly what the closed form says. A draft on fewer chips than the target occupies
those alone, one on chips of its own leaves the target's idle meanwhile, and a stage of a pipeline waits for the one
before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from simulator.cost.schedule import Span
from simulator.des.chips import Chips, Event, Process
from simulator.errors import RefusedError
from simulator.spec.scenario import Deployment, Scenario
from simulator.steps import Step, Steps

ROUND = "round"
STEP_LANE = "step"
"""The lane whose events say which step of a round a chip is in."""
MAX_EVENTS = 2_000_000
_EVENTS_OF_A_SPAN = 6

Group = tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """Spans that run on one group of chips, or on several groups at the same time that do not wait for each other."""

    spans: tuple[Span, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Part:
    """One component of a scenario: pieces that run one after the other."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def chips(self) -> tuple[int, ...]:
        """Every chip that it occupies at some time."""
        return tuple(sorted({chip for piece in self.pieces for group in piece.groups for chip in group}))

    @property
    def events(self) -> int:
        """How many events it makes at most."""
        sizes = (len(piece.spans) * sum(map(len, piece.groups)) for piece in self.pieces)
        return _EVENTS_OF_A_SPAN * sum(sizes)


@dataclass(frozen=True)
class Played:
    """How long it took, and what every chip did meanwhile."""

    seconds: float
    events: list[Event]


def phases(scenario: Scenario, name: str) -> tuple[Part, ...]:
    """What runs one after the other in the component ``name``: itself, or the parts of a round.

    Raises:
        RefusedError: the scenario has no such component, or too much happens in it for a trace.
    """
    known = parts(scenario)
    if name != ROUND and name in known:
        found: tuple[Part, ...] = (known[name],)
    elif name == ROUND and "verify_step" in known:
        found = tuple(_in_order(known, scenario.lookahead))
    else:
        have = ", ".join([*Steps.of(scenario).passes, *([ROUND] if "verify_step" in known else [])])
        raise RefusedError(f"{scenario.name} has no {name} at lookahead {scenario.lookahead}; it has {have}")
    events = sum(part.events for part in found)
    if events > MAX_EVENTS:
        raise RefusedError(
            f"a {name} of up to {events:,} events is more than trace viewers open ({MAX_EVENTS:,}): "
            f"fewer chips show the same"
        )
    return found


def closed_form_s(scenario: Scenario, name: str) -> float:
    """What the closed form says of a component that :func:`phases` knows."""
    return sum(Steps.of(scenario).mechanisms()[name].values())


def _in_order(known: dict[str, Part], lookahead: int) -> Iterator[Part]:
    """The parts of one round (Chen et al. 2023, algorithm 2)."""
    yield known["draft_first_step"]
    yield from [known["draft_step"]] * (lookahead - 1) if "draft_step" in known else ()
    yield from [known["shipping"]] if "shipping" in known else ()
    yield from (known["verify_step"], known["sampling"], known["round_overhead"])


def parts(scenario: Scenario) -> dict[str, Part]:
    """Every component but the round, laid out in time on the chips that run it."""
    steps, deployment = Steps.of(scenario), scenario.deployment
    found = {name: Part(name, tuple(_pieces(name, step, deployment))) for name, step in steps.passes.items()}
    spent = {name: sum(by.values()) for name, by in steps.mechanisms().items()}
    # The logits are on the last stage's chips.
    last = _target_chips(deployment)[-1]
    return found | {span.name: Part(span.name, (Piece((span,), (last,)),)) for span in _between(spent)}


def _between(spent: Mapping[str, float]) -> Iterator[Span]:
    """What a round does besides its forward passes, each as a span of its own."""
    if "shipping" in spent:
        yield Span("shipping", 0.0, 0.0, collective_s=spent["shipping"])
    if "verify_step" in spent:
        yield Span("sampling", 0.0, 0.0, compute_s=spent["sampling"])
        # Time cannot run backwards: what steps save together is not drawn.
        yield Span("round_overhead", 0.0, 0.0, overhead_s=max(spent["round_overhead"], 0.0))


def _pieces(name: str, step: Step, deployment: Deployment) -> Iterator[Piece]:
    """The stages of the target one after the other; the draft in as many groups as run it at the same time."""
    spans = step.spans()
    if name.startswith("draft"):
        yield Piece(tuple(spans), _draft_chips(deployment))
        return
    stages = _target_chips(deployment)
    starts = [0, *(index for index, span in enumerate(spans) if span.name == "stage"), len(spans)]
    for stage, (start, end) in zip(stages, itertools.pairwise(starts), strict=True):
        yield Piece(tuple(spans[start:end]), (stage,))


def _target_chips(deployment: Deployment) -> tuple[Group, ...]:
    """The chips of every stage of the target."""
    degree = deployment.target_degree
    return tuple(tuple(range(i * degree, (i + 1) * degree)) for i in range(deployment.pipeline_parallel))


def _draft_chips(deployment: Deployment) -> tuple[Group, ...]:
    """The groups of chips that each run the whole draft."""
    degree, first = deployment.draft_degree, 0
    if deployment.draft.placement == "own_chips":
        first = deployment.target_chips
    count = deployment.target_chips // degree if deployment.draft.placement == "replicated" else 1
    return tuple(tuple(range(first + i * degree, first + (i + 1) * degree)) for i in range(count))


def play(
    sequence: Sequence[Part],
    chips: int,
    *,
    on_chip_bytes: float = 0.0,
    jitter_s: float = 0.0,
    seed: int = 0,
) -> Played:
    """Run ``sequence`` on ``chips`` chips, one part after the other.

    Args:
        sequence: what is run, as :func:`phases` gives it.
        chips: chips of the deployment.
        on_chip_bytes: weights that a chip may hold ahead of their use; 0 for no prefetch.
        jitter_s: mean of the exponential time by which each chip is late at each meeting with the others.
        seed: of the jitter.
    """
    env = simpy.Environment()
    machine = Chips(env, chips, on_chip_bytes, jitter_s, np.random.default_rng(seed))
    env.process(_run(machine, sequence))
    env.run()
    return Played(float(env.now), machine.events)


def _run(machine: Chips, sequence: Sequence[Part]) -> Process:
    env = machine.env
    for part in sequence:
        start = env.now
        for piece in part.pieces:
            yield env.all_of([env.process(machine.run_step(piece.spans, group)) for group in piece.groups])
        machine.events += [Event(chip, STEP_LANE, part.name, start, env.now) for chip in part.chips]
