"""Does each format give the values that it states in our definitions, and is each mistake told at its place?"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from simulator.errors import ConfigError, Problem
from simulator.importing.measurements import FORMATS, Imported, import_source, source_of, with_scenario
from simulator.importing.measurements.definitions import conditional
from simulator.importing.measurements.words import report_lines
from simulator.spec.hardware import AllReduceCost, Peaks
from simulator.spec.load import Point, tuples
from tests import measurement_files as files
from tests.builders import scenario

# By file: the metrics of its first configuration, worked by hand.
VALUES: dict[str, dict[str, float]] = {
    "vllm-bench": {
        "tpot_s": 7.5e-3,
        "ttft_s": 30.5e-3,
        "acceptance_length": 2.77,
        "draft_acceptance_ratio": 0.4425,
        "round_s": 20.775e-3,
    },
    "vllm-bench, seconds": {"tpot_s": 0.0336149150549, "ttft_s": 0.291399429552, "e2e_s": 4.57323444262},
    "sglang-bench": {"tpot_s": 11.8089e-3, "ttft_s": 91.692e-3, "e2e_s": 2.409499},
    # 387 drafted at 3 a round: 129 rounds.
    "vllm-log": {"acceptance_length": 1 + 150 / 129, "draft_acceptance_ratio": 150 / 387},
    "vllm-log, throughput": {"tokens_per_s": 210.0, "tpot_s": 2 / 210},
    "vllm-v0-log": {"acceptance_length": 2149 / 662, "draft_acceptance_ratio": (2149 / 662 - 1) / 4},
    "vllm-metrics": {
        "acceptance_length": 4.5567,
        "draft_acceptance_ratio": 0.71135,
        "ttft_s": 0.25,
        "tpot_s": 8e-3,
        "round_s": 4.5567 * 8e-3,
    },
    "sglang-log": {
        "acceptance_length": 2.06,
        "tokens_per_s": 178.86,
        "tpot_s": 1 / 178.86,
        "round_s": 2.06 / 178.86,
    },
    "llama-bench": {"prefill_s": 0.347823052},
    "llama-speculative": {
        "acceptance_length": 4.578,
        "draft_acceptance_ratio": 0.72055,
        "tpot_s": 18.027e-3,
        "round_s": 82.53e-3,
        "ttft_s": 0.054,
    },
    "llama-perf": {"plain_step_s": 30.775e-3, "prefill_s": 56.8e-3},
    "eagle": {"acceptance_length": 3.6202, "tpot_s": 45.893e-3, "round_s": 166.14e-3},
    "medusa": {"acceptance_length": 2.5650, "tpot_s": 9.871e-3, "round_s": 25.32e-3},
    "eagle, baseline": {"plain_step_s": 133.41e-3, "tpot_s": 133.41e-3},
    "spec-bench": {"acceptance_length": 2.5, "tpot_s": 12e-3, "round_s": 30e-3},
    "spec-bench, vanilla": {"plain_step_s": 20e-3, "tpot_s": 20e-3},
    "genai-perf": {"e2e_s": 4.610615636, "ttft_s": 0.2, "tpot_s": 7.78e-3},
    "golden-acceptance": {"acceptance_length": 1.79},
    "dspark-rounds": {
        "acceptance_length": 10 / 3,
        "draft_acceptance_ratio": 7 / 15,
        "verify_step_s": 0.8406667,
        "round_s": 1.073,
        "tpot_s": 0.3219,
        "plain_step_s": 0.297,
        "speedup": 0.9226,
    },
}
# What a record of each would be about, as far as the file states it.
STATED: dict[str, dict[str, float]] = {
    "vllm-bench": {
        "workload.batch": 4,
        "workload.prompt_tokens": 100,
        "workload.output_tokens": 128,
        "decoding.lookahead": 4,
    },
    "vllm-bench, seconds": {
        "workload.batch": 16,
        "workload.prompt_tokens": 1024,
        "workload.output_tokens": 128,
    },
    "sglang-bench": {"workload.batch": 11.78, "workload.prompt_tokens": 302.1, "workload.output_tokens": 195.8},
    "vllm-log": {"decoding.lookahead": 3},
    "vllm-log, throughput": {"workload.batch": 2},
    "vllm-v0-log": {"decoding.lookahead": 4},
    "vllm-metrics": {"decoding.lookahead": 5},
    "sglang-log": {"workload.batch": 1},
    "llama-bench": {"workload.batch": 1, "workload.prompt_tokens": 512},
    "llama-speculative": {
        "workload.batch": 1,
        "decoding.lookahead": 5,
        "workload.prompt_tokens": 14,
        "workload.output_tokens": 673,
    },
    "eagle": {"workload.batch": 1},
    "spec-bench, vanilla": {"workload.batch": 1, "decoding.lookahead": 0},
    "genai-perf": {"workload.batch": 100, "workload.prompt_tokens": 200.85, "workload.output_tokens": 567.84},
    "golden-acceptance": {"decoding.lookahead": 1},
    "dspark-rounds": {"workload.batch": 1, "decoding.lookahead": 5},
}

# The same ratios with half the counts: what the server would have said before.
V0_EARLIER = files.VLLM_V0_LOG.replace("1735", "867").replace("2648", "1324").replace("2149", "1074")


def read(text: str, format_name: str | None = None, only: str | None = None) -> Imported:
    return import_source(source_of(text, "x"), format_name, only)


def refused(text: str, format_name: str | None = None, only: str | None = None) -> Problem:
    """The first problem of a file."""
    with pytest.raises(ConfigError) as caught:
        read(text, format_name, only)
    return caught.value.problems[0]


def told(imported: Imported) -> str:
    return "\n".join(report_lines(imported))


class TestValues:
    @pytest.mark.parametrize("name", files.FILES)
    def test_the_format_is_recognised_from_the_content(self, name: str) -> None:
        known, text = files.FILES[name]
        assert read(text).format.name == known
        assert read(text, known).format.name == known

    @pytest.mark.parametrize("name", VALUES)
    def test_metrics(self, name: str) -> None:
        finding = read(files.FILES[name][1]).outcome.findings[0]
        assert finding.metrics == pytest.approx(VALUES[name], rel=2e-4)

    @pytest.mark.parametrize("name", STATED)
    def test_what_the_file_states(self, name: str) -> None:
        finding = read(files.FILES[name][1]).outcome.findings[0]
        assert {one.path: one.value for one in finding.stated} == pytest.approx(STATED[name], rel=1e-3)

    @pytest.mark.parametrize("name", files.FILES)
    def test_marks_line_ends_and_colours_change_nothing(self, name: str) -> None:
        known, text = files.FILES[name]
        plain = read(text)
        if known.endswith("log"):
            text = "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines())
        again = read("\ufeff" + text.replace("\n", "\r\n"))
        assert [f.metrics for f in again.outcome.findings] == [f.metrics for f in plain.outcome.findings]
        assert again.outcome.written == plain.outcome.written

    @pytest.mark.parametrize("name", files.REFUSED)
    def test_what_holds_no_measurement_is_refused_by_name(self, name: str) -> None:
        path, words, text = files.REFUSED[name]
        problem = refused(text)
        assert problem.path == path
        assert words in problem.accepts
        assert problem.line

    def test_every_format_has_a_file_here(self) -> None:
        assert {one.name for one in FORMATS} == {known for known, _ in files.FILES.values()} | files.REFUSED.keys()

    def test_configurations_of_one_file(self) -> None:
        assert [f.label for f in read(files.GOLDEN).outcome.findings] == [
            "a-model, thinking_on, K 1",
            "a-model, thinking_on, K 2",
            "a-model, thinking_off, K 1",
        ]
        assert [f.metrics for f in read(files.LLAMA_BENCH, only="tg").outcome.findings] == [
            {"plain_step_s": pytest.approx(2.597940671 / 128)}
        ]
        two = files.VLLM_BENCH_RUN | {"max_concurrency": 8}
        both = read(files.lines(files.VLLM_BENCH_RUN, two)).outcome.findings
        assert [f.label for f in both] == ["a/model, batch 4", "a/model, batch 8"]

    def test_all_reduces_are_a_table_for_a_calibration(self) -> None:
        data = yaml.safe_load(read(files.NCCL).outcome.written)
        cost = AllReduceCost.model_validate(tuples(data["all_reduce"]))
        assert data["chips"] == 16
        assert [(one.payload_bytes, one.time_s) for one in cost.table] == [
            (536870912, pytest.approx(5202.3e-6)),
            (1073741824, pytest.approx(10314e-6)),
        ]
        assert "2 hosts" in told(read(files.NCCL))

    def test_ranks_follow_from_the_bandwidths_where_no_list_tells_them(self) -> None:
        text = "".join(f"{line}\n" for line in files.NCCL.splitlines() if "Rank" not in line)
        assert yaml.safe_load(read(text).outcome.written)["chips"] == 16

    def test_datasheet_figures_are_peaks(self) -> None:
        peaks = Peaks.model_validate(tuples(yaml.safe_load(read(files.AICONFIGURATOR).outcome.written)["peaks"]))
        assert peaks.hbm_bandwidth.value_bytes_per_s == 3.35e12
        assert peaks.matmul["fp8"].value_flop_per_s == pytest.approx(1.978e15)
        assert "not a measurement" in told(read(files.AICONFIGURATOR))


class TestDefinitions:
    def test_conditional_rates_are_quotients_of_survival(self) -> None:
        # 100 rounds: 80 keep one token or more, 60 two, 30 three.
        assert conditional([0.8, 0.6, 0.3]) == pytest.approx((0.8, 0.75, 0.5))
        assert conditional([0.5, 0.0, 0.0]) == pytest.approx((0.5, 0.0))
        assert conditional([0.5, 0.6]) == ()

    def test_the_conversion_is_named(self) -> None:
        text = told(read(files.VLLM_BENCH))
        assert "acceptance 2.77 read as acceptance length with the bonus token (vLLM's definition)" in text
        assert "acceptance_rates [0.700, 0.714, 0.700, 0.629]" in text
        assert "acceptance rate 0.443 read as draft_acceptance_ratio, accepted / proposed" in text
        assert "mean_tpot_ms read as TPOT: per output token, the first excluded" in text
        assert "mean_itl_ms: gaps between emissions" in text
        assert "output_throughput: of all requests over the whole run" in text
        assert "round_s: from TPOT x acceptance length" in text

    def test_a_mean_is_taken_before_a_median(self) -> None:
        run = {key: value for key, value in files.VLLM_BENCH_RUN.items() if key != "mean_tpot_ms"}
        finding = read(json.dumps(run)).outcome.findings[0]
        assert finding.metrics["tpot_s"] == pytest.approx(7.4e-3)
        assert finding.derived["tpot_s"] == "the median of the requests; the file has no mean"

    def test_lines_of_a_log_are_added_up_and_not_averaged(self) -> None:
        more = files.VLLM_LOG.splitlines()[1].replace("14:20:34", "14:20:44")
        more = more.replace("38.8%", "48.7%").replace("2.16", "2.46").replace("150 ", "725 ").replace("387 ", "1488 ")
        more = more.replace("0.543, 0.357, 0.264", "0.615, 0.464, 0.383")
        imported = read(f"{files.VLLM_LOG}{more}\n")
        finding = imported.outcome.findings[0]
        # 129 and 496 rounds.
        assert finding.metrics["acceptance_length"] == pytest.approx(1 + 875 / 625)
        assert finding.metrics["draft_acceptance_ratio"] == pytest.approx(875 / 1875)
        shares = [(129 * a + 496 * b) / 625 for a, b in ((0.543, 0.615), (0.357, 0.464), (0.264, 0.383))]
        assert finding.read["survival_rates"] == pytest.approx(shares, abs=1e-5)
        assert "2.16 to 2.46 over 2 lines" in told(imported)

    def test_throughput_of_intervals_in_which_the_same_requests_ran(self) -> None:
        both = files.VLLM_ENGINE_LOG + files.VLLM_LOG.splitlines()[1]
        imported = read(both)
        finding = imported.outcome.findings[0]
        length = 1 + 150 / 129
        assert finding.label == "K 3, batch 2"
        assert finding.metrics["round_s"] == pytest.approx(2 / 210 * length)
        assert finding.derived["round_s"] == "from TPOT x acceptance length"
        assert "generation throughput of 2 of 4 lines: requests came or went" in told(imported)

    def test_drafts_shorter_than_k_are_counted_by_the_length(self) -> None:
        # 100 rounds of n-gram drafts with 150 tokens in all, not 3 each: 60 kept one, 20 two.
        line = (
            "SpecDecoding metrics: Draft acceptance rate: 53.3%, Mean acceptance length: 1.80, Accepted: 80 tokens, "
            "Drafted: 150 tokens, Per-position acceptance rate: 0.600, 0.200, 0.000"
        )
        finding = read(line).outcome.findings[0]
        assert finding.metrics["acceptance_length"] == pytest.approx(1.8)
        assert finding.metrics["draft_acceptance_ratio"] == pytest.approx(80 / 150)

    def test_the_first_engine_judges_tokens_behind_a_rejected_one(self) -> None:
        imported = read(files.VLLM_V0_LOG)
        assert "acceptance rate 0.655 is no draft_acceptance_ratio" in told(imported)
        # Its 0.655 would give 3.62 tokens a round, which its own emitted tokens deny.
        assert imported.outcome.findings[0].metrics["draft_acceptance_ratio"] == pytest.approx(0.5615, rel=1e-3)

    @pytest.mark.parametrize(
        ("lengths", "said"),
        [
            ([1, 3, 3, 2, 2, 4], "they count the bonus token (mean 2.5)"),
            ([0, 2, 2, 1, 1, 3], "they leave the bonus token out (mean 1.5)"),
            ([1, 1, 1, 1, 1, 1], "not used"),
        ],
    )
    def test_accept_lengths_with_or_without_the_bonus_token(self, lengths: list[int], said: str) -> None:
        imported = read(files.lines(files.answer(1, "m", [4, 2], [9, 6], [0.12, 0.06], accept_lengths=lengths)))
        assert said in told(imported)
        assert imported.outcome.findings[0].metrics["acceptance_length"] == pytest.approx(15 / 6)

    def test_indices_of_last_steps_are_one_less_than_steps(self) -> None:
        finding = read(files.lines(files.answer(1, "m", [], [10], [1.0], idxs=[3]))).outcome.findings[0]
        assert finding.metrics["acceptance_length"] == pytest.approx(10 / 4)

    def test_no_first_token_without_streaming(self) -> None:
        run = files.GENAI_PERF_RUN | {"input_config": {"streaming": False, "concurrency": 100}}
        imported = read(json.dumps(run))
        assert imported.outcome.findings[0].metrics == {"e2e_s": pytest.approx(4.610615636)}
        assert "time_to_first_token: answers were not streamed" in told(imported)
        same = files.GENAI_PERF_RUN | {
            "time_to_first_token": files.GENAI_PERF_RUN["request_latency"],
            "input_config": {},
        }
        assert "ttft_s" not in read(json.dumps(same)).outcome.findings[0].metrics

    def test_the_first_throughput_after_a_prefill_is_left_out(self) -> None:
        imported = read(files.SGLANG_LOG)
        spread = imported.outcome.findings[0].read["gen throughput"]
        assert (spread["n"], spread["least"], spread["most"]) == (2, 0.39, 178.86)
        assert "gen throughput of 1 of 2 lines" in told(imported)

    def test_lists_request_by_request_are_passed_over(self) -> None:
        run = files.VLLM_BENCH_RUN | {
            "itls": [[0.01] * 300] * 400,
            "generated_texts": ['a ] \\ " [ b'] * 3,
            "errors": [],
        }
        assert read(json.dumps(run)).outcome.findings[0].metrics["tpot_s"] == pytest.approx(7.5e-3)
        text = json.dumps(run, indent=1).replace('mean_itl_ms": 20.7', 'mean_itl_ms": -1')
        problem = refused(text)
        assert text.splitlines()[problem.line - 1].strip().startswith('"mean_itl_ms"')

    def test_an_endless_rate_is_read_though_it_is_no_json(self) -> None:
        run = files.SGLANG_BENCH_RUN | {"request_rate": float("inf"), "max_concurrency": 8, "accept_length": 3.1}
        finding = read(files.lines(run)).outcome.findings[0]
        assert finding.metrics["round_s"] == pytest.approx(3.1 * 11.8089e-3)
        assert ("workload.batch", 8) in {(one.path, one.value) for one in finding.stated}


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "line", "path", "words"),
        [
            ("", 1, "", "a file of one of these formats"),
            ("hello\n", 1, "", "or --format NAME: vllm-bench, sglang-bench"),
            (files.VLLM_LOG + files.VLLM_V0_LOG, 1, "", "this looks like vllm-log and vllm-v0-log"),
            (files.VLLM_BENCH[:-20], 27, "", "a JSON value"),
            (files.EAGLE[:-30], 2, "", ""),
            (files.VLLM_BENCH.replace("7.5,", "-7.5,"), 15, "mean_tpot_ms", "a number from 0"),
            (files.VLLM_BENCH.replace("7.5,", "NaN,"), 15, "", "JSON has neither NaN"),
            (files.VLLM_BENCH.replace("7.5,", "1e300,"), 15, "mean_tpot_ms", "a number from 0"),
            (files.VLLM_BENCH.replace("7.5,", '"fast",'), 15, "mean_tpot_ms", "a number from 0"),
            (files.VLLM_BENCH.replace('"completed": 40', '"completed": 0'), 7, "completed", "a number from 1"),
            (
                files.VLLM_BENCH.replace("0.5,", "0.9,"),
                24,
                "spec_decode_per_position_acceptance_rates",
                "rates that never rise",
            ),
            (files.VLLM_BENCH.replace("512.0", "51.2"), 11, "output_throughput", "total_output_tokens / duration"),
            (files.EAGLE.replace('"question_id": 82', '"question_id": 81'), 2, "question_id", "each question once"),
            (files.EAGLE.replace("[20000]", "[-3]"), 2, "choices[0].new_tokens[0]", "a whole number from 0"),
            (files.EAGLE.replace("[20000]", "[0]"), 2, "choices[0].new_tokens", "more than 0 tokens in every answer"),
            (files.SPEC_BENCH.replace("[0.06]", "[0.06, 1]"), 2, "choices[0].new_tokens", "as many values"),
            (files.PROMETHEUS + files.PROMETHEUS, 15, "vllm:spec_decode_num_drafts_total", "each series once"),
            (
                files.PROMETHEUS.replace("7.268642e+06", "NaN"),
                5,
                "vllm:spec_decode_num_accepted_tokens_total",
                "a number",
            ),
            (
                files.PROMETHEUS.replace("7.268642e+06", "7.2e+07"),
                5,
                "vllm:spec_decode_num_accepted_tokens_total",
                "at most",
            ),
            (files.VLLM_LOG[:-20], 2, "SpecDecoding metrics", "Per-position acceptance rate"),
            (files.VLLM_LOG + files.VLLM_LOG.replace("14:20:34", "14:20:33"), 4, "time", "out of order"),
            (files.VLLM_V0_LOG + V0_EARLIER, 2, "Number of draft tokens", "a restart, or two logs in one"),
            (files.SGLANG_LOG.replace("10:27:57", "10:27:59", 1), 3, "time", "out of order, or two logs"),
            (files.NCCL.replace("1073741824 ", "5 "), 7, "algbw", "size / time"),
            (files.NCCL[: files.NCCL.index("195.20")], 7, "busbw", "the row is cut"),
            (files.NCCL.replace("193.50      0", "193.50      3"), 6, "#wrong", "0 wrong values"),
            (files.NCCL.replace("195.20", "97.60"), 7, "busbw", "this is another collective"),
            (files.NCCL + files.NCCL, 6 + 8, "size", "sizes in rising order"),
            (files.LLAMA_SPECULATIVE.replace("= 526", "= 900"), 7, "n_accept", "at most n_drafted"),
            (files.LLAMA_SPECULATIVE.replace("n_predict = 673\n", ""), 8, "n_predict", "which is missing"),
            (files.LLAMA_PERF + files.LLAMA_PERF, 4, "sampling time", "each time once"),
            (files.LLAMA_PERF.replace("27636.04", "nan"), 1, "eval time", "cannot be read"),
            (files.GOLDEN.replace("2: 2.27", "2: 3.5"), 6, "a-model.thinking_on[2]", "from 1 to 3"),
            (files.DSPARK.replace('"accept": 2', '"accept": 6'), 13, "prompts.prose[1].accept", "at most k"),
            (files.GENAI_PERF.replace('"ms"', '"parsec"', 1), 3, "request_latency.unit", "a unit of time"),
            (files.LLAMA_BENCH.replace("2597940671", "25979"), 2, "avg_ts", "tokens over avg_ns"),
            (files.AICONFIGURATOR.replace("3350000000000", "-1"), 3, "gpu.mem_bw", "a number from 1"),
        ],
    )
    def test_each_is_told_by_line_and_field(self, text: str, line: int, path: str, words: str) -> None:
        problem = refused(text)
        assert (problem.line, words in problem.accepts) == (line, True), problem
        assert not path or problem.path == path

    def test_unreadable_lines_of_a_log_are_counted_and_named(self) -> None:
        line = files.VLLM_LOG.splitlines()[1]
        cut = f"{files.VLLM_LOG}{line[:120]}\n{line.replace('Accepted: 150', 'Accepted: -5')}\n"
        imported = read(cut)
        assert [number for number, _ in imported.outcome.unreadable] == [3, 4]
        assert "unreadable: 2 lines, not used: 3 (" in told(imported)
        assert imported.outcome.findings[0].metrics == read(files.VLLM_LOG).outcome.findings[0].metrics

    def test_lines_of_other_processes_between_do_no_harm(self) -> None:
        rows = files.SGLANG_LOG.splitlines()
        other = [row.replace("TP0", "DP1 TP0").replace("10:27", "10:26") for row in rows]
        mixed = [row for pair in zip(rows, other, strict=True) for row in pair]
        finding = read("\n".join(mixed)).outcome.findings[0]
        assert finding.metrics["tokens_per_s"] == pytest.approx(178.86)

    def test_an_unknown_format_is_answered_with_the_list(self) -> None:
        problem = refused(files.VLLM_BENCH, "vllm-bensh")
        assert "did you mean 'vllm-bench'?" in problem.accepts
        assert problem.file == "--format vllm-bensh"

    def test_only_something_that_is_there(self) -> None:
        assert "thinking_on, K 1" in refused(files.GOLDEN, only="nothing").accepts


class TestScenario:
    def point(self, **changes: Any) -> Point:
        axes = {path.replace("__", "."): value for path, value in changes.items()}
        return Point(scenario(**changes), axes)

    def test_the_point_that_agrees_is_taken(self) -> None:
        points = [self.point(decoding__lookahead=k, workload__batch=b) for k in (2, 4) for b in (1, 4)]
        made = with_scenario(read(files.VLLM_BENCH), points, "s.yaml")
        assert "the file is about a/model; that this is the scenario's target, target, is believed" in told(made)
        (record,) = made.records
        assert record.kind == "measured"
        assert record.axes == {"decoding.lookahead": 4, "workload.batch": 4}
        assert record.scenario == points[3].scenario.resolved()
        assert not record.inconsistency()
        assert record.provenance["derived"] == {"round_s": "from TPOT x acceptance length"}
        assert record.provenance["imported"] == {"file": "x", "format": "vllm-bench"}
        assert record.components == {"round": pytest.approx(20.775e-3)}
        assert "draft_step_s" not in record.metrics

    def test_contradictions_are_told_by_field(self) -> None:
        points = [self.point(workload__batch=b) for b in (1, 2)]
        with pytest.raises(ConfigError) as caught:
            with_scenario(read(files.VLLM_BENCH), points, "s.yaml")
        (problem,) = caught.value.problems
        assert (problem.path, problem.line) == ("workload.batch", 5)
        assert "which is 1, 2; the file states 4 (max_concurrency)" in problem.accepts

    def test_more_tokens_a_round_than_the_lookahead_allows(self) -> None:
        with pytest.raises(ConfigError) as caught:
            with_scenario(read(files.SPEC_BENCH), [self.point(decoding__lookahead=1)], "s.yaml")
        assert caught.value.problems[0].path == "decoding.lookahead"

    def test_several_points_that_agree_are_told_with_what_they_differ_in(self) -> None:
        points = [self.point(deployment__chips=x, workload__batch=4) for x in (1, 4)]
        with pytest.raises(ConfigError) as caught:
            with_scenario(read(files.VLLM_BENCH), points, "s.yaml")
        assert "--set deployment.chips=1 picks" in caught.value.problems[0].accepts

    def test_one_point_measured_twice(self) -> None:
        points = [self.point(decoding__lookahead=k) for k in (1, 2)]
        with pytest.raises(ConfigError) as caught:
            with_scenario(read(files.GOLDEN), points, "s.yaml")
        assert "--only TEXT picks one" in caught.value.problems[0].accepts
        made = with_scenario(read(files.GOLDEN, only="thinking_on"), points, "s.yaml")
        assert [record.metrics["acceptance_length"] for record in made.records] == [1.79, 2.27]

    def test_configurations_without_a_point_are_named(self) -> None:
        made = with_scenario(read(files.GOLDEN, only="thinking_on"), [self.point(decoding__lookahead=2)], "s.yaml")
        assert len(made.records) == 1
        assert "left out: a-model, thinking_on, K 1: no point of the scenario has its decoding.lookahead" in told(made)

    def test_all_reduces_need_none(self) -> None:
        with pytest.raises(ConfigError, match="needs none"):
            with_scenario(read(files.NCCL), [self.point()], "s.yaml")
