"""The models and timed programs of a group of scenario points, and the records that their times make.

Every component is timed as a loop of its own on the device; the first draft step in place, as what a loop of (verify,
first draft step) takes beyond a loop of verify; rounds in real generations, with acceptance forced to the scenario's
law, because the weights are random. Where it is asked for, the other parts of a round are timed in place too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from runtime import in_place, programs
from runtime.arithmetic import Lowering
from runtime.asked import Asked
from runtime.generations import Generations
from runtime.mesh import chip_mesh
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.timing import Run, Session
from runtime.transformer import Decoder
from runtime.weights import Role
from simulator.spec.acceptance import Acceptance
from simulator.spec.load import Point
from simulator.spec.model import ModelSpec
from simulator.spec.probe import Timing
from simulator.spec.record import Distribution, RunRecord, new_record
from simulator.spec.scenario import Scenario


@dataclass(frozen=True)
class InPlace:
    """The names of loops of rounds, and for each part two of them and how much more of it the first does."""

    whole: str
    parts: dict[str, tuple[str, str, int]]


@dataclass(frozen=True)
class PointPlan:
    """The names of the timed programs of one point."""

    plain: str
    verify: str = ""
    draft: str = ""
    cold: str = ""
    cold_less: str = ""
    sampling: str = ""
    generation: str = ""
    inside: InPlace | None = None

    def record(self, point: Point, session: Session, bench: Workbench, provenance: dict[str, Any]) -> RunRecord:
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
            | {"windows": {n: [t.windows, t.dropped] for n, t in timings.items()}, "below_noise": unresolved}
            | self._inside(session, timings, point.scenario.lookahead),
        )

    def _inside(self, session: Session, timings: dict[str, Timing], lookahead: int) -> dict[str, Any]:
        """Parts timed in place, what they sum to, and by how much that and the sum of isolated parts miss the round."""
        if self.inside is None:
            return {}
        whole = session.timing(self.inside.whole).median
        found = {
            part: session.beyond(more, less).median / times for part, (more, less, times) in self.inside.parts.items()
        }
        alone = {name: timing.median for name, timing in timings.items() if name in found}
        sums = {"in_place": _summed(found, lookahead)}
        if "draft_first_step" in alone:
            sums["isolated"] = _summed(alone, lookahead)
        return {
            "in_place": {f"{name}_s": seconds for name, seconds in found.items()}
            | {"round_s": whole}
            | {f"{name}_sum_over_round": total / whole for name, total in sums.items()}
        }

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
    parts = {name: timing.median for name, timing in timings.items()}
    return {"round_overhead": parts["round"] - _summed(parts, lookahead)}


def _summed(parts: dict[str, float], lookahead: int) -> float:
    """Seconds of the parts of a round, one after the other."""
    drafted = parts["draft_first_step"] + (lookahead - 1) * parts.get("draft_step", 0.0)
    return drafted + parts["verify_step"] + parts["sampling"]


def _of_generations(runs: Generations, timings: dict[str, Timing], batch: int) -> dict[str, float | Distribution]:
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


class Workbench:
    """Models and programs of a group of points; what several points need is built and timed once."""

    def __init__(self, report: Callable[[str], None], asked: Asked) -> None:
        self.builders: dict[str, Callable[[], Run]] = {}
        self.generations: dict[str, Generations] = {}
        self.cold: dict[str, tuple[str, str]] = {}
        """By pair, or by program: a loop that is wanted for its difference to another, and that other."""
        self._report = report
        self._asked = asked
        self._targets: dict[str, Pair] = {}
        self._pairs: dict[str, Pair] = {}

    def plan(self, scenario: Scenario) -> PointPlan:
        """What has to be timed for ``scenario``."""
        bench = self._bench(scenario)
        shape = f"B{bench.batch} P{bench.prompt_tokens} S{bench.setting.positions} {bench.sampling}"
        target = f"{scenario.target.name} x{scenario.deployment.target_degree} {shape}"
        plain = self._add(f"plain step, {target}", programs.plain_steps, bench)
        if scenario.lookahead == 0 or scenario.draft_model is None:
            return PointPlan(plain)
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
            self.generations[generation] = Generations(bench, scenario.acceptance)
            self.builders[generation] = self.generations[generation].build
        inside = self._in_place(generation, bench, scenario.acceptance) if self._asked.in_place else None
        return PointPlan(plain, verify, one, *self.cold[both], sampling, generation, inside)

    def _in_place(self, generation: str, bench: programs.Bench, acceptance: Acceptance) -> InPlace:
        """Loops of whole rounds, and of rounds that do more or less of one part."""

        def named(rounds: in_place.Rounds) -> str:
            return self._add(f"{rounds}: {generation}", lambda b: in_place.loop_of(b, acceptance, rounds), bench)

        found = {}
        for part, wanted in in_place.parts(bench.lookahead).items():
            more, less = named(wanted.more), named(wanted.less)
            self.cold[more] = (more, less)
            found[part] = (more, less, wanted.times)
        return InPlace(named("whole"), found)

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
            Sampling.of(decoding),
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
            target = self._place("target", scenario.target, scenario.seed, mesh, degree)
            self._targets[target_key] = Pair(target, None, mesh)
        if draft is None:
            return self._targets[target_key]
        key_words = f"{target_key} {draft.model_dump_json()}"
        if key_words not in self._pairs:
            placed = self._place("draft", draft, scenario.seed, mesh, draft_degree)
            self._pairs[key_words] = replace(self._targets[target_key], draft=placed)
        return self._pairs[key_words]

    def _place(self, role: Role, spec: ModelSpec, seed: int, mesh: Mesh, degree: int) -> Decoder:
        lowering = Lowering.on(jax.default_backend(), spec.compute_dtype)
        lowering = replace(lowering, scan_layers=self._asked.layers == "scanned")
        return self._asked.weights.place(role, spec, seed, mesh, degree, lowering)
