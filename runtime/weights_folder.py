"""A folder of weights as Hugging Face lays it out: `model.safetensors`, or an index and the files that it names.

Nothing outside the folder is opened, whatever an index or a link says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.llama import config_problems, shapes_of
from runtime.safetensors import Array, TensorFile, read_json, shown
from simulator.errors import ConfigError, Problem
from simulator.spec.model import ModelSpec

SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
MAX_JSON_BYTES = 100_000_000

_BUFFER = re.compile(r"(?:.*\.)?rotary_emb\.inv_freq")
"""Frequencies that old versions stored beside the weights; they follow from the configuration."""

_INSIDE = "a file inside the folder; `cp -rL` turns links, as in a Hugging Face cache, into files"


@dataclass(frozen=True)
class WeightsFolder:
    """The tensors of a model, all of them there and of the right shape."""

    path: Path
    files: Mapping[str, TensorFile]
    """The file that holds each tensor."""

    @classmethod
    def open(cls, path: Path, spec: ModelSpec) -> WeightsFolder:
        """Open every file of the folder ``path``, and see whether it holds the weights of ``spec``.

        Raises:
            ConfigError: everything that is wrong with it.
        """
        if not path.is_dir():
            raise ConfigError((Problem(str(path), 0, 0, "", "", "a folder that exists"),))
        problems: list[Problem] = []
        problems += _of_config(path, spec)
        try:
            expected = _expected(path, problems)
        except ConfigError as error:
            raise ConfigError((*problems, *error.problems)) from None
        files: dict[str, TensorFile] = {}
        told: set[str] = set()
        for file, names in expected.items():
            try:
                opened = TensorFile.open(_inside(path, file))
            except ConfigError as error:
                problems += error.problems
                told |= names or set()
            else:
                problems += _misfiled(opened, names)
                files |= dict.fromkeys(opened.entries, opened)
                told |= (names or set()) - set(opened.entries)
        if files or not problems:
            problems += _of_tensors(path, files, told, spec)
        if problems:
            raise ConfigError(tuple(problems))
        return cls(path, files)

    def __getitem__(self, name: str) -> Array:
        """A tensor, mapped from its file."""
        return self.files[name][name]

    def forget(self) -> None:
        """Keep nothing in memory of what was read; it can be read again."""
        for file in set(self.files.values()):
            file.forget()


def _expected(path: Path, problems: list[Problem]) -> dict[str, set[str] | None]:
    """The files of the folder, and the tensors that the index puts into each; None where there is no index."""
    single, index = path / SINGLE, path / INDEX
    if single.exists() and index.exists():
        raise ConfigError((Problem(str(path), 0, 0, "", f"{SINGLE} and {INDEX}", "one of the two"),))
    if not index.exists():
        if not single.exists():
            raise ConfigError((Problem(str(path), 0, 0, "", "", f"a folder with {SINGLE} or {INDEX}"),))
        return {SINGLE: None}
    places = _json(path, INDEX).get("weight_map")
    if not isinstance(places, dict):
        accepts = "a mapping from tensors to files"
        raise ConfigError((Problem(str(index), 0, 0, "weight_map", shown(places), accepts),))
    found: dict[str, set[str]] = {}
    for name, file in places.items():
        if isinstance(file, str):
            found.setdefault(file, set()).add(name)
        else:
            problems.append(Problem(str(index), 0, 0, name, shown(file), "the name of a file"))
    return {**found}


def _inside(folder: Path, name: str) -> Path:
    """The file ``name`` of the folder.

    Raises:
        ConfigError: it leaves the folder, or is no file.
    """
    file = folder / name
    try:
        inside = not Path(name).is_absolute() and file.resolve().is_relative_to(folder.resolve())
        there = inside and file.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, links in a circle
        inside = there = False
    if not inside or ".." in Path(name).parts:
        raise ConfigError((Problem(str(folder), 0, 0, name, "a name that leaves the folder", _INSIDE),))
    if not there:
        raise ConfigError((Problem(str(folder), 0, 0, name, "no such file", "every file of the index"),))
    return file


def _json(folder: Path, name: str) -> dict[str, Any]:
    path = _inside(folder, name)
    try:
        size = path.stat().st_size
        text = path.read_bytes() if size <= MAX_JSON_BYTES else b""
    except OSError as error:
        raise ConfigError((Problem(str(path), 0, 0, "", error.strerror or "", "a file that can be read"),)) from None
    if size > MAX_JSON_BYTES:
        raise ConfigError((Problem(str(path), 0, 0, "", f"{size:,} bytes", f"at most {MAX_JSON_BYTES:,} bytes"),))
    return read_json(text, path, "a JSON object")


def _of_config(path: Path, spec: ModelSpec) -> tuple[Problem, ...]:
    """What the folder's configuration says otherwise than ``spec``; nothing where there is none."""
    if not (path / CONFIG).exists():
        return ()
    try:
        return tuple(config_problems(spec, _json(path, CONFIG), path / CONFIG))
    except ConfigError as error:
        return error.problems


def _misfiled(file: TensorFile, names: set[str] | None) -> Iterator[Problem]:
    """Tensors that the index puts into another file, or that this one lacks."""
    if names is None:
        return
    for name in sorted(names - set(file.entries)):
        yield Problem(str(file.path), 0, 0, name, "no such tensor", "every tensor that the index puts here")
    for name in sorted(set(file.entries) - names):
        if not _BUFFER.fullmatch(name):
            yield Problem(str(file.path), 0, 0, name, "a tensor that the index does not put here", "its tensors alone")


def _of_tensors(path: Path, files: Mapping[str, TensorFile], told: set[str], spec: ModelSpec) -> Iterator[Problem]:
    """Tensors that are missing and not ``told`` to be, of another shape, or not of this model."""
    wanted = shapes_of(spec)
    for name, shape in wanted.items():
        if name not in files:
            if name not in told:
                yield Problem(str(path), 0, 0, name, "no such tensor", f"a tensor of shape {list(shape)}")
        elif files[name].entries[name].shape != shape:
            found = f"shape {list(files[name].entries[name].shape)}"
            yield Problem(str(files[name].path), 0, 0, name, found, f"shape {list(shape)}, as {spec.name} has it")
    for name in sorted(set(files) - set(wanted)):
        if not _BUFFER.fullmatch(name):
            yield Problem(str(files[name].path), 0, 0, name, "a tensor", f"no such tensor in {spec.name}")
