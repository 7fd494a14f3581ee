"""Compiles the design of compiled/design.yaml for every generation of TPU -> compiled/rows.csv, what the fit is of.

    python docs/calibrations/compiled_rows.py FOLDER [GENERATION ...]     # needs the extra `tpu`, and no TPU

A stack of layers of three widths, two depths and two slices: a plain step of one sequence, verify steps of one and of
eight, and of one or two widths a prefill. Each is the runtime's own program, unrolled; a plain step with and without
the barrier behind the fused QKV product, whichever takes less by its replay (of 24 verify steps for v4 it helped
none). For v4 whole models are compiled too, and nothing is fitted to them: `use` is `test`. FOLDER keeps what was
compiled, so that it can be stopped and goes on. Five to twelve minutes a generation on two busy cores. Generations that
are not named keep their rows.

A row's scenario is read again by the fit (compiled.py), which needs no compiler.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.aot.compiled import ProgramName, Variant
from runtime.aot.compiler import compile_program
from runtime.aot.device import device_of
from runtime.aot.reading import Reading, read
from runtime.aot.recipe import recipe_of
from runtime.aot.store import Store, versions
from runtime.aot.topologies import GENERATIONS, Generation, Topology, topology
from simulator.files import write
from simulator.spec.load import load_scenario
from simulator.spec.scenario import Scenario
from simulator.spec.topology import parse_slice

HERE = Path(__file__).resolve().parent / "compiled"
ROWS = HERE / "rows.csv"
WIDTHS, DEPTHS = (2048, 4096, 8192), (4, 8)
PREFILLED = {"v4": (4096, 8192), "v5e": (4096, 8192), "v5p": (4096, 8192), "v6e": (4096,), "tpu7x": (4096,)}
"""Widths of which a prefill is compiled: for a v6e the narrower takes a minute."""
SLICES = {
    "v4": ("2x2x1", "2x2x4"),
    "v5e": ("2x2", "4x4"),
    "v5p": ("2x2x1", "2x2x4"),
    "v6e": ("2x2", "4x4"),
    "tpu7x": ("2x2x1", "2x2x2"),
}
PROGRAMS: tuple[tuple[ProgramName, int], ...] = (
    ("plain_step", 1),
    ("verify_step", 1),
    ("verify_step", 8),
    ("prefill", 1),
)
"""With their numbers of sequences."""
VARIANTS = (Variant(), Variant(barrier=True))
STACK = "stack"
MODELS = {"v4": ("chinchilla-draft-4b", "llama-3.1-8b")}
"""Whole models, to test the fit on."""
CLOCKS = {"tpu7x": 2.2e9}
"""Cycles a second where no source has them."""
WHY = (
    "derived: bfloat16 peak of a core over 2 x 256 x 256 a cycle of each of 4 units, as many as a v6e is taken to have"
)
"""As those of v5e, v5p and v6e are. The rate at which the compiler has HBM stream is then 0.88 of the datasheet's."""
COLUMNS = (
    *("use", "generation", "slice", "program", "model", "width", "layers", "batch", "variant", "clock_ghz"),
    *("hbm_bytes", "floor_bytes", "flop", "layer_all_reduces", "collectives"),
    *("datasheet_us", "compiler_us", "matmul_us", "attention_us", "other_us", "stall_us", "libtpu"),
)


def scenario_of(row: dict[str, str]) -> Scenario:
    """The scenario that a row is of; on as many chips as its slice has."""
    given = {
        "workload.batch": row["batch"],
        "deployment.hardware": generation(row["generation"]).profile,
        "deployment.chips": math.prod(parse_slice(row["slice"])),
        "deployment.slice": row["slice"],
    }
    given |= _stack(int(row["width"]), int(row["layers"])) if row["model"] == STACK else {"target": row["model"]}
    if row["model"] != STACK:
        # A draft must have the target's tokens; no row is of it.
        given["draft.model"] = row["model"]
    return load_scenario(HERE / "design.yaml", [f"{key}={value}" for key, value in given.items()])[0].scenario


