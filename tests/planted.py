"""Records of a machine that never was: what the cost model makes of parameters that a test knows."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from simulator.calibration import Form, Predictor, form_of, host_profile
from simulator.calibration.form import ATTENTION, BYTE, FLOP, KV
from simulator.spec.design import DESIGNS, Design, load_design
from simulator.spec.hardware import HardwareProfile
from simulator.spec.load import load_scenario
from simulator.spec.probe import HostDescription, ProbePoint, ProbeRecord, Timing
from tests.synthetic import QUICKSTART

HOST = HostDescription(platform="cpu", device="cpu", processor="made up", cores=2, versions={"jax": "0"})
DISPATCH_S = 6e-6


@functools.cache
def profile() -> HardwareProfile:
    """The processor's profile, scaled to the made-up host."""
    return host_profile(load_scenario(QUICKSTART)[0].scenario.deployment.hardware, HOST)


@functools.cache
def design(name: str = "device") -> Design:
    """A design of the toolkit's."""
    return load_design(DESIGNS / f"{name}.yaml")


def form(points: Sequence[ProbePoint]) -> Form:
    """What can be told from points of one number of devices."""
    chips = points[0].chips
    records = [record(point, 1e-3) for point in points]
    return form_of(records, lambda model: Predictor(profile()).footprint(model, chips))


def truth(known: Form) -> dict[str, float]:
    """Parameters like those of a real processor."""
    count = len(known.knots)
    values = {f"{BYTE}{index + 1}": 6 + 7 * index / (count - 1) for index in range(count)}
    values |= {KV: 25.0, ATTENTION: 20.0} | {f"{FLOP}{rows}": 1.5 + 5 / rows for rows in known.rows}
    return values | {
        "step_overhead": 4e-5,
        "layer_overhead": 3e-5,
        "layer_overhead_many_rows": 4e-5,
        "round_overhead": 3e-4,
        "sampling_base": 3e-5,
        "sampling_per_logit": 1e-8,
        "verification_base": 2e-5,
        "verification_per_logit": 3e-9,
    }


def times(points: Sequence[ProbePoint], known: Form, values: Mapping[str, float]) -> np.ndarray:
    """Seconds of each point."""
    matrix, constant = Predictor(profile()).linear(points, known)
    return np.asarray(matrix @ np.array([values[name] for name in known.names]) + constant)


def record(
    point: ProbePoint, seconds: float, process: str = "", tokens: float | None = None, spread: float = 0.02
) -> ProbeRecord:
    """A record of a point that took so long."""
    timing = Timing(median=seconds, low=(1 - spread) * seconds, high=(1 + spread) * seconds, windows=5)
    return ProbeRecord(**dict(point), time=timing, host=HOST, process=process, tokens_per_round=tokens)


def measured(
    points: Sequence[ProbePoint], rng: np.random.Generator, noise: float, process: str = ""
) -> list[ProbeRecord]:
    """Records of points on any numbers of devices, as one process might have timed them."""
    found = []
    for chips in sorted({point.chips for point in points}):
        own = [point for point in points if point.chips == chips]
        modelled = [point for point in own if point.kind not in ("all_reduce", "dispatch")]
        reduces = [point for point in own if point.kind == "all_reduce"]
        found += [record(p, (60e-6 + p.payload_bytes * 2e-10) * chips / 2, process) for p in reduces]
        found += [record(p, DISPATCH_S, process) for p in own if p.kind == "dispatch"]
        known = _form_of_design(chips)
        for point, seconds in zip(modelled, times(modelled, known, truth(known)), strict=True):
            tokens = 1 + sum(0.7**k for k in range(1, point.tokens)) if point.kind == "generation" else None
            found.append(record(point, float(seconds * np.exp(noise * rng.standard_normal())), process, tokens))
    return found


@functools.cache
def _form_of_design(chips: int) -> Form:
    points = [point for point in design().points((chips,)) if point.role == "fit"]
    known = form([point for point in points if point.kind != "dispatch"])
    table = tuple((size, (60e-6 + size * 2e-10) * chips / 2) for size, _ in known.all_reduce)
    return Form(known.chips, known.knots, known.rows, table)
