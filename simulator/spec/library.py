"""Names -> files: the models and hardware profiles that come with the toolkit, and the planner's own.

`target: chinchilla-70b` is looked for beside the scenario, then in its `models/` folder, then in the toolkit's
`scenarios/models`; `hardware: tpu_v4` beside the scenario, then in the toolkit's `hardware_profiles`. A value that
ends in .yaml is a path relative to the scenario.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from simulator.errors import ConfigError, Problem
from simulator.spec.problems import dotted, nearest
from simulator.spec.source import Document, PathKey, get_path, read

_HOME = Path(__file__).resolve().parent.parent.parent
PROFILES = _HOME / "hardware_profiles"
SCENARIOS = _HOME / "scenarios"
MODELS = SCENARIOS / "models"

REFERENCES: dict[PathKey, tuple[str, Path]] = {
    ("target",): ("model", MODELS),
    ("draft", "model"): ("model", MODELS),
    ("deployment", "hardware"): ("hardware profile", PROFILES),
}


def resolve(document: Document, folder: Path) -> list[Problem]:
    """Replace every name of a model or profile in ``document`` by what its file says; the problems met."""
    problems: list[Problem] = []
    for path, (what, home) in REFERENCES.items():
        try:
            name = get_path(document.data, path)
        except KeyError:
            continue
        if not isinstance(name, str):
            continue
        file = find(name, folder, home)
        if file is None:
            place = document.place(path)
            accepts = f"the {what} itself, a .yaml file, or a name{nearest(name, names(home))}"
            problems.append(Problem(place.file, place.line, place.column, dotted(path), place.text, accepts))
            continue
        try:
            document.graft(path, _read(file))
        except ConfigError as error:
            problems += error.problems
    return problems


def names(home: Path) -> list[str]:
    """What can be named: the stems of the YAML files in ``home``."""
    return sorted(file.stem for file in home.glob("*.yaml"))


def find(name: str, folder: Path, home: Path) -> Path | None:
    """The file that ``name`` stands for, or None."""
    if len(name) > 200 or "\0" in name:
        return None
    if name.endswith(".yaml"):
        candidates = [folder / name]
    elif os.sep in name:
        candidates = []
    else:
        candidates = [folder / f"{name}.yaml", folder / "models" / f"{name}.yaml", home / f"{name}.yaml"]
    return next((file for file in candidates if file.is_file()), None)


def shown(file: Path) -> str:
    """A path as a person would type it: relative where that is shorter."""
    relative = os.path.relpath(file)
    return relative if len(relative) < len(str(file)) else str(file)


def _read(file: Path) -> Document:
    return _read_version(file, file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _read_version(file: Path, _mtime_ns: int) -> Document:
    return read(file, shown(file))
