"""Fits of single kernels -> one calibration: the numbers of a step made of those of its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.calibration.all_reduces import OUTLYING, AllReduces, to_yaml
from simulator.calibration.kernels import FIT, HELD_OUT, Cached, Judged, Matmuls, spread
from simulator.spec.hardware import Calibration

MATMULS_OF_A_LAYER = 4
"""Queries, keys and values together; the output; gate and up together; down."""


@dataclass(frozen=True)
class SmallKernels:
    """Norms, rotary positions, activations: what moves little and is there all the same."""

    layer_s: float
    """Of one layer, all of them."""
    step_s: float
    """Of one step, beside its layers."""
    words: str
    """Where these come from."""


@dataclass(frozen=True)
class Sampling:
    """Drawing one token a row from logits."""

    base_s: float
    per_logit_s: float
    words: str
    """Where these come from."""


@dataclass(frozen=True)
class Source:
    """What a calibration says of itself."""

    engine: str
    dtype: str
    words: str
    date: str
    script: str


@dataclass(frozen=True)
class Kernels:
    """Everything that a step is made of."""

    matmuls: Matmuls
    cached: Cached
    small: SmallKernels
    sampling: Sampling
    all_reduces: AllReduces | None = None

    @property
    def rows(self) -> dict[str, tuple[Judged, ...]]:
        """By kind of kernel, the rows of its table."""
        known = {"matrix multiplications": self.matmuls.rows, "attention": self.cached.rows}
        return known if self.all_reduces is None else known | {"all-reduces": self.all_reduces.rows}


def calibration(source: Source, kernels: Kernels, validity: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """A calibration as a profile's YAML has it.

    A layer's overhead is the fixed times of its kernels; a step's that of the LM head and of two small kernels. There
    is no host in it.
    """
    matmuls, cached, small, sampling = kernels.matmuls, kernels.cached, kernels.small, kernels.sampling
    shared = {
        "matmul_dtypes": _types(source.dtype),
        "hbm_efficiency": _figures(matmuls.hbm_efficiency),
        "kv_efficiency": _figures(cached.kv_efficiency),
        "matmul_efficiency": _curve(matmuls.matmul_efficiency),
        "attention_efficiency": _curve(cached.attention_efficiency),
        "step_overhead": _us(matmuls.kernel_s + small.step_s),
        "layer_overhead": _us(MATMULS_OF_A_LAYER * matmuls.kernel_s + cached.kernel_s + small.layer_s),
        "sampling": {"base": _us(sampling.base_s), "per_logit": f"{sampling.per_logit_s * 1e9:.3g} ns"},
        "round_overhead": "0 us",
    }
    costs = {} if kernels.all_reduces is None else kernels.all_reduces.costs
    parameters = [{"chips": 1, **shared}]
    parameters += [{"chips": chips, **shared, "all_reduce": to_yaml(cost)} for chips, cost in costs.items()]
    names = _free(kernels)
    fitted = [row for rows in kernels.rows.values() for row in rows if row.role == FIT]
    return {
        "description": " ".join([_opening(source), *_held_out(kernels.rows), f"Fitted by {source.script}."]),
        "source": source.words,
        "date": source.date,
        "free_parameters": sum(names.values()),
        "free_parameter_names": [f"{count} of {name}" for name, count in names.items()],
        "fitted_values": len(fitted),
        "assumptions": _assumptions(kernels),
        "residual": _figures(float(np.sqrt(np.mean([row.error**2 for row in fitted]))), 3),
        "validity": {axis: {"low": low, "high": high} for axis, (low, high) in validity.items()},
        "parameters": parameters,
    }


def _types(dtype: str) -> list[str]:
    """The types that a calibration holds for: tensor cores multiply both kinds of 16 bits at one rate."""
    return [dtype, "float16"] if dtype == "bfloat16" else [dtype]


def joined(parts: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """One calibration of those of several types of operands, each given as :func:`calibration` makes it."""
    first = parts[0][1]
    if len(parts) == 1:
        return first
    every = [data for _, data in parts]
    shared = [words for words in first["assumptions"] if all(words in data["assumptions"] for data in every)]
    own = [f"{dtype}: {words}" for dtype, data in parts for words in data["assumptions"] if words not in shared]
    counts = np.array([data["fitted_values"] for data in every])
    squares = np.array([data["residual"] for data in every]) ** 2
    axes = {axis: [data["validity"][axis] for data in every] for axis in first["validity"]}
    return first | {
        "description": " ".join(dict.fromkeys(data["description"] for data in every)),
        "free_parameters": sum(data["free_parameters"] for data in every),
        "free_parameter_names": [f"{dtype}: {name}" for dtype, data in parts for name in data["free_parameter_names"]],
        "fitted_values": int(counts.sum()),
        "assumptions": [*shared, *own],
        "residual": _figures(float(np.sqrt(squares @ counts / counts.sum())), 3),
        "validity": {
            axis: {"low": max(r["low"] for r in known), "high": min(r["high"] for r in known)}
            for axis, known in axes.items()
        },
        "parameters": [entry for data in every for entry in data["parameters"]],
    }


def check(data: Mapping[str, Any]) -> Calibration:
    """The calibration that such data say, with tuples for lists as the contract wants them."""
    return Calibration.model_validate(_tuples(data))


def left_out(rows: Sequence[Judged]) -> dict[str, int]:
    """Why rows were not used, and how many."""
    return dict(Counter(row.role for row in rows if row.role not in (FIT, HELD_OUT)))


def small_messages(all_reduces: AllReduces, most_bytes: float = 2.0**20) -> list[Judged]:
    """The all-reduces of at most so many bytes."""
    return [row for row in all_reduces.rows if float(row.key.split(", ")[1].split()[0]) <= most_bytes]


def _opening(source: Source) -> str:
    return f"Single kernels of {source.engine} in {source.dtype}, each timed on its own."


def _held_out(tables: Mapping[str, Sequence[Judged]]) -> list[str]:
    found = []
    for name, rows in tables.items():
        seen = spread(rows, HELD_OUT)
        if seen["count"]:
            errors = f"median {seen['median']:.1%}, nine in ten {seen['p90']:.1%}, worst {seen['worst']:.1%}"
            found.append(f"Held-out {name} ({seen['count']:.0f} rows): {errors}.")
    return found


def _assumptions(kernels: Kernels) -> list[str]:
    matmul, attention = _us(kernels.matmuls.kernel_s), _us(kernels.cached.kernel_s)
    matmuls = f"{MATMULS_OF_A_LAYER} matrix multiplications with {matmul} of fixed time each"
    found = [
        "no launch gaps and no host time; an engine's overheads of a step and of a round come on top",
        f"a layer has {matmuls}, one attention with {attention}, and {kernels.small.words}",
        "fixed times are upper ends where a graph of one or two kernels was replayed alone: its launch is in them",
        "where memory binds, a tile of 128 rows computes as fast as at the first count where arithmetic shows",
        "attention of fewer new tokens than the first point of attention_efficiency computes at that point's rate",
        kernels.sampling.words,
    ]
    if kernels.all_reduces is not None:
        found.append("an all-gather takes its share of an all-reduce's time; none was measured")
    for name, rows in kernels.rows.items():
        found += [f"{count} of {len(rows)} rows of {name} left out: {why}" for why, count in left_out(rows).items()]
        off = [row for row in rows if row.role == OUTLYING]
        found += [f"the all-reduce that is left out: {row.key}, {_us(row.measured_s)}" for row in off]
    return found


def _free(kernels: Kernels) -> dict[str, int]:
    names = {
        "memory's efficiency for weights": 1,
        "a matrix multiplication's fixed time": 1,
        "arithmetic by rows": len(kernels.matmuls.matmul_efficiency) - 1,
        "memory's efficiency for keys and values": 1,
        "attention's fixed time": 1,
        "attention's arithmetic by rows": len(kernels.cached.attention_efficiency),
    }
    if kernels.all_reduces is None:
        return names
    return names | {"all-reduces by chips and payload": kernels.all_reduces.free_numbers}


def _curve(points: Sequence[tuple[int, float]]) -> list[dict[str, Any]]:
    return [{"rows": rows, "efficiency": _figures(efficiency)} for rows, efficiency in points]


def _figures(value: float, figures: int = 4) -> float:
    return float(f"{value:.{figures}g}")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"


def _tuples(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _tuples(value) for key, value in data.items()}
    return tuple(_tuples(value) for value in data) if isinstance(data, list) else data
