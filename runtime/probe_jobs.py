"""Points of a design -> timed programs and the records that they make.

They are short pieces of the real programs: decode steps, passes of several tokens, verification, a first draft step
after a target, rounds, generations, all-reduces. Copy or matrix-vector benchmarks alone would be biased: they do not
pay for what stands between the matmuls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from runtime import programs
from runtime.generations import Generations
from runtime.host import describe_host
from runtime.mesh import chip_mesh, on_chips, place_made_up
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.timing import Run, Session
from runtime.transformer import Decoder
from simulator.errors import MeasurementError
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.model import ModelSpec
from simulator.spec.probe import FORCED_RATE, HostDescription, ProbePoint, ProbeRecord

PROMPT = OUTPUT = 64
LAW = RateAcceptance(kind="rate", acceptance_rate=FORCED_RATE)
VERIFIED = 5
"""Tokens of the verification that stands before a first draft step."""


@dataclass(frozen=True)
class _Job:
    """One timed program and the point that it belongs to."""

    name: str
    build: Callable[[], Run]
    point: ProbePoint | None
    """None of a program that is timed for another's sake."""
    less: str = ""
    """The job whose time is subtracted."""
    generations: Generations | None = None

    def records(self, session: Session, host: HostDescription, process: str) -> list[ProbeRecord]:
        if self.point is None:
            return []
        timing = session.beyond(self.name, self.less) if self.less else session.timing(self.name)
        if timing.low <= 0:  # a difference that drowned in the noise is no measurement
            return []
        tokens = None
        if self.generations is not None:
            tokens = float(np.average(self.generations.tokens_per_round, weights=self.generations.rounds))
        return [ProbeRecord(**dict(self.point), time=timing, host=host, process=process, tokens_per_round=tokens)]


