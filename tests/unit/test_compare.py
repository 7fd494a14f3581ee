"""Does compare pair what belongs together, say how far apart it is, and name what it leaves out?"""

from __future__ import annotations

import json
import math

import pytest

from simulator.compare import Comparison, Row, compare, question
from simulator.predict import predict
from simulator.spec.load import load_scenario
from simulator.spec.record import RunRecord
from tests.synthetic import ROOT, predicted_and_measured

ONE_POINT = ("decoding.lookahead=4", "deployment.chips=4", "draft.model=quickstart-draft-wide")
TWO_DRAFTS = ("decoding.lookahead=4", "deployment.chips=4")


@pytest.fixture(scope="module")
def sweep() -> list[RunRecord]:
    return predicted_and_measured()


def changed(record: RunRecord, **values: float) -> RunRecord:
    """The record with some metrics replaced."""
    return record.model_copy(update={"metrics": record.metrics | values})


def measured_of(records: list[RunRecord]) -> RunRecord:
    return next(record for record in records if record.kind == "measured")


def row(comparison: Comparison, term: str, kind: str = "analytic") -> Row:
    return next(r for r in comparison.rows if r.term == term and r.predicted_kind == kind)


def test_a_prediction_meets_the_measurement_of_its_point_though_only_one_of_them_has_a_calibration(
    sweep: list[RunRecord],
) -> None:
    comparison = compare(sweep)
    assert {r.reference_kind for r in comparison.rows} == {"measured"}
    pairs = {(r.question, r.predicted_kind) for r in comparison.rows}
    assert len(pairs) == 2 * 12


def test_the_error_is_predicted_over_measured_minus_one() -> None:
    records = predicted_and_measured(ONE_POINT)
    found = row(compare(records), "plain_step_s")
    predicted, measured = records[0].metric("plain_step_s"), records[-1].metric("plain_step_s")
    assert predicted is not None
    assert measured is not None
    assert found.error == predicted / measured - 1


def test_within_is_unknown_without_a_predicted_interval_and_told_with_one() -> None:
    analytic, _, measured = predicted_and_measured(ONE_POINT)
    assert row(compare([analytic, measured]), "round_s").within is None
    seen = measured.metric("round_s")
    assert seen is not None
    wide = changed(analytic, round_s_low=0.9 * seen, round_s_high=1.1 * seen)
    narrow = changed(analytic, round_s_low=1.01 * seen, round_s_high=1.1 * seen)
    assert row(compare([wide, measured]), "round_s").within is True
    assert row(compare([narrow, measured]), "round_s").within is False


def test_bias_median_and_worst_follow_from_the_rows(sweep: list[RunRecord]) -> None:
    comparison = compare(sweep)
    summary = next(s for s in comparison.summaries if (s.term, s.predicted_kind) == ("round_s", "analytic"))
    errors = [r.error for r in comparison.rows if (r.term, r.predicted_kind) == ("round_s", "analytic")]
    assert summary.count == len(errors) == 12
    assert summary.bias == pytest.approx(sum(errors) / 12)
    assert summary.worst_absolute == max(map(abs, errors))
    halves = sorted(map(abs, errors))[5:7]
    assert summary.median_absolute == pytest.approx(sum(halves) / 2)


def test_the_order_of_two_drafts_is_judged_wherever_all_else_is_equal(sweep: list[RunRecord]) -> None:
    rankings = [r for r in compare(sweep).rankings if r.predicted_kind == "analytic"]
    assert {(r.term, r.chips, r.lookahead) for r in rankings} == {
        (term, chips, lookahead)
        for term in ("draft_step_s", "round_s", "speedup")
        for chips in (1, 4)
        for lookahead in (2, 4, 8)
    }
    steps = [r for r in rankings if r.term == "draft_step_s" and r.chips == 4]
    assert all(r.agrees and r.clear for r in steps)


def test_a_reversed_order_is_told() -> None:
    records = predicted_and_measured(TWO_DRAFTS)
    first, second = (record for record in records if record.kind == "measured")
    slower = changed(first, draft_step_s=10 * float(second.metric("draft_step_s") or 0))
    comparison = compare([*records[:4], slower, second])
    assert not any(r.agrees for r in comparison.rankings if r.term == "draft_step_s")


