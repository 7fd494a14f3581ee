"""The planner: its screen against the cost model, its ranking, and the cases that it must get right."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from simulator import tables
from simulator.cli import app
from simulator.cost.memory import memory_terms
from simulator.errors import RefusedError
from simulator.plan import Outcome, commands, plan, training_cost
from simulator.plan.ranking import Entry, ranked
from simulator.plan.screen import Group, groups, screen, with_draft
from simulator.plan.space import drafts_of
from simulator.spec.load import load_scenario
from simulator.spec.model import ModelSpec
from simulator.spec.named import models_named
from simulator.spec.plan import Plan
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from tests.builders import PROFILE, model, scenario

CHINCHILLA = Path(__file__).resolve().parents[2] / "scenarios" / "plan_chinchilla_draft.yaml"
SPACE: dict[str, Any] = {"layers": [1, 2, 4, 8], "d_model": [256, 512, 1024], "head_dim": 64}


def asked(space: dict[str, Any] | None = None, more: dict[str, Any] | None = None, **changes: Any) -> Scenario:
    """A small scenario with a plan."""
    planned = {"drafts": SPACE | (space or {}), **(more or {})}
    return scenario(**{"draft": {"kind": "none"}, "plan": frozen(planned), **changes})


def frozen(data: Any) -> Any:
    """The same with tuples for lists, as a file's data has them once read."""
    if isinstance(data, dict):
        return {key: frozen(value) for key, value in data.items()}
    return tuple(map(frozen, data)) if isinstance(data, list) else data


def of(one: Scenario) -> Plan:
    """Its plan."""
    assert one.plan is not None
    return one.plan


def chinchilla(*settings: str) -> Outcome:
    """The search of the founding case."""
    (point,) = load_scenario(CHINCHILLA, settings)
    return plan(point.scenario, models_named(of(point.scenario).named_models, CHINCHILLA.parent))


@pytest.fixture(scope="module")
def founding() -> Outcome:
    """The search of the founding case as it stands in the file."""
    return chinchilla()


def words(outcome: Outcome) -> str:
    """Everything that is said of it, on one line."""
    return " ".join(tables.plan_answer(outcome))


def with_int8() -> dict[str, Any]:
    """A chip that multiplies int8 four times as fast."""
    peaks = PROFILE["peaks"]
    return PROFILE | {
        "peaks": peaks | {"matmul": peaks["matmul"] | {"int8": {"value": "400 TFLOP/s", "source": "invented"}}}
    }


