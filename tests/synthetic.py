"""Records for tests: real predictions, and measurements made of them by a seeded stretch of every component."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Sequence
from pathlib import Path

from simulator.predict import predict
from simulator.spec.hardware import Calibration, HardwareProfile
from simulator.spec.load import Point, load_scenario
from simulator.spec.record import Distribution, RunRecord, hash_of

ROOT = Path(__file__).resolve().parent.parent
QUICKSTART = ROOT / "scenarios" / "quickstart_cpu.yaml"
NOISE = 0.03
STRETCH = 0.12
_CALIBRATION = {
    "description": "A made-up host, for tests.",
    "source": "tests",
    "free_parameters": 3,
    "free_parameter_names": ("bandwidth", "layer overhead", "all-reduce"),
    "fitted_values": 24,
    "residual": 0.04,
    "parameters": (
        {
            "hbm_efficiency": 0.05,
            "matmul_efficiency": 0.5,
            "step_overhead": "60 us",
            "layer_overhead": "20 us",
            "all_reduce": {"algorithm": "one_shot", "base": "110 us"},
            "sampling": {"base": "90 us"},
            "round_overhead": "200 us",
        },
    ),
}


def calibrated_points(settings: Sequence[str] = (), file: Path = QUICKSTART) -> list[Point]:
    """The quickstart's points on a made-up host: 2 drafts x K 2, 4, 8 x 1 and 4 devices."""
    return [_calibrated(point) for point in load_scenario(file, settings)]


def made_up(profile: HardwareProfile, name: str = "made-up") -> HardwareProfile:
    """The profile with the made-up calibration."""
    return profile.model_copy(update={"calibrations": {name: Calibration.model_validate(_CALIBRATION)}})


def _calibrated(point: Point) -> Point:
    deployment = point.scenario.deployment
    hardware = made_up(deployment.hardware)
    changed = deployment.model_copy(update={"hardware": hardware, "calibration": "made-up"})
    return Point(point.scenario.model_copy(update={"deployment": changed}), point.axes)


def predicted_and_measured(settings: tuple[str, ...] = ()) -> list[RunRecord]:
    """Analytic, simulated and measured records of the quickstart's points."""
    return [*_records(settings)]


@functools.cache
def _records(settings: tuple[str, ...]) -> tuple[RunRecord, ...]:
    predicted = predict(calibrated_points(settings))
    return (*predicted, *measured_like(predicted))


def measured_like(predicted: Sequence[RunRecord]) -> list[RunRecord]:
    """A measurement for each pair of an analytic and a simulated record."""
    rng = random.Random(7)
    pairs = zip(predicted[::2], predicted[1::2], strict=True)
    return [_measurement(analytic, simulated, rng) for analytic, simulated in pairs]


def _measurement(analytic: RunRecord, simulated: RunRecord, rng: random.Random) -> RunRecord:
    """What a machine might have shown: every part stretched a little, and a round somewhat longer than its parts."""
    names = ("plain_step", "draft_first_step", "draft_step", "verify_step", "sampling")
    parts = {n: s * rng.uniform(1 - STRETCH, 1 + STRETCH) for n, s in analytic.components.items() if n in names}
    lookahead = analytic.scenario["decoding"]["lookahead"]
    total = 1.03 * (sum(parts.values()) - parts["plain_step"] + (lookahead - 2) * parts.get("draft_step", 0.0))
    parts["round"] = total
    tokens = analytic.metrics["acceptance_length"]
    speedup = tokens * parts["plain_step"] / total
    values = {f"{name}_s": value for name, value in parts.items()} | {"speedup": speedup, "tpot_s": total / tokens}
    metrics: dict[str, float | Distribution] = {"acceptance_length": tokens}
    for name, value in values.items():
        metrics |= {name: value, f"{name}_low": value * (1 - NOISE), f"{name}_high": value * (1 + NOISE)}
    times = simulated.metrics["time_to_tokens_s"]
    if isinstance(times, Distribution):
        ratio = total / analytic.components["round"]
        five = {part: getattr(times, part) * ratio for part in ("mean", "p50", "p90", "p99")}
        metrics["time_to_tokens_s"] = Distribution(n=20, **five)
    asked = copy.deepcopy(analytic.scenario)  # a measurement knows no calibration, so its hash is another
    asked["deployment"].pop("calibration", None)
    return RunRecord(
        kind="measured",
        scenario=asked,
        scenario_hash=hash_of(asked),
        axes=analytic.axes,
        metrics=metrics,
        components=parts,
        provenance={"host": {"processor": "made-up", "cores": 2}, "versions": {"jax": "0"}},
    )
