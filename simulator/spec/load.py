"""A scenario file -> the validated points of its sweep, or every problem at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from simulator.errors import ConfigError, Problem
from simulator.spec import library
from simulator.spec.physics import physics_problems
from simulator.spec.problems import from_validation, in_file_order, models_in, nearest
from simulator.spec.scenario import Scenario
from simulator.spec.source import Document, PathKey, parse, read

MAX_POINTS = 10_000


@dataclass(frozen=True)
class Point:
    """One point of a sweep: the scenario, and the swept values as the file words them, by dotted path."""

    scenario: Scenario
    axes: dict[str, str | int | float]


def load_scenario(path: str | Path, settings: Sequence[str] = ()) -> tuple[Point, ...]:
    """Read a scenario file and expand its sweep in the order of the file, last axis fastest.

    Args:
        path: the scenario YAML.
        settings: overrides such as ``decoding.lookahead=4``; the value is read as YAML. A swept path is then fixed.

    Raises:
        ConfigError: every problem of the file, of the files that it names, and of ``settings``, in file order.
    """
    path = Path(path)
    document = read(path, str(path))
    if not isinstance(document.data, dict):
        place = document.place(())
        raise ConfigError((Problem(document.file, 1, 1, "", place.text, "a mapping of keys"),))
    problems: list[Problem] = []
    axes = _take_sweep(document, problems)
    for setting in settings:
        _apply_setting(document, axes, setting, problems)
    points = [
        point
        for choice in itertools.product(*axes.values())
        if (point := _point(document, dict(zip(axes, choice, strict=True)), path.parent, problems))
    ]
    if problems:
        raise ConfigError(in_file_order(dict.fromkeys(problems)))
    return tuple(points)


def scenario_from(resolved: Any) -> Scenario:
    """The scenario that ``Scenario.resolved`` wrote, as found in a record.

    Raises:
        pydantic.ValidationError: the data are no resolved scenario.
    """
    return Scenario.model_validate(_tuples(resolved))


def _tuples(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _tuples(value) for key, value in data.items()}
    return tuple(_tuples(value) for value in data) if isinstance(data, list) else data


def _take_sweep(document: Document, problems: list[Problem]) -> dict[PathKey, list[Document]]:
    """Remove `sweep:` from the document; its axes as lists of documents."""
    if "sweep" not in document.data:
        return {}
    sweep, here = document.part(("sweep",)), document.place(("sweep",))
    del document.data["sweep"]
    if not isinstance(sweep.data, dict):
        accepts = "a mapping of dotted paths to lists of values"
        problems.append(Problem(here.file, here.line, here.column, "sweep", here.text, accepts))
        return {}
    axes: dict[PathKey, list[Document]] = {}
    for name, values in sweep.data.items():
        place = sweep.place((name,))
        accepts = "a list of at least one value" if not isinstance(values, tuple) or not values else ""
        accepts = path_problem(str(name)) or accepts
        if accepts:
            problems.append(Problem(place.file, place.line, place.column, f"sweep.{name}", place.text, accepts))
            continue
        axes[tuple(str(name).split("."))] = [sweep.part((name, index)) for index in range(len(values))]
    total = math.prod(len(values) for values in axes.values())
    if total > MAX_POINTS:
        accepts = f"at most {MAX_POINTS:,} points; this sweep has {total:,}"
        problems.append(Problem(here.file, here.line, here.column, "sweep", here.text, accepts))
        return {}
    return axes


def _apply_setting(document: Document, axes: dict[PathKey, list[Document]], text: str, problems: list[Problem]) -> None:
    name, equals, value = text.partition("=")
    shown = f"--set {text}" if len(text) <= 80 else f"--set {text[:77]}..."
    accepts = path_problem(name) if equals else "path=value, for example decoding.lookahead=4"
    if accepts:
        problems.append(Problem(shown, 0, 0, name if equals else "", "", accepts))
        return
    path = tuple(name.split("."))
    try:
        given = parse(value, shown)
        axes.pop(path, None)
        document.graft(path, given, keep_place=False)
    except ConfigError as error:
        problems += error.problems
    except KeyError:
        problems.append(Problem(shown, 0, 0, name, "", "a path whose parents are mappings in the file"))


def path_problem(name: str) -> str:
    """Why ``name`` is no dotted path of a scenario; empty where it is one."""
    models: list[type[BaseModel]] = [Scenario]
    parts = name.split(".")
    for index, part in enumerate(parts):
        fields = [(info.alias or key, info) for model in models for key, info in model.model_fields.items()]
        hit = [info for key, info in fields if key == part]
        if not hit:
            before = ".".join(parts[:index])
            return f"a key of {before or 'the scenario'}{nearest(part, {key for key, _ in fields})}"
        models = [model for info in hit for model in models_in(info.annotation)]
    return ""


def _point(
    base: Document, choice: dict[PathKey, Document], folder: Path, problems: list[Problem]
) -> Point | None:
    document = base.copy()
    for path, value in choice.items():
        try:
            document.graft(path, value, keep_place=False)
        except KeyError:
            place = value.place(())
            accepts = "a swept path whose parents are mappings in the file"
            problems.append(Problem(place.file, place.line, place.column, ".".join(map(str, path)), place.text, accepts))
            return None
    unresolved = library.resolve(document, folder)
    problems += unresolved
    try:
        scenario = Scenario.model_validate(document.data)
    except ValidationError as error:
        known = {(problem.file, problem.line, problem.column) for problem in unresolved}
        found = from_validation(error, document, Scenario)
        problems += [p for p in found if (p.file, p.line, p.column) not in known]
        return None
    found = physics_problems(scenario, document)
    problems += found
    axes = {".".join(map(str, path)): _words(value.data, value.place(()).text) for path, value in choice.items()}
    return None if found else Point(scenario, axes)


def _words(value: Any, text: str) -> str | int | float:
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else text


