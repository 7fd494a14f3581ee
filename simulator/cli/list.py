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
    from simulator.spec.model import ModelSpec

What = Annotated[Literal["hardware", "models", "scenarios", "designs"], typer.Argument(help="What to list.")]


For = Annotated[
    str | None,
    typer.Option("--for", metavar="TARGET", help="Only models that can draft for this one, and why."),
]


def list_known(what: What, target: For = None, as_json: AsJson = False) -> None:
    """List what the toolkit knows by name, a line each."""
    from simulator.spec import library

    if target is not None:
        _list_drafts(what, target, as_json)
        return
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
    _show(what, [(name, told(home / f"{name}.yaml")) for name in library.names(home)], as_json)


def _show(what: str, rows: list[tuple[str, str]], as_json: bool) -> None:
    if as_json:
        typer.echo(to_json({"records": [], what: [{"name": name, "told": words} for name, words in rows]}))
        return
    width = max((len(name) for name, _ in rows), default=0)
    for name, words in rows:
        typer.echo("\n".join(_wrapped(name.ljust(width), words)))


def _list_drafts(what: str, target: str, as_json: bool) -> None:
    """The models that can draft for ``target``, the largest first; on stderr what to do where there is none."""
    from simulator.errors import ConfigError, Problem
    from simulator.spec.named import find_all, known_models, may_draft

    if what != "models":
        raise ConfigError((Problem(f"--for {target}", 0, 0, "", "", f"only with `sps list models`, not {what}"),))
    (found,) = find_all([("--for", target, "model")], Path())
    drafts = [model for model in known_models() if may_draft(model.spec, found.spec)]
    drafts.sort(key=lambda draft: -draft.spec.parameters)
    if not drafts:
        tokens = found.spec.tokenizer or "the same, which its file does not name,"
        typer.echo(f"no model here drafts for {target}: none smaller has its tokenizer, {tokens}", err=True)
        typer.echo("next: sps import model CONFIG.json (any model), or a width and depth of your own", err=True)
    _show(what, [(draft.words, _as_draft(draft.spec, found.spec)) for draft in drafts], as_json)


def _as_draft(draft: ModelSpec, target: ModelSpec) -> str:
    from simulator.spec.named import is_subset

    share = f"{draft.parameters / 1e9:.3g} B, {100 * draft.parameters / target.parameters:.2g} % of the target"
    shape = f"{draft.layers} layer{'s' * (draft.layers != 1)}, width {draft.d_model:,}"
    if (reads := draft.hidden_states) is not None:
        how = "all tokens in one pass" if reads.proposes == "block" else "token by token"
        kind = f"head on its hidden states, {how}"
    else:
        kind = f"same tokenizer, {target.tokenizer}" if target.tokenizer else "same number of tokens"
    kept = f"; {draft.vocabulary:,} of {target.vocabulary:,} tokens: vocabulary_map: subset"
    return f"{share}; {shape}; {kind}{kept if is_subset(draft, target) else ''}"


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
