"""The names of components, mechanisms and metrics: spelt here and nowhere else.

A jitted step cannot be cut open, so time is kept on two levels. *Components* are measured and predicted alike;
*mechanisms* explain a predicted component and sum to it.
"""

from __future__ import annotations

COMPONENTS = (
    "prefill",
    "draft_prefill",
    "plain_step",
    "draft_first_step",  # two tokens, and cold after the target ran
    "draft_step",
    "shipping",  # the draft's tokens and distributions to the target's chips
    "verify_step",
    "sampling",
    "round_overhead",
    "round",
    "round_ahead",  # where the draft worked ahead and all its tokens were kept
)
"""Parts of a run whose time is both predicted and measured. `round` is the sum of its parts, drafting not hidden."""

MECHANISMS = (
    "weights",
    "kv",
    "compute",
    "collective_latency",
    "collective_bandwidth",
    "head_and_sampling",
    "overhead",
)
"""What the time of a predicted component is spent on; the roof that binds an op gets its time."""

TIME_METRICS = (
    "plain_step_s",
    "draft_first_step_s",
    "draft_step_s",
    "verify_step_s",
    "sampling_s",
    "round_overhead_s",
    "round_s",
    "tpot_s",
    "prefill_s",
    "draft_prefill_s",
    "shipping_s",
    "round_ahead_s",
    "ttft_s",
    "e2e_s",
    "wasted_draft_s",
    "bandwidth_floor_s",
    "nominal_floor_s",
)
"""Metrics in seconds; each may carry `<name>_low` and `<name>_high`, its 90 % interval."""

PLAIN_METRICS = (
    "round_cost",
    "acceptance_length",
    "speedup",
    "tokens_per_s",
    "memory_per_chip_bytes",
    "break_even_acceptance",
    "rounds",
    "draft_acceptance_ratio",
    "million_tokens_usd",  # decoding alone, at the price of the chips
    "plain_million_tokens_usd",
)
"""Metrics that are ratios, rates and amounts."""

DISTRIBUTION_METRICS = ("time_to_tokens_s", "emission_gap_s", "emission_tokens")
"""Metrics that are distributions: a mapping with `n`, `mean`, `p50`, `p90`, `p99`."""

COMPILED_PROGRAMS = ("prefill", "plain_step", "draft_step", "verify_step", "round")
"""What is compiled ahead of time."""

COMPILED_COUNTS = (
    "arguments_bytes",
    "temporaries_bytes",
    "code_bytes",
    "hbm_bytes",  # read and written in one call
    "floor_bytes",  # weights and cache, once for each pass
    "flop",  # of matrix products, rows that are padding included
    "collectives",
    "layer_all_reduces",
    "vector_matmuls",
    "cache_copies_bytes",
)
"""Facts about a compiled program; a metric is `<program>_<fact>`, of one chip and one call."""

COMPILED_ESTIMATES = (
    "replay_s",  # no collectives, datasheet bandwidth, the best variant
    "replay_scanned_s",  # the same of the variant that scans its layers
    "replay_compiler_rate_s",  # the best variant at the bandwidth that the compiler reckons with
    "replay_with_collectives_s",  # the best variant with collectives and calls at assumed prices
)
"""Estimated times of a compiled program, by what was replayed; a metric is `<program>_<estimate>`."""


def compiled_metrics() -> tuple[str, ...]:
    """The metrics of a compiled record beside `memory_per_chip_bytes`."""
    return tuple(f"{program}_{name}" for program in COMPILED_PROGRAMS for name in COMPILED_COUNTS + COMPILED_ESTIMATES)


def metric_names() -> frozenset[str]:
    """Every name that a record's `metrics` may use."""
    times = {f"{name}{end}" for name in TIME_METRICS for end in ("", "_low", "_high")}
    ratios = {f"{name}{end}" for name in PLAIN_METRICS for end in ("", "_low", "_high")}
    return frozenset(times | ratios | set(DISTRIBUTION_METRICS) | set(compiled_metrics()))
