"""Models and hardware profiles that many points of a sweep have in common: read once, and held once in memory."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from simulator.spec import library
from simulator.spec.document import PathKey, get_path
from simulator.spec.scenario import Scenario


class SharedParts:
    """The parts that were read so far, by place and content."""

    def __init__(self) -> None:
        self._known: dict[tuple[PathKey, str], BaseModel] = {}

    def scenario(self, data: dict[str, Any]) -> Scenario:
        """The scenario that ``data`` spell out; what is spelt as in an earlier one is that one's part.

        Raises:
            pydantic.ValidationError: they spell none.
        """
        spelt = {path: (path, repr(part)) for path in library.REFERENCES if isinstance(part := _part(data, path), dict)}
        known = {path: self._known[key] for path, key in spelt.items() if key in self._known}
        for path, part in known.items():
            data = _with(data, path, part)
        scenario = Scenario.model_validate(data)
        for path in spelt.keys() - known.keys():
            found: Any = scenario
            for name in path:
                found = getattr(found, str(name))
            self._known[spelt[path]] = found
        return scenario


def _part(data: dict[str, Any], path: PathKey) -> Any:
    try:
        return get_path(data, path)
    except KeyError:
        return None


def _with(data: dict[str, Any], path: PathKey, part: BaseModel) -> dict[str, Any]:
    """``data`` with another value at ``path``; what is not on the way to it is not copied."""
    first, *others = map(str, path)
    return data | {first: _with(data[first], tuple(others), part) if others else part}
