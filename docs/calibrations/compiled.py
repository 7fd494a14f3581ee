"""How the calibrations `xla-compiled` of the TPU profiles were fitted: to programs that were compiled and never run.

    python docs/calibrations/compiled.py            # prints the fits, and their errors on published TPU v4 numbers
    python docs/calibrations/compiled.py --write    # writes the profiles and compiled/published.csv
    python docs/calibrations/compiled.py --check    # fails where what is written is not what comes out

The rows are in compiled/rows.csv: how long a replay of the TPU compiler's schedule takes at datasheet bandwidth, for a
small design of programs (compiled_rows.py compiles them again). Steps are fitted to them, without collectives; the
all-reduce apart, to what runtime/aot/assumed.py assumes of it. No time that anybody measured enters anything, so all
published numbers are tests.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from runtime.aot.device import device_of
from runtime.aot.topologies import topology
from simulator.calibration.tables import check
from simulator.cost.step import footprint
from simulator.files import settle
from simulator.fitting import Fit, Free, fit
from simulator.spec.hardware import CostParameters, HardwareProfile
from simulator.spec.library import PROFILES
from simulator.steps import Step, Steps
from simulator.validation.machine import read_profile
from simulator.validation.published import COMPILED

Array = npt.NDArray[np.float64]
Row = Mapping[str, str]
Case = tuple[Step, float]
HERE = Path(__file__).resolve().parent
SCRIPT = "docs/calibrations/compiled.py"
START, END = f"  # Written by {SCRIPT}, from here", "  # to here."
DATE = "2026-11-30"
ROWS = runpy.run_path(str(HERE / "compiled_rows.py"))
PUBLISHED = runpy.run_path(str(HERE / "compiled_published.py"))
FREE = {
    "hbm_efficiency": Free(0.9, 0.3, 1.0),
    "matmul_efficiency": Free(0.5, 0.05, 1.0),
    "layer_overhead": Free(1e-5, 0.0, 2e-4),
    "layer_overhead_many_rows": Free(1e-5, 0.0, 2e-4),
    "step_overhead": Free(1e-5, 0.0, 1e-3),
}
CUBES, SQUARES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8"), ("2x2", "2x4", "4x4", "4x8", "8x8")
PRICED = {"v4": CUBES, "v5e": SQUARES, "v5p": CUBES, "v6e": SQUARES, "tpu7x": CUBES}
"""Slices whose all-reduces are fitted to."""
PRICES_OF = {"tpu7x": "v5p"}
"""Whose prices a generation without any is given: of the same torus and, by the datasheets, the same links."""
PAYLOADS = tuple(1 << power for power in range(12, 25, 2))


@dataclass(frozen=True)
class Fitted:
    """One generation."""

    generation: str
    profile: HardwareProfile
    rows: tuple[Row, ...]
    steps: Fit
    tested: dict[str, Array]
    """By model, errors on programs of whole models that nothing was fitted to."""


def written(name: str, value: float) -> Any:
    """A number as YAML has it: four figures, a ratio or microseconds."""
    return float(f"{value:.4g}") if name.endswith("efficiency") else f"{float(f'{value * 1e6:.4g}'):g} us"


def data_of(values: Mapping[str, float], write: Any = written) -> dict[str, Any]:
    """The parameters of one chip as YAML has them."""
    numbers = {name: write(name, value) for name, value in values.items()}
    return {"chips": 1, **numbers, "sampling": {}, "round_overhead": "0 us"}


def fitted(generation: str) -> Fitted:
    """The fit of one generation to its rows."""
    known = [row for row in ROWS["all_rows"]() if row["generation"] == generation]
    rows = tuple(row for row in known if row["use"] == "fit")
    profile, cases = read_profile(ROWS["generation"](generation).profile), [case(row) for row in rows]
    found = fit(lambda values: errors(cases, values), FREE, robust=False)
    models = dict.fromkeys(row["model"] for row in known if row["use"] == "test")
    unseen = {model: [case(row) for row in known if row["model"] == model] for model in models}
    return Fitted(generation, profile, rows, found, {m: errors(of, found.values) for m, of in unseen.items()})


def case(row: Row) -> Case:
    """The step of a row and its replayed seconds."""
    return step_of(row), float(row["datasheet_us"]) * 1e-6


def errors(cases: Sequence[Case], values: Mapping[str, float]) -> Array:
    """Predicted over replayed, less 1; without collectives on both sides."""
    known = CostParameters.model_validate(data_of(values, _exact))
    return np.array([under(step, known) / replayed_s - 1 for step, replayed_s in cases])


def _exact(name: str, value: float) -> float | str:
    """A fit needs all figures."""
    return value if name.endswith("efficiency") else f"{value!r} s"


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


def prices(generation: str) -> dict[int, tuple[str, list[dict[str, str]]]]:
    """By number of chips the slice and the assumed all-reduces, as YAML has them."""
    found = {}
    for name in PRICED[generation]:
        where = topology(f"{PRICES_OF.get(generation, generation)}:{name}")
        table = device_of(where).prices()
        priced = [(size, table.seconds("all-reduce", size, where.devices)) for size in PAYLOADS]
        rows = [{"payload": f"{size} B", "time": written("time", each)} for size, each in priced if each is not None]
        if rows:
            found[where.chips] = name, rows
    return found


def calibration(one: Fitted) -> dict[str, Any]:
    """The calibration as a profile's YAML has it."""
    one_chip = data_of(one.steps.values)
    tables = [
        {**one_chip, "chips": chips, "all_reduce": {"algorithm": "table", "table": rows}}
        for chips, (_, rows) in prices(one.generation).items()
    ]
    return {
        "description": (
            f"Compiled, never run: replays of {len(one.rows)} programs of the runtime's own decoder. What a compiled "
            f"program can reach, not what serving software does: there is no host in it. Fitted by {SCRIPT}."
        ),
        "source": f"XLA:TPU compiler of libtpu {_only(one, 'libtpu')}; rows in docs/calibrations/compiled/rows.csv",
        "date": DATE,
        "free_parameters": len(one.steps.values),
        "free_parameter_names": [name.replace("_", " ") for name in one.steps.values],
        "fitted_values": len(one.rows),
        "assumptions": list(assumptions(one)),
        "residual": float(f"{rms(one.steps.residuals):.3g}"),
        "validity": validity(one),
        "cache_read": "allocated",
        "parameters": [one_chip, *tables],
    }


