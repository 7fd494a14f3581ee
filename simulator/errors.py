"""The exceptions of the toolkit.

    SpsError                 anything the toolkit raises on purpose; ``exit_code`` is what ``sps`` exits with
    ├── ConfigError          mistakes in files or options: every problem at once, exit 2
    ├── RefusedError         a well-formed question that the toolkit will not guess an answer to, exit 3
    ├── MeasurementError     a device, a child process or a record that did not behave, exit 4
    └── UnfinishedError      a run over many points that stopped, or some of whose points failed, exit 5

Results that are merely bad news (``does_not_fit``, ``outside_calibration``) are a *status* in the record, not
an exception. All exceptions take positional arguments only: SimPy rebuilds the exception of a failing process
from ``.args``, and so does pickling between worker processes.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_SHOWN = 100


@dataclass(frozen=True)
class Problem:
    """One mistake in one file.

    ``line`` and ``column`` count from 1; line 0 means the file as a whole. Instead of a file, ``file`` may quote an
    option (``--set ...``), or be empty. ``found`` quotes the file and is empty where nothing was found.
    """

    file: str
    line: int
    column: int
    path: str
    found: str
    accepts: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        lines = ["  ".join(_plain(part) for part in (where, self.path) if part)]
        if self.found:
            lines.append(f"    found    {_plain(self.found)}")
        lines.append(f"    accepts  {_plain(self.accepts)}")
        return "\n".join(lines)


def _plain(text: str) -> str:
    """``text`` on one line, not endless, and with nothing in it that steers a terminal."""
    text = text if len(text) <= 500 else f"{text[:497]}..."
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


class SpsError(Exception):
    """Base of everything raised on purpose."""

    exit_code = 1


class ConfigError(SpsError):
    """One or more mistakes in scenario, profile or model files, or in ``--set`` options."""

    exit_code = 2

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        shown = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if len(self.problems) > MAX_SHOWN:
            shown.append(f"... and {len(self.problems) - MAX_SHOWN:,} more")
        files = len({problem.file for problem in self.problems if not problem.file.startswith("-")} - {""})
        where = f" in {_counted(files, 'file')}" if files else ""
        return "\n".join([*shown, f"{_counted(len(self.problems), 'problem')}{where}. Nothing was run."])


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


class RefusedError(SpsError):
    """The question is well formed, but an answer would be a guess."""

    exit_code = 3


class MeasurementError(SpsError):
    """A measurement could not be made, or its result cannot be trusted."""

    exit_code = 4


class UnfinishedError(SpsError):
    """A run over many points stopped, or some of its points failed; what is done is kept."""

    exit_code = 5
