"""`python -m runtime`: measure and probe where the planner is not installed.

    python -m runtime measure scenario.yaml [--set path=value] [--out measured.json]
    python -m runtime probe --devices 1,4 [--out probe.json]

Answers go to a file, or to stdout as JSON; progress to stderr. Exit code 2: a mistake in a file or option; 3: refused;
4: a measurement failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.children import say, write_answer
from simulator.errors import SpsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m runtime", description="measure scenarios with JAX")
    verbs = parser.add_subparsers(dest="verb", required=True)
    measured = verbs.add_parser("measure", help="run a scenario on this machine")
    measured.add_argument("scenario", type=Path)
    measured.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="settings")
    measured.add_argument("--target-weights", type=Path, metavar="DIR", help="a folder; random unless given")
    measured.add_argument("--draft-weights", type=Path, metavar="DIR", help="a folder; random unless given")
    measured.add_argument("--layers", choices=("unrolled", "scanned"), default="unrolled")
    measured.add_argument("--in-place", action="store_true", help="time the parts of a round inside it as well")
    measured.add_argument("--profile", type=Path, metavar="DIR", help="a trace by JAX's profiler")
    measured.add_argument("--out", type=Path)
    probed = verbs.add_parser("probe", help="micro-benchmarks of this machine")
    probed.add_argument("--devices", default="1", help="numbers of devices, such as 1,4")
    probed.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    probed.add_argument("--out", type=Path)
    child = verbs.add_parser("child")
    child.add_argument("request", type=Path)
    child.add_argument("answer", type=Path)
    options = parser.parse_args(arguments)
    try:
        return {"measure": _measure, "probe": _probe, "child": _child}[options.verb](options)
    except SpsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _measure(options: argparse.Namespace) -> int:
    from runtime.asked import Asked
    from runtime.executor import measure
    from runtime.weights import Weights
    from simulator.spec.load import load_scenario

    weights = Weights(options.target_weights, options.draft_weights)
    points = load_scenario(options.scenario, options.settings)
    weights.check_all([point.scenario for point in points])
    asked = Asked(weights, options.layers, options.in_place, options.profile)
    records = measure(points, _to_stderr, asked)
    _deliver({"records": [record.to_json() for record in records]}, options.out)
    return 0


def _probe(options: argparse.Namespace) -> int:
    from runtime.probes import probe

    try:
        counts = [int(word) for word in options.devices.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        sys.stderr.write(f"--devices {options.devices}\n    accepts  whole numbers of at least 1, such as 1,4\n")
        return 2
    records = probe(counts, _to_stderr, options.dtype)
    _deliver({"probes": [record.to_json() for record in records]}, options.out)
    return 0


def _child(options: argparse.Namespace) -> int:
    """What `runtime.children.run_child` starts. The devices are fixed before JAX starts."""
    request = json.loads(options.request.read_text(encoding="utf-8"))
    import jax

    jax.config.update("jax_num_cpu_devices", request["devices"])
    if request["task"] == "host":
        from runtime.host import describe_host

        answer: Any = describe_host().model_dump(mode="json", exclude_defaults=True)
    elif request["task"] == "compile":
        from runtime.aot.child import compile_here

        answer = compile_here(request)
    elif request["task"] == "probe":
        from runtime.probes import probe_here

        answer = [r.to_json() for r in probe_here(request, say)]
    else:
        from runtime.asked import Asked
        from runtime.executor import measure_here, points_from

        points, devices, asked = points_from(request["points"]), request["devices"], Asked.of(request["asked"])
        records, probes = measure_here(points, say, devices, request["probed"], asked)
        answer = {"records": [r.to_json() for r in records], "probes": [p.to_json() for p in probes]}
    write_answer(options.answer, answer)
    return 0


def _deliver(data: dict[str, Any], out: Path | None) -> None:
    if out is None:
        json.dump(data, sys.stdout, indent=1, sort_keys=True)
        sys.stdout.write("\n")
    else:
        write_answer(out, data)


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
