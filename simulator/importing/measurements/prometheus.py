"""A scrape of vLLM's /metrics: counters of speculation and sums of times, since the server started."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from simulator.importing.measurements.definitions import put_length, put_ratio, put_survival
from simulator.importing.measurements.fields import LARGEST
from simulator.importing.measurements.found import Finding, Outcome
from simulator.importing.measurements.source import Source

_SERIES = re.compile(r"^(vllm:[a-z0-9_]+)(?:\{(.*)\})?\s+(\S+)(?:\s+[0-9]+)?\s*$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?")
_READ = re.compile(
    r"vllm:(?:spec_decode_num_(?:drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?"
    r"|(?:time_to_first_token_seconds|e2e_request_latency_seconds|request_time_per_output_token_seconds"
    r"|time_per_output_token_seconds|inter_token_latency_seconds|request_prompt_tokens|request_generation_tokens)"
    r"_(?:sum|count))"
)
_TIMES = (
    ("time_to_first_token_seconds", "ttft_s"),
    ("request_time_per_output_token_seconds", "tpot_s"),
    ("e2e_request_latency_seconds", "e2e_s"),
)
_GAPS = ("time_per_output_token_seconds", "inter_token_latency_seconds")
_LENGTHS = (
    ("request_prompt_tokens", "workload.prompt_tokens"),
    ("request_generation_tokens", "workload.output_tokens"),
)
Series = dict[str, tuple[float, int]]
"""Sums over engines by name (and position), with the line of the first."""


def read_prometheus(source: Source) -> Outcome:
    """One finding for each served model."""
    models = _series(source)
    if not models:
        raise source.refusal(
            1, "vllm:spec_decode_num_drafts_total", "at least one counter of vLLM that a record can use"
        )
    return Outcome([_finding(source, name, found).finish() for name, found in models.items()])


def _series(source: Source) -> dict[str, Series]:
    models: dict[str, Series] = {}
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(source.lines, 1):
        if not line.startswith("vllm:") or not _READ.match(line):
            continue
        match = _SERIES.match(line)
        if match is None:
            raise source.refusal(number, line[:60].partition("{")[0], "name{labels} and a number, on one line")
        if not _READ.fullmatch(match[1]):
            continue
        if (match[1], match[2] or "") in seen:
            raise source.refusal(
                number, match[1], f"each series once; it is on line {seen[match[1], match[2] or '']} too"
            )
        seen[match[1], match[2] or ""] = number
        value = float(match[3]) if _NUMBER.fullmatch(match[3]) else math.nan
        if not value <= LARGEST:
            raise source.refusal(number, match[1], f"a number from 0 to {LARGEST:g}", match[3])
        _count(source, models, match, value, number)
    return models


def _count(source: Source, models: dict[str, Series], match: re.Match[str], value: float, number: int) -> None:
    labels = dict(_LABEL.findall(match[2] or ""))
    name = match[1].removeprefix("vllm:").removesuffix("_total")
    if name.endswith("_per_pos"):
        position = labels.get("position", "")
        if not re.fullmatch(r"[0-9]{1,2}", position):
            raise source.refusal(number, match[1], 'a label position="0" to "63"')
        name = f"{name}[{int(position)}]"
    found = models.setdefault(labels.get("model_name", "the served model"), {})
    before, line = found.get(name, (0.0, number))
    found[name] = (before + value, line)


def _finding(source: Source, model: str, found: Series) -> Finding:
    finding = Finding(model, source.place(min(line for _, line in found.values())), model=model)
    finding.read = {name: value for name, (value, _) in found.items()}
    finding.notes.append("counted since the server started, over whatever load it had")
    if "spec_decode_num_drafts" in found:
        _acceptance(source, finding, found)
    for name, metric in _TIMES:
        finding.put(metric, _mean(source, found, name), "sum / count of the histogram")
    if "tpot_s" in finding.metrics:
        finding.converted.append("request_time_per_output_token read as TPOT: per output token, the first excluded")
    for name in _GAPS:
        if _mean(source, found, name) is not None:
            finding.left_out.append(f"{name}: gaps between emissions, which carry 1 to K+1 tokens each, and not TPOT")
    for name, path in _LENGTHS:
        mean = _mean(source, found, name)
        if mean is not None:
            finding.state(path, mean, name, source.place(found[f"{name}_sum"][1]), max(0.5, 0.1 * mean))
    if not finding.metrics:
        raise source.refusal(finding.place.line, model[:60], "counters above 0: nothing was served or drafted yet")
    return finding


def _mean(source: Source, found: Mapping[str, tuple[float, int]], name: str) -> float | None:
    total, count = found.get(f"{name}_sum"), found.get(f"{name}_count")
    if total is None and count is None:
        return None
    if total is None or count is None:
        there = total or count or (0.0, 1)
        raise source.refusal(there[1], f"vllm:{name}", "both _sum and _count; one of them is missing")
    return total[0] / count[0] if count[0] > 0 and total[0] > 0 else None


def _acceptance(source: Source, finding: Finding, found: Series) -> None:
    rounds, at = found["spec_decode_num_drafts"]
    for name in ("spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens"):
        if name not in found:
            raise source.refusal(at, f"vllm:{name}_total", "this counter beside spec_decode_num_drafts; it is missing")
    drafted, drafted_at = found["spec_decode_num_draft_tokens"]
    accepted, accepted_at = found["spec_decode_num_accepted_tokens"]
    if rounds <= 0 or drafted <= 0:
        return
    if accepted > drafted:
        raise source.refusal(
            accepted_at, "vllm:spec_decode_num_accepted_tokens_total", f"at most {drafted:g}, the drafted"
        )
    if not 1 <= drafted / rounds <= 64.0:
        raise source.refusal(
            drafted_at, "vllm:spec_decode_num_draft_tokens_total", "1 to 64 draft tokens for each draft"
        )
    put_length(finding, 1 + accepted / rounds, "vLLM's definition: 1 + accepted / drafts", "1 + accepted / drafts")
    put_ratio(finding, accepted, drafted, "vLLM's counters")
    _positions(source, finding, found, rounds)
    ahead = round(drafted / rounds)
    # Drafts may be shorter than K; where nearly none is, their mean length is K.
    if abs(drafted / rounds - ahead) < 0.005:
        finding.state("decoding.lookahead", ahead, "draft tokens / drafts", source.place(drafted_at))
    else:
        finding.notes.append(
            f"drafts have {drafted / rounds:.3g} tokens on average: the scenario's lookahead is believed"
        )


def _positions(source: Source, finding: Finding, found: Series, rounds: float) -> None:
    key = "spec_decode_num_accepted_tokens_per_pos"
    shares: list[float] = []
    while f"{key}[{len(shares)}]" in found:
        shares.append(found[f"{key}[{len(shares)}]"][0] / rounds)
    known = [name for name in found if name.startswith(f"{key}[")]
    if len(known) > len(shares):
        line = max(found[name][1] for name in known)
        raise source.refusal(line, f"vllm:{key}_total", f"every position from 0 on; {len(shares)} is missing")
    if shares and not put_survival(finding, shares, "vLLM's counters over drafts"):
        line = found[f"{key}[0]"][1]
        raise source.refusal(
            line, f"vllm:{key}_total", "counts that never rise with the position, nor above the drafts"
        )
    if shares and len(shares) < round(found["spec_decode_num_draft_tokens"][0] / rounds):
        finding.left_out.append(f"rates of positions from {len(shares)} on: not in the file")