def test_a_step_measured_under_its_floor_is_an_invalid_measurement() -> None:
    analytic, _, measured = predicted_and_measured(ONE_POINT)
    floor = analytic.metric("bandwidth_floor_s")
    assert floor is not None
    comparison = compare([analytic, changed(measured, plain_step_s=0.9 * floor)])
    assert [(flag.code, flag.term) for flag in comparison.flags] == [("under_floor", "plain_step_s")]
    assert row(comparison, "plain_step_s").flags == ("under_floor",)
    assert "invalid measurement" in comparison.flags[0].words


def test_time_per_token_may_lie_under_the_floor_of_plain_decoding() -> None:
    analytic, _, measured = predicted_and_measured(ONE_POINT)
    floor = analytic.metric("bandwidth_floor_s")
    assert floor is not None
    assert not compare([analytic, changed(measured, tpot_s=0.5 * floor)]).flags


def test_a_speedup_above_the_acceptance_length_is_flagged_only_beyond_noise() -> None:
    analytic, _, measured = predicted_and_measured(ONE_POINT)
    length = measured.metric("acceptance_length")
    assert length is not None
    beyond = changed(measured, speedup=1.1 * length, speedup_low=1.05 * length, speedup_high=1.2 * length)
    noise = changed(measured, speedup=1.1 * length, speedup_low=0.95 * length, speedup_high=1.2 * length)
    assert [flag.code for flag in compare([analytic, beyond]).flags] == ["above_acceptance_length"]
    assert not compare([analytic, noise]).flags


def test_records_that_differ_in_the_question_are_not_compared_and_the_difference_is_named() -> None:
    analytic = predicted_and_measured(ONE_POINT)[0]
    other = measured_of(predicted_and_measured((*ONE_POINT, "workload.batch=2")))
    comparison = compare([analytic, other])
    assert not comparison.rows
    assert {item.why for item in comparison.not_compared} == {
        "the measured record of this point differs in workload.batch",
        "the analytic record of this point differs in workload.batch",
    }


def test_a_record_without_a_partner_is_listed(sweep: list[RunRecord]) -> None:
    comparison = compare([sweep[0]])
    assert [item.why for item in comparison.not_compared] == ["no record asks the same question"]


def test_terms_of_one_side_only_are_listed_once_with_their_count(sweep: list[RunRecord]) -> None:
    missing = {(item.what, item.why): item.points for item in compare(sweep).not_compared}
    assert missing["e2e_s", "not in the measured record"] == 24
    assert missing["time_to_tokens_s", "not in the analytic record"] == 12
    assert not any(what.endswith("floor_s") for what, _ in missing)


def test_a_measured_zero_is_listed_and_not_divided_by() -> None:
    analytic, _, measured = predicted_and_measured(ONE_POINT)
    comparison = compare([analytic, changed(measured, sampling_s=0.0)])
    assert ("sampling_s", "zero or less in the measured record") in {(i.what, i.why) for i in comparison.not_compared}
    assert all(math.isfinite(r.error) for r in comparison.rows)


def test_published_values_stand_at_their_points_and_say_whether_they_are_a_test() -> None:
    records = predict(load_scenario(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml"))
    rows = [r for r in compare(records).published_rows if r.predicted_kind == "analytic"]
    round_rows = [r for r in rows if r.term == "round_s"]
    assert [(r.lookahead, r.use) for r in round_rows] == [(7, "fit")]
    assert {r.lookahead for r in rows if r.term == "plain_step_s"} == set(range(1, 8))
    assert {r.use for r in rows if r.term == "tpot_s"} == {"test"}


def test_a_published_value_of_a_point_that_was_not_asked_is_listed() -> None:
    file = ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml"
    comparison = compare(predict(load_scenario(file, ["decoding.lookahead=4"])))
    assert {r.term for r in comparison.published_rows} == {"plain_step_s", "draft_step_s", "tpot_s"}
    assert ("published round_s", "no record at decoding.lookahead 7") in {
        (item.what, item.why) for item in comparison.not_compared
    }


def test_the_question_is_told_in_words(sweep: list[RunRecord]) -> None:
    words = question(compare(sweep).views)
    assert words.startswith("quickstart-target-100m")
    for part in ("1 or 4 x cpu", "K 2, 4 or 8", "batch 1", "acceptance 0.8 per token, given those before it"):
        assert part in words


def test_a_comparison_is_plain_data_for_json(sweep: list[RunRecord]) -> None:
    data = compare(sweep).to_json()
    assert json.loads(json.dumps(data, allow_nan=False)).keys() == {
        "rows",
        "summaries",
        "rankings",
        "flags",
        "not_compared",
        "compiled",
    }
