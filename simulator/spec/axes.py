"""What varies: the axes of `sweep:` and the values of ``--set``, by dotted path."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from pydantic import BaseModel

from simulator.errors import ConfigError, Problem
from simulator.spec.describe import Node, accepted_keys
from simulator.spec.document import Document, PathKey, Place, shorten
from simulator.spec.problems import closest, elsewhere, nearest
from simulator.spec.scenario import Scenario
from simulator.spec.source import parse

MAX_POINTS = 10_000
MAX_SWEEP = 100_000
"""Points of a sweep that is run by shards: `sps sweep`."""
_TOP = {"HardwareProfile": "a hardware profile", "ModelSpec": "a model"}


def take_sweep(document: Document, problems: list[Problem], most: int = MAX_POINTS) -> dict[PathKey, list[Document]]:
    """Remove `sweep` from ``document``; its axes in the order of the file, of at most ``most`` points."""
    if "sweep" not in document.data:
        return {}
    here, names = document.place(("sweep",)), document.data["sweep"]
    sweep = document.part(("sweep",))
    del document.data["sweep"]
    document.forget(("sweep",))
    if not isinstance(names, dict):
        problems.append(here.problem("sweep", "a mapping of dotted paths to lists, such as decoding.lookahead: [2, 4]"))
        return {}
    axes: dict[PathKey, list[Document]] = {}
    for name in names:
        if problem := _axis_problem(sweep, name):
            problems.append(problem)
        else:
            axes[tuple(str(name).split("."))] = sweep.items((name,))
    total = math.prod(map(len, axes.values()))
    if total > most:
        verb = "; `sps sweep` takes it" if total <= MAX_SWEEP else ""
        problems.append(here.problem("sweep", f"at most {most:,} points; this sweep has {total:,}{verb}", ""))
        return {path: values[:1] for path, values in axes.items()}
    return axes


def _axis_problem(sweep: Document, name: str | int) -> Problem | None:
    values, place = sweep.data[name], sweep.place((name,))
    if accepts := path_problem(str(name)):
        return place.problem(f"sweep.{name}", accepts, shorten(str(name)))
    if not isinstance(values, tuple) or not values:
        return place.problem(f"sweep.{name}", "a list of at least one value, such as [2, 4, 8]")
    return None


def read_settings(settings: Iterable[str], problems: list[Problem]) -> dict[PathKey, Document]:
    """The value of every ``path=value``, read as YAML; the later of two for one path wins."""
    values: dict[PathKey, Document] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        place = Place(f"--set {shorten(text, 80)}", 0, 0, "")
        accepts = path_problem(name) if equals else "path=value, for example decoding.lookahead=4"
        if equals and name.partition(".")[0] in ("sweep", "base"):
            accepts = "a path of a single point; 'sweep' and 'base' stand in the file"
        if accepts:
            problems.append(place.problem(name if equals else "", accepts))
            continue
        try:
            given = parse(value, place.file)
        except ConfigError as error:
            problems += [replace(problem, line=0, column=0, path=name) for problem in error.problems]
            continue
        # An option has no lines: it is quoted whole instead.
        given.places = {
            key: replace(found, line=0, column=0, text=found.text or "nothing") for key, found in given.places.items()
        }
        values[tuple(name.split("."))] = given
    return values


def path_problem(name: str, root: type[BaseModel] = Scenario) -> str:
    """Why ``name`` is no dotted path of a scenario (or of what ``root`` is); empty where it is one."""
    nodes: tuple[Node, ...] = (Node(root),)
    parts = name.split(".")
    for index, part in enumerate(parts):
        following = tuple(child for node in nodes for child in node.child(part))
        if not following:
            before, keys = ".".join(parts[:index]), accepted_keys(nodes)
            if not keys:
                return f"a path that ends at {before}, which has no keys below it"
            guess = elsewhere(part, root) if len(parts) == 1 and not closest(part, keys) else ""
            return f"a key of {before or _TOP.get(root.__name__, 'the scenario')}{guess or nearest(part, keys)}"
        nodes = following
    return ""
