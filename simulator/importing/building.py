"""A model under construction: values of the schema, and which key of the configuration each came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from simulator.errors import Problem
from simulator.spec.document import Document, PathKey, Place, dotted
from simulator.spec.model import ModelSpec
from simulator.spec.problems import from_validation


@dataclass
class Building:
    """Values of the schema by key, one level of mappings deep, as a file would hold them."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[PathKey, PathKey] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    """Modules that a quantisation leaves as they were."""
    plain: str | None = None
    """The type of weights that are not quantised."""

    def put(self, name: str, value: Any, origin: PathKey) -> None:
        """Set ``name``, such as `layers` or `experts.count`; None sets nothing."""
        if value is None:
            return
        outer, _, inner = name.rpartition(".")
        (self.values.setdefault(outer, {}) if outer else self.values)[inner] = value
        self.origins[tuple(name.split("."))] = origin

    def whole(self, name: str) -> int | None:
        """A value that was set before, where it was right."""
        value = self.values.get(name)
        return value if isinstance(value, int) else None

    def spec(self, document: Document, problems: list[Problem]) -> ModelSpec | None:
        """The model; None, and mistakes in terms of the configuration, where the schema refuses a value."""
        try:
            return ModelSpec.model_validate(self.values)
        except ValidationError as error:
            own = Document(document.file, self.values, self._places(document))
            problems += [self._renamed(problem) for problem in from_validation(error, own, _MODEL)]
            return None

    def _places(self, document: Document) -> dict[PathKey, Place]:
        top = document.place(())
        places = {path: document.place(origin) for path, origin in self.origins.items()}
        return {(): replace(top, text="")} | places

    def _renamed(self, problem: Problem) -> Problem:
        """A mistake by the key of the configuration, and by that of the schema where it is another."""
        origin = self.origins.get(tuple(problem.path.split(".")))
        if not origin:
            return problem
        name = dotted(origin)
        path = name if name == problem.path else f"{name} ({problem.path})"
        return replace(problem, path=path)


_MODEL: type[BaseModel] = ModelSpec
