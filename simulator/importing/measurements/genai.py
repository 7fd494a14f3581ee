"""Exports of genai-perf and AIPerf: a mapping a metric, each with its unit and statistics."""

from __future__ import annotations

from simulator.importing.measurements.fields import Fields
from simulator.importing.measurements.found import Finding, Outcome
from simulator.importing.measurements.serving import MEAN_LENGTHS_DIFFER
from simulator.importing.measurements.source import Source

_SCALES = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_TIMES = (("request_latency", "e2e_s"), ("time_to_first_token", "ttft_s"), ("inter_token_latency", "tpot_s"))
_CONCURRENCY = (("input_config",), ("input_config", "loadgen"), ("input_config", "perf_analyzer", "stimulus"))
_STREAMING = (("input_config",), ("input_config", "endpoint"))
_LENGTHS = (
    ("input_sequence_length", "workload.prompt_tokens"),
    ("output_sequence_length", "workload.output_tokens"),
)
_THROUGHPUTS = {
    "output_token_throughput": "of all requests, prefill and idle time included; tokens_per_s is of decoding alone",
    "output_token_throughput_per_request": "output tokens over the whole latency of a request, not 1 / TPOT",
    "output_token_throughput_per_user": "1 / inter_token_latency by request; TPOT is read from that",
}


def read_genai(source: Source) -> Outcome:
    """One export."""
    top = source.json()
    finding = Finding("a run", top.place())
    streamed = _streamed(top)
    latency = _average(top, "request_latency")
    for name, metric in _TIMES:
        value = _average(top, name)
        if value is None:
            continue
        finding.read[name] = value
        # Without streaming the whole answer is one chunk, and the first token is not seen by itself.
        if metric != "e2e_s" and (streamed is False or (metric == "ttft_s" and value == latency)):
            finding.left_out.append(f"{name}: answers were not streamed, so the first token was not timed")
            continue
        finding.put(metric, value)
        if metric == "tpot_s":
            finding.converted.append("inter_token_latency read as TPOT: it is (latency - TTFT) / (output tokens - 1)")
    for name, why in _THROUGHPUTS.items():
        part = top.part(name)
        if part is not None:
            finding.read[name] = part.number("avg")
            finding.left_out.append(f"{name}: {why}")
    for name in ("inter_chunk_latency", "time_to_second_token"):
        if top.part(name) is not None:
            finding.left_out.append(f"{name}: gaps between emissions, not TPOT")
    _states(top, finding)
    if not finding.metrics:
        top.refuse("request_latency", "a time: request_latency, time_to_first_token or inter_token_latency")
    top.check()
    return Outcome([finding.finish()])


def _average(top: Fields, name: str) -> float | None:
    """The mean of a metric in seconds."""
    part = top.part(name)
    if part is None:
        if top.has(name):
            top.refuse(name, "a mapping with 'unit' and 'avg'")
        return None
    unit = part.word("unit", need=True)
    if unit is None:
        return None
    if unit not in _SCALES:
        part.refuse("unit", f"a unit of time: {', '.join(_SCALES)}")
        return None
    return part.seconds("avg", _SCALES[unit], need=True)


def _streamed(top: Fields) -> bool | None:
    for keys in _STREAMING:
        part = top.part(*keys)
        value = part.data.get("streaming") if part is not None else None
        if isinstance(value, bool):
            return value
    return None


def _states(top: Fields, finding: Finding) -> None:
    for keys in _CONCURRENCY:
        part = top.part(*keys)
        value = part.whole("concurrency", 1) if part is not None and part.has("concurrency") else None
        if part is not None and value is not None:
            finding.state("workload.batch", value, "concurrency", part.place("concurrency"))
            finding.label = f"batch {value}"
            break
    for name, path in _LENGTHS:
        part = top.part(name)
        mean = part.number("avg", above=True) if part is not None else None
        if part is not None and mean is not None:
            finding.state(path, mean, name, part.place("avg"), max(0.5, MEAN_LENGTHS_DIFFER * mean))
    finding.notes.append("the file says nothing of acceptance: the scenario's draft and lookahead are believed")
