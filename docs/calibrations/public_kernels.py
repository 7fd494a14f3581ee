"""How the calibrations `vllm-...-kernels` of hardware_profiles/*.yaml were fitted, from tables of single kernels.

    python docs/calibrations/public_kernels.py            # prints the fits, their errors and what was left out
    python docs/calibrations/public_kernels.py --write    # writes the profiles and public/residuals.csv
    python docs/calibrations/public_kernels.py --check    # fails where what is written is not what comes out

The rows lie in public/*.csv, where they come from in public/sources.yaml. Of the all-reduces a third is held out, by
payload and number of GPUs; of the matrix multiplications every third shape; of attention every third call, of
prompts those with 64 heads.
"""

from __future__ import annotations

import csv
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from simulator.calibration import tables
from simulator.calibration.all_reduces import AllReduce, AllReduces, fit_all_reduces, tabulate_all_reduces
from simulator.calibration.kernels import (
    FIT,
    HELD_OUT,
    Attention,
    Chip,
    Gemm,
    fit_attention,
    fit_matmuls,
    relative_fit,
    spread,
)
from simulator.cost.topology import links_of
from simulator.files import settle
from simulator.spec.hardware import HardwareProfile
from simulator.spec.library import PROFILES
from simulator.units import parse_quantity
from simulator.validation.machine import read_profile

HERE = Path(__file__).resolve().parent
PUBLIC = HERE / "public"
SCRIPT = "docs/calibrations/public_kernels.py"
START, END = f"  # Written by {SCRIPT}, from here", "  # to here."
BYTES = {"bfloat16": 2.0, "fp8": 1.0}
COPIES = 6
"""Weights that the benchmark of matrix multiplications uses in turn."""
ARITHMETIC = (512, 1024, 2048, 4096, 8192)
"""Lengths of prompts from which attention's rate of arithmetic is learnt."""
LAYER = {"qkv_proj": (4096, 6144), "o_proj": (4096, 4096), "gate_up_proj": (4096, 28672), "down_proj": (14336, 4096)}
"""Matrices of Llama-3.1-8B, whose layers were timed on the RTX 4090, as columns contracted and put out."""
HEAD, VOCABULARY = (4096, 128256), 128256
KNOTS = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512)
"""Counts of tokens that the RTX 4090 is fitted on; its passes of all others are predicted."""
CHUNKS = (16, 32, 64)


@dataclass(frozen=True)
class Fitted:
    """One calibration and every row behind it."""

    profile: HardwareProfile
    name: str
    data: dict[str, Any]
    dtype: str
    kernels: tables.Kernels
    tabulated: AllReduces | None


def rows_of(table: str, **keys: str) -> list[dict[str, str]]:
    """The rows of a table whose columns have these values."""
    with (PUBLIC / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in keys.items())]


def sources() -> dict[str, Any]:
    """What public/sources.yaml says."""
    return dict(yaml.safe_load((PUBLIC / "sources.yaml").read_text(encoding="utf-8")))


def fits() -> Iterator[Fitted]:
    """Every calibration, in the order of public/sources.yaml."""
    known = sources()
    for entry in known["calibrations"]:
        yield _fit(entry, known)


def _fit(entry: dict[str, Any], known: dict[str, Any]) -> Fitted:
    profile, dtype = read_profile(entry["profile"]), entry["dtype"]
    peaks = profile.peaks
    cache = parse_quantity(entry["cache"], "B")
    chip = Chip(peaks.hbm_bandwidth.value_bytes_per_s, peaks.matmul[dtype].value_flop_per_s, cache)
    # The cache and the scores are in bfloat16 whatever the weights are; a rate is relative to the weights' peak.
    if "all_reduce" in entry:
        gemms, held = _gemms(entry, dtype)
        matmuls, small = fit_matmuls(gemms, held, chip), _assumed(known["small_kernels"])
        arithmetic, source = ARITHMETIC, "aiconfigurator"
    else:
        gemms = _layers(entry, KNOTS)
        matmuls, small = fit_matmuls(gemms, [False] * len(gemms), chip), _measured(entry)
        arithmetic, source = CHUNKS, "llmservingsim"
    calls = _calls(entry)
    cached = fit_attention(calls, _held_calls(calls, arithmetic), chip, arithmetic)
    reduces, tabulated = _all_reduces(entry, profile)
    origin = known["sources"][source]
    words = f"{origin['repository']} at {origin['commit'][:8]} ({origin['licence']}), times of {entry['engine']}"
    words += "; rows in docs/calibrations/public"
    about = tables.Source(entry["engine"], dtype, words, str(known["date"]), SCRIPT)
    kernels = tables.Kernels(matmuls, cached, small, _sampling(), reduces)
    data = tables.calibration(about, kernels, _validity(gemms, calls, reduces))
    return Fitted(profile, entry["name"], data, dtype, kernels, tabulated)


