"""Is a model that is shifted to measured steps at them, between them by hand, and the same wherever it is told?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.ablation import plan
from simulator.anchoring import Anchor, verify_anchor
from simulator.arithmetic import explained
from simulator.compare import compare
from simulator.compare.views import views
from simulator.des.playback import closed_form_s, phases, play
from simulator.errors import RefusedError
from simulator.predict import Prediction, predict, predict_scenario
from simulator.spec.load import Point, scenario_from
from simulator.spec.record import new_record, scenario_hash
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from simulator.tables import answer, calibration_words
from simulator.tables.anchors import anchor_lines, anchor_warnings, anchored_to
from simulator.units import human_time
from tests.builders import model, scenario

MOE = {"count": 16, "per_token": 2, "d_ff": 4096, "layers": 16}
EXACT = 1e-12


def asked(measured: dict[str, Any] | None, **changes: Any) -> Scenario:
    return scenario(**changes, **({} if measured is None else {"measured": measured}))


def components(measured: dict[str, Any] | None = None, **changes: Any) -> dict[str, float]:
    return predict_scenario(asked(measured, **changes)).components


def text(seconds: float) -> str:
    """As a file has it, exactly."""
    return f"{seconds!r} s"


def test_an_anchored_plain_step_is_what_was_measured() -> None:
    found = predict_scenario(asked({"plain_step": "1.5 ms"}))
    assert found.components["plain_step"] == pytest.approx(1.5e-3, rel=EXACT)
    assert found.metrics["plain_step_s"] == found.components["plain_step"]
    assert sum(found.mechanisms["plain_step"].values()) == found.components["plain_step"]


def test_every_mechanism_is_shifted_by_the_same_factor() -> None:
    alone, found = predict_scenario(asked(None)), predict_scenario(asked({"plain_step": "1.5 ms"}))
    factor = 1.5e-3 / alone.components["plain_step"]
    for name in ("plain_step", "verify_step", "prefill"):
        assert list(found.mechanisms[name]) == list(alone.mechanisms[name])
        for mechanism, seconds in alone.mechanisms[name].items():
            assert found.mechanisms[name][mechanism] == pytest.approx(factor * seconds, rel=EXACT)


def test_a_plain_step_shifts_the_target_and_leaves_the_rest() -> None:
    alone, found = components(), components({"plain_step": "1.5 ms"})
    factor = 1.5e-3 / alone["plain_step"]
    for name in ("draft_prefill", "draft_first_step", "draft_step", "sampling", "round_overhead"):
        assert found[name] == alone[name]
    assert found["verify_step"] == pytest.approx(factor * alone["verify_step"], rel=EXACT)


def test_a_draft_step_shifts_all_passes_of_the_draft_and_nothing_else() -> None:
    alone, found = components(), components({"draft_step": "0.3 ms"})
    factor = 0.3e-3 / alone["draft_step"]
    assert found["draft_step"] == pytest.approx(0.3e-3, rel=EXACT)
    for name in ("draft_first_step", "draft_prefill"):
        assert found[name] == pytest.approx(factor * alone[name], rel=EXACT)
    for name in ("plain_step", "verify_step", "prefill", "sampling"):
        assert found[name] == alone[name]


def test_a_draft_step_counts_where_a_round_has_only_its_first() -> None:
    one = {"decoding__lookahead": 1}
    factor = 0.3e-3 / components()["draft_step"]  # the step of one token is that of every lookahead
    alone, found = components(**one), components({"draft_step": "0.3 ms"}, **one)
    assert "draft_step" not in found
    assert found["draft_first_step"] == pytest.approx(factor * alone["draft_first_step"], rel=EXACT)


def test_a_verify_step_of_the_very_t_is_what_was_measured() -> None:
    found = components({"plain_step": "1.5 ms", "verify_step": {2: "1.7 ms", 5: "2.1 ms"}})
    assert found["verify_step"] == pytest.approx(2.1e-3, rel=EXACT)
    assert components({"verify_step": {5: "2.1 ms"}})["plain_step"] == components()["plain_step"]


def verify_alone(tokens: int) -> float:
    return components(decoding__lookahead=tokens - 1)["verify_step"]


def test_between_two_t_the_factor_is_linear_in_t() -> None:
    at_3, at_9, alone = verify_alone(3), verify_alone(9), verify_alone(5)
    found = components({"verify_step": {3: text(1.2 * at_3), 9: text(1.5 * at_9)}})
    assert found["verify_step"] == pytest.approx((1.2 + 0.3 * 2 / 6) * alone, rel=EXACT)


def test_a_plain_step_counts_as_t_of_one() -> None:
    plain, at_9, alone = components()["plain_step"], verify_alone(9), verify_alone(5)
    found = components({"plain_step": text(1.1 * plain), "verify_step": {9: text(1.5 * at_9)}})
    assert found["verify_step"] == pytest.approx(1.3 * alone, rel=EXACT)


@pytest.mark.parametrize(("measured", "factor"), [({6: 1.2, 9: 1.5}, 1.2), ({2: 1.5, 4: 1.2}, 1.2), ({3: 1.4}, 1.4)])
def test_beyond_what_was_measured_the_nearest_factor_holds(measured: dict[int, float], factor: float) -> None:
    times = {tokens: text(share * verify_alone(tokens)) for tokens, share in measured.items()}
    assert components({"verify_step": times})["verify_step"] == pytest.approx(factor * verify_alone(5), rel=EXACT)


def test_round_and_speedup_by_hand() -> None:
    times = {"plain_step": "1.5 ms", "draft_step": "0.3 ms", "verify_step": {5: "2.1 ms"}}
    alone, found = components(), predict_scenario(asked(times))
    first = 0.3e-3 * alone["draft_first_step"] / alone["draft_step"]
    round_s = first + 3 * 0.3e-3 + 2.1e-3 + alone["sampling"] + alone["round_overhead"]
    tokens = 1 + 0.7 + 0.7**2 + 0.7**3 + 0.7**4
    assert found.components["round"] == pytest.approx(round_s, rel=EXACT)
    assert found.metrics["round_cost"] == pytest.approx(round_s / 1.5e-3, rel=EXACT)
    assert found.metrics["speedup"] == pytest.approx(tokens * 1.5e-3 / round_s, rel=EXACT)
    assert found.metrics["tpot_s"] == pytest.approx(round_s / tokens, rel=EXACT)


def both(measured: dict[str, Any]) -> tuple[Scenario, Prediction]:
    small = asked(measured)
    return small, predict_scenario(small)


def test_played_rounds_and_records_say_the_same() -> None:
    small, found = both({"plain_step": "1.5 ms", "verify_step": {3: "2 ms", 9: "2.5 ms"}})
    analytic, simulated = predict([Point(small, {})])
    assert analytic.components == simulated.components == found.components
    assert simulated.metrics["round_s"] == found.components["round"]
    assert analytic.inconsistency() == ""
    assert json.loads(json.dumps(analytic.to_json()))["provenance"]["anchored"] == found.provenance["anchored"]


@pytest.mark.parametrize("part", ["prefill", "plain_step", "draft_first_step", "draft_step", "verify_step", "round"])
def test_a_trace_takes_as_long_as_the_closed_form(part: str) -> None:
    small, found = both({"plain_step": "1.5 ms", "draft_step": "0.3 ms", "verify_step": {3: "2 ms", 9: "2.5 ms"}})
    assert closed_form_s(small, part) == found.components[part]
    assert play(phases(small, part), 4).seconds == pytest.approx(found.components[part], rel=1e-9)


def test_the_arithmetic_shows_the_factor_and_sums_to_component_and_mechanism() -> None:
    small, found = both({"plain_step": "0.9 ms", "draft_step": "0.3 ms", "verify_step": {3: "2 ms", 9: "2.5 ms"}})
    for component, seconds in found.components.items():
        lines = explained(Steps.of(small), component)
        assert sum(line.seconds for line in lines) == pytest.approx(seconds, rel=EXACT)
        shown = [line for line in lines if line.what == "anchored"]
        assert bool(shown) == (component in found.provenance["anchored"])
        for line in shown:
            part = sum(other.seconds for other in lines if other.mechanism == line.mechanism)
            assert part == pytest.approx(found.mechanisms[component][line.mechanism], rel=EXACT)
    (weights,) = [
        line
        for line in explained(Steps.of(small), "plain_step")
        if (line.what, line.mechanism) == ("anchored", "weights")
    ]
    assert "measured 900.0 us / " in weights.words


def test_provenance_says_measured_predicted_and_factor() -> None:
    alone, (_, found) = components(), both({"plain_step": "1.5 ms", "verify_step": {3: "2 ms"}})
    anchored = found.provenance["anchored"]
    assert list(anchored) == ["plain_step", "prefill", "verify_step"]
    assert anchored["plain_step"]["measured_s"] == 1.5e-3
    assert anchored["plain_step"]["predicted_s"] == alone["plain_step"]
    assert anchored["plain_step"]["factor"] == 1.5e-3 / alone["plain_step"]
    assert anchored["verify_step"]["predicted_s"] == alone["verify_step"]
    assert anchored["verify_step"]["how"] == "as T 3"
    assert anchored["verify_step"]["by_tokens"]["3"]["measured_s"] == 2e-3
    assert "measured_s" not in anchored["verify_step"]
    assert "anchored" not in predict_scenario(asked(None)).provenance


def test_where_a_factor_comes_from_in_words() -> None:
    known = {3: Anchor.of(2.0, 1.0), 9: Anchor.of(3.0, 1.0)}
    plain = Anchor.of(1.0, 1.0)
    told = [verify_anchor(known, plain, tokens, 1.0).how for tokens in (2, 3, 4, 12)]
    assert told == ["between the plain step and T 3", "measured", "between T 3 and T 9", "as T 9"]
    assert verify_anchor({}, plain, 5, 1.0).how == "as the plain step"
    assert verify_anchor(known, None, 2, 1.0).how == "as T 3"


def test_the_answer_says_it_in_one_sentence_and_warns_where_the_model_is_far_off() -> None:
    small = asked({"plain_step": "9 ms", "draft_step": "0.3 ms", "verify_step": {3: "1.2 ms"}})
    words = anchored_to(next(iter(views(predict([Point(small, {})])))))
    assert words.startswith("measured plain step 9.00 ms (model alone ")
    assert words.count("far from the model: check that both mean the same step") == 1
    assert "verify step (T 3) 1.20 ms (model alone 626 us, x 1.92); so also prefill x 13.97 as the plain" in words
    assert words.endswith("draft step and draft prefill x 1.64 as the draft step, verify step (T 5) x 1.92 as T 3")
    assert anchored_to(next(iter(views(predict([Point(asked(None), {})]))))) == ""


PER_CHIP = 16 * (4 * 1024 * 1024 + 3 * 1024 * 4096) / 4 * 2 + 1024 * 4096 / 4 * 2
"""Bytes of the target's weights on one of four chips: attention, feed-forward and head, 2 bytes each."""


