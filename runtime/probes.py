"""Micro-benchmarks of a machine: what a calibration is fitted to.

They are short pieces of the real programs, on shapes of their own: decode steps over footprints from a cache's to
memory's, passes of several tokens, verification, a first draft step after a target, a round, all-reduces. Copy or
matrix-vector benchmarks alone would be biased: they do not pay for what stands between the matmuls.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from runtime import programs
from runtime.children import run_child
from runtime.host import describe_host
from runtime.mesh import chip_mesh, on_chips, place_random
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.timing import Run, Session, build_all, interleaved
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.model import ModelSpec
from simulator.spec.probe import HostDescription, ProbeRecord

TIMEOUT_S = 600.0
POSITIONS = 256
"""S, allocated positions of each probe's cache."""
TOKENS = (1, 2, 3, 5, 9)
"""T of the passes whose growth over one token is tabulated."""
PAYLOADS = (1024, 8192, 65536)
"""Bytes of the all-reduces."""
VISITS = 5
WINDOW_S = 0.05
BUDGET_S = 12.0


def probe(device_counts: Sequence[int], report: Callable[[str], None], dtype: str = "float32") -> list[ProbeRecord]:
    """Probe this machine with each number of devices, each in a process of its own.

    Raises:
        MeasurementError: a probing process failed.
    """
    records: list[ProbeRecord] = []
    for count in sorted(set(device_counts)):
        answer = run_child(
            {"task": "probe", "devices": count, "dtype": dtype},
            lambda text, count=count: report(f"probe, {count} device{'s' * (count > 1)}: {text}"),  # type: ignore[misc]
            TIMEOUT_S,
        )
        records += probe_records(answer)
    return records


def probe_records(data: Sequence[Any]) -> list[ProbeRecord]:
    """Probe records as JSON has them."""
    return [ProbeRecord.model_validate_json(json.dumps(record)) for record in data]


def probe_here(devices: int, dtype: str, report: Callable[[str], None]) -> list[ProbeRecord]:
    """Probe in this process, which must see ``devices`` devices."""
    jobs = ProbeJobs(devices, dtype)
    runs = build_all(jobs.builders, report)
    session = interleaved(runs, beyond=jobs.beyond, visits=VISITS, window_s=WINDOW_S, budget_s=BUDGET_S, report=report)
    return jobs.records(session)


class ProbeJobs:
    """Everything that is probed on one number of devices, to be timed alone or between the programs of a scenario."""

    def __init__(self, devices: int, dtype: str) -> None:
        self._jobs = _Plan(devices, dtype).jobs()
        self.builders: dict[str, Callable[[], Run]] = {job.name: job.build for job in self._jobs}
        self.beyond = {job.name: job.less for job in self._jobs if job.less}

    def records(self, session: Session) -> list[ProbeRecord]:
        """What the session says of them."""
        host = describe_host()
        return [record for job in self._jobs for record in job.records(session, host)]


def _shape(name: str, dtype: str, layers: int, width: int, d_ff: int) -> ModelSpec:
    return ModelSpec.model_validate(
        {
            "name": name,
            "layers": layers,
            "d_model": width,
            "heads": width // 64,
            "kv_heads": width // 64,
            "head_dim": 64,
            "d_ff": d_ff,
            "feed_forward": "gated",
            "vocabulary": 4096,
            "tied_embeddings": True,
            "weight_dtype": dtype,
        }
    )


@dataclass(frozen=True)
class _Job:
    """One timed program and the record that it makes."""

    name: str
    build: Callable[[], Run]
    fields: dict[str, Any]
    """Of the record."""
    less: str = ""
    """The job whose time is subtracted."""

    def records(self, session: Session, host: HostDescription) -> list[ProbeRecord]:
        time = session.beyond(self.name, self.less) if self.less else session.timing(self.name)
        if time.low <= 0:  # a difference that drowned in the noise is no measurement
            return []
        return [ProbeRecord(time=time, host=host, **self.fields)]


