"""`Decode batch` lines of SGLang's server log."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from simulator.importing.measurements.definitions import MOST_TOKENS, put_length
from simulator.importing.measurements.found import Finding, Outcome, spread
from simulator.importing.measurements.log_times import Clock
from simulator.importing.measurements.source import Source

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_RUNNING = re.compile(r"#running-req: ([0-9]{1,9})(?:,|\s|$)")
_LENGTH = re.compile(rf"accept len: {_NUMBER}(?:,|\s|$)")
_RATE = re.compile(rf"accept rate: {_NUMBER}(?:,|\s|$)")
_SPEED = re.compile(rf"gen throughput \(token/s\): {_NUMBER}(?:,|\s|$)")


@dataclass(frozen=True)
class _Line:
    number: int
    running: int
    length: float | None
    rate: float | None
    tokens_per_s: float
    continued: bool
    """Whether the line before told of as many requests, so that nothing else happened in between."""


def read_sglang_log(source: Source) -> Outcome:
    """One finding for each number of running requests."""
    outcome, clock = Outcome(), Clock(source)
    before: dict[str, int] = {}
    groups: dict[int, list[_Line]] = {}
    for number, line in enumerate(source.lines, 1):
        process = clock.process(line)
        if "Decode batch" not in line:
            if "Prefill batch" in line:
                before.pop(process, None)
            continue
        clock.check(number, line)
        found = _read(line, number, before.get(process))
        if isinstance(found, str):
            outcome.unreadable.append((number, found))
            before.pop(process, None)
        else:
            before[process] = found.running
            groups.setdefault(found.running, []).append(found)
    groups.pop(0, None)
    if not groups:
        number, why = outcome.unreadable[0] if outcome.unreadable else (1, "there is none with running requests")
        raise source.refusal(number, "Decode batch", f"a whole 'Decode batch' line; {why}")
    outcome.findings = [_finding(source, running, lines).finish() for running, lines in sorted(groups.items())]
    return outcome


def _read(line: str, number: int, before: int | None) -> _Line | str:
    text = line[line.index("Decode batch") :]
    running, speed = _RUNNING.search(text), _SPEED.search(text)
    if running is None or speed is None:
        return f"{'gen throughput' if running else '#running-req'} is missing or no number"
    length, rate = _LENGTH.search(text), _RATE.search(text)
    if length is None and "accept len" in text:
        return "accept len is no number"
    if length is not None and not 1 <= float(length[1]) <= MOST_TOKENS:
        return "accept len is not from 1 to 65"
    count = int(running[1])
    return _Line(
        number,
        count,
        float(length[1]) if length else None,
        float(rate[1]) if rate else None,
        float(speed[1]),
        before == count,
    )


def _finding(source: Source, running: int, lines: list[_Line]) -> Finding:
    place = source.place(lines[0].number)
    finding = Finding(f"batch {running}", place)
    finding.state("workload.batch", running, "#running-req", place)
    lengths = [line.length for line in lines if line.length is not None]
    finding.read = {"gen throughput": spread([line.tokens_per_s for line in lines])}
    if lengths:
        # Every line is of as many passes, so that the plain mean weighs rounds alike.
        many = f", mean of {len(lengths)} lines" if len(lengths) > 1 else ""
        put_length(finding, statistics.fmean(lengths), f"SGLang's definition{many}")
        finding.read["accept len"] = spread(lengths)
        finding.left_out.append(
            "accept rate: accept len / draft tokens of the tree, root included, in some versions, accepted / proposed "
            "in others; draft_acceptance_ratio is not taken from it"
        )
    kept = [line.tokens_per_s for line in lines if line.continued and line.tokens_per_s > 0]
    if kept:
        speed = statistics.median(kept)
        finding.put("tokens_per_s", speed, f"median of gen throughput over {len(kept)} lines")
        finding.put("tpot_s", running / speed, "#running-req / gen throughput")
        finding.converted.append(
            f"#running-req / gen throughput read as TPOT: {running} / {speed:.4g} tokens/s, median of {len(kept)} lines"
        )
    if len(kept) < len(lines):
        why = "the first after a start, a prefill or another number of requests: idle time and prefill are in it"
        finding.left_out.append(f"gen throughput of {len(lines) - len(kept)} of {len(lines)} lines, {why}")
    if not lengths:
        finding.notes.append("no accept len: the server did not speculate, or its version does not say so")
    return finding
