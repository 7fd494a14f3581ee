"""Which point of a scenario a measurement belongs to: that with which nothing that the file states disagrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.errors import ConfigError, Problem
from simulator.importing.measurements.found import Finding, Stated
from simulator.spec.load import Point
from simulator.spec.scenario import Scenario

_SHOWN = 8


@dataclass(frozen=True)
class Match:
    """Findings and their point."""

    point: Point
    findings: tuple[Finding, ...]


def value_at(scenario: Scenario, path: str) -> float:
    """What a scenario has at one of the paths that files state."""
    values = {
        "workload.batch": scenario.workload.batch,
        "workload.prompt_tokens": scenario.workload.prompt_tokens,
        "workload.output_tokens": scenario.workload.output_tokens,
        "deployment.chips": scenario.deployment.chips,
        "decoding.lookahead": scenario.lookahead,
    }
    return values[path]


def match(findings: Sequence[Finding], points: Sequence[Point], scenario_file: str) -> tuple[list[Match], list[str]]:
    """The findings with a point each, and what to say of those that have none.

    Raises:
        ConfigError: nothing fits, by the fields that disagree; several points fit; two findings of one quantity at one
            point.
    """
    chosen: dict[int, list[Finding]] = {}
    problems: list[Problem] = []
    lonely: list[tuple[Finding, list[Problem]]] = []
    for finding in findings:
        fitting = [index for index, point in enumerate(points) if not _disagreements(finding, point)]
        if len(fitting) == 1:
            chosen.setdefault(fitting[0], []).append(finding)
        elif fitting:
            problems.append(_several(finding, [points[index] for index in fitting], scenario_file))
        else:
            lonely.append((finding, _contradictions(finding, points)))
    for group in chosen.values():
        problems += _twice(group)
    if not chosen:
        problems += [problem for _, found in lonely[:_SHOWN] for problem in found]
    if problems:
        raise ConfigError(tuple(problems))
    said = [f"{finding.label}: {_why(found[0])}" for finding, found in lonely]
    return [Match(points[index], tuple(group)) for index, group in sorted(chosen.items())], said


def _disagreements(finding: Finding, point: Point) -> list[Stated]:
    """What a file states and a point has otherwise; a lookahead too small for the acceptance length is one."""
    wrong = [one for one in finding.stated if not one.fits(value_at(point.scenario, one.path))]
    length = finding.metrics.get("acceptance_length")
    if length is not None and length > point.scenario.lookahead + 1 + 1e-6:
        wrong.append(Stated("decoding.lookahead", length - 1, f"acceptance length {length:.3g}", finding.place))
    return wrong


def _contradictions(finding: Finding, points: Sequence[Point]) -> list[Problem]:
    """Fields that disagree with the nearest points; one entry a field."""
    by_point = [_disagreements(finding, point) for point in points]
    least = min(by_point, key=len)
    problems = []
    for one in least:
        known = list(dict.fromkeys(f"{value_at(point.scenario, one.path):g}" for point in points))
        shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
        accepts = f"{one.path} as in the scenario, which is {shown}; the file states {one.value:.4g} ({one.field})"
        problems.append(one.place.problem(one.path, accepts))
    return problems


def _why(problem: Problem) -> str:
    return f"no point of the scenario has its {problem.path}"


def _several(finding: Finding, points: Sequence[Point], scenario_file: str) -> Problem:
    axes = [path for path in points[0].axes if len({str(point.axes.get(path)) for point in points}) > 1]
    example = f"--set {axes[0]}={points[0].axes[axes[0]]}" if axes else "--set PATH=VALUE"
    differ = f"{len(points):,} fit what the file states of {finding.label}, and differ in {', '.join(axes)}"
    accepts = f"one point: {differ}; {example} picks"
    return Problem(f"--scenario {scenario_file}", 0, 0, "", "", accepts)


def _twice(group: Sequence[Finding]) -> list[Problem]:
    """Findings that measured the same quantity at the same point."""
    owners: dict[str, Finding] = {}
    for finding in group:
        for metric in finding.metrics:
            other = owners.setdefault(metric, finding)
            if other is not finding:
                accepts = f"one measurement of {metric} for a point; '{other.label}' has it too: --only TEXT picks one"
                return [finding.place.problem(metric, accepts, finding.label)]
    return []
