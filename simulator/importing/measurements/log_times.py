"""Order of the lines of a log: time does not run backwards within one process."""

from __future__ import annotations

import re

from simulator.importing.measurements.source import Source

_CLOCK = re.compile(r"(?:([0-9]{4})-)?([0-9]{2})-([0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})")
_PROCESS = re.compile(r"\((?:\w+ )?pid=[0-9]+\)|\b(?:DP[0-9]+ )?TP[0-9]+(?: EP[0-9]+)?\b|\b[Ee]ngine[ _][0-9]+\b")


class Clock:
    """Checks that the lines of each process come in the order in which they were written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.last: dict[str, tuple[tuple[int, ...], int]] = {}

    def process(self, line: str) -> str:
        """Who wrote a line, empty where it does not say."""
        match = _PROCESS.search(line)
        return match[0] if match else ""

    def check(self, number: int, line: str) -> str:
        """The process of a line.

        Raises:
            ConfigError: its time is before that of an earlier line of the same process.
        """
        process, match = self.process(line), _CLOCK.search(line)
        if match is None:
            return process
        time = tuple(int(part or 0) for part in match.groups())
        before, where = self.last.get(process, (time, number))
        # Without a year, January follows December.
        if time < before and not (not match[1] and before[1] == 12 and time[1] == 1):
            accepts = f"a time that is not before that of line {where}: lines are out of order, or two logs are mixed"
            raise self.source.refusal(number, "time", accepts, match[0])
        self.last[process] = (time, number)
        return process
