"""vLLM's lines about throughput: where the same requests run through a whole interval, they tell the TPOT."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field

from simulator.importing.measurements.found import Finding, Outcome, spread
from simulator.importing.measurements.source import Source

SIGN = "Avg generation throughput:"
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_LINE = re.compile(
    rf"(Engine [0-9]+: )?Avg prompt throughput: {_NUMBER} tokens/s, Avg generation throughput: {_NUMBER} tokens/s, "
    r"Running: ([0-9]{1,9}) reqs, (?:Swapped: [0-9]+ reqs, )?(?:Waiting|Pending): ([0-9]{1,9}) reqs"
)


@dataclass
class EngineLines:
    """Throughputs of the intervals in which nothing began or ended, by the number of running requests."""

    kept: dict[int, list[float]] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    lines: int = 0
    before: dict[str, int] = field(default_factory=dict)

    def add(self, number: int, line: str, process: str) -> str:
        """Read a line; why it cannot be, or nothing."""
        match = _LINE.search(line)
        if match is None:
            return "prompt and generation throughput, Running and Waiting are not all there"
        self.lines += 1
        engine = f"{process} {match[1] or ''}"
        prompt, speed, running = float(match[2]), float(match[3]), int(match[4])
        # No prompt was read and as many run as before: none ended, for nothing came in its place.
        if running and speed and not prompt and self.before.get(engine) == running:
            self.kept.setdefault(running, []).append(speed)
            self.first.setdefault(running, number)
        self.before[engine] = running
        return ""

    def findings(self, source: Source, acceptance: Finding | None, outcome: Outcome) -> list[Finding]:
        """One finding for each number of running requests, with the acceptance of the whole log."""
        kept = sum(map(len, self.kept.values()))
        if self.lines > kept:
            outcome.left_out.append(
                f"generation throughput of {self.lines - kept} of {self.lines} lines: requests came or went, or none"
            )
        found = [self._finding(source, running, acceptance) for running in sorted(self.kept)]
        return found or ([acceptance] if acceptance is not None else [])

    def _finding(self, source: Source, running: int, acceptance: Finding | None) -> Finding:
        speeds = self.kept[running]
        place = source.place(self.first[running])
        label = f"batch {running}" if acceptance is None else f"{acceptance.label}, batch {running}"
        finding = Finding(label, place)
        if acceptance is not None:
            for name in ("stated", "metrics", "derived", "converted", "left_out", "notes", "read"):
                setattr(finding, name, getattr(acceptance, name).copy())
            if len(self.kept) > 1:
                finding.notes.append("acceptance is that of the whole log, whatever ran together")
        speed = statistics.median(speeds)
        finding.state("workload.batch", running, "Running", place)
        finding.read["generation_throughput"] = spread(speeds)
        many = f"median of {len(speeds)} interval{'s' * (len(speeds) != 1)}"
        finding.put("tokens_per_s", speed, f"{many} of generation throughput")
        finding.put("tpot_s", running / speed, "Running / generation throughput")
        finding.converted.append(
            f"Running / generation throughput read as TPOT: {running} / {speed:.4g} tokens/s, {many}"
        )
        return finding
