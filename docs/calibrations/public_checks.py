"""Whole passes that no fit has seen, under the calibrations of public_kernels.py, which prints them at its end.

Two kinds. Sums of the kernels of a pass on an RTX 4090, at counts of tokens that were not fitted: the same machine, the
same model. Published decode steps of whole engines on A100 and H100, of other software than the tables: information,
with no bound claimed. They come out some 3 to 10 % long, as fixed times that have a launch in them would have it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.cost.shape import Pass, Shape
from simulator.cost.step import Machine, step_cost, timed
from simulator.cost.topology import links_of
from simulator.spec.hardware import HardwareProfile
from simulator.spec.model import ModelSpec
from simulator.validation.machine import read_profile

PUBLIC = Path(__file__).resolve().parent / "public"
FITTED = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512)
MODELS = {
    "llama-2-7b": (32, 4096, 32, 32, 11008, 32000),
    "llama-2-70b": (80, 8192, 64, 8, 28672, 32000),
    "llama-3.1-8b": (32, 4096, 32, 8, 14336, 128256),
}


@dataclass(frozen=True)
class Compared:
    """A measured time beside the predicted one."""

    what: str
    measured_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1


def model(name: str) -> ModelSpec:
    """A Llama in bfloat16."""
    layers, width, heads, kv_heads, d_ff, vocabulary = MODELS[name]
    return ModelSpec.model_validate(
        {
            "name": name,
            "layers": layers,
            "d_model": width,
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": 128,
            "d_ff": d_ff,
            "feed_forward": "gated",
            "vocabulary": vocabulary,
            "tied_embeddings": False,
            "weight_dtype": "bfloat16",
        }
    )


def machine(profile: HardwareProfile, calibration: str, chips: int) -> Machine:
    """So many chips under a calibration."""
    parameters = profile.calibrations[calibration].for_chips(chips, "bfloat16")
    if parameters is None:
        raise KeyError(f"{profile.name} has no parameters for {chips} chips")
    return Machine(profile, parameters, links_of(profile, None, chips), "bfloat16")


def passes(attention_s: float) -> list[Compared]:
    """Kernel sums of passes of Llama-3.1-8B on the RTX 4090; ``attention_s``, a layer's fixed time, is not in them."""
    profile = read_profile("rtx_4090")
    on = machine(profile, "vllm-0.19-kernels", 1)
    spec, found = model("llama-3.1-8b"), []
    for row in _rows("passes"):
        tokens = int(row["rows"])
        parts = timed(Shape.of(spec), Pass(1, tokens, 0, 1), on)
        seconds = sum(float(time.seconds) for _, time in parts.matmuls)
        seconds += spec.layers * (float(parts.layer_overhead_s) - attention_s)
        found.append(Compared(f"{tokens} tokens", float(row["layers_us"]) * 1e-6, seconds))
    return found


def steps() -> list[Compared]:
    """Published decode steps of one sequence, the host's share taken off where it was published."""
    found = []
    for row in _rows("steps"):
        chips, profile = int(row["chips"]), read_profile(row["chip"])
        on = machine(profile, row["calibration"], chips)
        forward = Pass(1, 1, int(row["positions"]), chips)
        seconds = float(step_cost(Shape.of(model(row["model"])), forward, on, sampled_rows=1).seconds)
        measured = (float(row["step_ms"]) - float(row["host_ms"])) * 1e-3
        found.append(Compared(f"{row['model']} on {chips} {row['chip']}", measured, seconds))
    return found


def report(attention_s: float) -> Iterator[str]:
    """All of it in lines."""
    known = passes(attention_s)
    for name, kept in (("fitted counts", True), ("other counts", False)):
        own = [one for one in known if (int(one.what.split()[0]) in FITTED) is kept]
        off = np.abs([one.error for one in own])
        yield (
            f"RTX 4090, kernels of a pass of Llama-3.1-8B, {name}: {len(own)} passes, median {np.median(off):.1%}, "
            f"nine in ten {np.quantile(off, 0.9):.1%}, worst {off.max():.1%}"
        )
    for one in steps():
        yield f"{one.what:32s} {one.measured_s * 1e3:7.2f} ms  predicted {one.predicted_s * 1e3:7.2f}  {one.error:+.1%}"


def _rows(table: str) -> list[dict[str, str]]:
    with (PUBLIC / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
