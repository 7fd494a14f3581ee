"""Micro-benchmarks of a machine: what a calibration is fitted to.

They are short pieces of the real programs, on shapes of their own: decode steps over footprints from a cache's to
memory's, passes of several tokens, verification, a first draft step after a target, a round, all-reduces. Copy or
matrix-vector benchmarks alone would be biased: they do not pay for what stands between the matmuls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from runtime.timing import Run, Session, interleaved
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.model import ModelSpec
from simulator.spec.probe import HostDescription, ProbeRecord, Timing

TIMEOUT_S = 600.0
POSITIONS = 192
"""S, allocated positions of each probe's cache."""
TOKENS = (2, 3, 5, 9)
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
        records += [ProbeRecord.model_validate(_tuples(record)) for record in answer]
    return records


def probe_here(devices: int, dtype: str, report: Callable[[str], None]) -> list[ProbeRecord]:
    """Probe in this process, which must see ``devices`` devices."""
    plan = _Plan(devices, dtype)
    report("building")
    jobs = plan.jobs()
    session = interleaved(
        {job.name: job.run for job in jobs}, visits=VISITS, window_s=WINDOW_S, budget_s=BUDGET_S, report=report
    )
    host = describe_host()
    return [record for job in jobs for record in job.records(session, host)]


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
    run: Run
    fields: dict[str, Any] | None
    """Of the record; None where the time is only a part of another job's."""
    less: str = ""
    """The job whose time is subtracted."""

    def records(self, session: Session, host: HostDescription) -> list[ProbeRecord]:
        if self.fields is None:
            return []
        time = session.timings[self.name]
        if self.less:
            time = difference(time, session.timings[self.less])
        return [ProbeRecord(time=time, host=host, **self.fields)]


def difference(whole: Timing, part: Timing) -> Timing:
    """The time of what ``whole`` does beyond ``part``; the spreads add in quadrature. At least a nanosecond."""
    middle = max(whole.median - part.median, 1e-9)
    down = float(np.hypot(whole.median - whole.low, part.high - part.median))
    up = float(np.hypot(whole.high - whole.median, part.median - part.low))
    windows = min(whole.windows, part.windows)
    return Timing(median=middle, low=max(middle - down, 1e-9), high=middle + up, windows=windows)


class _Plan:
    """What is probed on one number of devices."""

    def __init__(self, devices: int, dtype: str) -> None:
        self.devices = devices
        self.small = _shape("probe-small", dtype, 2, 256, 704)
        self.deep = _shape("probe-deep", dtype, 10, 256, 704)
        self.middle = _shape("probe-middle", dtype, 2, 768, 2048)
        self.large = _shape("probe-large", dtype, 4, 1024, 4096)
        self.mesh = chip_mesh(devices, devices)
        keys = jax.random.split(jax.random.key(0), 4)
        shapes = (self.small, self.deep, self.middle, self.large)
        self.models = {
            spec.name: place_random(spec, key, self.mesh, devices) for spec, key in zip(shapes, keys, strict=True)
        }

    def bench(self, target: ModelSpec, draft: ModelSpec | None = None, lookahead: int = 0) -> programs.Bench:
        pair = Pair(self.models[target.name], self.models[draft.name] if draft else None, self.mesh)
        return programs.Bench(pair, 1, 64, 64, lookahead, Sampling(temperature=1.0), positions=POSITIONS)

    def jobs(self) -> list[_Job]:
        found: list[_Job] = []
        shared: dict[str, Any] = {"chips": self.devices, "positions": POSITIONS}
        for spec in (self.small, self.deep, self.middle, self.large):
            program = programs.plain_steps(self.bench(spec))
            fields = shared | {"kind": "decode_step", "model": spec}
            found.append(_Job(f"{spec.name} decode", program.run, fields))
        for spec in (self.deep, self.large):
            for tokens in (1, *TOKENS):
                program = programs.verify_steps(self.bench(spec), tokens)
                fields = shared | {"kind": "forward", "model": spec, "tokens": tokens}
                found.append(_Job(f"{spec.name} forward {tokens}", program.run, fields))
        for lookahead in (2, 8):
            program = programs.verdicts(self.bench(self.small, self.small, lookahead))
            fields = shared | {"kind": "verification", "model": self.small, "tokens": lookahead + 1}
            found.append(_Job(f"verification {lookahead + 1}", program.run, fields))
        found += self._in_rounds(shared)
        return found + (self._all_reduces() if self.devices > 1 else [])

    def _in_rounds(self, shared: dict[str, Any]) -> list[_Job]:
        """The first draft step of a round, cold after the target, and a whole round."""
        lookahead = 4
        cold = programs.verify_and_draft_first_steps(self.bench(self.large, self.deep, lookahead))
        fields = shared | {"kind": "first_draft_step", "model": self.deep, "partner": self.large, "tokens": 2}
        law = RateAcceptance(kind="rate", acceptance_rate=0.7)
        whole = programs.rounds(self.bench(self.middle, self.small, lookahead), law)
        in_round = shared | {"kind": "round", "model": self.small, "partner": self.middle, "tokens": lookahead + 1}
        return [
            _Job("first draft step", cold.run, fields, less=f"{self.large.name} forward {lookahead + 1}"),
            _Job("round", whole.run, in_round),
        ]

    def _all_reduces(self) -> list[_Job]:
        return [
            _Job(
                f"all-reduce {payload} B",
                self._all_reduce(payload),
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

        def run(repetitions: int) -> int:
            jax.block_until_ready(compiled(values, np.int32(repetitions)))
            return repetitions

        return run


def _tuples(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _tuples(value) for key, value in data.items()}
    return tuple(_tuples(value) for value in data) if isinstance(data, list) else data
