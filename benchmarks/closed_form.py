"""How fast the closed forms are: a million points of draft shape x K x tensor parallel degree x batch x context.

    python benchmarks/closed_form.py

One core (set OMP_NUM_THREADS=1). Prints the median of five runs and their spread.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from simulator import speculation
from simulator.cost.collectives import Links
from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, step_cost
from simulator.spec.load import load_scenario

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "chinchilla_70b_tpu_v4.yaml"
POINTS = 1_000_000


def points() -> tuple[Shape, dict[str, np.ndarray]]:
    """A million drafts with what they are asked: every column of length ``POINTS``."""
    rng = np.random.default_rng(0)
    width = rng.choice([1024, 2048, 3072, 4096, 6144, 8192], POINTS).astype(np.float64)
    shape = Shape(
        layers=rng.integers(1, 49, POINTS).astype(np.float64),
        d_model=width,
        heads=width / 128,
        kv_heads=np.maximum(width / 128 / rng.choice([1, 4, 8], POINTS), 1.0),
        head_dim=128.0,
        d_ff=width * rng.choice([2.0, 3.0, 4.0], POINTS),
        feed_forward_matrices=2.0,
        vocabulary=32000.0,
        weight_bytes=2.0,
        kv_bytes=2.0,
        activation_bytes=2.0,
    )
    asked = {
        "lookahead": rng.integers(1, 17, POINTS),
        "chips": rng.choice([4.0, 8.0, 16.0], POINTS),
        "batch": rng.choice([1.0, 4.0, 16.0, 64.0], POINTS),
        "positions": rng.choice([512.0, 2048.0, 8192.0], POINTS),
    }
    return shape, asked


def screen(shape: Shape, asked: dict[str, np.ndarray], machine: Machine, target: Shape) -> np.ndarray:
    """Round time, speedup at alpha 0.7 and break-even acceptance of every point; the speedups."""
    batch, positions, chips, depth = asked["batch"], asked["positions"], asked["chips"], asked["lookahead"]
    first = step_cost(shape, Pass(batch, 2.0, positions, chips), machine, sampled_rows=1).seconds
    later = step_cost(shape, Pass(batch, 1.0, positions, chips), machine, sampled_rows=1).seconds
    verify = step_cost(target, Pass(batch, depth + 1.0, positions, 16.0), machine).seconds
    plain = step_cost(target, Pass(batch, 1.0, positions, 16.0), machine, sampled_rows=1).seconds
    round_cost = (first + (depth - 1) * later + verify) / plain
    return speculation.speedup(speculation.tokens_per_round(0.7, depth), round_cost)


def main() -> None:
    """Time it."""
    scenario = load_scenario(SCENARIO)[0].scenario
    hardware = scenario.deployment.hardware
    machine = Machine(hardware, hardware.calibrations["chen-2023"].parameters[0], Links(45e9), "bfloat16")
    shape, asked = points()
    target = Shape.of(scenario.target)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        gains = screen(shape, asked, machine, target)
        seconds.append(time.perf_counter() - started)
    print(f"{POINTS:,} points: median {np.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f} s")
    print(f"{POINTS / np.median(seconds):,.0f} points/s; best speedup at alpha 0.7: {gains.max():.2f}")


if __name__ == "__main__":
    main()
