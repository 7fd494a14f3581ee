"""Inside the child: the one place that loads libtpu."""

from __future__ import annotations

import gzip
import re
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from runtime.aot.compiled import Compiled, Memory
from runtime.aot.programs import shaped
from runtime.aot.recipe import Recipe
from runtime.aot.topologies import Topology, topology
from runtime.children import say
from simulator.errors import MeasurementError, RefusedError

_USED = re.compile(r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) hbm")
_EXCEEDS = re.compile(r"\(([\d.]+)([KMGT]?)\) exceeds available HBM \(([\d.]+)([KMGT]?)\)")
_GIB = {"": 2.0**-30, "K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}
_LINES = 12
"""Lines of the compiler's error that are passed on."""


def compile_here(request: dict[str, Any]) -> dict[str, Any]:
    """Compile one recipe; the text goes to ``request["hlo"]``, the answer is a ``Compiled`` as plain data.

    Raises:
        RefusedError: the compiler knows no such slice, or no such option.
        MeasurementError: it failed.
    """
    recipe = Recipe.of(request["recipe"])
    where = topology(recipe.topology)
    devices = _devices(where)
    say(f"tracing {recipe.program}")
    started = time.monotonic()
    program = shaped(recipe, devices)
    lowered = program.lower()
    traced = time.monotonic()
    say(f"compiling {recipe.program} for {recipe.topology} ({recipe.variant.words})")
    memory, hlo = None, ""
    sizes: tuple[float | None, float | None] = None, None
    try:
        compiled = lowered.compile(compiler_options=dict(recipe.variant.options))
    except jax.errors.JaxRuntimeError as error:
        sizes = _sizes(str(error))
    else:
        memory = _memory(compiled)
        hlo = _write(Path(request["hlo"]), _text(lowered, compiled, recipe.variant.options))
    return Compiled(
        program=recipe.program,
        topology=recipe.topology,
        devices=len(devices),
        variant=recipe.variant,
        state="ok" if memory is not None else "does_not_fit",
        hlo=hlo,
        memory=memory,
        argument_parts=program.parts,
        needed_gib=sizes[0],
        available_gib=sizes[1],
        lower_s=traced - started,
        compile_s=time.monotonic() - traced,
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        versions=request["versions"],
    ).to_json()


def _text(lowered: jax.stages.Lowered, compiled: jax.stages.Compiled, options: Mapping[str, str | bool]) -> str:
    """The scheduled program.

    That of a TPU7x cannot be read back (libtpu 0.0.52: "async-update instruction should have 1 operands but sees 2"):
    then it is compiled again, and read from where the compiler writes down what it made.
    """
    try:
        return str(compiled.as_text())
    except jax.errors.JaxRuntimeError as error:
        with tempfile.TemporaryDirectory(prefix="sps-") as folder:
            say("compiling once more, for the text")
            lowered.compile(compiler_options={**options, "xla_dump_to": folder})
            files = list(Path(folder).glob("*.after_codegen.txt"))
            if not files:
                raise MeasurementError(f"the program cannot be read\n    {_first(error)}") from error
            return max(files, key=lambda file: file.stat().st_size).read_text(encoding="utf-8")


def _devices(where: Topology) -> list[Any]:
    """The devices of a slice that is not there."""
    config = {} if where.generation.chip_config is None else {"chip_config_name": where.generation.chip_config}
    try:
        found = topologies.get_topology_desc(platform="tpu", topology_name=where.name, **config).devices
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise RefusedError(f"topology {where.name}: the compiler knows no such slice\n    {_first(error)}") from error
    if len(found) != where.devices:
        raise MeasurementError(f"topology {where.name} has {len(found)} devices where {where.devices} were expected")
    return list(found)


def _sizes(words: str) -> tuple[float, float]:
    """What a program needs and what a device has, in GiB, from the compiler's error.

    Raises:
        RefusedError: the error says that an option is unknown.
        MeasurementError: it is about something else than memory.
    """
    for pattern in (_USED, _EXCEEDS):
        if "RESOURCE_EXHAUSTED" in words and (found := pattern.search(words)):
            needed, unit, available, other = found.groups()
            return float(needed) * _GIB[unit], float(available) * _GIB[other]
    if "No such compile option" in words:
        raise RefusedError(_first(words))
    raise MeasurementError(f"the compiler failed\n    {_first(words)}")


def _memory(compiled: jax.stages.Compiled) -> Memory:
    analysis: Any = compiled.memory_analysis()
    return Memory(
        arguments=int(analysis.argument_size_in_bytes),
        outputs=int(analysis.output_size_in_bytes),
        aliased=int(analysis.alias_size_in_bytes),
        temporaries=int(analysis.temp_size_in_bytes),
        code=int(analysis.generated_code_size_in_bytes),
    )


def _write(path: Path, text: str) -> str:
    """Whole or not at all; the same bytes for the same text."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0))
    unfinished.replace(path)
    return path.name


def _first(words: object) -> str:
    return "\n    ".join(str(words).strip().splitlines()[:_LINES])
