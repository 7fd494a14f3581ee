"""Lines about speculation in the logs of vLLM: those of its first engine and those of its second."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from simulator.importing.measurements.definitions import (
    MOST_TOKENS,
    ROUNDED,
    put_length,
    put_ratio,
    put_survival,
    survival_off,
)
from simulator.importing.measurements.engine_lines import SIGN, EngineLines
from simulator.importing.measurements.found import Finding, Outcome
from simulator.importing.measurements.log_times import Clock
from simulator.importing.measurements.source import Source

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
_COUNT = r"([0-9]{1,15})"
_V1 = re.compile(r"SpecDecoding metrics: (.*)")
_RATE = re.compile(rf"(?:Avg )?Draft acceptance rate: {_NUMBER}\s*%")
_LENGTH = re.compile(rf"Mean acceptance length: {_NUMBER}(?:,|\s|$)")
_ACCEPTED = re.compile(rf"Accepted: {_COUNT} tokens")
_DRAFTED = re.compile(rf"Drafted: {_COUNT} tokens")
_SHARES = re.compile(r"Per-position acceptance rate: ((?:[0-9.]+)(?:, *[0-9.]+)*)(?:,\s*(?:Avg|$)|\s|$)")
_SHARE = re.compile(r"[01]\.[0-9]{3}")
_V0 = re.compile(
    rf"Speculative metrics: Draft acceptance rate: {_NUMBER}, System efficiency: {_NUMBER}, "
    rf"Number of speculative tokens: {_COUNT}, Number of accepted tokens: {_COUNT}, "
    rf"Number of draft tokens: {_COUNT}, Number of emitted tokens: {_COUNT}"
)


@dataclass
class _Sums:
    """What the lines of the second engine add up to."""

    accepted: int = 0
    drafted: int = 0
    rounds: float = 0.0
    survived: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    positions: int = 0
    first: int = 0


@dataclass(frozen=True)
class _Line:
    """One line of the second engine."""

    number: int
    length: float
    accepted: int
    drafted: int
    shares: list[float]
    cut: bool
    """Whether a rate by position is no such number."""


def read_vllm_log(source: Source) -> Outcome:
    """Lines `SpecDecoding metrics`: counts of one interval each, which are added up; and lines about throughput."""
    outcome, clock, sums, engines = Outcome(), Clock(source), _Sums(), EngineLines()
    for number, line in enumerate(source.lines, 1):
        match = _V1.search(line)
        if match is None and SIGN not in line:
            continue
        process = clock.check(number, line)
        why = _add(sums, match[1], number) if match else engines.add(number, line, process)
        if why:
            outcome.unreadable.append((number, why))
    acceptance = _of_sums(source, sums) if sums.rounds else None
    outcome.findings = [one.finish() for one in engines.findings(source, acceptance, outcome)]
    if not outcome.findings:
        number, why = outcome.unreadable[0] if outcome.unreadable else (1, "there are none")
        accepts = f"a whole line of vLLM's metrics with drafts, or intervals in which the same requests ran; {why}"
        raise source.refusal(number, "SpecDecoding metrics", accepts)
    return outcome


def _add(sums: _Sums, text: str, number: int) -> str:
    """Add a line; why not, where it cannot be."""
    found = [pattern.search(text) for pattern in (_LENGTH, _ACCEPTED, _DRAFTED, _SHARES)]
    names = ("Mean acceptance length", "Accepted", "Drafted", "Per-position acceptance rate")
    missing = [name for name, match in zip(names, found, strict=True) if match is None]
    if missing:
        return f"{missing[0]} is missing or no number"
    length, accepted, drafted = (match[1] if match else "" for match in found[:3])
    words = (found[3][1] if found[3] else "").replace(" ", "").split(",")
    shares = [float(word) for word in words if _SHARE.fullmatch(word)]
    line = _Line(number, float(length), int(accepted), int(drafted), shares, len(shares) < len(words))
    return _doubt(sums, line, _RATE.search(text)) or _add_counts(sums, line)


def _doubt(sums: _Sums, line: _Line, percent: re.Match[str] | None) -> str:
    """What a line says against itself or against those before it; empty where nothing."""
    pairs = zip([1.0, *line.shares], line.shares, strict=False)
    if line.cut or len(line.shares) >= MOST_TOKENS or any(after > before + 0.0011 for before, after in pairs):
        return "Per-position acceptance rate is cut, above 1 or rises"
    if sums.positions and len(line.shares) != sums.positions:
        return f"Per-position acceptance rate has {len(line.shares)} positions, earlier lines {sums.positions}"
    rate = 100 * line.accepted / max(line.drafted, 1)
    if line.accepted > line.drafted or (percent and line.drafted and abs(float(percent[1]) - rate) > 0.06):
        return "Draft acceptance rate is not Accepted / Drafted"
    if line.drafted and abs(1 + sum(line.shares) - line.length) > survival_off(len(line.shares)):
        return "Per-position acceptance rates do not add up to Mean acceptance length - 1"
    return ""


def _add_counts(sums: _Sums, line: _Line) -> str:
    if not line.drafted:
        return ""
    positions, length = len(line.shares), line.length
    rounds = line.drafted / positions
    if abs(1 + line.accepted / rounds - length) > ROUNDED:
        # Some drafts were shorter than the longest: the length tells how many there were.
        rounds = line.accepted / (length - 1) if length > 1 else rounds
        if not 1 <= length <= positions + 1 + ROUNDED or rounds * positions < line.drafted * 0.99:
            return "Mean acceptance length does not go with Accepted and Drafted"
    sums.first = sums.first or line.number
    sums.positions = positions
    sums.accepted += line.accepted
    sums.drafted += line.drafted
    sums.rounds += rounds
    sums.lengths.append(length)
    old = sums.survived or [0.0] * positions
    sums.survived = [before + share * rounds for before, share in zip(old, line.shares, strict=True)]
    return ""


def _of_sums(source: Source, sums: _Sums) -> Finding:
    place = source.place(sums.first)
    finding = Finding(f"K {sums.positions}", place)
    finding.state("decoding.lookahead", sums.positions, "positions of Per-position acceptance rate", place)
    lines = len(sums.lengths)
    spread = f"; {min(sums.lengths):.2f} to {max(sums.lengths):.2f} over {lines} lines" if lines > 1 else ""
    put_length(finding, 1 + sums.accepted / sums.rounds, f"vLLM's definition{spread}")
    put_ratio(finding, sums.accepted, sums.drafted, "vLLM's Accepted / Drafted")
    put_survival(finding, [one / sums.rounds for one in sums.survived], "vLLM's definition")
    finding.read |= {"accepted": sums.accepted, "drafted": sums.drafted, "lines": lines}
    return finding


def read_vllm_v0_log(source: Source) -> Outcome:
    """Lines `Speculative metrics`: counts since the start, of which the last line tells all."""
    outcome, clock = Outcome(), Clock(source)
    last: dict[str, tuple[tuple[float, ...], int]] = {}
    for number, line in enumerate(source.lines, 1):
        if "Speculative metrics:" not in line:
            continue
        match = _V0.search(line)
        why = _v0_doubt(match) if match else "not all of its counts are there"
        if match is None or why:
            outcome.unreadable.append((number, why))
            continue
        process = clock.check(number, line)
        values = tuple(map(float, match.groups()))
        before, where = last.get(process, (values, number))
        if values[4] < before[4] or values[2] != before[2]:
            accepts = f"counts that do not fall behind those of line {where}, and one K: a restart, or two logs in one"
            raise source.refusal(number, "Number of draft tokens", accepts, match[5])
        last[process] = (values, number)
    if not last:
        number, why = outcome.unreadable[0] if outcome.unreadable else (1, "there is none")
        raise source.refusal(number, "Speculative metrics", f"a whole line of vLLM's metrics; {why}")
    outcome.findings = [_of_v0(source, process, *one) for process, one in last.items()]
    return outcome


def _v0_doubt(match: re.Match[str]) -> str:
    rate, efficiency, ahead, accepted, drafted, emitted = map(float, match.groups())
    if not 1 <= ahead < MOST_TOKENS or drafted < ahead:
        return "Number of speculative tokens is not 1 to 64, or nothing was drafted"
    if abs(rate - accepted / drafted) > 0.0011:
        return "Draft acceptance rate is not accepted / draft tokens"
    most = drafted / ahead * (ahead + 1)
    if not 0 <= emitted <= most * 1.001 or abs(efficiency - emitted / most) > 0.0021:
        return "System efficiency is not emitted tokens over the most that could be"
    return ""


def _of_v0(source: Source, process: str, values: tuple[float, ...], number: int) -> Finding:
    rate, efficiency, ahead, _, drafted, emitted = values
    place, rounds = source.place(number), drafted / ahead
    finding = Finding(" ".join(part for part in (process, f"K {ahead:g}") if part), place)
    finding.state("decoding.lookahead", ahead, "Number of speculative tokens", place)
    put_length(finding, emitted / rounds, "emitted / (draft tokens / K), vLLM v0's counters", "emitted tokens / rounds")
    finding.put("draft_acceptance_ratio", max(emitted / rounds - 1, 0.0) / ahead, "(acceptance length - 1) / K")
    finding.converted.append(
        f"acceptance rate {rate:.3g} is no draft_acceptance_ratio: vLLM v0 judges every draft token by itself, those "
        "behind a rejected one too; the ratio is taken from emitted tokens"
    )
    finding.left_out.append(f"Draft acceptance rate {rate:.3g}, System efficiency {efficiency:.3g}: kept in provenance")
    finding.notes.append("counted since the server started; early versions emit no bonus token with a draft model")
    names = ("draft_acceptance_rate", "system_efficiency", "k", "accepted", "drafted", "emitted")
    finding.read = dict(zip(names, values, strict=True))
    return finding