class _Plan:
    """What is probed on one number of devices."""

    def __init__(self, devices: int, dtype: str) -> None:
        self.devices = devices
        self.small = _shape("probe-small", dtype, 2, 256, 704)
        self.cached = _shape("probe-cached", dtype, 2, 384, 896)
        self.deep = _shape("probe-deep", dtype, 10, 256, 576)
        # As large as the deep one, in two layers: what the two do not share is the cost of a layer.
        self.wide = _shape("probe-wide", dtype, 2, 512, 1280)
        self.middle = _shape("probe-middle", dtype, 2, 768, 2048)
        self.large = _shape("probe-large", dtype, 2, 2048, 5632)
        self.mesh = chip_mesh(devices, devices)
        shapes = (self.small, self.cached, self.deep, self.wide, self.middle, self.large)
        keys = jax.random.split(jax.random.key(0), len(shapes))
        self.models = {
            spec.name: place_random(spec, key, self.mesh, devices) for spec, key in zip(shapes, keys, strict=True)
        }

    def bench(self, target: ModelSpec, draft: ModelSpec | None = None, lookahead: int = 0) -> programs.Bench:
        pair = Pair(self.models[target.name], self.models[draft.name] if draft else None, self.mesh)
        return programs.Bench(pair, 1, 64, 64, lookahead, Sampling(temperature=1.0), positions=POSITIONS)

    def jobs(self) -> list[_Job]:
        """Everything that is timed, not yet compiled."""
        shared: dict[str, Any] = {"chips": self.devices, "positions": POSITIONS}
        found = [
            self._job(f"{spec.name} decode", programs.plain_steps, self.bench(spec), shared | {"kind": "decode_step"})
            for spec in (self.small, self.cached, self.deep, self.wide, self.middle, self.large)
        ]
        for spec, lengths in ((self.small, (1,)), (self.deep, (1, 3, 9)), (self.large, TOKENS)):
            for tokens in lengths:
                build = partial(programs.verify_steps, tokens=tokens)
                fields = shared | {"kind": "forward", "tokens": tokens}
                found.append(self._job(f"{spec.name} forward {tokens}", build, self.bench(spec), fields))
        for tokens in (3, 9):
            fields = shared | {"kind": "verification", "tokens": tokens}
            bench = self.bench(self.small, self.small, tokens - 1)
            found.append(self._job(f"verification {tokens}", programs.verdicts, bench, fields))
        return found + self._in_rounds(shared) + (self._all_reduces() if self.devices > 1 else [])

    def _job(
        self,
        name: str,
        build: Callable[[programs.Bench], programs.Program],
        bench: programs.Bench,
        fields: dict[str, Any],
        less: str = "",
    ) -> _Job:
        """A job whose record is about the draft and its partner, or about the target where that is the draft too."""
        target = bench.pair.target.spec
        draft = bench.pair.draft.spec if bench.pair.draft is not None else target
        about = {"model": target} if draft == target else {"model": draft, "partner": target}
        return _Job(name, lambda: build(bench).run, about | fields, less)

    def _in_rounds(self, shared: dict[str, Any]) -> list[_Job]:
        """The first draft step of a round, cold after the target, and a whole round."""
        tokens, law = 5, RateAcceptance(kind="rate", acceptance_rate=0.7)
        cold = shared | {"kind": "first_draft_step", "tokens": 2}
        whole = shared | {"kind": "round", "tokens": tokens}
        rounds = partial(programs.rounds, acceptance=law)
        after = f"{self.large.name} forward {tokens}"
        steps = programs.verify_and_draft_first_steps
        return [
            self._job("first draft step", steps, self.bench(self.large, self.deep, tokens - 1), cold, after),
            self._job("round", rounds, self.bench(self.middle, self.small, tokens - 1), whole),
        ]

    def _all_reduces(self) -> list[_Job]:
        return [
            _Job(
                f"all-reduce {payload} B",
                partial(self._all_reduce, payload),
                {"kind": "all_reduce", "chips": self.devices, "payload_bytes": float(payload)},
            )
            for payload in PAYLOADS
        ]

    def _all_reduce(self, payload: int) -> Run:
        axes = tuple(self.mesh.axis_names)

        def loop(values: jax.Array, repetitions: jax.Array) -> jax.Array:
            # Halved each time, so that no repetition is the last one's result again.
            halved = lax.fori_loop(0, repetitions, lambda _, x: lax.psum(x, axes) / (2 * self.devices) + 1.0, values)
            return jnp.asarray(halved)

        split, same = PartitionSpec(axes), PartitionSpec()
        values = jnp.ones((self.devices, payload // 4), jnp.float32)
        values = jax.device_put(values, NamedSharding(self.mesh, split))
        compiled = jax.jit(on_chips(loop, self.mesh, (split, same), split)).lower(values, np.int32(1)).compile()

        def run(repetitions: int) -> float:
            started = time.perf_counter()
            jax.block_until_ready(compiled(values, np.int32(repetitions)))
            return (time.perf_counter() - started) / repetitions

        return run
