"""What a plan leaves behind: the best lookahead by load, its figures, its page and its files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from simulator import figures, tables
from simulator.cli import app
from simulator.cost.memory import memory_terms
from simulator.figures.plan import drafting, front_of, gains_of, step_for_gain
from simulator.figures.shapes import about_one, crossings, grid
from simulator.figures.style import NOT_VALIDATED
from simulator.metrics import closed_form_metrics
from simulator.plan import BestLookahead, Outcome, best_lookahead, leading_draft, plan
from simulator.plan.lookahead import BATCHES, CONTEXTS
from simulator.plan.screen import with_draft
from simulator.report import plan_page, rendered
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.load import load_scenario
from simulator.spec.named import models_named
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from tests.builders import PROFILE, model, scenario

CHINCHILLA = Path(__file__).resolve().parents[2] / "scenarios" / "plan_chinchilla_draft.yaml"
SPACE: dict[str, Any] = {"layers": (1, 2, 4), "d_model": (256, 512), "head_dim": 64}


def small(space: dict[str, Any] | None = None, **changes: Any) -> Scenario:
    """A small scenario with a plan."""
    return scenario(**{"draft": {"kind": "none"}, "plan": {"drafts": SPACE | (space or {})}, **changes})


@pytest.fixture(scope="module")
def founding() -> Outcome:
    """The search of the founding case."""
    (point,) = load_scenario(CHINCHILLA, ())
    assert point.scenario.plan is not None
    return plan(point.scenario, models_named(point.scenario.plan.named_models, CHINCHILLA.parent))


@pytest.fixture(scope="module")
def loads(founding: Outcome) -> BestLookahead:
    """Its best lookahead by load."""
    found = best_lookahead(founding)
    assert found is not None
    return found


def brute(outcome: Outcome, batch: int, context: int) -> dict[int, float]:
    """Gain of every K that fits, by the metrics of a scenario of its own."""
    leader = leading_draft(outcome)
    assert leader is not None
    assert leader.model is not None
    assert leader.acceptance is not None
    assert outcome.scenario.plan is not None
    found = {}
    for lookahead in outcome.scenario.plan.lookahead:
        one = with_draft(leader.group.scenario, leader.model, lookahead, leader.group.degree)
        workload = one.workload.model_copy(update={"batch": batch, "prompt_tokens": context, "batching": "continuous"})
        rate = RateAcceptance(kind="rate", acceptance_rate=leader.acceptance[0])
        one = one.model_copy(update={"workload": workload, "acceptance": rate})
        parts = {name: sum(by.values()) for name, by in Steps.of(one).mechanisms().items()}
        if sum(memory_terms(one).values()) <= one.deployment.hardware.usable_bytes():
            found[lookahead] = closed_form_metrics(one, parts)["speedup"]
    return found


@pytest.mark.parametrize(("batch", "context"), [(1, 512), (1, 32768), (4, 4096), (8, 8192), (32, 2048), (128, 512)])
def test_the_best_lookahead_is_that_of_trying_each(
    founding: Outcome, loads: BestLookahead, batch: int, context: int
) -> None:
    (cell,) = (one for one in loads.cells if (one.batch, one.context) == (batch, context))
    gains = brute(founding, batch, context)
    best = max(gains, key=lambda k: gains[k])
    assert cell.gain == pytest.approx(gains[best], rel=1e-9)
    assert cell.lookahead == (best if gains[best] > 1 else 0)


def test_where_no_lookahead_wins_it_is_off(loads: BestLookahead) -> None:
    assert {cell.lookahead == 0 for cell in loads.cells} == {True, False}
    assert all((cell.lookahead == 0) == (cell.gain is None or cell.gain <= 1) for cell in loads.cells)
    row = next(row for row in tables.lookahead_table(loads).rows if row[0] == "128")
    assert row[1].startswith("off (0.")


def test_what_does_not_fit_has_no_lookahead(founding: Outcome, loads: BestLookahead) -> None:
    cells = {(cell.batch, cell.context) for cell in loads.cells}
    room = founding.scenario.deployment.hardware.usable_bytes()
    for batch in BATCHES:
        for context in CONTEXTS:
            workload = founding.scenario.workload.model_copy(update={"batch": batch, "prompt_tokens": context})
            here = founding.scenario.model_copy(update={"workload": workload})
            assert ((batch, context) in cells) == (sum(memory_terms(here).values()) <= room)


def test_a_draft_that_does_not_fit_beside_the_target_is_told() -> None:
    found = best_lookahead(plan(small()), (1, 4, 16, 64, 256), (512, 2048, 4096))
    assert found is not None
    assert all(cell.gain is not None for cell in found.cells)
    wide = max(found.cells, key=lambda cell: cell.batch * cell.context)
    room = with_room_for(wide.batch, wide.context)
    tight = best_lookahead(plan(small(deployment__hardware=room)), (wide.batch,), (wide.context,))
    assert tight is not None
    (cell,) = tight.cells
    assert (cell.lookahead, cell.gain) == (0, None)
    assert tables.lookahead_table(tight).rows[0][1].startswith("no room")


def with_room_for(batch: int, context: int) -> dict[str, Any]:
    """The chip with memory for the target alone at this load, and not a byte more."""
    whole = small(workload__batch=batch, workload__prompt_tokens=context)
    need = sum(memory_terms(whole).values())
    share = whole.deployment.hardware.usable_bytes() / (64 * 2**30)
    capacity = {"value": f"{1.0001 * need / share / 2**30:.9f} GiB", "source": "invented"}
    return PROFILE | {"peaks": PROFILE["peaks"] | {"hbm_capacity": capacity}}


def test_learned_positions_end_the_contexts() -> None:
    target = model("target", layers=16, d_model=1024, heads=16, kv_heads=16, d_ff=4096)
    target |= {"positions": "learned", "max_positions": 2048}
    found = best_lookahead(plan(small(target=target)), (1,))
    assert found is not None
    assert [cell.context for cell in found.cells] == [512, 1024]


def test_where_plain_decoding_leads_the_best_draft_is_shown() -> None:
    outcome = plan(small({"layers": (12, 16), "d_model": (896,)}))
    found = best_lookahead(outcome, (1,), (512,))
    assert outcome.leader.model is None
    assert found is not None
    assert found.draft.startswith("draft-")
    assert found.cells[0].lookahead == 0
    assert "Best K by batch and context" in rendered(plan_page(outcome, found))


def test_sizes_that_nothing_was_fitted_on_are_marked(loads: BestLookahead) -> None:
    assert all(cell.outside for cell in loads.cells)  # a draft of six layers
    assert any(line.startswith("! All of it") for line in tables.lookahead_words(loads))
    free = best_lookahead(plan(small()), (1,), (512,))
    assert free is not None
    assert not any(line.startswith("!") for line in tables.lookahead_words(free))


def test_the_map_holds_the_best_of_every_shape(founding: Outcome) -> None:
    found, drafts = grid(founding), founding.drafts
    assert found.gain.shape == (11, 11)
    assert int(np.isfinite(found.gain).sum()) == len(drafts)
    leader = founding.leader
    assert leader.model is not None
    i, j = (int(np.flatnonzero(a == v)[0]) for a, v in ((found.layers, 6), (found.widths, 2048)))
    assert leader.acceptance is not None
    gains = gains_of(leader, np.array([leader.acceptance[0]]))
    assert found.gain[i, j] == pytest.approx(float(gains.max()), rel=1e-6)
    assert found.step_s[i, j] == pytest.approx(leader.step_s)
    assert found.parameters[i, j] == leader.model.parameters


def test_lines_of_equal_size_are_where_they_say(founding: Outcome) -> None:
    found = grid(founding)
    points = crossings(found.parameters, 1e9)
    assert len(points) > 4
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    for x, y in points:
        below, above = found.parameters[int(y), int(x)], found.parameters[int(np.ceil(y)), int(np.ceil(x))]
        assert below <= 1e9 <= above


def test_the_front_has_no_better(founding: Outcome) -> None:
    some = drafting(founding)
    best = front_of(some)
    names = {one.ranked.entry.name for one in best}
    for one in some:
        assert one.acceptance is not None
        better = [
            o
            for o in some
            if o.acceptance and o.step_s <= one.step_s and o.acceptance[0] >= one.acceptance[0] and o is not one
        ]
        if one.ranked.entry.name in names:
            assert all(o.step_s == one.step_s or o.acceptance == one.acceptance for o in better)
        else:
            assert better


def test_a_line_of_equal_gain_passes_through_the_leader(founding: Outcome) -> None:
    leader = founding.leader
    assert leader.acceptance is not None
    acceptance = np.array([leader.acceptance[0]])
    gain = float(gains_of(leader, acceptance).max())
    assert step_for_gain(leader, gain, acceptance)[0] == pytest.approx(leader.step_s, rel=1e-9)


def test_the_colour_of_one_is_that_of_no_gain() -> None:
    low, high, colours = about_one(np.array([[0.5, 2.5]]))
    assert (low, high) == (0.5, 2.5)
    assert colours[1][0] == pytest.approx(0.25)
    for gains in ([[1.2, 2.0]], [[0.2, 0.9]], [[1.0]]):
        low, high, colours = about_one(np.array(gains))
        assert low <= 1 <= high
        assert (colours[0][0], colours[-1][0]) == (0.0, 1.0)


def test_figures_say_what_the_plan_found(founding: Outcome) -> None:
    surface = figures.gain_surface(founding)
    assert surface is not None
    even = next(trace for trace in surface.data if trace.name == "gain 1")
    ranked = founding.leader.ranked
    at = ranked.entry.lookahead.index(ranked.lookahead)
    assert even.x[list(even.y).index(at)] == pytest.approx(founding.leader.needs)
    chances = figures.chances(founding)
    assert chances.data[0].y[-1] == "no draft"
    assert list(chances.data[0].x)[:10] == [one.ranked.p_best for one in founding.proposals[:10]]
    assert list(chances.data[1].x)[:10] == [one.ranked.regret for one in founding.proposals[:10]]
    named = {trace.name for trace in figures.shapes(founding).data}
    assert {"equal size", "equal draft step", "chinchilla-draft-4b, exists", "first: 6x2048 on 4"} <= named


def test_figures_say_whether_they_are_validated(founding: Outcome) -> None:
    for draw in (figures.shapes, figures.front, figures.gain_surface, figures.chances):
        for validated in (False, True):
            figure = draw(founding, validated=validated)  # type: ignore[operator]
            stamped = any(NOT_VALIDATED in str(note.text) for note in figure.layout.annotations)
            assert stamped != validated
            assert figure.layout.width is None


@pytest.mark.parametrize("space", [{"layers": (2,)}, {"d_model": (512,)}, {"layers": (2,), "d_model": (512,)}])
def test_a_narrow_search_has_a_page_too(space: dict[str, Any]) -> None:
    outcome = plan(small(space))
    page = rendered(plan_page(outcome, best_lookahead(outcome, (1,), (512,))))
    assert page.count('class="plot"') == 4


def test_the_page_starts_with_the_recommendation_and_says_what_the_prior_is_worth(
    founding: Outcome, loads: BestLookahead
) -> None:
    page = plan_page(founding, loads)
    assert page.sections[0].words == tuple(tables.plan_answer(founding))
    assert page.sections[1].tables == (tables.plan_table(founding),)
    worth = tables.prior_worth(founding)
    assert "order of drafts, not their level" in worth
    captions = [figure.caption for section in page.sections for figure in section.figures]
    assert len(captions) == 4
    assert all(worth in caption for caption in captions)
    assert worth in page.sections[-1].words


def test_the_command_writes_page_table_and_data(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["plan", str(CHINCHILLA), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in out.iterdir()) == ["plan.csv", "plan.html", "plan.json"]
    data = json.loads((out / "plan.json").read_text("utf-8"))
    with (out / "plan.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [one["name"] for one in data["candidates"]]
    for row, one in zip(rows, data["candidates"], strict=True):
        assert float(row["regret"]) == one["regret"]
        assert row["acceptance_low"] == ("" if one["acceptance"] is None else str(one["acceptance"][1]))
        assert row["model.layers"] == ("" if one["model"] is None else str(one["model"]["layers"]))
        assert {name for name in one if name not in {"model", "training", "serve"}} <= set(row)
    cells = data["best_lookahead"]["cells"]
    assert {cell["lookahead"] for cell in cells} == {0, 1, 2, 3, 4}
