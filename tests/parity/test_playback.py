"""A step or a round played on its chips against its closed form."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from simulator.des.chips import Event
from simulator.des.playback import MAX_EVENTS, STEP_LANE, closed_form_s, phases, play
from simulator.errors import RefusedError
from simulator.predict import predict_scenario
from simulator.spec.load import load_scenario
from simulator.spec.scenario import Scenario
from tests.builders import PROFILE, scenario
from tests.synthetic import QUICKSTART, ROOT

CHINCHILLA = ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml"
PARTS = ("prefill", "plain_step", "draft_prefill", "draft_first_step", "draft_step", "verify_step", "round")
ON_FOUR: dict[str, dict[str, Any]] = {
    "same_chips": {},
    "sub_slice": {"deployment__draft": {"placement": "sub_slice", "tensor_parallel": 2}},
    "replicated": {"deployment__draft": {"placement": "replicated", "tensor_parallel": 1}},
    "own_chips": {"deployment__chips": 5, "deployment__draft": {"placement": "own_chips"}},
    "pipeline": {
        "deployment__chips": 8,
        "deployment__tensor_parallel": 4,
        "deployment__pipeline_parallel": 2,
    },
    "one_chip": {"deployment__chips": 1},
}


def chinchilla(*settings: str) -> Scenario:
    (point,) = load_scenario(CHINCHILLA, ["decoding.lookahead=4", *settings])
    return point.scenario


def quickstart() -> Scenario:
    settings = ["decoding.lookahead=4", "deployment.chips=1", "draft.model=quickstart-draft-wide"]
    (point,) = load_scenario(QUICKSTART, settings)
    return point.scenario


def played(asked: Scenario, part: str, **how: Any) -> tuple[float, list[Event]]:
    found = play(phases(asked, part), asked.deployment.chips, **how)
    return found.seconds, found.events


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("asked", [chinchilla(), quickstart()], ids=["16 chips", "1 chip"])
def test_without_jitter_and_prefetch_it_is_what_was_predicted(asked: Scenario, part: str) -> None:
    predicted = predict_scenario(asked).components[part]
    assert closed_form_s(asked, part) == predicted
    assert played(asked, part)[0] == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("placement", ON_FOUR)
@pytest.mark.parametrize("lookahead", [1, 2, 5])
def test_wherever_the_draft_lies_a_round_is_what_was_predicted(placement: str, lookahead: int) -> None:
    asked = scenario(**ON_FOUR[placement], decoding__lookahead=lookahead)
    for part in ("plain_step", "round"):
        assert played(asked, part)[0] == pytest.approx(closed_form_s(asked, part), rel=1e-9)


def steps(asked: Scenario) -> dict[str, set[int]]:
    """Which chips each step of a round occupies."""
    found: dict[str, set[int]] = {}
    for event in played(asked, "round")[1]:
        if event.lane == STEP_LANE:
            found.setdefault(event.name, set()).add(event.chip)
    return found


@pytest.mark.parametrize(
    ("placement", "drafting", "verifying"),
    [
        ("same_chips", {0, 1, 2, 3}, {0, 1, 2, 3}),
        ("sub_slice", {0, 1}, {0, 1, 2, 3}),
        ("replicated", {0, 1, 2, 3}, {0, 1, 2, 3}),
        ("own_chips", {4}, {0, 1, 2, 3}),
    ],
)
def test_a_draft_occupies_the_chips_that_it_lies_on(placement: str, drafting: set[int], verifying: set[int]) -> None:
    found = steps(scenario(**ON_FOUR[placement]))
    assert found["draft_first_step"] == found["draft_step"] == drafting
    assert found["verify_step"] == verifying


def test_a_stage_of_a_pipeline_waits_for_the_one_before_it() -> None:
    _, events = played(scenario(**ON_FOUR["pipeline"]), "plain_step")
    busy = [event for event in events if event.lane != STEP_LANE]
    first = [event for event in busy if event.chip < 4]
    second = [event for event in busy if event.chip >= 4]
    assert first
    assert min(event.start_s for event in second) >= max(event.end_s for event in first) - 1e-15


def test_a_round_is_its_parts_one_after_the_other() -> None:
    asked = chinchilla()
    seconds, events = played(asked, "round")
    lane = sorted((e for e in events if e.lane == STEP_LANE and e.chip == 0), key=lambda event: event.start_s)
    names = ["draft_first_step", *["draft_step"] * 3, "verify_step", "sampling", "round_overhead"]
    lasting = [name for name in names if closed_form_s(asked, name) > 0]
    assert [event.name for event in lane if event.end_s > event.start_s] == lasting
    assert lane[0].start_s == 0.0
    assert lane[-1].end_s == seconds
    assert all(later.start_s == earlier.end_s for earlier, later in itertools.pairwise(lane))


def test_prefetch_saves_time_and_jitter_takes_some() -> None:
    asked = chinchilla()
    plain, _ = played(asked, "round")
    ahead, _ = played(asked, "round", on_chip_bytes=128 * 2**20)
    late, _ = played(asked, "round", on_chip_bytes=128 * 2**20, jitter_s=5e-6, seed=1)
    assert ahead < plain
    assert late > ahead
    assert late == played(asked, "round", on_chip_bytes=128 * 2**20, jitter_s=5e-6, seed=1)[0]
    assert late != played(asked, "round", on_chip_bytes=128 * 2**20, jitter_s=5e-6, seed=2)[0]


def test_what_is_not_there_is_refused_and_what_is_there_is_named() -> None:
    with pytest.raises(RefusedError, match="no draft_step at lookahead 1; it has prefill, plain_step, draft_prefill"):
        phases(scenario(decoding__lookahead=1), "draft_step")
    with pytest.raises(RefusedError, match=r"no round at lookahead 0; it has prefill, plain_step$"):
        phases(scenario(draft={"kind": "none"}), "round")


def test_more_than_a_viewer_opens_is_refused() -> None:
    topology = {"kind": "switch", "link_bandwidth": {"value": "50 GB/s", "source": "invented"}}
    asked = scenario(
        deployment={"hardware": {**PROFILE, "topology": topology}, "chips": 16384, "calibration": "made-up"},
        target__heads=16384,
        target__kv_heads=16384,
        draft={"kind": "none"},
    )
    with pytest.raises(RefusedError, match=f"more than trace viewers open \\({MAX_EVENTS:,}\\): fewer chips"):
        phases(asked, "prefill")
