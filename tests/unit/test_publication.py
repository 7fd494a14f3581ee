"""Are files of published values read, judged and refused as they should be?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.errors import ConfigError
from simulator.spec.publication import PUBLISHED, Published, load_publication, rate_of
from simulator.validation.published import Judged, crossed, judge, judged, orders, summaries

HEAD = """name: made-up
title: an invented source
source: nobody
read: invented
scenario:
  target: llama-3.1-8b
  draft: {kind: model, model: llama-3.2-1b}
  deployment: {hardware: h100_sxm, calibration: vllm-0.24-kernels, chips: 1}
  decoding: {lookahead: 0}
  workload: {prompt_tokens: 100, output_tokens: 100}
rows:
"""
PLAIN = "  - {metric: plain_step_s, value: 6.4 ms, where: table 1, use: test}\n"


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def load(folder: Path, *rows: str, head: str = HEAD) -> Published:
    file = folder / "made_up.yaml"
    file.write_text(head + "".join(f"  - {row}\n" for row in rows), encoding="utf-8")
    return load_publication(file)


def judged_rows(folder: Path, *rows: str, head: str = HEAD) -> list[Judged]:
    return judged([load(folder, *rows, head=head)])


def mistakes(folder: Path, *rows: str, head: str = HEAD) -> list[tuple[int, str]]:
    with pytest.raises(ConfigError) as raised:
        load(folder, *rows, head=head)
    return [(problem.line, problem.accepts) for problem in raised.value.problems]


@pytest.mark.parametrize("lookahead", [1, 4, 7])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8, 1.0])
def test_the_rate_that_gives_a_length(lookahead: int, rate: float) -> None:
    length = float(np.polyval(np.ones(lookahead + 1), rate))
    assert rate_of(length, lookahead) == pytest.approx(rate, abs=1e-9)


def test_a_row_changes_keys_of_the_scenario_and_its_acceptance(tmp_path: Path) -> None:
    setting = "set: {decoding.lookahead: 2, workload.batch: 8, target.weight_dtype: fp8}"
    found = load(tmp_path, f"{{metric: tpot_s, value: 4 ms, where: abc, use: test, acceptance_length: 2.5, {setting}}}")
    (entry,) = found.entries
    assert entry.scenario is not None
    assert (entry.scenario.lookahead, entry.scenario.workload.batch) == (2, 8)
    assert entry.scenario.target.weight_dtype == "fp8"
    assert entry.scenario.acceptance.mean_tokens(2) == pytest.approx(2.5)
    assert entry.row.measured == 4e-3


def test_errors_are_those_of_times(tmp_path: Path) -> None:
    one, other = judged_rows(
        tmp_path,
        "{metric: plain_step_s, value: 10 ms, where: abc, use: test}",
        "{metric: tokens_per_s, value: 100 token/s, where: abc, use: fit}",
    )
    assert one.error == pytest.approx(other.error)
    assert (one.verdict, other.verdict) == ("missed", "fitted")
    assert one.error is not None
    assert one.error < 0  # the prediction is faster


def test_what_contradicts_physics_is_found_by_the_tool(tmp_path: Path) -> None:
    rows = judged_rows(
        tmp_path,
        "{metric: plain_step_s, value: 4.4 ms, where: 15 GB at 3.35 TB/s take 4.5 ms, use: test}",
        "{metric: verify_step_s, value: 2 ms, where: abc, use: test, set: {decoding.lookahead: 4}}",
        "{metric: prefill_s, value: 10 ms, where: its arithmetic, use: test, set: {workload.prompt_tokens: 4096}}",
        "{metric: speedup, value: 3.0, where: abc, use: test, acceptance_length: 2.5, set: {decoding.lookahead: 4}}",
        "{metric: tpot_s, value: 3 ms, where: abc, use: test, acceptance_length: 2.5, set: {decoding.lookahead: 4}}",
    )
    assert [row.verdict for row in rows[:4]] == ["contradicts physics"] * 4
    assert "in which the datasheet's rate reads" in rows[0].reason
    assert "that its arithmetic takes" in rows[2].reason
    assert "from 2.50 tokens a round" in rows[3].reason
    assert rows[4].verdict != "contradicts physics"  # several tokens of a round may be under the floor of one step
    assert not any(row.counted for row in rows[:4])


def test_what_is_not_modelled_says_why(tmp_path: Path) -> None:
    (row,) = judged_rows(
        tmp_path, "{metric: speedup, value: 2.0, where: abc, use: test, not_modelled: trees of candidates}"
    )
    assert (row.verdict, row.reason, row.predicted) == ("not modelled", "trees of candidates", None)


def test_an_engine_that_is_not_known_is_marked(tmp_path: Path) -> None:
    head = HEAD.replace("chips: 1", "chips: 1, engine: nobodys-1.0")
    (entry,) = load(tmp_path, PLAIN[4:-1], head=head).entries
    assert entry.scenario is not None
    from simulator.predict import predict_scenario

    told = predict_scenario(entry.scenario).provenance["engine"]
    assert told["known"] is False
    assert "vllm-0.9" in told["words"]


@pytest.mark.parametrize(
    ("row", "line", "words"),
    [
        ("{metric: plain_step, value: 1 ms, where: abc, use: test}", 12, "one of plain_step_s"),
        ("{metric: plain_step_s, value: 1, where: abc, use: test}", 12, "a quantity in s"),
        ("{metric: speedup, value: 1 ms, where: abc, use: test}", 12, "a number: it is a ratio"),
        ("{metric: plain_step_s, value: 7 ms, where: abc, use: maybe}", 12, "one of fit, test"),
        ("{metric: plain_step_s, value: 7 ms, where: abc, use: test, set: {decodng.lookahead: 2}}", 12, "did you mean"),
        ("{metric: plain_step_s, value: 7 ms, where: abc, use: test, set: {deployment.chips: 3}}", 12, "knows 3 chips"),
        ("{metric: tpot_s, value: 7 ms, where: abc, use: test, set: {decoding.lookahead: 2}}", 12, "acceptance_length"),
        (
            "{metric: tpot_s, value: 7 ms, where: abc, use: test, acceptance_length: 9, set: {decoding.lookahead: 2}}",
            12,
            "1 to K+1, which is 3",
        ),
    ],
)
def test_mistakes_name_the_line_and_what_is_accepted(tmp_path: Path, row: str, line: int, words: str) -> None:
    found = mistakes(tmp_path, row)
    assert found
    assert found[0][0] == line
    assert words in found[0][1]


def test_a_file_needs_a_scenario_and_rows(tmp_path: Path) -> None:
    assert len(mistakes(tmp_path, head="name: x\n")) >= 4


def test_mistakes_of_the_scenario_are_in_its_own_lines(tmp_path: Path) -> None:
    head = HEAD.replace("prompt_tokens: 100", "prompt_tokens: many")
    lines = {line for line, _ in mistakes(tmp_path, PLAIN[4:-1], PLAIN[4:-1], head=head)}
    assert lines == {10}


def test_signs_and_orders(tmp_path: Path) -> None:
    setting = "acceptance_length: {0}, set: {{decoding.lookahead: 4}}"
    rows = judged_rows(
        tmp_path,
        f"{{metric: speedup, value: 1.6, where: abc, use: test, {setting.format(4.5)}}}",
        f"{{metric: speedup, value: 0.8, where: abc, use: test, {setting.format(1.1)}}}",
        f"{{metric: speedup, value: 0.7, where: abc, use: test, {setting.format(4.4)}}}",
        f"{{metric: speedup, value: 1.01, where: abc, use: test, {setting.format(2)}}}",
    )
    signs, losses, order = orders(rows)
    assert (signs.right, signs.asked, signs.ties) == (2, 3, 1)
    assert (losses.right, losses.asked) == (1, 2)
    assert order.asked == 6


def test_summaries_keep_what_was_fitted_apart(tmp_path: Path) -> None:
    rows = judged_rows(tmp_path, PLAIN[4:-1], PLAIN[4:-1].replace("use: test", "use: fit"))
    uses = {(one.by, one.use) for one in summaries(rows)}
    assert uses == {(by, use) for by in ("quantity", "hardware", "engine", "source") for use in ("fit", "test")}


def test_two_sources_of_a_chip_are_tried_on_each_other(tmp_path: Path) -> None:
    here = HEAD.replace("h100_sxm", "h100_sxm")
    one = load(tmp_path, PLAIN[4:-1].replace("use: test", "use: fit"), head=here)
    other = load(
        tmp_path, PLAIN[4:-1], head=HEAD.replace("calibration: vllm-0.24-kernels, ", "").replace("made-up", "b")
    )
    assert not crossed([one, other])  # the other has no calibration that rows were fitted with
    (entry,) = other.entries
    assert judge(other.about, entry, "vllm-0.24-kernels").calibration == "vllm-0.24-kernels"


def test_the_command_prints_rows_and_writes_a_page(tmp_path: Path) -> None:
    told = sps("validate", "published", "--source", "gpt_fast_a100", "--out", str(tmp_path))
    assert told.exit_code == 0
    assert "gpt_fast_a100" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 100
    kept = json.loads((tmp_path / "published.json").read_text(encoding="utf-8"))
    assert len(kept["rows"]) == len(load_publication(PUBLISHED / "gpt_fast_a100.yaml").entries)
    page = (tmp_path / "published.html").read_text(encoding="utf-8")
    assert "Every value" in page
    assert "http-equiv" in page
    as_json = sps("validate", "published", "--source", "gpt_fast_a100", "--json")
    assert json.loads(as_json.stdout)["published"]["rows"] == kept["rows"]


def test_the_command_refuses_what_it_cannot_mean() -> None:
    unknown = sps("validate", "published", "--source", "gpt_fast")
    assert unknown.exit_code == 2
    assert "did you mean 'gpt_fast_a100'?" in unknown.stderr
    assert sps("validate", "published", "--quick").exit_code == 2
    assert sps("validate", "device", "--source", "gpt_fast_a100").exit_code == 2