def _gemms(entry: dict[str, Any], dtype: str) -> tuple[list[Gemm], list[bool]]:
    gemms = [
        Gemm(int(row["rows"]), int(row["contract"]), int(row["out"]), BYTES[dtype], _s(row["time_us"]), COPIES)
        for row in rows_of("gemm", chip=entry["profile"], engine=entry["engine"], dtype=dtype)
    ]
    shapes = sorted({(gemm.weight_bytes, gemm.contract) for gemm in gemms})
    return gemms, [shapes.index((gemm.weight_bytes, gemm.contract)) % 3 == 1 for gemm in gemms]


def _layers(entry: dict[str, Any], counts: tuple[int, ...]) -> list[Gemm]:
    shapes = LAYER | {"lm_head": HEAD}
    # Between two uses of a matrix all the others of the pass are read: no cache holds it.
    return [
        Gemm(int(row["rows"]), *shapes[row["layer"]], BYTES["bfloat16"], _s(row["time_us"]), copies=16)
        for row in rows_of("layers", chip=entry["profile"])
        if row["layer"] in shapes and int(row["rows"]) in counts
    ]


def _calls(entry: dict[str, Any]) -> list[Attention]:
    keys = ("heads", "kv_heads", "head_dim", "batch", "tokens", "positions")
    found = rows_of("attention", chip=entry["profile"], engine=entry["engine"])
    return [Attention(*(int(row[key]) for key in keys), _s(row["time_us"])) for row in found]


def _held_calls(calls: list[Attention], arithmetic: tuple[int, ...]) -> list[bool]:
    """Every third call; of prompts those with more heads, so that every length is seen."""
    most = max(call.heads for call in calls)
    prompts = arithmetic == ARITHMETIC
    return [call.heads == most if prompts and call.tokens > 1 else index % 3 == 2 for index, call in enumerate(calls)]


def _all_reduces(entry: dict[str, Any], profile: HardwareProfile) -> tuple[AllReduces | None, AllReduces | None]:
    rows = [
        AllReduce(int(row["chips"]), float(row["payload_bytes"]), _s(row["time_us"]))
        for row in rows_of("all_reduce", chip=entry["profile"])
    ]
    if not rows:
        return None, None
    ranges = {
        chips: [(parse_quantity(start, "B"), algorithm) for start, algorithm in known]
        for chips, known in entry["all_reduce"].items()
    }
    links = {chips: links_of(profile, None, chips) for chips in ranges}
    return fit_all_reduces(rows, ranges, links), tabulate_all_reduces(rows, links)


def _assumed(known: dict[str, Any]) -> tables.SmallKernels:
    each = parse_quantity(known["time"], "s")
    words = f"{known['in_a_layer']} small kernels of {known['time']}: {known['source']}"
    return tables.SmallKernels(known["in_a_layer"] * each, known["in_a_step"] * each, words)


def _measured(entry: dict[str, Any]) -> tables.SmallKernels:
    one = {row["layer"]: _s(row["time_us"]) for row in rows_of("layers", chip=entry["profile"], rows="2")}
    layer = 2 * one["layernorm"] + one["rotary_emb"] + one["act_fn"]
    words = f"two norms, rotary positions and the activation, {layer * 1e6:.3g} us as measured with 2 tokens"
    return tables.SmallKernels(layer, one["embedding"] + one["final_layernorm"], words)


def _sampling() -> tables.Sampling:
    rows = [row for row in rows_of("layers", layer="sampler") if int(row["rows"]) <= max(CHUNKS)]
    matrix = np.array([[1.0, int(row["rows"]) * VOCABULARY] for row in rows])
    base, each = relative_fit(matrix, np.array([_s(row["time_us"]) for row in rows])).values
    words = "a token is drawn as by vLLM 0.19.0 on an RTX 4090 (LLMServingSim, layer sampler, up to 64 sequences)"
    return tables.Sampling(float(base), float(each), words)


def _validity(gemms: list[Gemm], calls: list[Attention], reduces: AllReduces | None) -> dict[str, tuple[float, float]]:
    found = {
        "rows": (1.0, float(max(gemm.rows for gemm in gemms))),
        "width": (
            float(min(min(gemm.contract, gemm.out) for gemm in gemms)),
            float(max(gemm.contract for gemm in gemms)),
        ),
        "positions": (0.0, float(max(call.positions + call.tokens for call in calls))),
        "chips": (1.0, 1.0),
    }
    if reduces is not None:
        found["chips"] = (1.0, float(max(reduces.costs)))
    return found


def _s(microseconds: str) -> float:
    return float(microseconds) * 1e-6


