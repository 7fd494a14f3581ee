"""Do real outputs of benchmarks and servers import to the values that are published of them?"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from simulator.errors import ConfigError
from simulator.importing.measurements import Imported, import_measurement
from simulator.importing.measurements.words import report_lines

SHARED = Path(__file__).parents[2].parent / "shared" / "reference"
FORMATS, CASES = SHARED / "formats", SHARED / "cases"
# By file: the format, and metrics of its first configuration: as the case files and the headers of the files have
# them, within `rel`; of cut files, totals over what is left.
KNOWN: dict[str, tuple[str, dict[str, float]]] = {
    # Case eagle_outputs_llama2_70b_4xa100: 55,668 tokens in 15,377 steps, 3.62; 166.14 ms a step; 21.79 tokens/s.
    "eagle.llama2-70b.ea.jsonl": (
        "eagle",
        {"acceptance_length": 3.62, "round_s": 166.14e-3, "tpot_s": 1 / 21.79},
    ),
    # Case medusa_raw_vicuna: 2.565; 25.3 ms a step; 101.3 tokens/s.
    "medusa.vicuna-7b.jsonl": ("eagle", {"acceptance_length": 2.565, "round_s": 25.3e-3, "tpot_s": 1 / 101.3}),
    # 20 of the 480 questions of case specbench_raw_vicuna7b_sps_eagle.
    "specbench.vicuna7b.eagle.jsonl": (
        "spec-bench",
        {"acceptance_length": 4972 / 1474, "round_s": 28.571e-3, "tpot_s": 8.4703e-3},
    ),
    "specbench.vicuna7b.sps.jsonl": (
        "spec-bench",
        {"acceptance_length": 5252 / 2235, "round_s": 29.367e-3, "tpot_s": 12.497e-3},
    ),
    "specbench.vicuna7b.vanilla.jsonl": ("spec-bench", {"plain_step_s": 19.696e-3, "tpot_s": 19.696e-3}),
    # Case llamacpp5877_rtx3060_llama31_8b_q8: 72.055 %, 4.58, 82.5 ms a round, 55.473 tokens/s; plain 30.78 ms.
    "llama_speculative.printed_stats.txt": (
        "llama-speculative",
        {
            "draft_acceptance_ratio": 0.72055,
            "acceptance_length": 4.578,
            "round_s": 82.5e-3,
            "tpot_s": 1 / 55.473,
            "ttft_s": 0.054,
        },
    ),
    "llama_cli.perf_print.txt": ("llama-perf", {"plain_step_s": 30.78e-3, "prefill_s": 56.8e-3}),
    # The two lines are 2.16 and 2.46 (case vllm19254_qwen3_32b_fp8_ngram_highload), of 129 and 496 rounds.
    "vllm_log.spec_decoding_metrics.txt": (
        "vllm-log",
        {"acceptance_length": 2.40, "draft_acceptance_ratio": 875 / 1875},
    ),
    # The last line: 4,074 tokens of 4,980 / 4 rounds.
    "vllm_v0_log.speculative_metrics.txt": (
        "vllm-v0-log",
        {"acceptance_length": 4074 / 1245, "draft_acceptance_ratio": (4074 / 1245 - 1) / 4},
    ),
    "vllm_prometheus.spec_decode.prom": (
        "vllm-metrics",
        {"acceptance_length": 1 + 7.268642 / 2.04363, "draft_acceptance_ratio": 7.268642 / 10.218118},
    ),
    "sglang_log.decode_batch.txt": (
        "sglang-log",
        {
            "acceptance_length": (2.17 + 1.95 + 1.80) / 3,
            "tokens_per_s": (178.86 + 165.41) / 2,
            "tpot_s": 2 / (178.86 + 165.41),
            "round_s": (2.17 + 1.95 + 1.80) / 3 * 2 / (178.86 + 165.41),
        },
    ),
    "sglang_bench_serving.jsonl": (
        "sglang-bench",
        {"ttft_s": 91.692e-3, "tpot_s": 11.809e-3, "e2e_s": 2.4095},
    ),
    "llama_bench.gpt-oss-20b.strix-halo.jsonl": ("llama-bench", {"prefill_s": 0.347823}),
    "genai_perf.nonstreaming.json": ("genai-perf", {"e2e_s": 4.6106}),
    "dspark_rounds.deepseek-v4-flash.4x2080ti.json": (
        "dspark-rounds",
        {
            "acceptance_length": 1 + 94 / 31,
            "draft_acceptance_ratio": 94 / 155,
            "verify_step_s": 0.86100,
            "round_s": 1.06016,
            "tpot_s": 0.26292,
            "plain_step_s": 0.30623,
            "speedup": 1.1647,
        },
    ),
    **{
        f"vllm_bench_serve.glm5_fp8_tp8_isl1024_osl128_conc{batch}.json": (
            "vllm-bench",
            {"tpot_s": tpot, "ttft_s": ttft, "e2e_s": e2e},
        )
        for batch, tpot, ttft, e2e in (
            (4, 21.372e-3, 0.26500, 3.02259),
            (8, 24.733e-3, 0.26314, 3.45971),
            (16, 33.615e-3, 0.29140, 4.57323),
            (32, 42.854e-3, 0.42862, 6.21754),
            (64, 87.862e-3, 0.90153, 12.09931),
        )
    },
}
REFUSED = {
    "xprof.overview_page.json": "steptime_ms_average",
    "xprof.trace_viewer.trace.json": "traceEvents",
    "trace.arctic_input_output_lengths.jsonl": "input_length",
}
FILES = {path.name: path for path in sorted(FORMATS.glob("*")) if path.name != "ORIGINS.md"}

pytestmark = pytest.mark.skipif(not FILES, reason="the reference files are not here")


def imported(name: str) -> Imported:
    if name not in FILES:
        pytest.skip(f"{name} is not here")
    return import_measurement(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_imported_or_refused_by_name(name: str) -> None:
    if name not in REFUSED:
        assert report_lines(imported(name))
        return
    with pytest.raises(ConfigError) as caught:
        imported(name)
    assert [problem.path for problem in caught.value.problems] == [REFUSED[name]]


@pytest.mark.parametrize("name", KNOWN)
def test_values(name: str) -> None:
    found = imported(name)
    format_name, values = KNOWN[name]
    assert found.format.name == format_name
    assert found.outcome.findings[0].metrics == pytest.approx(values, rel=1.5e-3)


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("golden_al.")])
def test_acceptance_lengths_by_lookahead(name: str) -> None:
    found = {finding.label: finding.metrics["acceptance_length"] for finding in imported(name).outcome.findings}
    table = yaml.safe_load(FILES[name].read_text(encoding="utf-8"))
    assert found == {
        f"{model}, {mode}, K {ahead}": length
        for model, modes in table.items()
        for mode, lengths in modes.items()
        for ahead, length in lengths.items()
    }


@pytest.mark.parametrize("batch", [4, 8, 16, 32, 64])
def test_what_glm5_was_asked(batch: int) -> None:
    finding = imported(f"vllm_bench_serve.glm5_fp8_tp8_isl1024_osl128_conc{batch}.json").outcome.findings[0]
    stated = {one.path: one.value for one in finding.stated}
    assert stated == {"workload.batch": batch, "workload.prompt_tokens": 1024, "workload.output_tokens": 128}


def test_the_steps_of_llama_bench_grow_with_the_depth() -> None:
    findings = imported("llama_bench.gpt-oss-20b.strix-halo.jsonl").outcome.findings
    steps = {finding.read["n_depth"]: finding.metrics.get("plain_step_s") for finding in findings[1:]}
    # avg_ts of the file: 49.92, 49.27, 48.15, 44.38 and 34.76 tokens/s.
    rates = {0: 49.924, 1024: 49.270, 4096: 48.147, 16384: 44.385, 65536: 34.759}
    assert steps == pytest.approx({depth: 1 / rate for depth, rate in rates.items()}, rel=1e-4)


def test_all_reduces_of_16_h100() -> None:
    data = yaml.safe_load(imported("nccl_all_reduce_perf.16xh100.txt").outcome.written)
    assert (data["chips"], len(data["all_reduce"]["table"])) == (16, 5)
    assert data["all_reduce"]["table"][0] == {"payload": "536870912 B", "time": "5202.3 us"}


def test_survival_of_the_log_is_that_of_the_case() -> None:
    case = CASES / "vllm19254_qwen3_32b_fp8_ngram_highload.yaml"
    if not case.exists():
        pytest.skip("the cases are not here")
    first = yaml.safe_load(case.read_text(encoding="utf-8"))["acceptance"]["first"]
    lines = FILES["vllm_log.spec_decoding_metrics.txt"].read_text(encoding="utf-8").splitlines()
    from simulator.importing.measurements import import_source, source_of

    finding = import_source(source_of(lines[0], "first line")).outcome.findings[0]
    assert finding.read["survival_rates"] == pytest.approx(first["per_pos"])
    assert finding.metrics["acceptance_length"] == pytest.approx(first["AL"], abs=0.005)
    assert finding.metrics["draft_acceptance_ratio"] == pytest.approx(first["rate"], abs=0.0005)
