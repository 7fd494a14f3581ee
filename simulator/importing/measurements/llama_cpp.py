"""llama.cpp: rows of llama-bench, and the statistics that llama-speculative and llama-cli print."""

from __future__ import annotations

import re

from simulator.importing.measurements.definitions import MOST_TOKENS, put_length, put_ratio
from simulator.importing.measurements.fields import Fields
from simulator.importing.measurements.found import Finding, Outcome
from simulator.importing.measurements.source import Source

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_CODED = re.compile(rf"(encoded|decoded)\s+([0-9]+) tokens in\s+{_NUMBER} seconds")
_COUNT = re.compile(r"^(?:.*\s)?(n_draft|n_predict|n_drafted|n_accept)\s*=\s*(\S+)\s*$")
_PERF = re.compile(rf"(prompt eval|sampling|eval) time =\s*{_NUMBER} ms /\s*([0-9]+) (?:tokens|runs)")
_PERF_LINE = re.compile(r"(?:prompt eval|sampling|\beval) time\s*=")


def read_llama_bench(source: Source) -> Outcome:
    """A finding for every row that is a prefill or plain decoding."""
    outcome = Outcome()
    rows = source.records()
    for row in rows:
        _bench_row(row, outcome)
    rows[0].check()
    return outcome


def _bench_row(row: Fields, outcome: Outcome) -> None:
    prompt, made = row.whole("n_prompt", most=10**8, need=True), row.whole("n_gen", most=10**8, need=True)
    depth = row.whole("n_depth", most=10**8) or 0
    time_s = row.seconds("avg_ns", 1e-9, need=True)
    rate = row.number("avg_ts", above=True)
    if prompt is None or made is None or time_s is None:
        return
    if rate is not None and prompt + made and not 0.8 < rate * time_s / (prompt + made) < 1.25:
        row.refuse("avg_ts", f"tokens over avg_ns, about {(prompt + made) / time_s:.4g}")
        return
    kind = f"tg{made}" if not prompt else f"pp{prompt}" if not made else f"pp{prompt}+tg{made}"
    label = f"{row.data.get('model_type', 'a model')}, {row.data.get('backends', '')}, {kind} at depth {depth}"
    finding = Finding(label.replace(", ,", ","), row.place(), model=str(row.data.get("model_type", "")))
    finding.state("workload.batch", 1, kind, row.place("n_gen"))
    finding.read = {"avg_ns": time_s * 1e9, "n_prompt": prompt, "n_gen": made, "n_depth": depth}
    if made and not prompt:
        finding.put("plain_step_s", time_s / made, "avg_ns / n_gen; drawing the token is not in it")
        within = max(float(made), 0.05 * depth)
        finding.state("workload.prompt_tokens", depth, "n_depth", row.place("n_depth"), within)
    elif prompt and not made and not depth:
        finding.put("prefill_s", time_s)
        finding.state("workload.prompt_tokens", prompt, "n_prompt", row.place("n_prompt"))
    else:
        why = "a prompt behind others" if prompt and not made else "prompt and output in one time" if made else "empty"
        outcome.left_out.append(f"{label} (line {row.place().line}): {why}; neither prefill nor plain_step")
        return
    outcome.findings.append(finding)


def read_llama_speculative(source: Source) -> Outcome:
    """What llama-speculative prints at its end."""
    counts: dict[str, tuple[int, int]] = {}
    coded: dict[str, tuple[int, float, int]] = {}
    for number, line in enumerate(source.lines, 1):
        if match := _CODED.search(line):
            coded[match[1]] = (int(match[2][:18]), float(match[3]), number)
        elif match := _COUNT.match(line):
            if match[1] in counts:
                raise source.refusal(number, match[1], f"each value once; it was given on line {counts[match[1]][1]}")
            if not re.fullmatch(r"[0-9]{1,12}", match[2]):
                raise source.refusal(number, match[1], "a whole number of at most 12 digits")
            counts[match[1]] = (int(match[2]), number)
    for name in ("n_draft", "n_predict", "n_drafted", "n_accept"):
        if name not in counts:
            raise source.refusal(len(source.lines), name, f"a line '{name} = ...', which is missing", "")
    if "decoded" not in coded:
        raise source.refusal(1, "decoded", "a line 'decoded ... tokens in ... seconds', which is missing", "")
    return Outcome([_speculative(source, counts, coded)])


