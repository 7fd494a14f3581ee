"""What others measured: one file a source, a scenario and the rows that each change some of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from simulator.errors import ConfigError, Problem
from simulator.spec import library
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.axes import path_problem
from simulator.spec.document import Document, PathKey
from simulator.spec.fields import Name, Source, Strict, mistake
from simulator.spec.load import point_of
from simulator.spec.problems import from_validation, in_file_order
from simulator.spec.scenario import Scenario
from simulator.spec.terms import TIME_METRICS
from simulator.units import UnitProblem, parse_quantity

PUBLISHED = library.SCENARIOS / "published"
RATES = ("tokens_per_s",)
_NOTHING = {"kind": "rate", "acceptance_rate": 0.0}
RATIOS = ("speedup", "round_cost", "acceptance_length")
ACCEPTED = ("speedup", "tpot_s", "tokens_per_s", "e2e_s", "acceptance_length")
"""Metrics that depend on how many tokens of a round are accepted."""
Metric = Literal[(*TIME_METRICS, *RATES, *RATIOS)]  # type: ignore[valid-type]


class Row(Strict):
    """One measured value, and the scenario that it is of."""

    metric: Metric
    """Which metric of a record it is."""
    value: Annotated[float, Field(gt=0)] | Source
    """The value: with its unit, such as 7.07 ms or 104.9 token/s; a plain number where it is a ratio."""
    where: Source
    """Table, figure, section or message."""
    confidence: Source = "read in the source"
    """How it was read."""
    use: Literal["fit", "test"]
    """`fit`: a number of the calibration or engine was fitted to it. `test`: it was not."""
    set: dict[str, Any] = {}
    """The keys of the scenario that this row changes, as dotted path: value."""
    acceptance_length: Annotated[float, Field(ge=1, le=65)] | None = None
    """Mean tokens of a round, the target's own included, where the source states it: acceptance is then the constant
    rate that gives it."""
    not_modelled: Source | None = None
    """Why there is no prediction of it, where there cannot be one."""
    note: Source | None = None
    """What else to know."""

    @model_validator(mode="after")
    def _has_its_unit(self) -> Self:
        _ = self.measured
        return self

    @property
    def unit(self) -> str:
        """The SI unit of the value; empty for a ratio."""
        return "token/s" if self.metric in RATES else "" if self.metric in RATIOS else "s"

    @property
    def measured(self) -> float:
        """The value in SI units."""
        if not self.unit:
            if isinstance(self.value, str):
                raise mistake("a number: it is a ratio", "value")
            return self.value
        try:
            return parse_quantity(self.value, self.unit)
        except UnitProblem as problem:
            raise mistake(str(problem), "value") from None


class Publication(Strict):
    """The head of a file of published values."""

    name: Name
    """A short name for tables."""
    title: Source
    """What it is."""
    source: Source
    """Where it was published."""
    read: Source
    """What was read: the source itself, or who transcribed it."""
    notes: tuple[Source, ...] = ()
    """What the source does not state and was assumed, and what is odd about it."""


class PublicationFile(Publication):
    """A whole file of published values, for its JSON schema."""

    scenario: dict[str, Any]
    """The scenario of all rows; each may change some of its keys. Without an acceptance nothing is accepted, unless a
    row states its acceptance_length."""
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    """The measured values."""


@dataclass(frozen=True)
class Entry:
    """One row with the scenario that it is of; no scenario where nothing models it."""

    row: Row
    scenario: Scenario | None
    place: str
    """The file and line of the row."""


@dataclass(frozen=True)
class Published:
    """One file of published values."""

    about: Publication
    entries: tuple[Entry, ...]


def load_publication(path: str | Path) -> Published:
    """Read a file of published values.

    Raises:
        ConfigError: every problem of the file and of its rows, in file order.
    """
    path = Path(path)
    document = library.read_mapping(path, library.shown(path))
    problems: list[Problem] = []
    scenario, rows = (_taken(document, key, problems) for key in ("scenario", "rows"))
    about: Publication | None = None
    try:
        about = Publication.model_validate(document.data)
    except ValidationError as error:
        problems += from_validation(error, document, Publication, ("scenario", "rows"))
    found = _entries(scenario, rows, path, problems) if scenario is not None and rows is not None else ()
    if problems or about is None:
        raise ConfigError(in_file_order(dict.fromkeys(problems), first=document.file))
    return Published(about, found)


def load_all(folder: Path = PUBLISHED) -> tuple[Published, ...]:
    """Every file of published values, by name.

    Raises:
        ConfigError: the problems of the first file that has any.
    """
    return tuple(load_publication(file) for file in sorted(folder.glob("*.yaml")))


def _taken(document: Document, key: str, problems: list[Problem]) -> Document | None:
    """The part under ``key``, taken out of the document."""
    kinds = {"scenario": (dict, "a scenario, of which rows change some keys"), "rows": (tuple, "a list of rows")}
    kind, accepts = kinds[key]
    value = document.data.get(key)
    if not isinstance(value, kind) or not value:
        problems.append(document.place((key,)).problem(key, accepts, "" if value is None else None))
        document.data.pop(key, None)
        return None
    part = document.part((key,))
    del document.data[key]
    document.forget((key,))
    return part


def _entries(base: Document, rows: Document, path: Path, problems: list[Problem]) -> tuple[Entry, ...]:
    found = []
    alone = base.copy()
    alone.data.setdefault("name", "rows")
    alone.data.setdefault("acceptance", _NOTHING)
    if point_of(alone, {}, path.parent, problems) is None:
        return ()  # what is wrong in the scenario itself is told once, not by every row
    for index, document in enumerate(rows.items(())):
        try:
            row = Row.model_validate(document.data)
        except ValidationError as error:
            problems += from_validation(error, document, Row)
            continue
        place = document.place(())
        scenario = None
        if row.not_modelled is None:
            scenario = _scenario(base, document, row, f"row-{index + 1}", path, problems)
            if scenario is None:
                continue
        found.append(Entry(row, scenario, f"{place.file}:{place.line}"))
    return tuple(found)


def _scenario(
    base: Document, document: Document, row: Row, name: str, path: Path, problems: list[Problem]
) -> Scenario | None:
    chosen: dict[PathKey, Document] = {}
    for key in row.set:
        if accepts := path_problem(key):
            problems.append(document.place(("set", key)).problem(f"set.{key}", accepts, key))
            return None
        chosen[tuple(key.split("."))] = document.part(("set", key))
    named = base.copy()
    named.data.setdefault("name", name)
    stated = "acceptance" in named.data or any(key[0] == "acceptance" for key in chosen)
    if not stated:
        named.data["acceptance"] = dict(_NOTHING)
    wrong: list[Problem] = []
    scenario = point_of(named, chosen, path.parent, wrong)
    if scenario is None:
        # The scenario is right without what this row sets, so that is where the mistake is.
        last = document.data.get("set") or {}
        place, end = document.place(()), document.place((*(("set",) if last else ()), *list(last)[-1:]))
        within = range(place.line, max(end.line, place.line) + 1)
        here = (p for p in wrong if p.file == place.file and p.line in within)
        problems += list(here) or [place.problem(p.path, p.accepts, p.found) for p in wrong]
        return None
    if row.acceptance_length is not None:
        return _accepting(scenario, row, document, problems)
    if not stated and scenario.lookahead > 0 and row.metric in ACCEPTED:
        accepts = "the acceptance_length of this row, or an acceptance: what it is of depends on it"
        problems.append(document.place(("metric",)).problem("metric", accepts))
        return None
    return scenario


def _accepting(scenario: Scenario, row: Row, document: Document, problems: list[Problem]) -> Scenario | None:
    """The scenario with the constant acceptance rate that gives the stated tokens of a round."""
    length, lookahead = float(row.acceptance_length or 1.0), scenario.lookahead
    if not 1 <= length <= lookahead + 1:
        place = document.place(("acceptance_length",))
        problems.append(place.problem("acceptance_length", f"1 to K+1, which is {lookahead + 1}", f"{length:g}"))
        return None
    law = RateAcceptance(kind="rate", acceptance_rate=rate_of(length, lookahead))
    return scenario.model_copy(update={"acceptance": law})


def rate_of(length: float, lookahead: int) -> float:
    """The constant acceptance rate at which a round has ``length`` tokens: the root of ``1 + a + ... + a^K = length``.

    By bisection of a function that rises from 1 to K+1 (Leviathan et al. 2023, equation 1, as a polynomial).
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if np.polyval(np.ones(lookahead + 1), middle) > length else (middle, high)
    return (low + high) / 2