KV_PER_POSITION = 2 * 16 * 4 * 64 * 2
"""Keys and values of 16 layers and 4 heads of 64, 2 bytes each."""


@pytest.mark.parametrize(("key", "tokens"), [("plain_step", 1), ("verify_step[3]", 3)])
def test_a_step_below_its_bandwidth_floor_cannot_have_been_measured(key: str, tokens: int) -> None:
    floor = (PER_CHIP + KV_PER_POSITION * (164 + tokens)) / 1e12  # 100 of the prompt, half of 128 that follow, its own

    def timed(seconds: float) -> Scenario:
        return asked({"plain_step": text(seconds)} if tokens == 1 else {"verify_step": {tokens: text(seconds)}})

    if tokens == 1:
        assert predict_scenario(asked(None)).metrics["bandwidth_floor_s"] == pytest.approx(floor, rel=EXACT)
    assert predict_scenario(timed((1 + 1e-9) * floor)).provenance["anchored"]
    with pytest.raises(RefusedError) as caught:
        predict_scenario(timed((1 - 1e-9) * floor))
    said = str(caught.value)
    assert said.startswith(f"measured.{key} cannot be {human_time(floor)}: ")
    assert "1,000 GB/s of chip" in said
    assert f"at least {human_time(floor)}" in said


