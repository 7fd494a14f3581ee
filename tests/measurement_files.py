"""Small files in the formats of other tools, written for the tests, with values that are published of such runs."""

from __future__ import annotations

import json
from typing import Any


def lines(*records: Any) -> str:
    """JSON lines."""
    return "".join(f"{json.dumps(record)}\n" for record in records)


def answer(question: int, model: str, steps: list[int], tokens: list[int], wall: list[float], **more: Any) -> Any:
    """An answer of Spec-Bench; with ``idxs`` among ``more``, one of EAGLE."""
    choice = {"index": 0, "turns": ["", ""], "new_tokens": tokens, "wall_time": wall} | more
    choice |= {} if "idxs" in more else {"decoding_steps": steps}
    return {"question_id": question, "model_id": model, "choices": [choice]}


# 2.77 tokens a round at 7.5 ms a token: 20.8 ms a round. Survival 0.7, 0.5, 0.35, 0.22 adds up to 1.77.
VLLM_BENCH_RUN = {
    "date": "20251130-101010",
    "model_id": "a/model",
    "request_rate": "inf",
    "max_concurrency": 4,
    "duration": 10.0,
    "completed": 40,
    "total_input_tokens": 4000,
    "total_output_tokens": 5120,
    "request_throughput": 4.0,
    "output_throughput": 512.0,
    "mean_ttft_ms": 30.5,
    "median_ttft_ms": 29.0,
    "p99_ttft_ms": 80.0,
    "mean_tpot_ms": 7.5,
    "median_tpot_ms": 7.4,
    "p99_tpot_ms": 9.0,
    "mean_itl_ms": 20.7,
    "spec_decode_num_drafts": 1000,
    "spec_decode_draft_tokens": 4000,
    "spec_decode_accepted_tokens": 1770,
    "spec_decode_acceptance_rate": 44.25,
    "spec_decode_acceptance_length": 2.77,
    "spec_decode_per_position_acceptance_rates": [0.7, 0.5, 0.35, 0.22],
}
VLLM_BENCH = json.dumps(VLLM_BENCH_RUN, indent=2)

# The variant that writes seconds and no means: GLM-5 at 16 together, 1,024 tokens in and 128 out.
VLLM_BENCH_SECONDS = json.dumps(
    {
        "model_id": "zai-org/GLM-5-FP8",
        "num_prompts": 16,
        "request_rate": "inf",
        "max_concurrency": 16,
        "duration": 5.0,
        "completed": 16,
        "total_input_tokens": 16384,
        "total_output_tokens": 2048,
        "request_throughput": 3.2,
        "median_ttft": 0.29139942955225706,
        "median_tpot": 0.033614915054966145,
        "p99_tpot": 0.0717096967959967,
        "median_e2el": 4.5732344426214695,
    },
    indent=1,
)

SGLANG_BENCH_RUN = {
    "backend": "sglang",
    "request_rate": 5.0,
    "max_concurrency": 256,
    "completed": 10,
    "total_input_tokens": 3021,
    "total_output_tokens": 1958,
    "total_output_tokens_retokenized": 1950,
    "request_throughput": 4.9,
    "output_throughput": 957.0,
    "mean_e2e_latency_ms": 2409.499,
    "mean_ttft_ms": 91.692,
    "mean_tpot_ms": 11.8089,
    "mean_itl_ms": 11.9177,
    "concurrency": 11.78,
    "accept_length": None,
}
SGLANG_BENCH = lines(SGLANG_BENCH_RUN)

