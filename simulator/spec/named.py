"""Names that a planner gives as options -> the models and hardware profiles that they stand for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from simulator.errors import ConfigError, Problem
from simulator.spec import library
from simulator.spec.describe import either
from simulator.spec.hardware import HardwareProfile
from simulator.spec.model import ModelSpec
from simulator.spec.problems import closest, from_validation

_KINDS: dict[str, tuple[type[BaseModel], Path]] = {
    "model": (ModelSpec, library.MODELS),
    "hardware profile": (HardwareProfile, library.PROFILES),
}


@dataclass(frozen=True)
class Named:
    """A model or a hardware profile, and the words by which a file names it."""

    words: str
    spec: Any


def find_all(wanted: Sequence[tuple[str, str, str]], folder: Path) -> list[Named]:
    """What names stand for, each given as the option, the name, and whether it is a model or a hardware profile.

    A name is looked for where the planner is; the words are those of a file in ``folder``.

    Raises:
        ConfigError: every name that nothing has, with the nearest, and every mistake in the files that were found.
    """
    found: list[Named] = []
    problems: list[Problem] = []
    for option, name, what in wanted:
        kind, home = _KINDS[what]
        file = library.find(name, Path(), home)
        if file is None:
            accepts = f"the name of a {what}, or a .yaml file{_instead(name, what, home)}"
            problems.append(Problem(f"{option} {name}", 0, 0, "", "", accepts))
            continue
        try:
            found.append(Named(_words(name, file, folder, home), _read(file, kind)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(tuple(dict.fromkeys(problems)))
    return found


def models_named(wanted: Sequence[tuple[str, str]], folder: Path) -> dict[str, ModelSpec]:
    """Models by the names that a file in ``folder`` calls them, each given as its key there and the name.

    Raises:
        ConfigError: as :func:`find_all`.
    """
    found = find_all([(key, name, "model") for key, name in wanted], folder)
    return {name: one.spec for (_, name), one in zip(wanted, found, strict=True)}


def _instead(name: str, what: str, home: Path) -> str:
    """What was probably meant; of a chip, also which there are and how to describe another."""
    known = library.names(home)
    if what != "hardware profile":
        return _near_model(name, known)
    # Chips are called by their short names: b100 is near to b200, and so to b200_sxm.
    short = {chip.removesuffix("_sxm"): chip for chip in known}
    one = closest(Path(name).stem, known)
    close = [one] if one else [short[word] for word in difflib.get_close_matches(name.lower(), short, 3)]
    near = f"; did you mean {either(map(repr, close))}?" if close else ""
    return f"{near}; known: {', '.join(known)}; `sps init --hardware-template` prints a file for any other chip"


def _near_model(name: str, known: list[str]) -> str:
    """The model that was probably meant: of so many names a list of the first would help nobody."""
    # Names of models have dots in them: no suffix but that of a file is none of the name.
    if close := closest(Path(name).name.removesuffix(".yaml"), known):
        return f"; did you mean '{close}'?"
    heads = "; Medusa's heads need no file: write draft: {kind: medusa, heads: 5} into the scenario"
    return f"; `sps list models` has their names{heads if 'medusa' in name.lower() else ''}"


def known_models() -> list[Named]:
    """The models that come with the toolkit."""
    return [Named(name, _read(library.MODELS / f"{name}.yaml", ModelSpec)) for name in library.names(library.MODELS)]


def may_draft(draft: ModelSpec, target: ModelSpec) -> bool:
    """Whether ``draft`` can propose tokens of ``target``: a head trained for it, or a smaller model of its tokens."""
    if (reads := draft.hidden_states) is not None:
        return reads.of == target.name
    if draft.tokenizer != target.tokenizer or draft.parameters >= target.parameters:
        return False
    same = draft.vocabulary == target.vocabulary or is_subset(draft, target)
    return same and (draft.encoder is None) == (target.encoder is None) and target.hidden_states is None


def is_subset(draft: ModelSpec, target: ModelSpec) -> bool:
    """Whether ``draft`` is known to have some of the tokens of ``target`` alone.

    Families pad the vocabulary of one tokenizer to several sizes; draft heads often keep the most frequent tokens.
    """
    alike = draft.tokenizer is not None and draft.tokenizer == target.tokenizer
    return draft.vocabulary < target.vocabulary and (alike or draft.hidden_states is not None)


def _words(name: str, file: Path, folder: Path, home: Path) -> str:
    """How a file in ``folder`` names ``file``."""
    seen = library.find(name, folder, home)
    if seen is not None and seen.resolve() == file.resolve():
        return name
    return os.path.relpath(file, folder) if folder.is_dir() else str(file.resolve())


def _read(file: Path, kind: type[BaseModel]) -> Any:
    document = library.read_mapping(file, library.shown(file))
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        raise ConfigError(tuple(from_validation(error, document, kind))) from None
