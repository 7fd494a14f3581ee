"""sps list: the chips, models, scenarios and designs that the toolkit knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from simulator.cli.files import to_json
from simulator.cli.options import AsJson

What = Annotated[Literal["hardware", "models", "scenarios", "designs"], typer.Argument(help="What to list.")]


def list_known(what: What, as_json: AsJson = False) -> None:
    """List what the toolkit knows by name, a line each."""
    from simulator.spec import library

    homes: dict[str, tuple[Path, Callable[[Path], str]]] = {
        "hardware": (library.PROFILES, _hardware),
        "models": (library.MODELS, _model),
        "scenarios": (library.SCENARIOS, _scenario),
        "designs": (library.SCENARIOS / "designs", _design),
    }
    home, told = homes[what]
    rows = [(name, told(home / f"{name}.yaml")) for name in library.names(home)]
    if as_json:
        typer.echo(to_json({"records": [], what: [{"name": name, "told": words} for name, words in rows]}))
        return
    width = max(len(name) for name, _ in rows)
    for name, words in rows:
        typer.echo("\n".join(_wrapped(name.ljust(width), words)))


def _hardware(file: Path) -> str:
    from simulator.spec.hardware import HardwareProfile
    from simulator.spec.source import read

    profile = HardwareProfile.model_validate(read(file).data)
    rates = ", ".join(f"{kind} {rate.value_flop_per_s / 1e12:g} TFLOP/s" for kind, rate in profile.peaks.matmul.items())
    memory = profile.peaks.hbm_capacity.value_bytes / 2**30
    bandwidth = profile.peaks.hbm_bandwidth.value_bytes_per_s / 1e9
    known = ", ".join(profile.calibrations) or "none"
    return f"{rates}; {memory:.0f} GiB at {bandwidth:,.0f} GB/s; {profile.topology.kind}; calibrations: {known}"


def _model(file: Path) -> str:
    from simulator.spec.model import ModelSpec
    from simulator.spec.source import read

    model = ModelSpec.model_validate(read(file).data)
    shape = f"{model.layers} layers, width {model.d_model:,}, {model.heads} heads, vocabulary {model.vocabulary:,}"
    return f"{model.parameters / 1e9:.3g} B {model.weight_dtype}; {shape}"


def _design(file: Path) -> str:
    from simulator.spec.design import load_design

    design = load_design(file)
    tested = sum(point.role == "test" for point in design.points())
    return f"{len(design.points())} shapes, {tested} of them held out; {design.description}"


def _scenario(file: Path) -> str:
    from simulator.spec.load import load_scenario

    points = load_scenario(file)
    return f"{points[0].scenario.description} ({len(points)} point{'s' * (len(points) != 1)})"


def _wrapped(name: str, words: str) -> Iterator[str]:
    import textwrap

    lines = textwrap.wrap(words, 100 - len(name) - 2)
    for index, line in enumerate(lines):
        yield f"{name if index == 0 else ' ' * len(name)}  {line}"