def _speculative(
    source: Source, counts: dict[str, tuple[int, int]], coded: dict[str, tuple[int, float, int]]
) -> Finding:
    (ahead, _), (made, made_at), (drafted, drafted_at), (kept, kept_at) = (
        counts[name] for name in ("n_draft", "n_predict", "n_drafted", "n_accept")
    )
    tokens, seconds, decoded_at = coded["decoded"]
    passes = made - kept
    if kept > drafted:
        raise source.refusal(kept_at, "n_accept", f"at most n_drafted, {drafted}")
    if passes < 1 or made > MOST_TOKENS * passes:
        raise source.refusal(made_at, "n_predict", f"more than n_accept, {kept}, and at most 65 tokens a pass")
    if tokens != made or not 0 < seconds <= 1e7:
        raise source.refusal(decoded_at, "decoded", f"n_predict tokens, {made}, in more than 0 seconds")
    if not drafted:
        raise source.refusal(drafted_at, "n_drafted", "more than 0: without a draft there is nothing speculative")
    finding = Finding("llama-speculative", source.place(made_at))
    finding.read = {name: value for name, (value, _) in counts.items()} | {"decoded_s": seconds}
    finding.state("workload.batch", 1, "llama-speculative", source.place(made_at))
    finding.state("decoding.lookahead", ahead, "n_draft", source.place(counts["n_draft"][1]))
    finding.state("workload.output_tokens", made, "n_predict", source.place(made_at), max(1.0, 0.05 * made))
    if "encoded" in coded:
        prompt, prefill_s, line = coded["encoded"]
        finding.state("workload.prompt_tokens", prompt, "encoded", source.place(line), 1.0)
        finding.put("ttft_s", prefill_s if prefill_s > 0 else None, "both models read the prompt: 'encoded'")
    whose = "n_predict / (n_predict - n_accept): every pass of the target, that of the first token too, adds its own"
    put_length(finding, made / passes, whose, "n_predict / (n_predict - n_accept)")
    put_ratio(finding, kept, drafted, "n_accept / n_drafted")
    finding.put("tpot_s", seconds / made, "decoding time / n_predict")
    finding.converted.append("decoding time / tokens read as TPOT: the prefill is not in it")
    finding.read["mean_drafted"] = round(drafted / passes, 4)
    return finding.finish()


def read_llama_perf(source: Source) -> Outcome:
    """The times that llama-cli and others print of one model."""
    outcome, found = Outcome(), dict[str, tuple[float, int, int]]()
    for number, line in enumerate(source.lines, 1):
        match = _PERF.search(line)
        if match is None:
            if _PERF_LINE.search(line):
                outcome.unreadable.append((number, "not '... time = X ms / N tokens'"))
            continue
        if match[1] in found:
            raise source.refusal(
                number, f"{match[1]} time", f"each time once; the first is on line {found[match[1]][2]}"
            )
        found[match[1]] = (float(match[2]) * 1e-3, int(match[3][:15]), number)
    if "eval" not in found:
        raise source.refusal(
            1, "eval time", "a line 'eval time = X ms / N runs', which is missing or cannot be read", ""
        )
    finding = Finding("llama.cpp, plain decoding", source.place(found["eval"][2]))
    for name, (seconds, count, number) in found.items():
        if not (0 < seconds <= 1e7 and 0 < count <= 10**9):
            raise source.refusal(number, f"{name} time", "more than 0 ms and more than 0 tokens")
        finding.read[f"{name}_time_s"], finding.read[f"{name}_count"] = seconds, count
    _perf_metrics(source, finding, found)
    outcome.findings.append(finding)
    return outcome


def _perf_metrics(source: Source, finding: Finding, found: dict[str, tuple[float, int, int]]) -> None:
    seconds, count, line = found["eval"]
    finding.state("workload.batch", 1, "eval time", source.place(line))
    finding.put("plain_step_s", seconds / count, "eval time / runs; drawing the token is not in it")
    if "prompt eval" in found:
        finding.put("prefill_s", found["prompt eval"][0])
        place = source.place(found["prompt eval"][2])
        finding.state("workload.prompt_tokens", found["prompt eval"][1], "prompt eval", place, 1.0)
    finding.state("workload.output_tokens", count, "eval runs", source.place(line), max(1.0, 0.05 * count))
    if "sampling" in found:
        each = 1e3 * found["sampling"][0] / found["sampling"][1]
        finding.left_out.append(
            f"sampling time: {each:.3g} ms a token more than plain_step, which is of the pass alone"
        )