class ProbeJobs:
    """Everything that is timed on one number of devices, alone or between the programs of a scenario."""

    def __init__(self, points: Sequence[ProbePoint]) -> None:
        """Make the models of ``points``, which all have one number of devices, and plan their programs."""
        counts = {point.chips for point in points}
        if len(counts) != 1:
            raise MeasurementError(f"probes on {sorted(counts)} devices in one process")
        self.devices = counts.pop()
        self.mesh = chip_mesh(self.devices, self.devices)
        self._models: dict[str, Decoder] = {}
        for point in points:
            for spec in (point.model, point.partner):
                if spec is not None and point.kind != "verification":
                    self._place(spec)
        jobs = [job for point in points for job in self._jobs(point)]
        self._jobs_by_name = {job.name: job for job in jobs}
        self.builders: dict[str, Callable[[], Run]] = {job.name: job.build for job in jobs}
        self.beyond = {job.name: job.less for job in jobs if job.less}

    def forget_warm_up(self) -> None:
        """Generations so far were to warm up."""
        for job in self._jobs_by_name.values():
            if job.generations is not None:
                job.generations.forget()

    def records(self, session: Session, process: str = "") -> list[ProbeRecord]:
        """What the session says of the points."""
        host = describe_host()
        return [r for job in self._jobs_by_name.values() for r in job.records(session, host, process)]

    def _place(self, spec: ModelSpec) -> None:
        if spec.name not in self._models:
            self._models[spec.name] = place_made_up(spec, len(self._models), self.mesh, self.devices)

    def _jobs(self, point: ProbePoint) -> list[_Job]:
        name = f"{point.kind} {point.key} {point.role}"
        match point.kind:
            case "all_reduce":
                return [_Job(name, partial(self._all_reduce, int(point.payload_bytes)), point)]
            case "dispatch":
                return [_Job(name, self._dispatch, point)]
            case "generation":
                generations = Generations(self._bench(point), LAW)
                return [_Job(name, generations.build, point, generations=generations)]
            case "first_draft_step":
                return self._first_draft_step(name, point)
            case _:
                return [_Job(name, partial(self._loop, point), point)]

    def _first_draft_step(self, name: str, point: ProbePoint) -> list[_Job]:
        """A first draft step, cold after the target: what a loop of both takes beyond one of the target alone."""
        bench = self._bench(point.model_copy(update={"tokens": VERIFIED}))
        alone = f"before {point.partner.name if point.partner else ''} {point.batch} {point.positions}"
        return [
            _Job(alone, lambda: programs.verify_steps(bench).run, None),
            _Job(name, lambda: programs.verify_and_draft_first_steps(bench).run, point, alone),
        ]

    def _loop(self, point: ProbePoint) -> Run:
        match point.kind:
            case "decode_step":
                return programs.plain_steps(self._bench(point)).run
            case "forward":
                return programs.verify_steps(self._bench(point), point.tokens).run
            case "verification":
                return self._verification(point)
            case _:
                return programs.rounds(self._bench(point), LAW).run

    def _bench(self, point: ProbePoint) -> programs.Bench:
        if point.model is None:
            raise MeasurementError(f"a {point.kind} needs a model")
        model, partner = self._models[point.model.name], point.partner
        pair = Pair(model, None, self.mesh) if partner is None else Pair(self._models[partner.name], model, self.mesh)
        lookahead = point.tokens - 1 if partner is not None else 0
        positions, reads = point.positions or None, point.kind == "generation"
        sampling = Sampling(temperature=1.0)
        return programs.Bench(pair, point.batch, PROMPT, OUTPUT, lookahead, sampling, positions=positions, read=reads)

    def _verification(self, point: ProbePoint) -> Run:
        """Needs no model but its vocabulary: the smallest there is stands in."""
        if point.model is None:
            raise MeasurementError("a verification needs a vocabulary")
        small = {"layers": 1, "d_model": 8, "heads": 1, "kv_heads": 1, "head_dim": 8, "d_ff": 8}
        spec = point.model.model_copy(update=small)
        model = place_made_up(spec, 0, self.mesh, self.devices)
        lookahead = point.tokens - 1
        pair = Pair(model, model if lookahead else None, self.mesh)
        bench = programs.Bench(pair, point.batch, 1, 2, lookahead, Sampling(temperature=1.0), read=False)
        return programs.verdicts(bench).run

    def _all_reduce(self, payload: int) -> Run:
        axes = tuple(self.mesh.axis_names)

        def loop(values: jax.Array, repetitions: jax.Array) -> jax.Array:
            # Halved each time, so that no repetition is the last one's result again.
            halved = lax.fori_loop(0, repetitions, lambda _, x: lax.psum(x, axes) / (2 * self.devices) + 1.0, values)
            return jnp.asarray(halved)

        split, same = PartitionSpec(axes), PartitionSpec()
        values = jnp.ones((self.devices, max(payload // 4, 1)), jnp.float32)
        values = jax.device_put(values, NamedSharding(self.mesh, split))
        compiled = jax.jit(on_chips(loop, self.mesh, (split, same), split)).lower(values, np.int32(1)).compile()

        def run(repetitions: int) -> float:
            started = time.perf_counter()
            jax.block_until_ready(compiled(values, np.int32(repetitions)))
            return (time.perf_counter() - started) / repetitions

        return run

    def _dispatch(self) -> Run:
        """One call of a program with one addition on every device, waited for."""
        split = PartitionSpec(tuple(self.mesh.axis_names))
        values = jax.device_put(jnp.zeros((self.devices,), jnp.float32), NamedSharding(self.mesh, split))
        compiled = jax.jit(on_chips(lambda x: x + 1, self.mesh, (split,), split)).lower(values).compile()

        def run(repetitions: int) -> float:
            carried = values
            started = time.perf_counter()
            for _ in range(repetitions):
                carried = jax.block_until_ready(compiled(carried))
            return (time.perf_counter() - started) / repetitions

        return run