VLLM_LOG = """\
INFO 06-06 14:20:30 [loggers.py:116] Engine 000: Avg prompt throughput: 11000.0 tokens/s, \
Avg generation throughput: 267.0 tokens/s, Running: 337 reqs, Waiting: 0 reqs
INFO 06-06 14:20:34 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 38.8%, Mean acceptance length: 2.16, \
Accepted: 150 tokens, Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, 0.264
"""
_STATS = "(APIServer pid=7) INFO 08-04 20:5{}:18 [loggers.py:310] Engine 000: Avg prompt throughput: {} tokens/s, "
_RUN = "Avg generation throughput: {} tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%\n"
# A prompt is read, then two run alone for two intervals, then one of them ends.
VLLM_ENGINE_LOG = "".join(
    (_STATS + _RUN).format(*values)
    for values in ((1, 93.9, 13.0, 2), (2, 0.0, 200.0, 2), (3, 0.0, 220.0, 2), (4, 0.0, 150.0, 1))
)
# 2,648 drafted, 4 a round: 662 rounds, which emitted 2,149 tokens.
VLLM_V0_LOG = """\
INFO 08-26 12:07:05 metrics.py:427] Speculative metrics: Draft acceptance rate: 0.655, System efficiency: 0.649, \
Number of speculative tokens: 4, Number of accepted tokens: 1735, Number of draft tokens: 2648, \
Number of emitted tokens: 2149.
"""
_LABELS = '{engine="0",model_name="m"}'
PROMETHEUS = f"""\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{_LABELS} 2.04363e+06
vllm:spec_decode_num_drafts_created{_LABELS} 1.785538744138251e+09
vllm:spec_decode_num_draft_tokens_total{_LABELS} 1.0218118e+07
vllm:spec_decode_num_accepted_tokens_total{_LABELS} 7.268642e+06
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} 1.883866e+06
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} 1.732372e+06
vllm:time_to_first_token_seconds_sum{_LABELS} 12.5
vllm:time_to_first_token_seconds_count{_LABELS} 50.0
vllm:request_time_per_output_token_seconds_sum{_LABELS} 0.4
vllm:request_time_per_output_token_seconds_count{_LABELS} 50.0
vllm:inter_token_latency_seconds_sum{_LABELS} 3.0
vllm:inter_token_latency_seconds_count{_LABELS} 90.0
"""
SGLANG_LOG = """\
[2025-10-22 10:27:56 TP0] Prefill batch. #new-seq: 1, #new-token: 60
[2025-10-22 10:27:57 TP0] Decode batch. #running-req: 1, #token: 108, accept len: 2.17, accept rate: 0.54, \
gen throughput (token/s): 0.39, #queue-req: 0,
[2025-10-22 10:27:57 TP0] Decode batch. #running-req: 1, #token: 186, accept len: 1.95, accept rate: 0.49, \
gen throughput (token/s): 178.86, #queue-req: 0,
"""

LLAMA_BENCH_ROW = {
    "model_type": "gpt-oss 20B F16",
    "backends": "ROCm",
    "n_prompt": 0,
    "n_gen": 128,
    "n_depth": 1024,
    "avg_ns": 2597940671,
    "avg_ts": 49.269793,
}
LLAMA_BENCH = lines(
    LLAMA_BENCH_ROW | {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 347823052, "avg_ts": 1472.01},
    LLAMA_BENCH_ROW,
)
LLAMA_SPECULATIVE = """\
encoded   14 tokens in    0.054 seconds, speed:  258.250 t/s
decoded  673 tokens in   12.132 seconds, speed:   55.473 t/s

n_draft   = 5
n_predict = 673
n_drafted = 730
n_accept  = 526
accept    = 72.055%
"""
LLAMA_PERF = """\
llama_perf_sampler_print:    sampling time =     601.84 ms /   913 runs   (    0.66 ms per token)
llama_perf_context_print: prompt eval time =      56.80 ms /    14 tokens (    4.06 ms per token)
llama_perf_context_print:        eval time =   27636.04 ms /   898 runs   (   30.78 ms per token)
"""

# 55,668 tokens in 15,377 steps, as all 80 questions together.
EAGLE = lines(
    answer(81, "70b-ea", [], [20000, 15668], [1000.0, 554.767], idxs=[5500, 4374]),
    answer(82, "70b-ea", [], [20000], [1000.0], idxs=[5500]),
)
MEDUSA = lines(answer(81, "medusa-7b", [], [20000, 23754], [200.0, 231.907], idxs=[8000, 9056]))
SPEC_BENCH = lines(
    answer(81, "7b-sps", [4, 2], [9, 6], [0.12, 0.06], accept_lengths=[1, 3, 3, 2, 2, 4]),
    answer(82, "7b-sps", [2], [5], [0.06], accept_lengths=[1, 4]),
)
VANILLA = lines(answer(81, "7b-vanilla", [10, 20], [10, 20], [0.2, 0.4], accept_lengths=[1, 1, "...cut"]))
EAGLE_BASELINE = lines(answer(81, "70b-base", [], [0, 0], [13.341, 26.682], idxs=[99, 199]))

GENAI_PERF_RUN: dict[str, Any] = {
    "request_latency": {"unit": "ms", "avg": 4610.615636},
    "time_to_first_token": {"unit": "ms", "avg": 200.0},
    "inter_token_latency": {"unit": "ms", "avg": 7.78},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 12277.7},
    "output_sequence_length": {"unit": "tokens", "avg": 567.84},
    "input_sequence_length": {"unit": "tokens", "avg": 200.85},
    "input_config": {"streaming": True, "concurrency": 100},
}
GENAI_PERF = json.dumps(GENAI_PERF_RUN, indent=1)

