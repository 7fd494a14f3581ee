"""The rounds of a batch, as SimPy processes: draft -> verify -> accept -> commit, until every sequence is done.

The event is a phase of a round of the whole batch, never a token or a kernel. Sequences decode in lockstep; one that
has its tokens idles until the slowest has its own.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from simulator.spec.acceptance import ForcedAcceptance
from simulator.spec.record import Distribution
from simulator.spec.scenario import Scenario

Ints = npt.NDArray[np.int64]


MAX_SEQUENCE_ROUNDS = 4_000_000
"""Rounds of single sequences that one prediction simulates at most: fewer replications, where batches are large."""


@dataclass
class Run:
    """One replication: how long it took, and the rounds in it."""

    finished_s: float = 0.0
    rounds: int = 0
    tokens: int = 0
    sequence_rounds: int = 0
    gaps_s: list[float] = field(default_factory=list)
    """Time before each emission, by round."""
    emitted: list[Ints] = field(default_factory=list)
    """Tokens that each sequence that was not done emitted, by round."""


def decode(
    env: simpy.Environment,
    scenario: Scenario,
    components: Mapping[str, float],
    rng: np.random.Generator,
    run: Run,
) -> Generator[simpy.Event, Any, None]:
    """The process of one batch that decodes N tokens for each of its sequences; the first came with the prefill."""
    batch, wanted, lookahead = scenario.workload.batch, scenario.workload.output_tokens, scenario.lookahead
    emitted: Ints = np.ones(batch, dtype=np.int64)
    rounds: Ints = np.zeros(batch, dtype=np.int64)
    last = env.now
    while (active := emitted < wanted).any():
        if lookahead > 0:
            yield from _round(env, components, lookahead)
            accepted = scenario.acceptance.draw(lookahead, rounds, rng)
        else:
            yield env.timeout(components["plain_step"])
            accepted = np.zeros(batch, dtype=np.int64)
        fresh = np.where(active, accepted + 1, 0)
        run.rounds += 1
        run.sequence_rounds += int(active.sum())
        run.tokens += int(fresh.sum())
        run.emitted.append(np.minimum(fresh, wanted - emitted)[active])
        run.gaps_s.append(env.now - last)
        last = env.now
        emitted = emitted + fresh
        rounds = rounds + active
    run.finished_s = env.now


def _round(
    env: simpy.Environment, components: Mapping[str, float], lookahead: int
) -> Generator[simpy.Event, Any, None]:
    """The phases of one round, in the order of the paper (Chen et al. 2023, algorithm 2)."""
    yield env.timeout(components["draft_first_step"])
    if lookahead > 1:
        yield env.timeout((lookahead - 1) * components["draft_step"])
    yield env.timeout(components["verify_step"])
    yield env.timeout(components["sampling"])
    yield env.timeout(components["round_overhead"])


def simulate_rounds(
    scenario: Scenario, components: Mapping[str, float], replications: int
) -> dict[str, float | Distribution]:
    """Metrics of ``replications`` independent runs, each with its own stream spawned from the scenario's seed."""
    streams = np.random.SeedSequence(scenario.seed).spawn(_replications(scenario, replications))
    runs = [_one(scenario, components, np.random.default_rng(stream)) for stream in streams]
    wanted, batch = scenario.workload.output_tokens, scenario.workload.batch
    times = np.array([run.finished_s for run in runs])
    tokens = sum(run.tokens for run in runs) / sum(run.sequence_rounds for run in runs)
    mean = float(times.mean())
    emitted = [sizes for run in runs for sizes in run.emitted]
    gaps = np.repeat([gap for run in runs for gap in run.gaps_s], [len(sizes) for sizes in emitted])
    metrics: dict[str, float | Distribution] = {f"{name}_s": value for name, value in components.items()}
    if "round" in components:
        metrics["round_cost"] = components["round"] / components["plain_step"]
    return metrics | {
        "acceptance_length": tokens,
        "rounds": float(np.mean([run.rounds for run in runs])),
        "time_to_tokens_s": distribution(times),
        "emission_gap_s": distribution(gaps),
        "emission_tokens": distribution(np.concatenate(emitted)),
        # The first token came with the prefill; decoding made the other N - 1.
        "tpot_s": mean / (wanted - 1),
        "tokens_per_s": batch * (wanted - 1) / mean,
        "speedup": (wanted - 1) * components["plain_step"] / mean,
    }


def _replications(scenario: Scenario, wanted: int) -> int:
    """As many as wanted; one where nothing is drawn; fewer where each is very large."""
    law = scenario.acceptance
    certain = scenario.lookahead == 0 or isinstance(law, ForcedAcceptance)
    if certain or set(law.conditional(scenario.lookahead).tolist()) <= {0.0, 1.0}:
        return 1
    size = scenario.workload.batch * scenario.workload.output_tokens
    return max(1, min(wanted, MAX_SEQUENCE_ROUNDS // size))


def _one(scenario: Scenario, components: Mapping[str, float], rng: np.random.Generator) -> Run:
    env, run = simpy.Environment(), Run()
    env.process(decode(env, scenario, components, rng, run))
    env.run()
    return run


def distribution(sample: npt.ArrayLike) -> Distribution:
    """A sample in five numbers."""
    values = np.asarray(sample, dtype=np.float64)
    p50, p90, p99 = (float(q) for q in np.quantile(values, [0.5, 0.9, 0.99]))
    return Distribution(n=len(values), mean=float(values.mean()), p50=p50, p90=p90, p99=p99)
