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
from simulator.spec.document import Document, PathKey, dotted, get_path
from simulator.spec.fields import OR_FILE
from simulator.spec.problems import closest, nearest
from simulator.spec.source import read

_HOME = Path(__file__).resolve().parent.parent.parent
PROFILES = _HOME / "hardware_profiles"
SCENARIOS = _HOME / "scenarios"
MODELS = SCENARIOS / "models"

REFERENCES: dict[PathKey, tuple[str, Path]] = {
    ("target",): ("model", MODELS),
    ("draft", "model"): ("model", MODELS),
    ("deployment", "hardware"): ("hardware profile", PROFILES),
}


def resolve(document: Document, folder: Path) -> tuple[list[Problem], set[str]]:
    """Replace every name of a model or profile in ``document`` by what its file says.

    A name is looked for beside the file that it stands in, which may be a base in another folder; one that comes
    from an option, beside the scenario, in ``folder``. Returns the problems met, and the dotted paths that could not
    be replaced.
    """
    problems: list[Problem] = []
    unresolved: set[str] = set()
    for path, (what, home) in REFERENCES.items():
        name = _name_at(document, path)
        if name is None:
            continue
        place = document.place(path)
        file = find(name, Path(place.file).parent if place.line else folder, home)
        if file is None:
            accepts = _wanted(name, what, names(home))
            found: Document | tuple[Problem, ...] = (place.problem(dotted(path), accepts),)
        else:
            found = _read_version(file, shown(file), file.stat().st_mtime_ns)
        if isinstance(found, Document):
            document.graft(path, found)
        else:
            problems += found
            unresolved.add(dotted(path))
    return problems, unresolved


def names(home: Path) -> list[str]:
    """What can be named: the stems of the YAML files in ``home``."""
    return sorted(file.stem for file in home.glob("*.yaml"))


def find(name: str, folder: Path, home: Path) -> Path | None:
    """The file that ``name`` stands for, or None."""
    if len(name) > 500 or "\0" in name:
        return None
    if name.endswith(".yaml"):
        candidates = [folder / name]
    elif os.sep in name:
        candidates = []
    else:
        candidates = [folder / f"{name}.yaml", folder / "models" / f"{name}.yaml", home / f"{name}.yaml"]
    return next((file for file in candidates if _is_file(file)), None)


def shown(file: Path) -> str:
    """A path as a person would type it: relative where that is shorter."""
    relative = os.path.relpath(file)
    return relative if len(relative) < len(str(file)) else str(file)


def read_mapping(path: Path, shown_as: str) -> Document:
    """Read a file that must hold keys.

    Raises:
        ConfigError: as :func:`simulator.spec.source.read`, and where the file holds a list, a value or nothing.
    """
    document = read(path, shown_as)
    if not isinstance(document.data, dict):
        place = document.place(())
        raise ConfigError((place.problem("", "a mapping of keys, such as 'name: my-first'", place.text),))
    return document


def _wanted(name: str, what: str, known: list[str]) -> str:
    guess = closest(Path(name).name.removesuffix(".yaml"), known) if name.endswith(".yaml") or os.sep in name else ""
    if not name.endswith(".yaml") and os.sep not in name:
        return f"the name of a {what}, {OR_FILE}{nearest(name, known)}"
    ending = "an existing file, relative to this one" if name.endswith(".yaml") else "a file whose name ends in .yaml"
    return ending + (f"; or did you mean the {what} '{guess}'?" if guess else "")


def _name_at(document: Document, path: PathKey) -> str | None:
    try:
        name = get_path(document.data, path)
    except KeyError:
        return None
    return name if isinstance(name, str) else None


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name too long for the file system
        return False


@functools.lru_cache(maxsize=256)
def _read_version(file: Path, name: str, _mtime_ns: int) -> Document | tuple[Problem, ...]:
    # A sweep asks for the same file at every point: what is wrong with it is remembered too.
    try:
        return read_mapping(file, name)
    except ConfigError as error:
        return error.problems