def test_a_draft_that_fits_into_on_chip_memory_may_be_faster_than_memory() -> None:
    tiny = {"draft": {"kind": "model", "model": model("draft", layers=2)}}
    with pytest.raises(RefusedError, match=r"measured\.draft_step cannot be 1\.00 us"):
        components({"draft_step": "1 us"}, **tiny)
    known = {"value": "128 MiB", "source": "invented"}
    found = components({"draft_step": "1 us"}, **tiny, deployment__hardware__peaks__on_chip_memory=known)
    assert found["draft_step"] == pytest.approx(1e-6, rel=EXACT)


def test_of_experts_only_those_of_one_token_must_be_read() -> None:
    changes = {
        "target": model("target", layers=16, d_model=1024, heads=16, kv_heads=16, experts=MOE),
        "workload__batch": 8,
    }
    floor = predict_scenario(asked(None, **changes)).metrics["bandwidth_floor_s"]
    assert components({"plain_step": text(0.9 * floor)}, **changes)["plain_step"] == pytest.approx(
        0.9 * floor, rel=EXACT
    )


def test_anchors_belong_to_the_question_and_survive_json() -> None:
    small = asked({"plain_step": "1.5 ms", "verify_step": {2: "1.7 ms", 12: "2.1 ms"}})
    again = scenario_from(json.loads(json.dumps(small.resolved())))
    assert again == small
    assert again.measured is not None
    assert again.measured.verify_step_s == {2: 1.7e-3, 12: 2.1e-3}
    assert scenario_hash(small) != scenario_hash(asked(None))
    assert scenario_hash(small) != scenario_hash(asked({"plain_step": "1.5 ms"}))


