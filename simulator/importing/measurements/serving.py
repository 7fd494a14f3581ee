"""Results of `vllm bench serve` and of SGLang's bench_serving: one mapping a run, in one file or one on each line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulator.importing.measurements.definitions import MOST_TOKENS, put_length, put_ratio, put_survival, survival_off
from simulator.importing.measurements.fields import LONGEST_S, Fields
from simulator.importing.measurements.found import Finding, Outcome
from simulator.importing.measurements.source import Source

MEAN_LENGTHS_DIFFER = 0.05
"""By how much mean lengths of requests may differ from those of a scenario."""
_STATISTIC = re.compile(r"(mean|median|std|p[0-9.]{1,6})_(ttft|tpot|itl|e2el|e2e_latency)(_ms)?$")
_METRICS = (("ttft", "ttft_s"), ("tpot", "tpot_s"), ("e2el", "e2e_s"), ("e2e_latency", "e2e_s"))
_CHIPS = ("tensor_parallel_size", "tp", "tp_size")


@dataclass(frozen=True)
class Tool:
    """What the two tools call the same things."""

    name: str
    model: tuple[str, ...]
    length: str
    """Key of the acceptance length."""


VLLM = Tool("vLLM", ("model_id", "tokenizer_id"), "spec_decode_acceptance_length")
SGLANG = Tool("SGLang", ("model", "model_id", "tokenizer_id", "backend"), "accept_length")


def read_vllm(source: Source) -> Outcome:
    """Runs of `vllm bench serve`."""
    return _read(source, VLLM)


def read_sglang(source: Source) -> Outcome:
    """Runs of SGLang's bench_serving."""
    return _read(source, SGLANG)


def _read(source: Source, tool: Tool) -> Outcome:
    runs = source.records()
    findings = [_run(run, tool) for run in runs]
    for run in runs:
        run.check()
    return Outcome([finding.finish() for finding in findings])


def _run(run: Fields, tool: Tool) -> Finding:
    finding = Finding("", run.place())
    _times(run, finding)
    _load(run, finding)
    _lengths(run, finding)
    _acceptance(run, finding, tool)
    model = next((run.data[key] for key in tool.model if isinstance(run.data.get(key), str)), "a run")
    batch = next((f"batch {one.value:g}" for one in finding.stated if one.path == "workload.batch"), "")
    finding.model = str(model)
    finding.label = ", ".join(part for part in (finding.model, batch) if part)
    _throughput(run, finding)
    if not finding.metrics and not run.problems:
        run.refuse("mean_tpot_ms", "a time, as mean_tpot_ms or median_tpot; there is none of any kind")
    return finding


def _times(run: Fields, finding: Finding) -> None:
    """Means where there are any, medians otherwise; the other statistics are kept beside the record."""
    found: dict[str, dict[str, tuple[str, float]]] = {}
    for key in run.data:
        match = _STATISTIC.fullmatch(str(key))
        if match is None or not run.has(str(key)):
            continue
        scale = 1e-3 if match[3] else 1.0
        value = run.number(str(key), 0.0, LONGEST_S / scale)
        if value is not None:
            found.setdefault(match[2], {})[match[1]] = (str(key), value * scale)
            finding.read[str(key)] = value
    for quantity, metric in _METRICS:
        _one_time(finding, quantity, metric, found.get(quantity, {}))
    if "itl" in found:
        keys = ", ".join(key for key, _ in found["itl"].values())
        finding.left_out.append(f"{keys}: gaps between emissions, which carry 1 to K+1 tokens each, and not TPOT")


def _one_time(finding: Finding, quantity: str, metric: str, known: dict[str, tuple[str, float]]) -> None:
    which = next((name for name in ("mean", "median") if name in known), None)
    if which is None:
        if known:
            keys = ", ".join(key for key, _ in known.values())
            finding.left_out.append(f"{keys}: a record has the mean, or the median where there is no mean")
        return
    key, value = known[which]
    if value <= 0:
        finding.left_out.append(f"{key}: zero, so nothing was timed")
        return
    finding.put(metric, value, "" if which == "mean" else f"the {which} of the requests; the file has no mean")
    if metric == "tpot_s":
        finding.converted.append(f"{key} read as TPOT: per output token, the first excluded")
    others = [other for name, (other, _) in known.items() if name != which]
    if others:
        finding.left_out.append(f"{', '.join(others)}: a record has one {quantity}; kept in its provenance")


