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
from runtime.decode_loop import DecodeState
from runtime.forcing import Forcing
from runtime.generate import finish, prefill
from runtime.host import describe_host
from runtime.mesh import chip_mesh, place_random
from runtime.pair import Pair
from runtime.probes import ProbeJobs, probe_records
from runtime.sampling import Sampling
from runtime.streams import stream
from runtime.timing import Run, Session, build_all, interleaved
from simulator.errors import RefusedError
from simulator.spec.load import Point, scenario_from
from simulator.spec.probe import HostDescription, ProbeRecord, Timing
from simulator.spec.record import Distribution, RunRecord, new_record
from simulator.spec.scenario import Scenario

TIMEOUT_S = 3600.0
VISITS = 4
WINDOW_S = 0.08
BUDGET_S = 25.0


def measure(points: Sequence[Point], report: Callable[[str], None]) -> list[RunRecord]:
    """Measure every point; each number of devices in a process of its own, one after the other.

    Raises:
        RefusedError: a scenario that this machine or this runtime cannot execute.
        MeasurementError: a measuring process failed.
    """
    return _by_devices(points, report, probed=False)[0]


def probe_and_measure(
    points: Sequence[Point], report: Callable[[str], None]
) -> tuple[list[RunRecord], list[ProbeRecord]]:
    """Measure every point and probe the machine meanwhile, for each number of devices in one process.

    The windows of the probes lie between those of the scenario's programs, so both see the same machine: its memory
    bandwidth drifts by a fifth within minutes when neighbours are busy. Nothing of the measurement enters the probes.

    Raises:
        RefusedError: as of :func:`measure`.
        MeasurementError: as of :func:`measure`.
    """
    return _by_devices(points, report, probed=True)


def _by_devices(
    points: Sequence[Point], report: Callable[[str], None], *, probed: bool
) -> tuple[list[RunRecord], list[ProbeRecord]]:
    refuse_elsewhere(points)
    groups: dict[int, list[int]] = {}
    for index, point in enumerate(points):
        groups.setdefault(_devices(point.scenario), []).append(index)
    measured: dict[int, RunRecord] = {}
    probes: list[ProbeRecord] = []
    for devices, indices in sorted(groups.items()):
        request = {
            "task": "measure",
            "devices": devices,
            "probed": probed,
            "points": [{"scenario": points[i].scenario.resolved(), "axes": points[i].axes} for i in indices],
        }
        words = f"measure, {devices} device{'s' * (devices > 1)}: "
        answer = run_child(request, lambda text, words=words: report(words + text), TIMEOUT_S)  # type: ignore[misc]
        probes += probe_records(answer["probes"])
        for index, record in zip(indices, answer["records"], strict=True):
            measured[index] = RunRecord.model_validate(record)
    return [measured[index] for index in range(len(points))], probes


def _devices(scenario: Scenario) -> int:
    deployment = scenario.deployment
    return max(deployment.target_degree, deployment.draft_degree)


def refuse_elsewhere(points: Sequence[Point]) -> None:
    """Refuse scenarios for hardware that this machine does not have.

    JAX is asked in a process of its own, and only where it could have the wanted hardware.

    Raises:
        RefusedError: the machine's devices are of another kind.
    """
    wanted = {p.scenario.deployment.hardware.name for p in points if not p.scenario.deployment.hardware.shares_memory}
    here = host_in_child() if wanted else None
    if here is not None and here.platform == "cpu":
        raise RefusedError(
            f"the scenario is for {', '.join(sorted(wanted))}, and JAX finds only this machine's processor; "
            "`sps predict` answers without running anything"
        )


def host_in_child() -> HostDescription:
    """What machine this is, asked of JAX in a process that ends."""
    answer = run_child({"task": "host", "devices": 1}, lambda _: None, 120.0)
    return HostDescription.model_validate(answer | {"cpu_flags": tuple(answer.get("cpu_flags", ()))})


def measure_here(
    points: Sequence[Point], report: Callable[[str], None], devices: int, probed: bool
) -> tuple[list[RunRecord], list[ProbeRecord]]:
    """Measure, and probe where ``probed``, in this process, which must see ``devices`` devices."""
    report("building")
    bench = _Workbench(report)
    plans = [bench.plan(point.scenario) for point in points]
    probes = ProbeJobs(devices, points[0].scenario.target.compute_dtype) if probed else None
    builders, beyond = bench.builders, dict(bench.cold.values())
    if probes is not None:
        builders, beyond = {**builders, **probes.builders}, {**beyond, **probes.beyond}
    session = interleaved(
        build_all(builders, report),
        beyond=beyond,
        visits=VISITS,
        window_s=WINDOW_S,
        budget_s=BUDGET_S,
        report=report,
        warmed_up=bench.forget_warm_up,
    )
    provenance = {
        "host": describe_host().model_dump(mode="json", exclude_defaults=True),
        "noise_floor": session.noise_floor,
        "foreign_load": session.foreign_load,
        "weights": "random",
        "acceptance": "forced to the scenario's law",
        "speedup_baseline": "plain decoding of the same target in the same process",
    }
    records = [plan.record(point, session, bench, provenance) for plan, point in zip(plans, points, strict=True)]
    return records, [] if probes is None else probes.records(session)


