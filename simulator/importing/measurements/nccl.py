"""Tables of nccl-tests -> measured all-reduces, as a calibration has them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulator.importing.measurements.found import Outcome
from simulator.importing.measurements.source import Source
from simulator.spec.hardware import AllReduceCost

_RANK = re.compile(r"#\s+Rank\s+([0-9]{1,6})\s.* on\s+(\S+)\s+device\s+[0-9]+(?:\s+\[\S+\])?\s*(.*)")
_ROW = re.compile(r"^\s*[0-9]+\s+[0-9]+\s+\w+")
_COLUMNS = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,6})?")


@dataclass(frozen=True)
class _Row:
    line: int
    size: int
    time_us: float
    ratio: float
    """busbw over algbw: 2 (n-1) / n of an all-reduce."""


def read_nccl(source: Source) -> Outcome:
    """The out-of-place times, as a table for `all_reduce` in a calibration."""
    ranks, hosts, chips = _devices(source)
    rows: list[_Row] = []
    for number, line in enumerate(source.lines, 1):
        if _ROW.match(line):
            rows.append(_row(source, number, line))
            if len(rows) > 1 and rows[-1].size <= rows[-2].size:
                raise source.refusal(number, "size", f"sizes in rising order; the line before has {rows[-2].size}")
        elif line.strip() and not line.lstrip().startswith("#") and rows:
            raise source.refusal(number, "size", "a row of numbers, or a comment that starts with #")
    if not rows:
        raise source.refusal(1, "size", "at least one row of sizes and times", "")
    number = ranks or _ranks(source, rows)
    _check_ratio(source, rows, number)
    return _outcome(rows, number, hosts, chips)


def _devices(source: Source) -> tuple[int, int, str]:
    """Ranks, hosts and the name of the device, 0 and empty where they are not told."""
    found = [match for line in source.lines if (match := _RANK.match(line))]
    ranks = max((int(match[1]) + 1 for match in found), default=0)
    names = {match[3].strip() for match in found}
    return ranks, len({match[2] for match in found}), ", ".join(sorted(names))[:120]


def _row(source: Source, number: int, line: str) -> _Row:
    words = line.split()
    if len(words) < len(_COLUMNS):
        name = _COLUMNS[len(words)]
        raise source.refusal(number, name, f"a column '{name}': the row is cut")
    for name in ("size", "count", "time", "algbw", "busbw"):
        word = words[_COLUMNS.index(name)]
        if not _NUMBER.fullmatch(word) or float(word) <= 0:
            raise source.refusal(number, name, "a number of more than 0", word)
    if words[8] not in {"0", "N/A"}:
        raise source.refusal(number, "#wrong", "0 wrong values: what is summed wrongly was not all-reduced", words[8])
    if "." in words[0]:
        raise source.refusal(number, "size", "a whole number of bytes", words[0])
    size, time_us, algbw, busbw = int(words[0]), float(words[5]), float(words[6]), float(words[7])
    if algbw >= 1 and abs(size / time_us / 1e3 / algbw - 1) > 0.02:
        raise source.refusal(number, "algbw", f"size / time, {size / time_us / 1e3:.2f} GB/s", words[6])
    return _Row(number, size, time_us, busbw / algbw)


def _ranks(source: Source, rows: list[_Row]) -> int:
    ratio = rows[-1].ratio
    ranks = round(2 / (2 - ratio)) if ratio < 1.999 else 0
    if ranks < 2:
        raise source.refusal(
            rows[-1].line, "busbw", "a list of ranks, or busbw / algbw of 1 to 1.99, that tells how many"
        )
    return ranks


def _check_ratio(source: Source, rows: list[_Row], ranks: int) -> None:
    wanted = 2 * (ranks - 1) / ranks
    # Small payloads have bandwidths of few digits: the largest tells the collective.
    if abs(rows[-1].ratio - wanted) > 0.02:
        accepts = f"busbw / algbw of {wanted:.3f}, as an all-reduce of {ranks} has; this is another collective"
        raise source.refusal(rows[-1].line, "busbw", accepts)


def _outcome(rows: list[_Row], ranks: int, hosts: int, chips: str) -> Outcome:
    table = [{"payload": f"{row.size} B", "time": f"{row.time_us:g} us"} for row in rows]
    AllReduceCost.model_validate({"algorithm": "table", "table": tuple(table)})
    lines = "".join(f"    - {{payload: {one['payload']}, time: {one['time']}}}\n" for one in table)
    of = f"{ranks} x {chips or 'chip'}{f' on {hosts} hosts' if hosts > 1 else ''}"
    text = f"# All-reduces of {of}, measured by nccl-tests: for one of `parameters` of a calibration.\n"
    outcome = Outcome(written=f"{text}chips: {ranks}\nall_reduce:\n  algorithm: table\n  table:\n{lines}")
    outcome.what = f"{len(rows)} all-reduces of {of}"
    outcome.converted.append("time, out of place, read as the time of one all-reduce of `size` bytes on each rank")
    outcome.left_out.append("in-place times, algbw and busbw: the same measurement in other words, or nearly so")
    if hosts > 1:
        outcome.notes.append(
            f"the ranks lie on {hosts} hosts: this is an all-reduce over the network, not within a host"
        )
    return outcome
