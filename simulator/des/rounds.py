"""The rounds of a batch, as SimPy processes: draft -> verify -> accept -> commit, until every sequence is done.

The event is a phase of a round of the whole batch, never a token or a kernel. Sequences decode in lockstep. One that
has its tokens idles until the slowest has its own (static batching), or gives its slot to a fresh one at once
(continuous batching). Then the first requests of every slot are counted, as many in each, and all run to their end:
those that end within some time would be the short ones.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from simulator.metrics import ttft
from simulator.spec.record import Distribution
from simulator.spec.scenario import Scenario

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_SEQUENCE_ROUNDS = 4_000_000
"""Rounds of single sequences that one prediction simulates at most: fewer replications, where batches are large."""
MAX_ROUNDS = 120_000
"""Rounds of batches that one prediction simulates at most, of which each takes some 40 us: fewer replications."""
MAX_TOKENS = 200_000
"""Tokens of an output beyond which nothing is simulated: one run would take minutes and tell what the mean tells."""


@dataclass
class Run:
    """One simulation: how long it and its requests took, and the rounds in it."""

    finished_s: float = 0.0
    rounds: int = 0
    tokens: int = 0
    sequence_rounds: int = 0
    gaps_s: list[float] = field(default_factory=list)
    """Time before each emission, by round."""
    emitted: list[Ints] = field(default_factory=list)
    """Tokens that each sequence that was not done emitted, by round."""
    request_s: list[Floats] = field(default_factory=list)
    """Time of each request from its first round on, in the order in which they ended."""
    request_rounds: list[Ints] = field(default_factory=list)
    """Rounds of each request, in the same order."""


@dataclass
class _Slots:
    """What each of the B places of a batch is at; shapes [B]."""

    left: Ints
    """Requests that have not ended."""
    emitted: Ints
    """Tokens of the present request; the first came with the prefill."""
    started_s: Floats
    started_round: Ints

    @classmethod
    def of(cls, batch: int, requests: int, now_s: float) -> _Slots:
        started_s = np.full(batch, now_s, np.float64)  # a clock starts at a whole number
        return cls(np.full(batch, requests), np.ones(batch, np.int64), started_s, np.zeros(batch, np.int64))

    def end(self, run: Run, wanted: int, now_s: float) -> Bools:
        """Book the requests that have all their tokens; the slots whose next request begins."""
        ended = (self.left > 0) & (self.emitted >= wanted)
        if ended.any():
            run.request_s.append(now_s - self.started_s[ended])
            run.request_rounds.append(run.rounds - self.started_round[ended])
            self.left -= ended
            self.emitted[ended], self.started_s[ended], self.started_round[ended] = 1, now_s, run.rounds
        return np.asarray(ended & (self.left > 0))


def decode(
    env: simpy.Environment,
    scenario: Scenario,
    components: Mapping[str, float],
    rng: np.random.Generator,
    run: Run,
    requests: int = 1,
) -> Generator[simpy.Event, Any, None]:
    """The process of one batch: ``requests`` one after the other in each slot, N tokens for each of them."""
    batch, wanted, lookahead = scenario.workload.batch, scenario.workload.output_tokens, scenario.lookahead
    slots = _Slots.of(batch, requests, env.now)
    sequences = scenario.acceptance.sequences(lookahead, batch, rng) if lookahead > 0 else None
    ahead, drafted = scenario.deployment.draft.ahead, np.zeros(batch, dtype=np.bool_)
    while (active := slots.left > 0).any():
        before = env.now
        if sequences is not None:
            yield from _round(env, components, lookahead, drafted=bool(drafted.all()))
            accepted = sequences.accepted(active)
            drafted = ahead & (accepted == lookahead)
        else:
            yield env.timeout(components["plain_step"])
            accepted = np.zeros(batch, dtype=np.int64)
        # After tokens that were drafted ahead, the target's own has no place.
        fresh = np.where(active, accepted + 1 - drafted, 0)
        run.rounds += 1
        run.sequence_rounds += int(active.sum())
        run.tokens += int(fresh.sum())
        run.emitted.append(np.minimum(fresh, wanted - slots.emitted)[active])
        run.gaps_s.append(env.now - before)
        slots.emitted += fresh
        begins = slots.end(run, wanted, env.now)
        if sequences is not None and begins.any():
            sequences.renew(begins)
            drafted = drafted & ~begins
    run.finished_s = env.now


def _round(
    env: simpy.Environment, components: Mapping[str, float], lookahead: int, *, drafted: bool
) -> Generator[simpy.Event, Any, None]:
    """The phases of one round, in the order of the paper (Chen et al. 2023, algorithm 2).

    ``drafted``: the tokens to verify were drafted ahead, and those of the next round are drafted meanwhile.
    """
    drafting = env.process(_drafting(env, components, lookahead))
    if not drafted:
        yield drafting
    verifying = env.process(_verifying(env, components))
    yield env.all_of([drafting, verifying])


def _drafting(
    env: simpy.Environment, components: Mapping[str, float], lookahead: int
) -> Generator[simpy.Event, Any, None]:
    yield env.timeout(components["draft_first_step"])
    if "draft_step" in components:
        yield env.timeout((lookahead - 1) * components["draft_step"])
    if "shipping" in components:
        yield env.timeout(components["shipping"])


def _verifying(env: simpy.Environment, components: Mapping[str, float]) -> Generator[simpy.Event, Any, None]:
    # In one: the overhead may be negative, where steps take less together than alone.
    yield env.timeout(components["verify_step"] + components["sampling"] + components["round_overhead"])


def simulate_rounds(
    scenario: Scenario, components: Mapping[str, float], replications: int
) -> dict[str, float | Distribution]:
    """Metrics of ``replications`` batches, or of so many requests in each slot of one that is refilled.

    Every run has its own stream spawned from the scenario's seed.
    """
    count = _replications(scenario, replications)
    refilled = scenario.workload.batching == "continuous"
    streams = np.random.SeedSequence(scenario.seed).spawn(1 if refilled else count)
    requests = count if refilled else 1
    runs = [_one(scenario, components, np.random.default_rng(stream), requests) for stream in streams]
    wanted, batch = scenario.workload.output_tokens, scenario.workload.batch
    times, rounds = _requests(runs[0]) if refilled else _batches(runs)
    tokens = sum(run.tokens for run in runs) / sum(run.sequence_rounds for run in runs)
    mean, first = float(times.mean()), ttft(scenario, components)
    emitted = [sizes for run in runs for sizes in run.emitted]
    gaps = np.repeat([gap for run in runs for gap in run.gaps_s], [len(sizes) for sizes in emitted])
    metrics: dict[str, float | Distribution] = {f"{name}_s": value for name, value in components.items()}
    if "round" in components:
        metrics["round_cost"] = components["round"] / components["plain_step"]
    return metrics | {
        "ttft_s": first,
        "e2e_s": first + mean,
        "acceptance_length": tokens,
        "rounds": float(rounds.mean()),
        "time_to_tokens_s": distribution(times),
        "emission_gap_s": distribution(gaps),
        "emission_tokens": distribution(np.concatenate(emitted)),
        # The first token came with the prefill; decoding made the other N - 1.
        "tpot_s": mean / (wanted - 1),
        "tokens_per_s": batch * (wanted - 1) / mean,
        "speedup": (wanted - 1) * components["plain_step"] / mean,
    }


def _batches(runs: Sequence[Run]) -> tuple[Floats, Ints]:
    """Time and rounds of every batch."""
    return np.array([run.finished_s for run in runs]), np.array([run.rounds for run in runs])


def _requests(run: Run) -> tuple[Floats, Ints]:
    """Time and rounds of every request of one run."""
    return np.concatenate(run.request_s), np.concatenate(run.request_rounds)


def _replications(scenario: Scenario, wanted: int) -> int:
    """As many as wanted; one where nothing is drawn; fewer where each is very large."""
    if scenario.lookahead == 0 or scenario.acceptance.is_certain(scenario.lookahead):
        return 1
    tokens = scenario.workload.output_tokens
    rounds = int(tokens / scenario.acceptance.mean_tokens(scenario.lookahead)) + 1
    return max(1, min(wanted, MAX_SEQUENCE_ROUNDS // (scenario.workload.batch * tokens), MAX_ROUNDS // rounds))


def _one(scenario: Scenario, components: Mapping[str, float], rng: np.random.Generator, requests: int) -> Run:
    env, run = simpy.Environment(), Run()
    env.process(decode(env, scenario, components, rng, run, requests))
    env.run()
    return run


def distribution(sample: npt.ArrayLike) -> Distribution:
    """A sample in five numbers."""
    values = np.asarray(sample, dtype=np.float64)
    p50, p90, p99 = (float(q) for q in np.quantile(values, [0.5, 0.9, 0.99]))
    return Distribution(n=len(values), mean=float(values.mean()), p50=p50, p90=p90, p99=p99)
