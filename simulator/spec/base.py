"""`base: other.yaml`: a scenario that states only what differs from another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.errors import ConfigError
from simulator.spec import library
from simulator.spec.document import Document, PathKey, copy_data, get_path


def lay_under(document: Document, path: Path) -> None:
    """Take `base` out of ``document``, read from ``path``, and put the keys of that file under its own.

    Mappings are merged key by key, but one that names its `kind`, and a `sweep`, stand alone. Every value keeps the
    place that it has in its own file, and names of files are relative to the file that they stand in.

    Raises:
        ConfigError: there is no such file, it is not YAML, or it has a base of its own.
    """
    if "base" not in document.data:
        return
    name, place = document.data.pop("base"), document.place(("base",))
    document.forget(("base",))
    if not isinstance(name, str) or not name.endswith(".yaml"):
        raise ConfigError((place.problem("base", "the file of another scenario, such as other.yaml"),))
    file = library.find(name, path.parent, library.SCENARIOS)
    if file is None:
        raise ConfigError((place.problem("base", "an existing .yaml file, relative to this one"),))
    base = library.read_mapping(file, library.shown(file))
    if "base" in base.data:
        accepts = f"no base here: {place.file} is based on this file, and one level is all there is"
        raise ConfigError((base.place(("base",)).problem("base", accepts),))
    _drop_fixed_axes(document.data, base.data.get("sweep"))
    _merge(document, base, ())


def _drop_fixed_axes(own: dict[str, Any], sweep: Any) -> None:
    """What ``own`` fixes is not swept, although the base swept it."""
    for name in list(sweep) if isinstance(sweep, dict) else ():
        try:
            get_path(own, tuple(str(name).split(".")))
        except KeyError:
            continue
        del sweep[name]


def _merge(document: Document, base: Document, path: PathKey) -> None:
    own = get_path(document.data, path)
    for key, value in get_path(base.data, path).items():
        here = (*path, key)
        if key not in own:
            own[key] = copy_data(value)
            document.places.update({k: place for k, place in base.places.items() if k[: len(here)] == here})
        elif isinstance(own[key], dict) and isinstance(value, dict) and "kind" not in own[key] and here != ("sweep",):
            _merge(document, base, here)
