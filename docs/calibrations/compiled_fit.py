"""Fits the numbers of a step to replays of compiled programs; compiled.py runs it.

One rate of memory and a fixed time of a layer are the efficiency over size: a small layer reaches less of the rate.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.calibration.tables import check
from simulator.fitting import Fit, Free, fit
from simulator.spec.hardware import CostParameters, HardwareProfile
from simulator.steps import Step, Steps
from simulator.validation.machine import read_profile
from simulator.validation.published import COMPILED

Array = npt.NDArray[np.float64]
Row = Mapping[str, str]
Case = tuple[Step, float]
ROWS = runpy.run_path(str(Path(__file__).with_name("compiled_rows.py")))
FREE = {
    "hbm_efficiency": Free(0.9, 0.3, 1.0),
    "matmul_efficiency": Free(0.5, 0.05, 1.0),
    "layer_overhead": Free(1e-5, 0.0, 2e-4),
    "layer_overhead_many_rows": Free(1e-5, 0.0, 2e-4),
    "step_overhead": Free(1e-5, 0.0, 1e-3),
}
CURVE = (3e7, 3e8, 3e9)
"""Bytes of a chip at which a curve of efficiency has its points, where one is tried in place of the one rate."""


@dataclass(frozen=True)
class Fitted:
    """One generation."""

    generation: str
    profile: HardwareProfile
    rows: tuple[Row, ...]
    steps: Fit
    tested: dict[str, Array]
    """By model, errors on programs of whole models that nothing was fitted to."""


def fitted(generation: str) -> Fitted:
    """The fit of one generation to its rows."""
    known = [row for row in ROWS["all_rows"]() if row["generation"] == generation]
    rows = tuple(row for row in known if row["use"] == "fit")
    profile, cases = read_profile(ROWS["generation"](generation).profile), [case(row) for row in rows]
    found = fit(lambda values: errors(cases, values), FREE, robust=False)
    models = dict.fromkeys(row["model"] for row in known if row["use"] == "test")
    unseen = {model: [case(row) for row in known if row["model"] == model] for model in models}
    return Fitted(generation, profile, rows, found, {m: errors(of, found.values) for m, of in unseen.items()})


def curved(one: Fitted) -> tuple[Array, Array]:
    """Errors on rows and whole models with a curve of efficiency over the bytes of a chip in place of one rate."""
    known = [row for row in ROWS["all_rows"]() if row["generation"] == one.generation]
    cases, unseen = ([case(row) for row in known if row["use"] == use] for use in ("fit", "test"))
    start, *others = FREE.values()
    free = {f"{size:g}": start for size in CURVE} | dict(zip([*FREE][1:], others, strict=True))

    def curve(values: Mapping[str, float]) -> dict[str, Any]:
        points = tuple({"footprint": f"{size} B", "efficiency": values[f"{size:g}"]} for size in CURVE)
        return {**{name: values[name] for name in [*FREE][1:]}, "hbm_efficiency": points}

    found = fit(lambda values: errors(cases, curve(values)), free, robust=False)
    return found.residuals, errors(unseen, curve(found.values))


def written(name: str, value: float) -> Any:
    """A number as YAML has it: four figures, a ratio or microseconds."""
    if name.endswith("efficiency"):
        return float(f"{value:.4g}")
    return f"{float(f'{value * 1e6:.4g}') if value > 1e-10 else 0:g} us"


def data_of(values: Mapping[str, Any], write: Any = written) -> dict[str, Any]:
    """The parameters of one chip as YAML has them."""
    numbers = {name: write(name, value) for name, value in values.items()}
    return {"chips": 1, **numbers, "sampling": {}, "round_overhead": "0 us"}


def _exact(name: str, value: Any) -> Any:
    """A fit needs all figures."""
    return value if name.endswith("efficiency") else f"{value!r} s"


def case(row: Row) -> Case:
    """The step of a row and its replayed seconds."""
    return step_of(row), float(row["datasheet_us"]) * 1e-6


def errors(cases: Sequence[Case], values: Mapping[str, Any]) -> Array:
    """Predicted over replayed, less 1; without collectives on both sides."""
    known = CostParameters.model_validate(data_of(values, _exact))
    return np.array([under(step, known) / replayed_s - 1 for step, replayed_s in cases])


def step_of(row: Row) -> Step:
    """The step that a row is of; like the program it reads all positions that are allocated."""
    scenario = ROWS["scenario_of"](row)
    steps = Steps(scenario, COMPILED, check(_anything()))
    return replace(steps.passes[row["program"]], footprint_bytes=None)


def _anything() -> dict[str, Any]:
    """A calibration whose numbers are replaced."""
    numbers = {name: free.start for name, free in FREE.items()}
    words = {"description": "not fitted yet", "source": "none", "free_parameters": 0, "fitted_values": 0}
    anywhere = {name: value for name, value in data_of(numbers).items() if name != "chips"}
    return {**words, "cache_read": "allocated", "parameters": [anywhere]}


def under(step: Step, known: CostParameters) -> float:
    """Its time under these parameters, without its collectives."""
    alone = known.model_copy(update={"all_reduce": None})
    return replace(step, machine=replace(step.machine, parameters=alone)).seconds


def rms(residuals: Array) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(residuals**2)))


def longer(one: Fitted) -> float:
    """By how much steps are longer at the compiler's own rate of HBM; the median."""
    return float(np.median([float(row["compiler_us"]) / float(row["datasheet_us"]) - 1 for row in one.rows]))