NCCL = """\
# Using devices
#  Rank  0 Group  0 Pid     16 on worker-0 device  0 [0x19] NVIDIA H100 80GB HBM3
#  Rank 15 Group  0 Pid     23 on worker-1 device  7 [0xda] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   536870912     134217728     float     sum      -1   5202.3  103.20  193.50      0   5377.7   99.83  187.19      0
  1073741824     268435456     float     sum      -1    10314  104.11  195.20      0    10339  103.85  194.73      0
# Out of bounds values : 0 OK
"""
GOLDEN = """\
# Acceptance Length (AL) reference values.
# Measured on a-model (B300, vLLM MTP), per num_speculative_tokens.
a-model:
  thinking_on:
    1: 1.79
    2: 2.27
  thinking_off:
    1: 1.92
"""
# Of K = 5, these three kept 5, 2 and 0: 3.33 tokens a round with the target's own.
DSPARK = json.dumps(
    {
        "block_size": 5,
        "prompts": {
            "prose": [
                {"accept": 5, "k": 5, "draft_ms": 281.0, "verify_ms": 781.0, "plain_ms": 279.0},
                {"accept": 2, "k": 5, "draft_ms": 238.0, "verify_ms": 845.0, "plain_ms": 280.0},
            ],
            "math": [{"accept": 0, "k": 5, "draft_ms": 178.0, "verify_ms": 896.0, "plain_ms": 332.0}],
        },
    },
    indent=1,
)
AICONFIGURATOR = """\
data_dir: data/h100_sxm
gpu:
  mem_bw: 3350000000000 # 3350GB/s
  mem_bw_empirical_scaling_factor: 0.8
  mem_capacity: 85899345920 # 80GiB
  bfloat16_tc_flops: 989000000000000
  fp8_tc_flops: 1978000000000000
node:
  intra_node_bw: 450000000000
"""
XPROF_OVERVIEW = '[{"cols": [], "p": {\n  "steptime_ms_average":"9.3",\n  "idle_ms_average": "5.4"}}]\n'
XPROF_TRACE = '{\n "traceEvents": [{"ph": "X", "name": "fusion.1", "ts": 1, "dur": 2}]}\n'
ARCTIC = '{"timestamp": 0, "input_length": 6758, "output_length": 500}\n'

FILES: dict[str, tuple[str, str]] = {
    "vllm-bench": ("vllm-bench", VLLM_BENCH),
    "vllm-bench, seconds": ("vllm-bench", VLLM_BENCH_SECONDS),
    "sglang-bench": ("sglang-bench", SGLANG_BENCH),
    "vllm-log": ("vllm-log", VLLM_LOG),
    "vllm-log, throughput": ("vllm-log", VLLM_ENGINE_LOG),
    "vllm-v0-log": ("vllm-v0-log", VLLM_V0_LOG),
    "vllm-metrics": ("vllm-metrics", PROMETHEUS),
    "sglang-log": ("sglang-log", SGLANG_LOG),
    "llama-bench": ("llama-bench", LLAMA_BENCH),
    "llama-speculative": ("llama-speculative", LLAMA_SPECULATIVE),
    "llama-perf": ("llama-perf", LLAMA_PERF),
    "eagle": ("eagle", EAGLE),
    "medusa": ("eagle", MEDUSA),
    "eagle, baseline": ("eagle", EAGLE_BASELINE),
    "spec-bench": ("spec-bench", SPEC_BENCH),
    "spec-bench, vanilla": ("spec-bench", VANILLA),
    "genai-perf": ("genai-perf", GENAI_PERF),
    "nccl-tests": ("nccl-tests", NCCL),
    "golden-acceptance": ("golden-acceptance", GOLDEN),
    "dspark-rounds": ("dspark-rounds", DSPARK),
    "aiconfigurator": ("aiconfigurator", AICONFIGURATOR),
}
REFUSED: dict[str, tuple[str, str, str]] = {
    "xprof-overview": ("steptime_ms_average", "plain step, a round or one of training", XPROF_OVERVIEW),
    "trace": ("traceEvents", "single operations", XPROF_TRACE),
    "request-trace": ("input_length", "a trace of requests", ARCTIC),
}
