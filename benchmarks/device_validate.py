"""Probe, fit and validate on whatever JAX finds, with the runtime's dependencies alone: no terminal library, no plots.

    python benchmarks/device_validate.py [--quick] [--keep docs/validation] [--hardware h200_sxm]

`make device-validate` runs it. Records go to a folder named for the device: times, outcome, and a profile that
scenarios can name. What an interrupted run has finished is kept beside them and not measured again. Exit code 1 where
the verdict is bad. `sps validate device` does the same with tables and figures.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from runtime.executor import host_in_child
from runtime.probes import measure_design
from simulator.errors import SpsError
from simulator.validation.judged import judged, keep
from simulator.validation.machine import design_for, profile_for


def main() -> int:
    """Measure, judge, keep, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="fewer shapes, on a processor")
    parser.add_argument("--keep", type=Path, default=Path("out"), help="where the device's folder of records goes")
    parser.add_argument("--hardware", help="the profile of this machine, where it is not known")
    parser.add_argument("--design", type=Path, help="what to measure; the toolkit's own unless given")
    asked = parser.parse_args()
    started = time.perf_counter()
    try:
        here = host_in_child()
        design, profile = design_for(here.platform, asked.design, quick=asked.quick), profile_for(here, asked.hardware)
        folder = asked.keep / _name(f"{here.device} {here.processor}" if here.platform == "cpu" else here.device)
        print(f"{here.device}, {len(design.points())} shapes; records go to {folder}", flush=True)
        records = measure_design(design, Path("out") / "device_validate" / folder.name, _say)
        outcome, known = judged(records, design, profile, None)
        keep(folder, outcome, known, records)
    except SpsError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for criterion in outcome.checked:
        bound = f"{criterion.low:.2f} to {criterion.high:.2f}"
        print(f"{criterion.name:55s} n {criterion.count:4d}  {criterion.value:.3f}  asked {bound}  {criterion.met}")
    for summary in outcome.summaries():
        print(
            f"{summary.quantity:25s} {summary.where:14s} n {summary.count:4d}  bias {summary.bias:+.3f}  "
            f"median {summary.median:.3f}  90th {summary.ninetieth:.3f}  covered {summary.covered:.2f}"
        )
    print(f"{outcome.verdict.upper()} after {time.perf_counter() - started:.0f} s")
    return 0 if outcome.passed else 1


def _say(text: str) -> None:
    if "visit 1:" in text or "compiling 1/" in text or "finished" in text:
        print(text, flush=True)


def _name(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


if __name__ == "__main__":
    sys.exit(main())
