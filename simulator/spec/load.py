"""A scenario file -> the validated points of its sweep, or every problem at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simulator.errors import ConfigError, Problem
from simulator.spec import library
from simulator.spec.axes import MAX_POINTS, MAX_SWEEP, path_problem, read_settings, take_sweep
from simulator.spec.base import lay_under
from simulator.spec.document import Document, PathKey, dotted, get_path
from simulator.spec.physics import physics_problems
from simulator.spec.problems import MAX_MISTAKES, from_validation, in_file_order
from simulator.spec.scenario import Scenario
from simulator.spec.shared import SharedParts
from simulator.spec.source import parse

__all__ = ["MAX_POINTS", "MAX_SWEEP", "Point", "load_scenario", "load_text", "path_problem", "scenario_from"]

# Mistakes repeat from point to point of a sweep: after so many bad points there is nothing new to tell.
_MAX_BAD_POINTS = 300


@dataclass(frozen=True)
class Point:
    """One point of a sweep: the scenario, and the swept values as the file words them, by dotted path."""

    scenario: Scenario
    axes: dict[str, str | int | float]


def load_scenario(path: str | Path, settings: Sequence[str] = (), most: int = MAX_POINTS) -> tuple[Point, ...]:
    """Read a scenario file and expand its sweep in the order of the file, last axis fastest.

    Args:
        path: the scenario YAML.
        settings: overrides such as ``decoding.lookahead=4``; the value is read as YAML. A swept path is then fixed.
        most: points that the sweep of the file may have.

    Raises:
        ConfigError: every problem of the file, of the files that it names, and of ``settings``, in file order.
    """
    path = Path(path)
    return _load(library.read_mapping(path, str(path)), path, settings, most)


def load_text(text: str, path: str | Path) -> tuple[Point, ...]:
    """As :func:`load_scenario`, of text that is to be written to ``path``, which names in it are relative to.

    Raises:
        ConfigError: every problem of the text and of the files that it names.
    """
    return _load(parse(text, str(path)), Path(path), (), MAX_POINTS)


def _load(document: Document, path: Path, settings: Sequence[str], most: int) -> tuple[Point, ...]:
    lay_under(document, path)
    problems: list[Problem] = []
    axes = take_sweep(document, problems, most)
    fixed = read_settings(settings, problems)
    swept = {name: values for name, values in axes.items() if name not in fixed}
    points = _points(document, fixed, swept, path.parent, problems)
    if problems:
        raise ConfigError(in_file_order(dict.fromkeys(problems), first=document.file))
    return points


def point_of(
    document: Document, chosen: Mapping[PathKey, Document], folder: Path, problems: list[Problem]
) -> Scenario | None:
    """One scenario of a document with some values put in its place; None, and the problems, where it is none.

    Args:
        document: the keys of a scenario, which stay as they are.
        chosen: by path, the values that this one has.
        folder: where names of files in ``chosen`` are looked for.
        problems: gets every mistake.
    """
    return _scenario(document, {}, chosen, folder, problems, SharedParts())


def scenario_from(resolved: Any) -> Scenario:
    """The scenario that ``Scenario.resolved`` wrote, as found in a record.

    Raises:
        pydantic.ValidationError: the data are no resolved scenario.
    """
    return Scenario.model_validate(tuples(resolved))


def tuples(data: Any) -> Any:
    """Lists as the tuples that frozen models hold."""
    if isinstance(data, dict):
        return {key: tuples(value) for key, value in data.items()}
    return tuple(tuples(value) for value in data) if isinstance(data, list) else data


def _points(
    document: Document,
    fixed: Mapping[PathKey, Document],
    swept: Mapping[PathKey, list[Document]],
    folder: Path,
    problems: list[Problem],
) -> tuple[Point, ...]:
    points: list[Point] = []
    parts, bad = SharedParts(), 0
    for choice in itertools.product(*swept.values()):
        chosen = dict(zip(swept, choice, strict=True))
        scenario = _scenario(document, fixed, chosen, folder, problems, parts)
        if scenario is None:
            bad += 1
            if bad == _MAX_BAD_POINTS or len(problems) > MAX_MISTAKES:
                break
        else:
            points.append(Point(scenario, {dotted(name): _words(value) for name, value in chosen.items()}))
    return tuple(points)


def _scenario(
    base: Document,
    fixed: Mapping[PathKey, Document],
    chosen: Mapping[PathKey, Document],
    folder: Path,
    problems: list[Problem],
    parts: SharedParts,
) -> Scenario | None:
    document, values = base.copy(), {**fixed, **chosen}
    # Whole parts first, then keys in them; keys of a model or profile once its file has been read.
    late = {path: named for path in values for named in library.REFERENCES if path[: len(named)] == named != path}
    in_order = sorted(values, key=len)
    found = _set([path for path in in_order if path not in late], values, document)
    unresolved, unresolved_paths = library.resolve(document, folder)
    found += unresolved
    found += _set([path for path in late if dotted(late[path]) not in unresolved_paths], values, document)
    try:
        scenario = parts.scenario(document.data)
    except ValidationError as error:
        mistakes = from_validation(error, document, Scenario, ("base", "sweep"))
        found += [problem for problem in mistakes if problem.path not in unresolved_paths]
    else:
        found += physics_problems(scenario, document, chosen)
        if not found:
            return scenario
    problems += found
    return None


def _set(paths: Sequence[PathKey], values: Mapping[PathKey, Document], document: Document) -> list[Problem]:
    problems = []
    for path in paths:
        try:
            document.graft(path, values[path], keep_place=False)
        except KeyError:
            problems.append(values[path].place(()).problem(dotted(path), _blocked(path, document), ""))
    return problems


def _blocked(path: PathKey, document: Document) -> str:
    """Which parent of ``path`` is no mapping, so that nothing can be put below it."""
    ends = (end for end in range(1, len(path)) if not isinstance(get_path(document.data, path[:end]), dict))
    end = next(ends)
    return f"a mapping at {dotted(path[:end])} to put '{path[end]}' in"


def _words(value: Document) -> str | int | float:
    data = value.data
    if isinstance(data, str | int | float) and not isinstance(data, bool):
        return data
    return value.place(()).text if data is None or isinstance(data, bool) else _short(data)


def _short(data: Any) -> str:
    """A swept mapping or list in a line: what tells it from the others."""
    if isinstance(data, dict):
        return ", ".join(f"{key} {_short(value)}" if key != "kind" else _short(value) for key, value in data.items())
    if isinstance(data, list | tuple):
        return "/".join(_short(value) for value in data)
    return str(data)