def report(one: Fitted) -> Iterator[str]:
    """The fit of one generation in a few lines."""
    yield f"{one.generation}: {len(one.rows)} programs"
    for index, (name, value) in enumerate(one.steps.values.items()):
        yield f"  {name:26s} {value:.4g} +- {np.sqrt(one.steps.covariance[index, index]):.2g}"
    missed = np.abs(one.steps.residuals)
    for program in dict.fromkeys(row["program"] for row in one.rows):
        own = one.steps.residuals[[row["program"] == program for row in one.rows]]
        yield f"  {program:26s} {len(own):3d} rows  mean {own.mean():+6.1%}  worst {np.abs(own).max():6.1%}"
    yield f"  all: median {np.median(missed):.1%}, worst {missed.max():.1%}, root mean square {rms(missed):.1%}"
    for model, unseen in one.tested.items():
        shown = ", ".join(f"{error:+.0%}" for error in unseen)
        yield f"  not fitted to: {model}, {len(unseen)} programs, median {np.median(np.abs(unseen)):.1%}: {shown}"
    if one.tested:
        own, models = curved(one)
        every = np.abs(np.concatenate([*one.tested.values()]))
        yield f"  not fitted to: all {len(every)} programs {np.median(every):.1%} in the median"
        told = f"root mean square {rms(own):.1%}, whole models {np.median(np.abs(models)):.1%} in the median"
        yield f"  with a curve over the bytes of a chip in place of one rate: {told}"
    yield f"  at the compiler's own rate of HBM {longer(one):+.1%} in the median"


def table(found: Sequence[Fitted]) -> str:
    """The numbers of every generation in Markdown."""
    columns = ("memory", "matrices", "a layer", "with several rows", "a step", "programs", "missed by (rms)")
    lines = [f"| | {' | '.join(columns)} | at the compiler's rate of HBM |", "|---" * 9 + "|"]
    for one in found:
        value = one.steps.values
        rates = (f"{value[name]:.2f}" for name in ("hbm_efficiency", "matmul_efficiency"))
        times = [f"{value[name] * 1e6:.1f} us" for name in ("layer_overhead", "layer_overhead_many_rows")]
        ends = (f"{value['step_overhead'] * 1e6:.0f} us", str(len(one.rows)), f"{rms(one.steps.residuals):.0%}")
        cells = (*rates, times[0], f"{times[1]} more", *ends, f"{longer(one):+.0%}")
        lines.append(f"| {one.generation} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
