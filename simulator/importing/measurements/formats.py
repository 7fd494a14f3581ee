"""The formats that can be read: how each is told from its content, and who reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from simulator.errors import ConfigError, Problem
from simulator.importing.measurements import (
    answers,
    genai,
    llama_cpp,
    nccl,
    other_files,
    prometheus,
    serving,
    sglang_log,
    tables_of_acceptance,
    vllm_logs,
)
from simulator.importing.measurements.found import Outcome
from simulator.importing.measurements.source import Source
from simulator.spec.problems import closest


@dataclass(frozen=True)
class Format:
    """One format."""

    name: str
    what: str
    read: Callable[[Source], Outcome]
    signs: tuple[str, ...]
    """Patterns that are all in such a file."""
    never: str = "(?!)"
    """A pattern that is not."""

    def recognises(self, source: Source) -> bool:
        """Whether a file looks like one."""
        return all(re.search(sign, source.text, re.MULTILINE) for sign in self.signs) and not re.search(
            self.never, source.text, re.MULTILINE
        )


def _key(*names: str) -> str:
    """A JSON key of one of these names."""
    return rf'"(?:{"|".join(names)})"\s*:'


FORMATS = (
    Format(
        "vllm-bench",
        "result file of `vllm bench serve`",
        serving.read_vllm,
        (_key("total_output_tokens"), _key("model_id", "tokenizer_id"), _key("request_throughput", "duration")),
        _key("total_output_tokens_retokenized", "accept_length"),
    ),
    Format(
        "sglang-bench",
        "JSON lines of SGLang's bench_serving",
        serving.read_sglang,
        (_key("total_output_tokens"), _key("total_output_tokens_retokenized", "accept_length")),
    ),
    Format("vllm-metrics", "scrape of vLLM's /metrics", prometheus.read_prometheus, (r"^vllm:[a-z_]+[ {]",)),
    Format(
        "vllm-log",
        "vLLM log with SpecDecoding metrics or throughputs",
        vllm_logs.read_vllm_log,
        # The first engine has lines about throughput too.
        (r"SpecDecoding metrics:|\A(?!(?s:.*)Speculative metrics:)(?s:.*)Avg generation throughput:",),
    ),
    Format("vllm-v0-log", "log of vLLM's first engine", vllm_logs.read_vllm_v0_log, (r"Speculative metrics:",)),
    Format("sglang-log", "SGLang log with Decode batch lines", sglang_log.read_sglang_log, (r"Decode batch\b",)),
    Format(
        "llama-bench",
        "JSON or JSON lines of llama-bench",
        llama_cpp.read_llama_bench,
        (_key("avg_ns"), _key("n_gen"), _key("n_prompt")),
    ),
    Format(
        "llama-speculative",
        "statistics that llama-speculative prints",
        llama_cpp.read_llama_speculative,
        (r"\bn_(?:drafted|accept)\s+=",),
    ),
    Format(
        "llama-perf",
        "times that llama-cli prints",
        llama_cpp.read_llama_perf,
        (r"\beval time\s*=",),
        r"\bn_(?:drafted|accept)\s+=",
    ),
    Format(
        "spec-bench",
        "answers of Spec-Bench",
        answers.read_answers,
        (_key("decoding_steps"), _key("new_tokens"), _key("wall_time")),
    ),
    Format(
        "eagle",
        "answers of EAGLE or Medusa",
        answers.read_answers,
        (_key("idxs"), _key("new_tokens"), _key("wall_time")),
    ),
    Format(
        "genai-perf",
        "export of genai-perf or AIPerf",
        genai.read_genai,
        (_key("request_latency", "inter_token_latency"), _key("unit")),
    ),
    Format("nccl-tests", "table of nccl-tests, all_reduce_perf", nccl.read_nccl, (r"\bbusbw\b", r"\balgbw\b")),
    Format(
        "golden-acceptance",
        "YAML of acceptance lengths by K",
        tables_of_acceptance.read_golden,
        (r"^[^\s#{\"][^:\n]*:\s*\n\s+[\w.-]+:\s*(?:#.*)?\n\s+[0-9]+:",),
        r"^(?:gpu|node):",
    ),
    Format(
        "dspark-rounds",
        "rounds of a block drafter with their times",
        tables_of_acceptance.read_rounds,
        (_key("draft_ms"), _key("verify_ms"), _key("accept")),
    ),
    Format(
        "aiconfigurator",
        "system file of aiconfigurator: datasheet figures",
        other_files.read_aiconfigurator,
        (r"^gpu:", r"^\s+mem_bw:"),
    ),
    Format("xprof-overview", "overview page of xprof", other_files.read_xprof_overview, (_key("steptime_ms_average"),)),
    Format("trace", "trace of operations, as of xprof", other_files.read_xprof_trace, (_key("traceEvents"),)),
    Format(
        "request-trace",
        "trace of requests, as of ArcticInference",
        other_files.read_requests,
        (_key("input_length"), _key("output_length"), _key("timestamp")),
    ),
)
NAMES = tuple(one.name for one in FORMATS)


def format_of(source: Source, asked: str | None = None) -> Format:
    """The format that was asked for, or the only one that a file looks like.

    Raises:
        ConfigError: no such format; a file that looks like none, or like several.
    """
    if asked is not None:
        found = [one for one in FORMATS if one.name == asked]
        if not found:
            guess = closest(asked, NAMES)
            near = f"did you mean '{guess}'? " if guess else ""
            problem = Problem(f"--format {asked[:80]}", 0, 0, "", "", f"{near}one of {', '.join(NAMES)}")
            raise ConfigError((problem,))
        return found[0]
    found = [one for one in FORMATS if one.recognises(source)]
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(one.name for one in found)
        raise source.refusal(1, "", f"one format; this looks like {names}: --format NAME says which to read")
    accepts = f"a file of one of these formats, or --format NAME: {', '.join(NAMES)}"
    raise source.refusal(1, "", accepts, None if source.text.strip() else "an empty file")
