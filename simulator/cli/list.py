"""sps list: the chips, models, scenarios and designs that the toolkit knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simulator.cli.files import to_json
from simulator.cli.options import AsJson

if TYPE_CHECKING:
    from simulator.spec.hardware import HardwareProfile

What = Annotated[Literal["hardware", "models", "scenarios", "designs"], typer.Argument(help="What to list.")]


def list_known(what: What, as_json: AsJson = False) -> None:
    """List what the toolkit knows by name, a line each."""
    from simulator.spec import library

    if what == "hardware" and not as_json:
        typer.echo("\n".join(_chips(library.PROFILES)))
        return
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


def _chips(home: Path) -> Iterator[str]:
    """A table of the chips; a list of calibrations that is too long goes on in the lines below."""
    import textwrap

    from simulator.spec.library import names

    profiles = {name: _profile(home / f"{name}.yaml") for name in names(home)}
    rows = [("chip", "bf16", "HBM", "link, one way", "price"), *(_cells(name, p) for name, p in profiles.items())]
    sizes = [max(len(row[index]) for row in rows) for index in range(5)]
    known = ["calibrations", *(", ".join(p.calibrations) or "none" for p in profiles.values())]
    for row, calibrations in zip(rows, known, strict=True):
        line = "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True))
        first, *more = textwrap.wrap(calibrations, 98 - len(line), break_on_hyphens=False)
        yield f"{line}  {first}".rstrip()
        yield from (f"{' ' * len(line)}  {words}" for words in more)


def _cells(name: str, profile: HardwareProfile) -> tuple[str, ...]:
    peaks, topology = profile.peaks, profile.topology
    rate = peaks.matmul["bfloat16"].value_flop_per_s / 1e12 if "bfloat16" in peaks.matmul else None
    capacity = peaks.hbm_capacity.value_bytes
    size = f"{capacity / 2**30:.0f} GiB" if capacity % 2**30 == 0 else f"{capacity / 1e9:.0f} GB"
    link = f"{topology.link_bandwidth.value_bytes_per_s / 1e9:g} GB/s" if topology.kind != "shared_memory" else ""
    way = {
        "torus": f"{topology.axes}-D torus, " if topology.kind == "torus" else "",
        "switch": "switch, ",
        "mesh": "mesh, ",
        "pcie": "PCIe, ",
        "shared_memory": "shared memory",
    }
    return (
        name,
        f"{rate:,.0f} TF/s" if rate is not None else "",
        f"{size} {peaks.hbm_bandwidth.value_bytes_per_s / 1e9:,.0f} GB/s",
        f"{way[topology.kind]}{link}",
        f"{profile.price.value_usd_per_h:.2f} USD/h" if profile.price is not None else "",
    )


def _profile(file: Path) -> HardwareProfile:
    from simulator.spec.hardware import HardwareProfile
    from simulator.spec.source import read

    return HardwareProfile.model_validate(read(file).data)


def _hardware(file: Path) -> str:
    profile = _profile(file)
    rates = ", ".join(f"{kind} {rate.value_flop_per_s / 1e12:g} TFLOP/s" for kind, rate in profile.peaks.matmul.items())
    memory = profile.peaks.hbm_capacity.value_bytes / 2**30
    bandwidth = profile.peaks.hbm_bandwidth.value_bytes_per_s / 1e9
    known = ", ".join(profile.calibrations) or "none"
    price = f"{profile.price.value_usd_per_h:g} USD/h; " if profile.price is not None else ""
    told = f"{rates}; {memory:.0f} GiB at {bandwidth:,.0f} GB/s; {profile.topology.kind}"
    return f"{told}; {price}calibrations: {known}"


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