@dataclass
class _Generations:
    """Real generations of one point: each run is one, from caches that hold the prompt; its units are rounds."""

    bench: programs.Bench
    forcing: Forcing
    seconds: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    tokens_per_round: list[float] = field(default_factory=list)
    count: int = 0

    def build(self) -> Run:
        """Compile the loop over rounds."""
        bench = self.bench
        compiled = finish.lower(bench.setting, bench.pair, self._start(0), self.forcing).compile()

        def run(_: int) -> float:
            self.count += 1
            state = jax.block_until_ready(self._start(self.count))
            started = time.perf_counter()
            state = jax.block_until_ready(compiled(bench.pair, state, self.forcing))
            self.seconds.append(time.perf_counter() - started)
            accepted = np.asarray(state.accepted)
            self.tokens_per_round.append(1.0 + float(accepted[accepted >= 0].mean()))
            self.rounds.append(int(np.asarray(state.rounds).max()))
            return self.seconds[-1] / self.rounds[-1]

        return run

    def forget(self) -> None:
        """Drop the samples so far."""
        for samples in (self.seconds, self.rounds, self.tokens_per_round):
            samples.clear()

    def _start(self, count: int) -> DecodeState:
        """Both models have read the prompt; other random choices follow every time."""
        bench = self.bench
        prompts = bench.random_tokens(bench.prompt_tokens)
        state: DecodeState = prefill(bench.setting, bench.pair, prompts, stream(bench.seed, f"generation {count}"))
        return state


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
        timings, unresolved = {"plain_step": session.timing(self.plain)}, []
        metrics: dict[str, float | Distribution] = {"acceptance_length": 1.0, "speedup": 1.0}
        components: dict[str, float] = {}
        if self.generation:
            timings |= self._of_a_round(session)
            if timings["draft_first_step"].low <= 0:  # a difference that drowned in the noise is no measurement
                del timings["draft_first_step"]
                unresolved = ["draft_first_step", "round_overhead"]
            else:
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
            provenance=provenance
            | {"windows": {n: [t.windows, t.dropped] for n, t in timings.items()}, "below_noise": unresolved},
        )

    def _of_a_round(self, session: Session) -> dict[str, Timing]:
        found = {
            "draft_first_step": session.beyond(self.cold, self.cold_less),
            "verify_step": session.timing(self.verify),
            "sampling": session.timing(self.sampling),
            "round": session.timing(self.generation),
        }
        return found | ({"draft_step": session.timing(self.draft)} if self.draft else {})


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
        self.builders: dict[str, Callable[[], Run]] = {}
        self.generations: dict[str, _Generations] = {}
        self.cold: dict[str, tuple[str, str]] = {}
        """By pair: the loop with a first draft step, and the loop that it is set against."""
        self._report = report
        self._targets: dict[str, Pair] = {}
        self._pairs: dict[str, Pair] = {}

    def plan(self, scenario: Scenario) -> _PointPlan:
        """What has to be timed for ``scenario``."""
        bench = self._bench(scenario)
        shape = f"B{bench.batch} P{bench.prompt_tokens} S{bench.setting.positions} {bench.sampling}"
        target = f"{scenario.target.name} x{scenario.deployment.target_degree} {shape}"
        plain = self._add(f"plain step, {target}", programs.plain_steps, bench)
        if scenario.lookahead == 0 or scenario.draft_model is None:
            return _PointPlan(plain)
        lookahead = scenario.lookahead
        draft = f"{scenario.draft_model.name} x{scenario.deployment.draft_degree} {shape}"
        both = f"{target} {draft}"
        verify = self._add(f"verify {lookahead + 1}, {target}", programs.verify_steps, bench)
        one = self._add(f"draft step, {draft}", programs.draft_steps, bench) if lookahead > 1 else ""
        if both not in self.cold:
            # The first draft step does not depend on K: it is timed at the first K of the pair.
            cold = self._add(f"first draft step, {both}", programs.verify_and_draft_first_steps, bench)
            self.cold[both] = (cold, verify)
        sampling = self._add(f"verification {lookahead + 1}, {target}", programs.verdicts, bench)
        generation = f"rounds K={lookahead}, {both} {scenario.acceptance} N{bench.output_tokens} {scenario.seed}"
        if generation not in self.builders:
            self.generations[generation] = _Generations(bench, Forcing.of(scenario.acceptance, lookahead))
            self.builders[generation] = self.generations[generation].build
        return _PointPlan(plain, verify, one, *self.cold[both], sampling, generation)

    def forget_warm_up(self) -> None:
        """Generations so far were to warm up: no part of any result."""
        for generation in self.generations.values():
            generation.forget()

    def _add(self, name: str, build: Callable[[programs.Bench], programs.Program], bench: programs.Bench) -> str:
        self.builders.setdefault(name, lambda: build(bench).run)
        return name

    def _bench(self, scenario: Scenario) -> programs.Bench:
        workload, decoding = scenario.workload, scenario.decoding
        return programs.Bench(
            self._pair(scenario),
            workload.batch,
            workload.prompt_tokens,
            workload.output_tokens,
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
            key = stream(scenario.seed, "target")
            self._targets[target_key] = Pair(place_random(scenario.target, key, mesh, degree), None, mesh)
        if draft is None:
            return self._targets[target_key]
        key_words = f"{target_key} {draft.model_dump_json()}"
        if key_words not in self._pairs:
            key = stream(scenario.seed, "draft")
            self._pairs[key_words] = replace(
                self._targets[target_key], draft=place_random(draft, key, mesh, draft_degree)
            )
        return self._pairs[key_words]


def points_from(data: Sequence[Any]) -> list[Point]:
    """Points as :func:`measure` hands them to its children."""
    return [Point(scenario_from(item["scenario"]), item["axes"]) for item in data]
