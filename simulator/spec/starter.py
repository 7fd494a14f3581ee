"""A first scenario for a model on a chip: what is not said is proposed, and every key says what it means."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.errors import ConfigError, Problem
from simulator.spec.load import load_text
from simulator.spec.named import Named, find_all, is_subset, known_models, may_draft
from simulator.spec.scenario import Scenario
from simulator.spec.starter_text import LOOKAHEAD, Asked, Choice, slice_of, text_of

__all__ = ["NO_DRAFT", "Asked", "Starter", "starter"]

NO_DRAFT = "none"
_SHARE, _LARGEST_SHARE = 1 / 15, 0.2
"""Parameters of a proposed draft over those of the target: so many where there is one, and at most."""
# Which option sets a key; what is wrong with what was proposed comes from the model, the chips and their number.
_OPTIONS = {
    "target": "--model",
    "draft.model": "--draft",
    "deployment.hardware": "--hardware",
    "deployment.chips": "--chips",
    "deployment.slice": "--chips",  # proposed for them
    "decoding.lookahead": "--lookahead",
    "workload.batch": "--batch",
    "workload.prompt_tokens": "--prompt-tokens",
    "workload.output_tokens": "--output-tokens",
}


@dataclass(frozen=True)
class Starter:
    """A scenario as text, and as it will be read."""

    text: str
    scenario: Scenario


def starter(asked: Asked, path: Path, objection: Callable[[Scenario], str]) -> Starter:
    """A scenario file for ``path`` that loads.

    Args:
        asked: what the planner said.
        path: where the file will lie: names of files in it are relative to its folder.
        objection: why the calibration of a scenario does not hold for it; empty where it does.

    Raises:
        ConfigError: a name that nothing has, or a combination that cannot be; in terms of the options.
    """
    names = [("--model", asked.model, "model"), ("--hardware", asked.hardware, "hardware profile")]
    if asked.draft not in (None, NO_DRAFT):
        names.append(("--draft", str(asked.draft), "model"))
    target, profile, *draft = find_all(names, path.parent)
    chooser = _Chooser(asked, path, target, profile)
    chooser.load(Choice())
    return chooser.with_calibration(chooser.with_draft(draft[0] if draft else None), objection)


class _Chooser:
    """Tries what may be proposed, and keeps the first that loads."""

    def __init__(self, asked: Asked, path: Path, target: Named, profile: Named) -> None:
        self.asked, self.path, self.target, self.profile = asked, path, target, profile
        self.notes: dict[str, str] = {}

    def with_draft(self, draft: Named | None) -> Choice:
        """The draft that was named, or the first that may be proposed."""
        if draft is not None:
            return self._placed(draft)
        reasons = []
        for proposed in () if self.asked.draft == NO_DRAFT else self._proposals():
            try:
                found = self._placed(proposed)
            except ConfigError as error:
                reasons.append(f"Not {proposed.words}: this needs {error.problems[0].accepts}")
                continue
            self.notes["draft.model"] = self._why(proposed)
            return found
        self.notes["draft.kind"] = ". ".join(reasons)
        self.notes["draft.example"] = next((m.words for m in self._matching if self._goes(m)), "my-draft.yaml")
        return Choice()

    def _placed(self, draft: Named) -> Choice:
        """The draft on all chips of the target; on as many as it has heads for where it cannot use all."""
        first: ConfigError | None = None
        subset = is_subset(draft.spec, self.target.spec)
        if subset:
            self.notes["draft.vocabulary_map"] = "The draft has some of the target's tokens"
        for choice in (Choice(draft.words, subset), *self._fewer(draft)):
            try:
                self.load(choice)
            except ConfigError as error:
                first = first or error
                continue
            return choice
        raise first or ConfigError(())

    def _fewer(self, draft: Named) -> Iterator[Choice]:
        """The draft on as many of the target's chips as it has heads for."""
        chips = self.asked.chips
        degree = next((n for n in range(min(draft.spec.heads, chips), 0, -1) if chips % n == 0), chips)
        if degree < chips:
            where = {"placement": "sub_slice", "tensor_parallel": degree, **slice_of(self.profile, degree)}
            yield Choice(draft.words, is_subset(draft.spec, self.target.spec), where)

    def _goes(self, draft: Named) -> bool:
        with suppress(ConfigError):
            return bool(self._placed(draft))
        return False

    def _proposals(self) -> list[Named]:
        """Models of the library that may draft for the target, the best guess first.

        That is the largest below a fifteenth of it (Chen et al. 2023 took a seventeenth), then the smallest above.
        """

        def share(draft: Named) -> float:
            return float(draft.spec.parameters / self.target.spec.parameters)

        own = [draft for draft in self._matching if draft.spec.hidden_states is None]
        small = [draft for draft in own if share(draft) < _LARGEST_SHARE]
        return sorted(small, key=lambda draft: (share(draft) > _SHARE, abs(share(draft) - _SHARE)))

    @functools.cached_property
    def _matching(self) -> list[Named]:
        """Models of the library that are smaller than the target and have its vocabulary; its draft heads."""
        return [model for model in known_models() if may_draft(model.spec, self.target.spec)]

    def _why(self, draft: Named) -> str:
        others = [other.words for other in self._matching if other.words != draft.words]
        known = f"; also known: {', '.join(others)}" if others else ""
        below = draft.spec.parameters <= _SHARE * self.target.spec.parameters
        which = "the largest below a fifteenth" if below else "the smallest, above a fifteenth"
        return f"Proposed: with the same tokens, {which} of the target{known}"

    def with_calibration(self, choice: Choice, objection: Callable[[Scenario], str]) -> Starter:
        """With the first calibration of the profile that holds for the scenario, or with none and the reason."""
        reasons = []
        for name in self.profile.spec.calibrations:
            try:
                found = self.load(replace(choice, calibration=name))
            except ConfigError as error:
                reasons.append(f"Not {name}: this needs {error.problems[0].accepts}")
                continue
            reason = objection(found.scenario)
            if not reason:
                return found
            reasons.append(f"Not {name}: {reason}")
        self.notes["deployment.calibration"] = ". ".join(reasons) or f"The profile of {self.profile.spec.name} has none"
        return self.load(choice)

    def load(self, choice: Choice) -> Starter:
        """The text with ``choice``, read back.

        Raises:
            ConfigError: whatever is wrong with it, in terms of the options.
        """
        text = text_of(self.asked, self.target, self.profile, choice, self.notes, self.path.parent)
        try:
            scenarios = [point.scenario for point in load_text(text, self.path)]
            # Of several lookaheads the one that stands in the file is what it is about.
            return Starter(text, next((s for s in scenarios if s.decoding.lookahead == LOOKAHEAD), scenarios[0]))
        except ConfigError as error:
            raise ConfigError(tuple(dict.fromkeys(map(self._in_options, error.problems)))) from None

    def _in_options(self, problem: Problem) -> Problem:
        """A mistake in the text, as one in the option that it came from."""
        option = _OPTIONS.get(problem.path)
        if option is None or problem.file != str(self.path):
            return problem
        value = getattr(self.asked, option[2:].replace("-", "_"))
        return Problem(f"{option} {value}", 0, 0, "", "", problem.accepts)
