"""Where a scenario's weights come from: a folder for each model, or random where none is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from jax.sharding import Mesh

from runtime.arithmetic import Lowering
from runtime.llama import refuse_other_shapes
from runtime.loading import load
from runtime.mesh import place_random
from runtime.streams import stream
from runtime.transformer import Decoder
from runtime.weights_folder import WeightsFolder
from simulator.errors import ConfigError, Problem
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario

Role = Literal["target", "draft"]


@dataclass(frozen=True)
class Weights:
    """Folders with the weights of target and draft."""

    target: Path | None = None
    draft: Path | None = None

    @classmethod
    def of(cls, data: Mapping[str, str | None]) -> Self:
        """The inverse of :meth:`to_json`."""
        return cls(**{role: Path(folder) for role, folder in data.items() if folder is not None})

    def to_json(self) -> dict[str, str | None]:
        """Plain data for another process, which may run elsewhere."""
        return {
            "target": str(self.target.absolute()) if self.target is not None else None,
            "draft": str(self.draft.absolute()) if self.draft is not None else None,
        }

    def check(self, scenarios: Sequence[Scenario]) -> None:
        """See whether the folders hold the models of the scenarios, without reading a weight.

        Raises:
            ConfigError: they do not; with everything that is wrong.
            RefusedError: such a model cannot be loaded.
        """
        problems: list[Problem] = []
        for folder, spec in dict.fromkeys(self._wanted(scenarios)):
            refuse_other_shapes(spec)
            try:
                WeightsFolder.open(folder, spec)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(tuple(problems))

    def check_all(self, scenarios: Sequence[Scenario]) -> None:
        """As :meth:`check`, of all points at once, of which some have to use the folders.

        Raises:
            ConfigError: as of :meth:`check`; or weights of a draft where nothing drafts.
            RefusedError: as of :meth:`check`.
        """
        if self.draft is not None and all(scenario.draft_model is None for scenario in scenarios):
            found = f"--draft-weights {self.draft}"
            raise ConfigError((Problem(found, 0, 0, "", "", "a scenario whose draft is a model"),))
        self.check(scenarios)

    def place(
        self, role: Role, spec: ModelSpec, seed: int, mesh: Mesh, degree: int, lowering: Lowering | None = None
    ) -> Decoder:
        """The model in that role, on ``degree`` chips of the mesh."""
        folder = getattr(self, role)
        if folder is None:
            return place_random(spec, stream(seed, role), mesh, degree, lowering)
        return load(spec, folder, mesh, degree, lowering=lowering)

    @property
    def words(self) -> str:
        """What a record says of them."""
        if self.target is None and self.draft is None:
            return "random"
        said = {"target": self.target, "draft": self.draft}
        return ", ".join(f"{role} {'random' if folder is None else folder.name}" for role, folder in said.items())

    def _wanted(self, scenarios: Sequence[Scenario]) -> Iterator[tuple[Path, ModelSpec]]:
        for scenario in scenarios:
            if self.target is not None:
                yield self.target, scenario.target
            if self.draft is not None and scenario.draft_model is not None:
                yield self.draft, scenario.draft_model


RANDOM = Weights()