def rms(residuals: Array) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(residuals**2)))


def _only(one: Fitted, column: str) -> str:
    (value,) = {row[column] for row in one.rows}
    return value


def longer(one: Fitted) -> float:
    """By how much steps are longer at the compiler's own rate of HBM; the median."""
    return float(np.median([float(row["compiler_us"]) / float(row["datasheet_us"]) - 1 for row in one.rows]))


def assumptions(one: Fitted) -> Iterator[str]:
    """What was assumed rather than fitted."""
    known = ROWS["generation"](one.generation)
    where = topology(f"{PRICES_OF.get(one.generation, one.generation)}:{PRICED[one.generation][0]}")
    yield "a replay of the compiler's schedule: cycles of its own estimate beside one HBM channel; checked on no TPU"
    yield f"HBM serves the datasheet's rate; at that by which the compiler reckons steps take {longer(one):.0%} longer"
    source = ROWS["WHY"] if one.generation in ROWS["CLOCKS"] else known.clock_source
    yield f"{_only(one, 'clock_ghz')} GHz: {source}"
    yield f"all-reduces: {device_of(where).prices().source.replace(f' of {PRICED[one.generation][0]}', '')}"
    if one.generation in PRICES_OF:
        yield f"no price of this generation is known: a {PRICES_OF[one.generation]}'s, whose torus and links are alike"
    yield "an all-gather or reduce-scatter takes half of it; a collective over a part of the chips as long as over all"
    yield "overheads of a layer and a step are the compiler's constants of small operations: no host, launch or gap"
    yield "drawing a token takes no time, as no step draws one"
    yield "layers unrolled, with or without the barrier behind QKV, whichever is faster; a scan takes longer"
    yield "one model of every width: heads of 128, plain feed-forward of 4 D, bfloat16, rotary positions"
    yield "layers are alike: 8 and 16 layers of a 70B extrapolate to its 80 within 1.1 %"


