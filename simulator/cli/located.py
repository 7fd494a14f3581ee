"""JSON with the line and column of every value, for messages about records.

The place of a value is looked up only when a message needs it: record files are large and mostly right.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from simulator.cli.files import ACCEPTS
from simulator.errors import ConfigError, Problem
from simulator.spec.load import scenario_from
from simulator.spec.problems import from_validation
from simulator.spec.record import RunRecord
from simulator.spec.scenario import Scenario
from simulator.spec.source import Document, PathKey, Place

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass
class LocatedJson(Document):
    """A JSON document, or the part of one at ``prefix``."""

    text: str = ""
    prefix: PathKey = ()

    @classmethod
    def read(cls, file: str) -> LocatedJson:
        """Read one file.

        Raises:
            ConfigError: no such file, not UTF-8, or not JSON.
        """
        try:
            text = Path(file).read_text(encoding="utf-8-sig")
            return cls(file, json.loads(text, parse_constant=_no_constant), text=text)
        except OSError as error:
            problem = Problem(file, 0, 0, "", "", _unreadable(Path(file), error))
        except json.JSONDecodeError as error:
            problem = Problem(
                file, error.lineno, error.colno, "", _line(error.doc, error.pos), f"{ACCEPTS}; {error.msg}"
            )
        except (ValueError, RecursionError) as error:
            problem = Problem(file, 0, 0, "", "", f"{ACCEPTS}; {str(error)[:200]}")
        raise ConfigError((problem,))

    def place(self, path: PathKey) -> Place:
        """The place of ``path``, or of the nearest parent that is in the file."""
        full = (*self.prefix, *path)
        for end in range(len(full), -1, -1):
            at = _offset(self.text, full[:end])
            if at is not None:
                line = self.text.count("\n", 0, at) + 1
                return Place(self.file, line, at - self.text.rfind("\n", 0, at), _words(self.text, at))
        return Place(self.file, 0, 0, "")

    def part(self, path: PathKey) -> LocatedJson:
        """The value at ``path`` as a document of its own."""
        data = self.data
        for key in path:
            data = data[key]
        return LocatedJson(self.file, data, text=self.text, prefix=(*self.prefix, *path))

    def records(self) -> list[RunRecord]:
        """The records in the document: ``{"records": [...]}``, a list, or one record.

        Raises:
            ConfigError: whatever is no record, by line and column.
        """
        paths: list[PathKey] = [()]
        if isinstance(self.data, dict) and "records" in self.data:
            paths = [("records",)]
        here = self.part(paths[0])
        if isinstance(here.data, list):
            paths = [(*paths[0], index) for index in range(len(here.data))]
        elif paths[0] or not isinstance(here.data, dict):
            place = here.place(())
            raise ConfigError((Problem(self.file, place.line, place.column, "", place.text, ACCEPTS),))
        problems: list[Problem] = []
        records = [record for path in paths if (record := _record(self.part(path), problems))]
        if problems:
            raise ConfigError(tuple(problems))
        return records


def _record(document: LocatedJson, problems: list[Problem]) -> RunRecord | None:
    model: type[BaseModel] = RunRecord
    try:
        record = RunRecord.model_validate(document.data)
        place = document.place(())
        model, document = Scenario, document.part(("scenario",))
        scenario_from(document.data)
    except ValidationError as error:
        problems += from_validation(error, document, model)
        return None
    if accepts := record.inconsistency():
        problems.append(Problem(document.file, place.line, place.column, "", "", accepts))
        return None
    return record


def _unreadable(file: Path, error: OSError) -> str:
    """Why there are no records in ``file``, in the words of the other verbs."""
    if isinstance(error, FileNotFoundError):
        return "an existing file; there is none of this name"
    if not isinstance(error, IsADirectoryError):
        return f"a readable file; {error.strerror}"
    inside = sorted(file.glob("*.json"))
    return "a file; this is a folder" + (f"; did you mean '{inside[0]}'?" if inside else "")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


def _offset(text: str, path: PathKey) -> int | None:
    """Where the value at ``path`` starts; None where there is none."""
    at = _skip(text, 0)
    for key in path:
        child = _child(text, at, key)
        if child is None:
            return None
        at = child
    return at


def _child(text: str, at: int, key: str | int) -> int | None:
    if text[at : at + 1] not in ("{", "["):
        return None
    keyed, index = text[at] == "{", 0
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        name: Any = index
        if keyed:
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if name == key:
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
        index += 1
    return None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _words(text: str, at: int) -> str:
    """The value at ``at`` as the file words it, not too long."""
    if text[at : at + 1] in ("{", "["):
        return "a mapping" if text[at] == "{" else "a list"
    _, end = _DECODER.raw_decode(text, at)
    words = " ".join(text[at:end].split())
    return words if len(words) <= 60 else f"{words[:57]}..."


def _line(text: str, at: int) -> str:
    """The line around ``at``, not too long."""
    return text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0].strip()[:60]
