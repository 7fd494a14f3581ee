"""Plays scenarios on real devices -> measured records.

Every component is timed as a loop of its own on the device; the first draft step in place, as what a loop of (verify,
first draft step) takes beyond a loop of verify; rounds in real generations, with acceptance forced to the scenario's
law, because the weights are random.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from runtime import programs
from runtime.children import run_child
from runtime.forcing import Forcing
from runtime.generate import finish, prefill
from runtime.host import describe_host
from runtime.mesh import chip_mesh, place_random
from runtime.pair import Pair
from runtime.probes import difference
from runtime.sampling import Sampling
from runtime.timing import Run, Session, interleaved
from simulator.errors import RefusedError
from simulator.spec.load import Point, scenario_from
from simulator.spec.probe import Timing
from simulator.spec.record import Distribution, RunRecord, new_record
from simulator.spec.scenario import Scenario

TIMEOUT_S = 3600.0
VISITS = 5
WINDOW_S = 0.15
BUDGET_S = 75.0


def measure(points: Sequence[Point], report: Callable[[str], None]) -> list[RunRecord]:
    """Measure every point; each number of devices in a process of its own, one after the other.

    Raises:
        RefusedError: a scenario that this machine or this runtime cannot execute.
        MeasurementError: a measuring process failed.
    """
    groups: dict[int, list[int]] = {}
    for index, point in enumerate(points):
        groups.setdefault(_devices(point.scenario), []).append(index)
    measured: dict[int, RunRecord] = {}
    for devices, indices in sorted(groups.items()):
        request = {
            "task": "measure",
            "devices": devices,
            "points": [{"scenario": points[i].scenario.resolved(), "axes": points[i].axes} for i in indices],
        }
        words = f"measure, {devices} device{'s' * (devices > 1)}: "
        answer = run_child(request, lambda text, words=words: report(words + text), TIMEOUT_S)  # type: ignore[misc]
        for index, record in zip(indices, answer, strict=True):
            measured[index] = RunRecord.model_validate(record)
    return [measured[index] for index in range(len(points))]


def _devices(scenario: Scenario) -> int:
    deployment = scenario.deployment
    return max(deployment.target_degree, deployment.draft_degree)


def refuse_elsewhere(scenario: Scenario) -> None:
    """Refuse a scenario for hardware that this machine does not have."""
    platform, wanted = jax.devices()[0].platform, scenario.deployment.hardware
    if (platform == "cpu") != wanted.shares_memory:
        here = f"this machine's devices are {platform} ({jax.devices()[0].device_kind})"
        raise RefusedError(f"{scenario.name} is for {wanted.name}; {here}")


def measure_here(points: Sequence[Point], report: Callable[[str], None]) -> list[RunRecord]:
    """Measure in this process, which must see the devices that all ``points`` need."""
    for point in points:
        refuse_elsewhere(point.scenario)
    report("building")
    bench = _Workbench(report)
    plans = [bench.plan(point.scenario) for point in points]
    session = interleaved(bench.runs, visits=VISITS, window_s=WINDOW_S, budget_s=BUDGET_S, report=report)
    provenance = {
        "host": describe_host().model_dump(mode="json", exclude_defaults=True),
        "noise_floor": session.noise_floor,
        "foreign_load": session.foreign_load,
        "weights": "random",
        "acceptance": "forced to the scenario's law",
        "speedup_baseline": "plain decoding of the same target in the same process",
    }
    return [plan.record(point, session, bench, provenance) for plan, point in zip(plans, points, strict=True)]


@dataclass
class _Generations:
    """Real generations of one point: each run is one, and its units are rounds."""

    bench: programs.Bench
    forcing: Forcing
    seconds: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    tokens_per_round: list[float] = field(default_factory=list)

    def run(self, _: int) -> int:
        """One generation from a prompt that is already in the caches; its rounds."""
        bench, count = self.bench, len(self.seconds)
        prompts = bench.random_tokens(bench.prompt_tokens)
        state = prefill(bench.setting, bench.pair, prompts, jax.random.key(bench.seed + count))
        jax.block_until_ready(state)
        started = time.perf_counter()
        state = jax.block_until_ready(finish(bench.setting, bench.pair, state, self.forcing))
        self.seconds.append(time.perf_counter() - started)
        accepted = np.asarray(state.accepted)
        self.tokens_per_round.append(1.0 + float(accepted[accepted >= 0].mean()))
        self.rounds.append(int(np.asarray(state.rounds).max()))
        return self.rounds[-1]


@dataclass(frozen=True)
class _PointPlan:
    """The names of the timed programs of one point."""

    plain: str
    verify: str = ""
    draft: str = ""
    cold: str = ""
    cold_less: str = ""
    sampling: str = ""
    generation: str = ""

    def record(self, point: Point, session: Session, bench: _Workbench, provenance: dict[str, Any]) -> RunRecord:
        """The measured record."""
        timings = {"plain_step": session.timings[self.plain]}
        metrics: dict[str, float | Distribution] = {"acceptance_length": 1.0, "speedup": 1.0}
        components: dict[str, float] = {}
        if self.generation:
            timings |= self._of_a_round(session)
            components = _round_overhead(timings, point.scenario.lookahead)
            metrics = _of_generations(bench.generations[self.generation], timings, point.scenario.workload.batch)
        for name, timing in timings.items():
            metrics |= {f"{name}_s": timing.median, f"{name}_s_low": timing.low, f"{name}_s_high": timing.high}
            components[name] = timing.median
        return new_record(
            "measured",
            point.scenario,
            axes=point.axes,
            metrics=metrics | {f"{name}_s": seconds for name, seconds in components.items()},
            components=components,
            provenance=provenance | {"windows": {n: [t.windows, t.dropped] for n, t in timings.items()}},
        )

    def _of_a_round(self, session: Session) -> dict[str, Timing]:
        found = {
            "draft_first_step": difference(session.timings[self.cold], session.timings[self.cold_less]),
            "verify_step": session.timings[self.verify],
            "sampling": session.timings[self.sampling],
            "round": session.timings[self.generation],
        }
        return found | ({"draft_step": session.timings[self.draft]} if self.draft else {})


def _round_overhead(timings: dict[str, Timing], lookahead: int) -> dict[str, float]:
    """What a round takes beyond its parts; negative where they cost less together than alone."""
    parts = timings["draft_first_step"].median + timings["verify_step"].median + timings["sampling"].median
    if lookahead > 1:
        parts += (lookahead - 1) * timings["draft_step"].median
    return {"round_overhead": timings["round"].median - parts}


def _of_generations(runs: _Generations, timings: dict[str, Timing], batch: int) -> dict[str, float | Distribution]:
    whole, plain = timings["round"], timings["plain_step"]
    tokens = float(np.average(runs.tokens_per_round, weights=runs.rounds))
    cost = whole.median / plain.median
    spread = np.hypot((whole.high - whole.low) / whole.median, (plain.high - plain.low) / plain.median) / 2
    error = min(float(spread), 0.99)
    p50, p90, p99 = (float(q) for q in np.quantile(runs.seconds, [0.5, 0.9, 0.99]))
    return {
        "acceptance_length": tokens,
        "round_cost": cost,
        "round_cost_low": cost * (1 - error),
        "round_cost_high": cost * (1 + error),
        "tpot_s": whole.median / tokens,
        "speedup": tokens / cost,
        "speedup_low": tokens / cost * (1 - error),
        "speedup_high": tokens / cost * (1 + error),
        "tokens_per_s": batch * tokens / whole.median,
        "rounds": float(np.mean(runs.rounds)),
        "time_to_tokens_s": Distribution(
            n=len(runs.seconds), mean=float(np.mean(runs.seconds)), p50=p50, p90=p90, p99=p99
        ),
    }


class _Workbench:
    """Models and programs of a group of points; what several points need is built and timed once."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.runs: dict[str, Run] = {}
        self.generations: dict[str, _Generations] = {}
        self._report = report
        self._targets: dict[str, Pair] = {}
        self._pairs: dict[str, Pair] = {}
        self._cold: dict[str, tuple[str, str]] = {}

    def plan(self, scenario: Scenario) -> _PointPlan:
        """Build what ``scenario`` needs and is not there yet."""
        bench = self._bench(scenario)
        shape = f"B{bench.batch} P{bench.prompt_tokens} S{bench.setting.positions} {bench.sampling}"
        target = f"{scenario.target.name} x{scenario.deployment.target_degree} {shape}"
        plain = self._add(f"plain step, {target}", lambda: programs.plain_steps(bench))
        if scenario.lookahead == 0 or scenario.draft_model is None:
            return _PointPlan(plain)
        lookahead = scenario.lookahead
        draft = f"{scenario.draft_model.name} x{scenario.deployment.draft_degree} {shape}"
        verify = self._add(f"verify {lookahead + 1}, {target}", lambda: programs.verify_steps(bench))
        one = self._add(f"draft step, {draft}", lambda: programs.draft_steps(bench)) if lookahead > 1 else ""
        if (both := f"{target} {draft}") not in self._cold:
            # The first draft step does not depend on K: it is timed at the first K of the pair.
            cold = self._add(f"first draft step, {both}", lambda: programs.verify_and_draft_first_steps(bench))
            self._cold[both] = (cold, verify)
        cold, less = self._cold[both]
        judged = f"verification {lookahead + 1}, B{bench.batch} V{bench.vocabulary} {bench.sampling} {target}"
        sampling = self._add(judged, lambda: programs.verdicts(bench))
        generation = f"rounds K={lookahead}, {both} {scenario.acceptance} N{bench.output_tokens} {scenario.seed}"
        if generation not in self.runs:
            self._report(f"compiling {len(self.runs) + 1}: {generation}")
            self.generations[generation] = _Generations(bench, Forcing.of(scenario.acceptance, lookahead))
            self.runs[generation] = self.generations[generation].run
        return _PointPlan(plain, verify, one, cold, less, sampling, generation)

    def _add(self, name: str, build: Callable[[], programs.Program]) -> str:
        if name not in self.runs:
            self._report(f"compiling {len(self.runs) + 1}: {name}")
            self.runs[name] = build().run
        return name

    def _bench(self, scenario: Scenario) -> programs.Bench:
        workload, decoding = scenario.workload, scenario.decoding
        return programs.Bench(
            self._pair(scenario),
            workload.batch,
            workload.prompt_tokens,
            max(workload.output_tokens, 2),
            scenario.lookahead,
            Sampling(temperature=decoding.temperature, top_p=decoding.top_p),
            scenario.seed,
            scenario.cache_positions,
        )

    def _pair(self, scenario: Scenario) -> Pair:
        """The models of a scenario; a target that is there already is used again beside another draft."""
        deployment, draft = scenario.deployment, scenario.draft_model
        degree, draft_degree = deployment.target_degree, deployment.draft_degree
        target_key = f"{scenario.target.model_dump_json()} x{degree} x{draft_degree} {scenario.seed}"
        mesh = chip_mesh(degree, draft_degree)
        if target_key not in self._targets:
            self._report(f"building {scenario.target.name}")
            key = jax.random.key(scenario.seed)
            self._targets[target_key] = Pair(place_random(scenario.target, key, mesh, degree), None, mesh)
        if draft is None:
            return self._targets[target_key]
        key_words = f"{target_key} {draft.model_dump_json()}"
        if key_words not in self._pairs:
            key = jax.random.key(scenario.seed + 1)
            self._pairs[key_words] = replace(
                self._targets[target_key], draft=place_random(draft, key, mesh, draft_degree)
            )
        return self._pairs[key_words]


def points_from(data: Sequence[Any]) -> list[Point]:
    """Points as :func:`measure` hands them to its children."""
    return [Point(scenario_from(item["scenario"]), item["axes"]) for item in data]