def test_where_nothing_is_drafted_the_plain_step_is_all_there_is() -> None:
    found = predict_scenario(asked({"plain_step": "1.5 ms"}, draft={"kind": "none"}))
    assert list(found.provenance["anchored"]) == ["plain_step", "prefill"]
    assert found.metrics["tpot_s"] == pytest.approx(1.5e-3, rel=EXACT)


@pytest.mark.parametrize(
    "deployment",
    [
        {"deployment__draft": {"placement": "sub_slice", "tensor_parallel": 2}},
        {"deployment__chips": 5, "deployment__draft": {"placement": "own_chips", "ahead": True}},
        {"deployment__chips": 8, "deployment__tensor_parallel": 4, "deployment__pipeline_parallel": 2},
    ],
)
def test_wherever_the_models_lie(deployment: dict[str, Any]) -> None:
    found = predict_scenario(
        asked({"plain_step": "2 ms", "draft_step": "0.6 ms", "verify_step": {5: "3 ms"}}, **deployment)
    )
    for name, seconds in (("plain_step", 2e-3), ("draft_step", 0.6e-3), ("verify_step", 3e-3)):
        assert found.components[name] == pytest.approx(seconds, rel=EXACT)
    for name, parts in found.mechanisms.items():
        assert sum(parts.values()) == found.components[name]


def swept(measured: dict[str, Any], path: str, key: str, values: tuple[Any, ...]) -> list[str]:
    points = [(asked(measured, **{key: value}), {path: str(value)}) for value in values]
    return anchor_warnings(views(new_record("analytic", one, axes=axes) for one, axes in points))


def test_a_sweep_over_what_a_step_was_measured_at_is_told() -> None:
    times = {"plain_step": "1.5 ms", "draft_step": "0.3 ms"}
    (said,) = swept(times, "workload.batch", "workload__batch", (1, 2))
    assert said.startswith("! measured plain step and draft step: the same for every workload.batch of the sweep. ")
    drafts = tuple({"kind": "model", "model": model("draft", layers=count)} for count in (2, 3))
    (said,) = swept(times, "draft", "draft", drafts)
    assert said.startswith("! measured draft step: the same for every draft of the sweep. ")
    assert swept(times, "workload.batch", "workload__batch", (1,)) == []
    assert swept(times, "decoding.lookahead", "decoding__lookahead", (2, 4)) == []
    assert swept(times, "deployment.calibration", "deployment__calibration", (None, "made-up")) == []


def test_two_measured_times_have_an_answer_each() -> None:
    points = [Point(asked({"plain_step": time}), {"measured.plain_step": time}) for time in ("1.5 ms", "2 ms")]
    lines = answer([view for view in views(predict(points)) if view.record.kind == "analytic"])
    assert [line.split()[5:7] for line in lines if line.startswith("anchored to")] == [["1.50", "ms"], ["2.00", "ms"]]


def test_an_anchored_prediction_meets_its_measurement_and_says_that_this_is_no_test() -> None:
    small = asked({"plain_step": "1.5 ms"})
    seen = new_record("measured", asked(None), metrics={"plain_step_s": 1.5e-3}, components={"plain_step": 1.5e-3})
    comparison = compare([*predict([Point(small, {})]), seen])
    errors = [row.error for row in comparison.rows if row.term == "plain_step_s"]
    assert errors == pytest.approx([0, 0], abs=EXACT)
    (said,) = anchor_lines(comparison)
    assert said.startswith("! anchored to measured plain step 1.50 ms (model alone ")
    assert said.endswith("how near these come to a measurement says nothing of the model (1 point)")


def test_without_a_calibration_what_is_anchored_is_no_floor() -> None:
    (view, _) = views(predict([Point(asked({"plain_step": "1.5 ms"}, deployment__calibration=None), {})]))
    (words,) = calibration_words([view])
    assert "All times but those that are anchored are a floor" in words


def test_parts_of_measured_steps_are_measured_without_anchors() -> None:
    made = plan([Point(asked({"plain_step": "1.5 ms"}), {})])
    assert {point.scenario.measured for point in made.points} == {None}
