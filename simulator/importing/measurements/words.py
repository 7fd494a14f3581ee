"""An import of measurements in words: what was read, converted and left out, and what a record still needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from simulator.importing.measurements.found import Finding, shown
from simulator.importing.measurements.reading import Imported
from simulator.spec.document import shorten

_MOST = 12
"""Findings and unreadable lines that are told one by one."""


def report_lines(imported: Imported) -> list[str]:
    """The report, one line each."""
    outcome = imported.outcome
    lines = [f"read: {imported.file} as {imported.format.name}, {imported.format.what}"]
    if outcome.what:
        lines.append(f"found: {outcome.what}")
    lines += [f"found: {_found(finding)}" for finding in outcome.findings[:_MOST]]
    if len(outcome.findings) > _MOST:
        lines.append(f"found: {len(outcome.findings) - _MOST} more configurations")
    lines += _once("converted", outcome.converted, (finding.converted for finding in outcome.findings))
    lines += [f"derived: {text}" for text in _derived(outcome.findings)]
    lines += _once("left out", outcome.left_out, (finding.left_out for finding in outcome.findings))
    lines += list(_unreadable(outcome.unreadable))
    lines += _once("note", outcome.notes, (finding.notes for finding in outcome.findings))
    return [_plain(line) for line in lines]


def _found(finding: Finding) -> str:
    values = ", ".join(shown(name, value) for name, value in finding.metrics.items())
    return f"{finding.label}: {values}" if values else finding.label


def _once(word: str, first: Iterable[str], groups: Iterable[Iterable[str]]) -> list[str]:
    """Each line once; of those that differ in their numbers from finding to finding, a few."""
    every = list(dict.fromkeys([*first, *(text for group in groups for text in group)]))
    lines = [f"{word}: {text}" for text in every[:_MOST]]
    return lines + ([f"{word}: {len(every) - _MOST} more like these"] if len(every) > _MOST else [])


def _derived(findings: Iterable[Finding]) -> list[str]:
    hows = ((name, how) for finding in findings for name, how in finding.derived.items())
    return [f"{name}: {how}" for name, how in dict.fromkeys(hows)]


def _unreadable(lines: list[tuple[int, str]]) -> Iterator[str]:
    if lines:
        numbers = ", ".join(f"{number} ({why})" for number, why in lines[:_MOST])
        more = f" and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
        yield f"unreadable: {len(lines)} line{'s' * (len(lines) != 1)}, not used: {numbers}{more}"


def data_of(imported: Imported) -> dict[str, Any]:
    """The findings as plain data for JSON: what is not a record for want of a scenario."""
    return {
        "measurements": [
            {
                "configuration": finding.label,
                "line": finding.place.line,
                "stated": {one.path: one.value for one in finding.stated},
                "metrics": finding.metrics,
                "derived": finding.derived,
                "read": finding.read,
            }
            for finding in imported.outcome.findings
        ]
    }


def needs(imported: Imported) -> str:
    """What a record of these findings still needs."""
    return (
        "needed: a record is about a scenario: --scenario FILE names it; of its sweep, the point is taken with which "
        f"the file agrees in {_fields(imported.outcome.findings)}"
    )


def _fields(findings: Iterable[Finding]) -> str:
    paths = dict.fromkeys(one.path for finding in findings for one in finding.stated)
    return ", ".join(paths) or "nothing: it states nothing of the question"


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in shorten(text, 600))
