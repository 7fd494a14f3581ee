"""Print what was found: ``n`` and chi-square of every test that recorded it."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for every recorded figure, at the end of the run."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {name}: {value}"
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in getattr(report, "user_properties", ())
    ]
    if lines:
        terminalreporter.section("laws")
        for line in lines:
            terminalreporter.write_line(line)
