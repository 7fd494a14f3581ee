"""How the calibrations `xla-compiled` of the TPU profiles were fitted: to programs that were compiled and never run.

    python docs/calibrations/compiled.py            # prints the fits, and their errors on published TPU v4 numbers
    python docs/calibrations/compiled.py --write    # writes the profiles, compiled/published.csv, README.md's tables
    python docs/calibrations/compiled.py --check    # fails where what is written is not what comes out

The rows are in compiled/rows.csv: how long a replay of the TPU compiler's schedule takes at datasheet bandwidth, for a
small design of programs (compiled_rows.py compiles them again). Steps are fitted to them, without collectives, by
compiled_fit.py; an all-reduce takes what runtime/aot/assumed.py assumes. No time that anybody measured enters anything,
so all published numbers are tests.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from runtime.aot.device import device_of
from runtime.aot.topologies import topology
from simulator.calibration.tables import check
from simulator.files import settle
from simulator.spec.library import PROFILES
from simulator.validation.published import COMPILED

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
SCRIPT = "docs/calibrations/compiled.py"
START, END = f"  # Written by {SCRIPT}, from here", "  # to here."
DATE = "2026-11-30"
FIT = runpy.run_path(str(HERE / "compiled_fit.py"))
ROWS = FIT["ROWS"]
PUBLISHED = runpy.run_path(str(HERE / "compiled_published.py"))
CUBES, SQUARES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8"), ("2x2", "2x4", "4x4", "4x8", "8x8")
PRICED = {"v4": CUBES, "v5e": SQUARES, "v5p": CUBES, "v6e": SQUARES, "tpu7x": CUBES}
"""Slices whose all-reduces have an assumed price."""
PRICES_OF = {"tpu7x": "v5p"}
"""Whose prices a generation without any is given: of the same torus and, by the datasheets, the same links."""
PAYLOADS = tuple(1 << power for power in range(12, 25, 2))


def prices(generation: str) -> dict[int, tuple[str, list[dict[str, str]]]]:
    """By number of chips the slice and the assumed all-reduces, as YAML has them."""
    found = {}
    for name in PRICED[generation]:
        where = topology(f"{PRICES_OF.get(generation, generation)}:{name}")
        table = device_of(where).prices()
        priced = [(size, table.seconds("all-reduce", size, where.devices)) for size in PAYLOADS]
        known = [(size, each) for size, each in priced if each is not None]
        rows = [{"payload": f"{size} B", "time": FIT["written"]("time", each)} for size, each in known]
        if rows:
            found[where.chips] = name, rows
    return found


def calibration(one: Any) -> dict[str, Any]:
    """The calibration as a profile's YAML has it."""
    one_chip = FIT["data_of"](one.steps.values)
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
        "residual": float(f"{FIT['rms'](one.steps.residuals):.3g}"),
        "validity": validity(one),
        "cache_read": "allocated",
        "parameters": [one_chip, *tables],
    }


def _only(one: Any, column: str) -> str:
    (value,) = {row[column] for row in one.rows}
    return value


def assumptions(one: Any) -> Iterator[str]:
    """What was assumed rather than fitted."""
    known = ROWS["generation"](one.generation)
    where = topology(f"{PRICES_OF.get(one.generation, one.generation)}:{PRICED[one.generation][0]}")
    yield "a replay of the compiler's schedule: cycles of its own estimate beside one HBM channel; checked on no TPU"
    longer = f"{FIT['longer'](one):.0%}"
    yield f"HBM serves the datasheet's rate; at that by which the compiler reckons steps take {longer} longer"
    source = ROWS["WHY"] if one.generation in ROWS["CLOCKS"] else known.clock_source
    yield f"{_only(one, 'clock_ghz')} GHz: {source}"
    yield f"all-reduces: {device_of(where).prices().source.replace(f' of {PRICED[one.generation][0]}', '')}"
    if one.generation in PRICES_OF:
        yield f"no price of this generation is known: a {PRICES_OF[one.generation]}'s, whose torus and links are alike"
        yield "a chip is two devices, and what they send each other is not priced"
    yield "prices of large payloads are far too dear, as Pope et al. 2022 show for v4; small ones are unchecked"
    yield "an all-gather or reduce-scatter takes half of it; a collective over a part of the chips as long as over all"
    yield "overheads of a layer and a step are the compiler's constants of small operations: no host, launch or gap"
    yield "drawing a token takes no time, as no step draws one"
    yield "layers unrolled, with or without the barrier behind QKV, whichever is faster; a scan takes longer"
    yield "one model of every width: heads of 128, plain feed-forward of 4 D, bfloat16, rotary positions"
    yield "layers are alike: 8 and 16 layers of a 70B give a plain step of its 80 5 % long, a verify step 12 %"


def validity(one: Any) -> dict[str, dict[str, float]]:
    """What the rows reach over. Not layers, which are alike, nor with them the bytes of a chip."""
    steps = [FIT["step_of"](row) for row in one.rows]
    ends = {
        "chips": [1.0, *map(float, prices(one.generation))],
        "width": [float(row["width"]) for row in one.rows],
        "rows": [float(np.asarray(step.forward.rows)) for step in steps],
        "payload_bytes": [float(size) for size in PAYLOADS],
        "positions": [float(step.forward.positions) for step in steps],
    }
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


def between(text: str, name: str, table: str) -> str:
    """A page with the table between the marks of that name replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = text.partition(start)
    return f"{before}{start}{table}{end}{rest.partition(end)[2]}"


def outputs(found: list[Any], lines: list[Any]) -> dict[Path, str]:
    """What has to stand in which file."""
    page = between(README.read_text(encoding="utf-8"), "fits", FIT["table"](found))
    page = between(page, "published errors", PUBLISHED["markdown"](lines))
    files = {HERE / "compiled" / "published.csv": PUBLISHED["table"](lines), README: page}
    for one in found:
        path = PROFILES / f"{one.profile.name}.yaml"
        files[path] = profile_with(path.read_text(encoding="utf-8"), calibration(one))
    return files


def published(found: list[Any]) -> list[Any]:
    """The published values of TPU v4 under this calibration and under the others."""
    (own,) = [one for one in found if one.profile.name == PUBLISHED["CHIP"]]
    data = calibration(own)
    links = {"algorithm": "torus"}
    bare = [one if one["chips"] == 1 else {**one, "all_reduce": links} for one in data["parameters"]]
    lines: list[Any] = PUBLISHED["lines"](check(data), check({**data, "parameters": bare}))
    return lines


def main(arguments: list[str]) -> int:
    """Print, write or check."""
    found = [FIT["fitted"](name) for name in PRICED]
    for one in found:
        print(*FIT["report"](one), sep="\n")
    lines = published(found)
    print("", *PUBLISHED["report"](lines), sep="\n")
    if stale := settle(outputs(found, lines), arguments):
        print("not as fitted:", *stale)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