def _load(run: Fields, finding: Finding) -> None:
    """How many sequences ran together, where the file says so."""
    limit = run.whole("max_concurrency", 1)
    completed = run.whole("completed", 1, need=True)
    mean = run.number("concurrency", above=True)
    rate = run.data.get("request_rate")
    endless = rate in ("inf", "Infinity", None)
    if not endless:
        rate = run.number("request_rate", above=True)
    chips = next((key for key in _CHIPS if run.has(key)), None)
    if chips is not None:
        value = run.data[chips]
        if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,4}", value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 100_000:
            finding.state("deployment.chips", value, chips, run.place(chips))
        else:
            run.refuse(chips, "a number of chips from 1 to 100,000")
    if endless and limit is not None and completed is not None and completed >= limit:
        finding.state("workload.batch", limit, "max_concurrency", run.place("max_concurrency"))
    elif mean is not None:
        finding.state("workload.batch", mean, "concurrency", run.place("concurrency"), max(0.5, 0.1 * mean))
        finding.notes.append(f"requests came at their own rate: {mean:.3g} ran together on average")
    else:
        finding.notes.append("the file does not say how many requests ran together: the scenario's batch is believed")


def _lengths(run: Fields, finding: Finding) -> None:
    completed = run.number("completed")
    for key, path in (
        ("total_input_tokens", "workload.prompt_tokens"),
        ("total_output_tokens", "workload.output_tokens"),
    ):
        total = run.number(key, 1, need=True)
        if total is not None and completed:
            mean = total / completed
            finding.state(path, mean, f"{key} / completed", run.place(key), max(0.5, MEAN_LENGTHS_DIFFER * mean))


def _acceptance(run: Fields, finding: Finding, tool: Tool) -> None:
    length = run.number(tool.length, 1.0, MOST_TOKENS)
    accepted = run.number("spec_decode_accepted_tokens")
    proposed = run.number("spec_decode_draft_tokens", above=True)
    percent = run.number("spec_decode_acceptance_rate", 0.0, 100.0)
    key = "spec_decode_per_position_acceptance_rates"
    shares = run.numbers(key, 0.0, 1.0) if run.has(key) else None
    if length is None:
        finding.notes.append("the file says nothing of acceptance: the scenario's draft and lookahead are believed")
        return
    put_length(finding, length, f"{tool.name}'s definition")
    if accepted is not None and proposed is not None and accepted > proposed:
        run.refuse("spec_decode_accepted_tokens", f"at most spec_decode_draft_tokens, {proposed:.0f}")
    elif accepted is not None and proposed is not None:
        put_ratio(finding, accepted, proposed, f"{tool.name}'s counters")
    elif percent is not None:
        put_ratio(finding, percent / 100, 1.0, f"{tool.name}'s percentage")
    if shares:
        if not put_survival(finding, shares, f"{tool.name}'s definition"):
            run.refuse(key, "rates that never rise: each is the share of rounds that kept at least so many tokens")
        elif abs(1 + sum(shares) - length) > survival_off(len(shares)):
            run.refuse(key, f"rates that add up to {tool.length} - 1, {length - 1:.4g}")
        finding.state("decoding.lookahead", len(shares), f"length of {key}", run.place(key))


def _throughput(run: Fields, finding: Finding) -> None:
    for key in ("output_throughput", "request_throughput", "input_throughput", "total_token_throughput"):
        value = run.number(key)
        if value is not None:
            finding.read[key] = value
    total, duration = run.number("total_output_tokens"), run.number("duration", above=True)
    speed = finding.read.get("output_throughput")
    if speed is not None and total and duration and not 0.98 < speed * duration / total < 1.02:
        run.refuse("output_throughput", f"total_output_tokens / duration, about {total / duration:.4g}")
    if "output_throughput" in finding.read:
        finding.left_out.append(
            "output_throughput: of all requests over the whole run, prefill and idle time included; tokens_per_s is of "
            "decoding alone"
        )