def _stack(width: int, layers: int) -> dict[str, Any]:
    heads = width // 128
    sizes = {"d_model": width, "heads": heads, "kv_heads": heads, "d_ff": 4 * width, "layers": layers}
    return {f"target.{name}": size for name, size in sizes.items()}


def generation(name: str) -> Generation:
    """One that the compiler knows, with a clock."""
    found = next(each for each in GENERATIONS if each.name == name)
    return found if found.clock_hz is not None else replace(found, clock_hz=CLOCKS[name])


def design(name: str) -> Iterator[dict[str, str]]:
    """What is compiled for a generation."""
    for slice_name in SLICES[name]:
        for program, batch in PROGRAMS:
            where = {"generation": name, "slice": slice_name, "program": program, "batch": str(batch)}
            for width in PREFILLED[name] if program == "prefill" else WIDTHS:
                for layers in DEPTHS:
                    yield {"use": "fit", "model": STACK, "width": str(width), "layers": str(layers), **where}
            for model in MODELS.get(name, ()) if program != "prefill" else ():
                yield {"use": "test", "model": model, "width": "", "layers": "", **where}


def compiled(about: dict[str, str], store: Store) -> dict[str, str]:
    """The row of one program.

    Raises:
        RefusedError: there is no compiler.
        MeasurementError: it failed.
    """
    where = topology(f"{about['generation']}:{about['slice']}")
    where = Topology(generation(about["generation"]), where.lengths)
    scenario, device = scenario_of(about), device_of(where)
    readings = []
    for variant in VARIANTS[: None if about["program"] == "plain_step" else 1]:
        program: Any = about["program"]
        recipe = recipe_of(scenario, program, where, variant)
        answer = compile_program(recipe, store, lambda _: None)
        readings.append(read(answer, recipe, answer.text(store.folder), device))
    return about | _figures(min(readings, key=lambda reading: reading.replay_s or 0.0), device.clock_per_s or 0.0)


def _figures(reading: Reading, clock_per_s: float) -> dict[str, str]:
    known, replays = reading.known, reading.estimated["without_collectives"]
    times = {f"{rate}_us": replays[rate]["total_s"] for rate in ("datasheet", "compiler")}
    times |= {f"{part}_us": replays["datasheet"][f"{part}_s"] for part in ("matmul", "attention", "other", "stall")}
    found = {
        "variant": "barrier" if "barrier" in reading.variant else "plain",
        "clock_ghz": f"{clock_per_s / 1e9:g}",
        "hbm_bytes": known["hbm_bytes"],
        "floor_bytes": known["floor_bytes"],
        "flop": f"{sum(known['matrix_flop'].values()) + sum(known['vector_flop'].values()):.6g}",
        "layer_all_reduces": known["all_reduces_in_layers"],
        "collectives": sum(each["count"] for each in known["collectives"]),
        "libtpu": versions()["libtpu"],
    }
    return {name: str(value) for name, value in found.items()} | {n: f"{s * 1e6:.2f}" for n, s in times.items()}


def all_rows() -> list[dict[str, str]]:
    """The rows as they are committed."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(folder: Path, names: list[str]) -> None:
    """Compile, and write the rows of each generation as soon as it is through."""
    store = Store(folder)
    for name in names or SLICES:
        found = [compiled(about, store) for about in design(name)]
        kept = [row for row in (all_rows() if ROWS.exists() else []) if row["generation"] != name]
        order = {each: place for place, each in enumerate(SLICES)}
        every = sorted([*kept, *found], key=lambda row: order[row["generation"]])
        lines = [",".join(COLUMNS), *(",".join(row[column] for column in COLUMNS) for row in every)]
        write(ROWS, "\n".join(lines) + "\n")
        print(f"{name}: {len(found)} rows", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