VARIANTS: dict[str, Scenario] = {
    "plain": asked(),
    "placed": asked(more={"draft_tensor_parallel": [1, 2, 4]}),
    "shared keys": asked({"kv_share": [0.25, 1.0], "d_ff_ratio": [2.5, 4.0], "feed_forward": "plain"}),
    "vocabulary": asked({"vocabulary": [1024, 4096], "tied_embeddings": False}),
    "batch": asked(workload__batch=16, workload__prompt_tokens=3000, decoding__temperature=0),
    "int8": asked(more={"targets": [{"name": "int8", "weight_dtype": "int8"}, {"name": "on-2", "chips": 2}]}),
    "int8 arithmetic": asked(
        more={"targets": [{"name": "int8", "weight_dtype": "int8", "matmul_dtype": "int8"}]},
        workload__batch=512,
        deployment__hardware=with_int8(),
    ),
    "relative": asked({"positions": "relative"}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_screen_adds_up_what_the_steps_of_a_scenario_do(name: str) -> None:
    one = VARIANTS[name]
    drafts, compared = drafts_of(of(one).drafts, one.target), 0
    for group in groups(one, of(one), drafts):
        found = screen(group, drafts, of(one))
        for place, index in enumerate(found.index):
            draft = drafts.model(int(index))
            assert draft.parameters == pytest.approx(drafts.parameters[index], rel=1e-12)
            for row, lookahead in enumerate(found.lookahead[::3]):
                parts = Steps.of(with_draft(group.scenario, draft, int(lookahead), group.degree)).mechanisms()
                names = ("draft_first_step", "draft_step", "verify_step", "sampling", "round_overhead")
                first, later, *rest = (sum(parts.get(part, {}).values()) for part in names)
                assert found.first_s[place] == pytest.approx(first, rel=1e-9)
                if lookahead > 1:
                    assert found.step_s[place] == pytest.approx(later, rel=1e-9)
                whole = first + (int(lookahead) - 1) * later + sum(rest)
                assert found.round_s[3 * row, place] == pytest.approx(whole, rel=1e-9)
                compared += 1
    assert compared >= 30


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("name", ["plain", "vocabulary", "batch", "relative", "shared keys"])
def test_what_does_not_fit_is_not_a_candidate(name: str, share: float) -> None:
    one = VARIANTS[name]
    drafts = drafts_of(of(one).drafts, one.target)

    def needs(group: Group, index: int) -> float:
        drafted = with_draft(group.scenario, drafts.model(index), max(of(one).lookahead), group.degree)
        return sum(memory_terms(drafted).values())

    (group,) = groups(one, of(one), drafts)
    sizes = sorted(needs(group, index) for index in range(len(drafts)))
    usable = sizes[int(share * len(sizes))] * 1.0001
    hardware = one.deployment.hardware
    factor = hardware.peaks.hbm_capacity.value_bytes / hardware.usable_bytes()
    peaks = PROFILE["peaks"] | {"hbm_capacity": {"value": f"{usable * factor:.0f} B", "source": "invented"}}
    small = one.model_copy(update={"deployment": scenario(deployment__hardware=PROFILE | {"peaks": peaks}).deployment})
    (group,) = groups(small, of(one), drafts)
    fits = [
        index
        for index in range(len(drafts))
        if drafts.heads[index] >= group.degree and needs(group, index) <= small.deployment.hardware.usable_bytes()
    ]
    assert 0 < len(fits) < len(drafts)
    assert screen(group, drafts, of(one)).index.tolist() == fits


def test_the_published_draft_is_among_those_that_cannot_be_told_apart(founding: Outcome) -> None:
    verdicts = {one.ranked.entry.name: one.ranked.apart for one in founding.proposals}
    assert not verdicts["chinchilla-draft-4b"]
    assert verdicts["chinchilla-7b"]
    assert verdicts["chinchilla-7b on 4"]
    assert verdicts["no draft"]
    same = next(one for one in founding.proposals if one.ranked.entry.name == "draft-8x6144")
    assert not same.ranked.apart  # the 4B by its shape, were it not trained yet


def test_the_reason_is_the_all_reduces(founding: Outcome) -> None:
    said = words(founding)
    assert "more all-reduces take" in said
    assert "chinchilla-7b, which exists, is worse: gain 1.4" in said
    assert "its 80 all-reduces take 57%" in said


def test_the_edge_of_the_search_is_no_answer_unless_it_is_said(founding: Outcome) -> None:
    leader = founding.leader
    assert leader.index is not None
    edges = founding.drafts.at_the_edge(leader.index)
    assert bool(edges) == ("at the edge of the search" in words(founding))
    narrow = chinchilla("plan.drafts.d_model=[6144, 7168, 8192]", "plan.drafts.layers=[8, 16, 24]")
    assert "at the edge of the search: layers 8, the smallest that was tried" in words(narrow)


def test_how_deep_the_best_draft_is_follows_what_depth_gives(founding: Outcome) -> None:
    layers = [founding.drafts.layers[best] for _, best in founding.by_shape]
    assert layers == sorted(layers)
    assert layers[0] <= 2
    assert layers[-1] >= 8
    assert "layers of the best draft, by what depth gives" in words(founding)


def test_on_one_chip_shallow_is_preferred_less() -> None:
    """No all-reduces, so that layers cost little besides their weights."""

    def on(chips: int) -> tuple[float, float]:
        found = chinchilla(
            "target=chinchilla-7b",
            f"deployment.chips={chips}",
            "deployment.slice=null",
            "plan.draft_tensor_parallel=null",
            "plan.existing=[]",
            "plan.drafts.max_parameters=3e9",
        )
        known, drafts = found.candidates[0], found.drafts
        step = {(drafts.layers[i], drafts.d_model[i]): known.step_s[place] for place, i in enumerate(known.index)}
        best = dict(found.by_shape)[1.0]
        return step[32, 2048] / step[8, 4096], float(drafts.layers[best])  # 1.8 and 1.9 B

    (deep_16, layers_16), (deep_1, layers_1) = on(16), on(1)
    assert deep_16 > 2
    assert deep_1 < 1.2
    assert layers_1 >= 2 * layers_16


def test_a_draft_of_lower_acceptance_wins(founding: Outcome) -> None:
    by_name = {one.ranked.entry.name: one for one in founding.proposals}
    leader, deep = founding.leader, by_name["chinchilla-7b"]
    assert leader.acceptance is not None
    assert deep.acceptance is not None
    assert leader.acceptance[0] < deep.acceptance[0] - 0.05
    assert leader.gain > 1.3 * deep.gain


def test_no_draft_wins_and_the_plan_says_so() -> None:
    found = plan(asked({"layers": [12, 16], "d_model": [896]}))
    assert found.leader.model is None
    assert found.leader.gain == pytest.approx(1.0, abs=0.02)
    assert "no draft pays: no draft takes" in words(found)


def test_to_quantise_the_target_wins_and_the_plan_says_so() -> None:
    big = model("big", layers=16, d_model=4096, heads=32, kv_heads=32, head_dim=128, d_ff=16384)
    options = {"targets": [{"name": "int8", "weight_dtype": "int8"}]}
    found = plan(asked({"layers": [12, 15], "d_model": [3584]}, options, target=big))
    assert found.leader.model is None
    assert found.leader.ranked.entry.name == "no draft, int8"
    assert "no draft pays: no draft, int8 takes" in words(found)
    plain = next(one for one in found.proposals if one.ranked.entry.name == "no draft")
    assert plain.ranked.value_s > 1.3 * found.leader.ranked.value_s


def test_chances_add_up_and_order_is_by_regret(founding: Outcome) -> None:
    chances = [one.ranked.p_best for one in founding.proposals]
    assert sum(chances) == pytest.approx(1.0, abs=1e-9)
    regrets = [one.ranked.regret for one in founding.proposals]
    assert regrets == sorted(regrets)
    assert min(regrets) >= 0
    assert founding.leader.ranked.p_beats_leader == 0


def test_the_same_seed_gives_the_same_answer() -> None:
    one = asked()
    first, again, other = plan(one), plan(one), plan(one, seed=1)
    assert words(first) == words(again)
    assert [p.ranked.p_best for p in first.proposals] == [p.ranked.p_best for p in again.proposals]
    assert [p.ranked.p_best for p in first.proposals] != [p.ranked.p_best for p in other.proposals]


def test_what_cost_counts_is_chips() -> None:
    more = {"targets": [{"name": "on-2", "chips": 2}], "objective": "cost"}
    found = plan(asked(more=more))
    assert found.leader.ranked.entry.option == "on-2"
    assert {one.ranked.entry.weight for one in found.proposals} == {2.0, 4.0}


def test_limits_leave_out_what_exceeds_them() -> None:
    every = plan(asked())
    times = sorted(one.ranked.value_s for one in every.proposals if one.model is not None)
    limited = plan(asked(more={"limits": {"tpot": f"{times[3]:.9f} s"}}))
    kept = [one for one in limited.proposals if one.model is not None]
    assert 0 < len(kept) < len(times)


def test_no_choice_exceeds_the_limit_of_time_plain_decoding_or_not() -> None:
    """On fewer chips all is cheaper and slower: what is too slow may not be chosen for its price."""
    more = {"targets": [{"name": "on-1", "chips": 1}], "objective": "cost"}
    every = plan(asked(more=more))
    slow = next(one for one in every.proposals if one.model is None and one.group.option == "on-1")
    fast = next(one for one in every.proposals if one.model is None and not one.group.option)
    assert fast.group.plain_s < slow.group.plain_s
    limit = f"{1.001 * fast.group.plain_s:.9f} s"
    kept = plan(asked(more=more | {"limits": {"tpot": limit}}))
    assert [one.group.option for one in kept.proposals if one.model is None] == [""]
    assert sum(one.ranked.p_best for one in kept.proposals) == pytest.approx(1)
    drafts_alone = plan(asked(more={"limits": {"tpot": f"{0.9 * fast.group.plain_s:.9f} s"}}))
    assert all(one.model is not None for one in drafts_alone.proposals)
    assert "plain decoding is the better one" not in words(drafts_alone)
    with pytest.raises(RefusedError, match=r"within plan\.limits\.tpot"):
        plan(asked(more={"limits": {"tpot": "1 ns"}}))


def test_the_plan_places_drafts_itself() -> None:
    with pytest.raises(RefusedError, match=r"leave out deployment\.draft"):
        plan(asked(deployment__draft={"placement": "replicated", "tensor_parallel": 2}))


def test_a_draft_that_exists_and_does_not_fit_is_left_out() -> None:
    peaks = PROFILE["peaks"] | {"hbm_capacity": {"value": "0.14 GiB", "source": "invented"}}
    large = ModelSpec.model_validate(model("large", layers=14, d_model=1024, heads=16, kv_heads=16, d_ff=4096))
    few = ModelSpec.model_validate(model("few", heads=2, kv_heads=2))
    named, more = {"large": large, "few": few}, {"existing": ["large", "few"]}
    roomy = plan(asked(more=more), named)
    assert "large" in [one.ranked.entry.name for one in roomy.proposals]
    found = plan(asked(more=more, deployment__hardware=PROFILE | {"peaks": peaks}), named)
    assert not {"large", "few"} & {one.ranked.entry.name for one in found.proposals}
    assert "large beside target: " in words(found)
    assert "few has 2 heads, too few for 4 chips" in words(found)


def test_a_limit_of_the_price_leaves_out_more_chips() -> None:
    more = {"targets": [{"name": "on-2", "chips": 2}], "limits": {"price": "8 USD/h"}}
    found = plan(asked(more=more, deployment__price="3 USD/h"))
    assert {one.group.option for one in found.proposals} == {"on-2"}
    with pytest.raises(RefusedError, match=r"exceeds plan\.limits\.price"):
        plan(asked(more=more, deployment__price="5 USD/h"))
    with pytest.raises(RefusedError, match=r"deployment\.price"):
        plan(asked(more=more))


def test_training_is_paid_back_by_what_serving_saves() -> None:
    more = {
        "training": {"tokens_per_day": 1e9, "utilisation": 0.5, "price": "1 USD/h"},
        "prior": {"training_tokens": 1e9},
    }
    one = asked(more=more, deployment__price="2 USD/h")
    found = plan(one)
    leader, cost = found.leader, training_cost(found.leader, of(one))
    assert leader.model is not None
    assert cost is not None
    assert cost.flop == pytest.approx(6 * leader.model.parameters * 1e9)
    assert cost.chip_hours == pytest.approx(cost.flop / 50e12 / 3600)
    assert cost.usd == pytest.approx(cost.chip_hours)
    saved = 1e9 * 4 * (leader.group.plain_s - leader.ranked.value_s) * 2 / 3600
    assert cost.saved_usd_per_day == pytest.approx(saved)
    assert cost.payback_days == pytest.approx(cost.chip_hours / saved)
    assert f"paid back in {cost.payback_days:,.1f} days" in words(found)
    plain = next(p for p in found.proposals if p.model is None)
    assert training_cost(plain, of(one)) is None
    unpriced = plan(asked())
    assert "tokens_per_day says when" in words(unpriced)


def test_engines_are_started_with_the_candidate_or_it_is_said_why_not() -> None:
    found = plan(asked(more={"draft_tensor_parallel": [1, 2, 4], "lookahead": [3]}))
    by_degree = {one.group.degree: commands(one) for one in found.proposals if one.model is not None}
    vllm, sglang = by_degree[4]
    words = shlex.split(vllm.text)
    assert words[:3] == ["vllm", "serve", "TARGET"]
    assert words[words.index("--tensor-parallel-size") + 1] == "4"
    config = json.loads(words[words.index("--speculative-config") + 1])
    assert config == {
        "method": "draft_model",
        "model": "DRAFT",
        "num_speculative_tokens": 3,
        "draft_tensor_parallel_size": 4,
    }
    assert "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4" in sglang.text
    assert by_degree[1][0].text
    assert not by_degree[1][1].text
    assert [bool(made.text) for made in by_degree[2]] == [False, False]
    assert "over 2 of 4 chips" in by_degree[2][0].why_not
    plain = next(one for one in found.proposals if one.model is None)
    assert all("spec" not in made.text for made in commands(plain))


def test_drafts_that_cannot_be_compared_are_left_out_with_the_reason() -> None:
    found = chinchilla("plan.existing=[llama-3.2-1b, eagle3-llama-3.1-8b, chinchilla-7b]")
    assert [one.model.name for one in found.proposals if one.model is not None and one.index is None] == [
        "chinchilla-7b"
    ] * 2
    said = words(found)
    assert "llama-3.2-1b cannot draft for chinchilla-70b: other tokens" in said
    assert "eagle3-llama-3.1-8b reads hidden states of the target: it belongs in plan.heads" in said


def test_what_does_not_fit_is_left_out_and_the_rest_is_planned() -> None:
    peaks = PROFILE["peaks"] | {"hbm_capacity": {"value": "0.2 GiB", "source": "invented"}}
    one = asked(more={"targets": [{"name": "on-1", "chips": 1}]}, deployment__hardware=PROFILE | {"peaks": peaks})
    said = words(plan(one))
    assert "target (on-1) does not fit: " in said
    assert "train " in said
    small = asked({"d_model": [896], "layers": [15]}, deployment__hardware=PROFILE | {"peaks": peaks})
    assert "no draft fits beside target over 4 of 4 chips" in words(plan(small))
    with pytest.raises(RefusedError, match=r"plan\.draft_tensor_parallel divides"):
        plan(asked(more={"draft_tensor_parallel": [3]}))


def test_where_nothing_is_a_model_it_is_said() -> None:
    with pytest.raises(RefusedError, match="no combination of plan"):
        plan(asked({"d_model": [100]}))
    with pytest.raises(RefusedError, match="no 'plan:'"):
        plan(scenario())


def test_one_certain_winner() -> None:
    plain = Entry("no draft", "", (), (), (1.0,))
    good = Entry("good", "", (1, 2, 3), (0.01, 0.02, 0.03), (1.0, 1.0, 1.0))
    bad = Entry("bad", "", (1, 2, 3), (5.0, 10.0, 15.0), (1.0, 1.0, 1.0))
    found = ranked([plain, good, bad], np.full((400, 2), 0.9), 0.05, 400, np.random.default_rng(0))
    assert [one.entry.name for one in found] == ["good", "no draft", "bad"]
    assert found[0].p_best == 1
    assert found[0].regret == 0
    assert found[0].lookahead == 3
    assert found[0].value_s == pytest.approx(1.03 / (1 + 0.9 + 0.81 + 0.729), rel=0.02)
    assert all(one.apart for one in found[1:])


def sps(*arguments: str) -> Any:
    """The command's result."""
    return CliRunner().invoke(app, ["plan", *arguments])


def test_the_command_writes_what_it_says(tmp_path: Path) -> None:
    result = sps(str(CHINCHILLA), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "which draft?" in result.stdout
    assert "gives only the order of drafts" in " ".join(result.stdout.split())
    found = json.loads((tmp_path / "out" / "plan.json").read_text("utf-8"))
    again = json.loads(sps(str(CHINCHILLA), "--json").stdout)
    assert again["plan"] == found
    assert sum(one["p_best"] for one in found["candidates"]) == pytest.approx(1)
    assert len(max(result.stdout.splitlines(), key=len)) <= 108


def test_without_a_plan_or_with_a_sweep_it_is_told() -> None:
    none = sps(str(CHINCHILLA.parent / "chinchilla_70b_tpu_v4.yaml"))
    assert none.exit_code == 2
    swept = sps(str(CHINCHILLA), "--set", "workload.batch=[1, 2]")
    assert swept.exit_code == 2
    assert "Traceback" not in none.output + swept.output