def validity(one: Fitted) -> dict[str, dict[str, float]]:
    """What the rows reach over; layers are left out, being alike."""
    steps = [step_of(row) for row in one.rows]
    bytes_each = [float(footprint(step.shape, step.forward.chips, one.profile)) for step in steps]
    rows = [float(np.asarray(step.forward.rows)) for step in steps]
    widths = [float(row["width"]) for row in one.rows]
    chips = [1.0, *map(float, prices(one.generation))]
    ends = {"chips": chips, "width": widths, "rows": rows, "weight_bytes_per_chip": bytes_each}
    ends["payload_bytes"] = [float(size) for size in PAYLOADS]
    ends["positions"] = [0.0, *(float(step.forward.positions) for step in steps)]
    return {axis: {"low": min(found), "high": max(found)} for axis, found in ends.items()}


class _Dumper(yaml.SafeDumper):
    """Mappings of a few plain values in one line, everything else by line, nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _mapping(dumper: _Dumper, data: dict[str, Any]) -> yaml.MappingNode:
    plain = len(data) <= 4 and not any(isinstance(value, dict | list) for value in data.values())
    return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=plain)


_Dumper.add_representer(dict, _mapping)


def profile_with(text: str, data: Mapping[str, Any]) -> str:
    """A profile's text with what stands between the marks replaced; they stand behind the other calibrations."""
    written = yaml.dump({COMPILED: data}, Dumper=_Dumper, sort_keys=False, width=116, allow_unicode=True)
    block = "\n".join([START, *(f"  {line}".rstrip() for line in written.splitlines()), END]) + "\n"
    before, mark, rest = text.partition(START)
    if not mark:
        before, mark, rest = text.partition("\nengines:\n")
        return before.rstrip("\n") + "\n" + block + mark.removeprefix("\n") + rest
    return before + block + rest.partition(END + "\n")[2]


def outputs(found: list[Fitted], errors: str) -> dict[Path, str]:
    """What has to stand in which file."""
    files = {HERE / "compiled" / "published.csv": errors}
    for one in found:
        path = PROFILES / f"{one.profile.name}.yaml"
        files[path] = profile_with(path.read_text(encoding="utf-8"), calibration(one))
    return files


def report(one: Fitted) -> Iterator[str]:
    """The fit of one generation in a few lines."""
    yield f"{one.generation}: {len(one.rows)} programs"
    for index, (name, value) in enumerate(one.steps.values.items()):
        yield f"  {name:26s} {value:.4g} +- {np.sqrt(one.steps.covariance[index, index]):.2g}"
    missed = np.abs(one.steps.residuals)
    for program in dict.fromkeys(row["program"] for row in one.rows):
        own = one.steps.residuals[[row["program"] == program for row in one.rows]]
        yield f"  {program:26s} {len(own):3d} rows  mean {own.mean():+6.1%}  worst {np.abs(own).max():6.1%}"
    yield f"  steps: median {np.median(missed):.1%}, worst {missed.max():.1%}, root mean square {rms(missed):.1%}"
    for model, unseen in one.tested.items():
        shown = ", ".join(f"{error:+.0%}" for error in unseen)
        yield f"  not fitted to: {model}, {len(unseen)} programs, median {np.median(np.abs(unseen)):.1%}: {shown}"
    yield f"  at the compiler's own rate of HBM {longer(one):+.1%} in the median"


def published(found: list[Fitted]) -> list[Any]:
    """The published values of TPU v4 under this calibration and under the others."""
    (own,) = [one for one in found if one.profile.name == PUBLISHED["CHIP"]]
    data = calibration(own)
    links = {"algorithm": "torus"}
    bare = [one if one["chips"] == 1 else {**one, "all_reduce": links} for one in data["parameters"]]
    lines: list[Any] = PUBLISHED["lines"](check(data), check({**data, "parameters": bare}))
    return lines


def main(arguments: list[str]) -> int:
    """Print, write or check."""
    found = [fitted(name) for name in PRICED]
    for one in found:
        print(*report(one), sep="\n")
    lines = published(found)
    print("", *PUBLISHED["report"](lines), sep="\n")
    if stale := settle(outputs(found, PUBLISHED["table"](lines)), arguments):
        print("not as fitted:", *stale)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