class _Dumper(yaml.SafeDumper):
    """Mappings of a few plain values in one line, everything else by line, nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _mapping(dumper: _Dumper, data: dict[str, Any]) -> yaml.MappingNode:
    plain = len(data) <= 3 and not any(isinstance(value, dict | list) for value in data.values())
    return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=plain)


_Dumper.add_representer(dict, _mapping)


def block(found: list[Fitted]) -> str:
    """The calibrations of one profile as YAML, between the two marks."""
    data = {name: tables.joined(parts) for name, parts in by_name(found).items()}
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=116, allow_unicode=True)
    return "\n".join([START, *(f"  {line}".rstrip() for line in text.splitlines()), END]) + "\n"


def by_name(found: list[Fitted]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The fits of one profile by the name of their calibration, each with its type of operands."""
    names = dict.fromkeys(one.name for one in found)
    return {name: [(one.dtype, one.data) for one in found if one.name == name] for name in names}


def profile_with(text: str, written: str) -> str:
    """A profile's text with the calibrations between the marks replaced, or put at its end."""
    if START in text:
        before, _, rest = text.partition(START)
        return before + written + rest.partition(END + "\n")[2]
    return text.rstrip("\n") + ("\n" if "\ncalibrations:" in text else "\ncalibrations:\n") + written


def residuals(found: list[Fitted]) -> str:
    """Every row and by how much its calibration's prediction is off; those that types share stand once."""
    lines: dict[str, None] = {"chip,dtype,table,row,role,error": None}
    for one in found:
        tabled = zip(("gemm", "attention", "all_reduce"), one.kernels.rows.values(), strict=False)
        for table, rows in tabled:
            dtype = one.dtype if rows is one.kernels.matmuls.rows else "bfloat16"
            about = f"{one.profile.name},{dtype},{table}"
            lines |= {f"{about},{row.key.replace(',', '')},{row.role},{row.error:+.3f}": None for row in rows}
    return "\n".join(lines) + "\n"


def outputs(found: list[Fitted]) -> dict[Path, str]:
    """What has to stand in which file."""
    files = {PUBLIC / "residuals.csv": residuals(found)}
    for name in dict.fromkeys(one.profile.name for one in found):
        path = PROFILES / f"{name}.yaml"
        own = [one for one in found if one.profile.name == name]
        files[path] = profile_with(path.read_text(encoding="utf-8"), block(own))
    return files


def report(one: Fitted) -> Iterator[str]:
    """The fit of one calibration in a few lines."""
    matmuls, cached = one.kernels.matmuls, one.kernels.cached
    errors = matmuls.standard_errors | {f"kv_{name}": value for name, value in cached.standard_errors.items()}
    yield f"{one.profile.name} {one.name}, {one.dtype}"
    yield (
        f"  matrix multiplications {matmuls.kernel_s * 1e6:.2f} +- {errors['kernel'] * 1e6:.2f} us, memory "
        f"{matmuls.hbm_efficiency:.3f}; attention {cached.kernel_s * 1e6:.2f} +- {errors['kv_kernel'] * 1e6:.2f} us, "
        f"memory {cached.kv_efficiency:.3f}; layer {one.data['parameters'][0]['layer_overhead']}"
    )
    tabled: dict[str, Any] = dict(one.kernels.rows)
    if one.kernels.all_reduces and one.tabulated:
        tabled["all-reduces, 1 MiB or less"] = tables.small_messages(one.kernels.all_reduces)
        tabled["all-reduces by table"] = one.tabulated.rows
        tabled["all-reduces by table, 1 MiB or less"] = tables.small_messages(one.tabulated)
    for name, rows in tabled.items():
        for role in (FIT, HELD_OUT):
            seen = spread(rows, role)
            if seen["count"]:
                shown = "  ".join(f"{key} {value:6.1%}" for key, value in seen.items() if key != "count")
                yield f"  {name:36s} {role:9s} {seen['count']:4.0f} rows  {shown}"
        for why, count in tables.left_out(rows).items():
            yield f"  {name:36s} left out {count:4d} rows: {why}"


def _checks(found: list[Fitted]) -> Iterator[str]:
    """Whole passes that no fit has seen, under what is written in the profiles."""
    on_card = next(one for one in found if one.profile.name == "rtx_4090")
    lines: Iterator[str] = runpy.run_path(str(HERE / "public_checks.py"))["report"](on_card.kernels.cached.kernel_s)
    return lines


def main(arguments: list[str]) -> int:
    """Print, write or check."""
    found = list(fits())
    for one in found:
        tables.check(one.data)
        print(*report(one), sep="\n")
    print(*_checks(found), sep="\n")
    if stale := settle(outputs(found), arguments):
        print("not as fitted:", *stale)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
