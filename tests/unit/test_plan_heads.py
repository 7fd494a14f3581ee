"""Draft heads in a plan: their times are the cost model's, and what acceptance they need is what gives that speed."""

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
from simulator.errors import RefusedError
from simulator.plan import Outcome, commands, plan
from simulator.plan.heads import head_models
from simulator.plan.needs import needed
from simulator.plan.proposals import NORMAL_95, stated_draws
from simulator.plan.ranking import Entry
from simulator.plan.screen import with_draft
from simulator.predict import predict_scenario
from simulator.report import plan_page, rendered
from simulator.spec.acceptance import RateAcceptance
from simulator.spec.model import ModelSpec
from simulator.spec.named import known_models, models_named
from simulator.spec.plan import HeadOption
from simulator.spec.scenario import Scenario
from tests.builders import model, scenario

KNOWN: dict[str, ModelSpec] = {one.words: one.spec for one in known_models()}
SPACE = {"layers": (1, 2, 4), "d_model": (256, 512), "head_dim": 64}
HEADS = (
    {"kind": "eagle"},
    {"kind": "eagle3", "layers": (1, 2), "vocabulary": (1024, 4096)},
    {"kind": "medusa"},
    {"kind": "block", "layers": (3,)},
)


def asked(**changes: Any) -> Scenario:
    """A small scenario whose plan has heads."""
    planned = {"drafts": SPACE, "heads": HEADS, **changes.pop("plan", {})}
    return scenario(**{"draft": {"kind": "none"}, "plan": planned, **changes})


def at(one: Scenario, acceptance: float) -> float:
    """Speedup of a scenario at an acceptance rate, by `sps predict`."""
    rate = RateAcceptance(kind="rate", acceptance_rate=acceptance)
    return float(predict_scenario(one.model_copy(update={"acceptance": rate})).metrics["speedup"])


@pytest.fixture(scope="module")
def found() -> Outcome:
    """Heads of each kind, with a gain that is wanted."""
    return plan(asked(plan={"gain": 1.5, "lookahead": (1, 2, 3, 5)}))


def test_every_kind_is_timed_as_a_scenario_with_it_is(found: Outcome) -> None:
    assert {one.candidate.entry.name for one in found.heads} == {
        "eagle-1x1024",
        "eagle3-1x1024",
        "eagle3-1x1024-v1024",
        "eagle3-2x1024",
        "eagle3-2x1024-v1024",
        "medusa-5x1",
        "block-3x1024",
    }
    for head in found.heads:
        one = head.candidate
        assert one.model is not None
        for lookahead, seconds in zip(one.entry.lookahead, one.entry.round_s, strict=True):
            drafted = with_draft(one.group.scenario, one.model, lookahead, one.group.degree)
            assert predict_scenario(drafted).components["round"] == pytest.approx(seconds, rel=1e-9)


def test_what_a_head_needs_gives_what_it_is_for(found: Outcome) -> None:
    leader = found.leader
    for head in found.heads:
        one = head.candidate
        assert one.model is not None
        every = [with_draft(one.group.scenario, one.model, k, one.group.degree) for k in one.entry.lookahead]
        lead = one.group.plain_s * leader.ranked.entry.weight / leader.ranked.value_s
        for acceptance, gain in ((head.to_pay, 1.0), (head.to_lead, lead), (head.for_gain, 1.5)):
            assert max(at(drafted, acceptance) for drafted in every) == pytest.approx(gain, rel=1e-6)


def test_what_a_draft_needs_for_a_gain_gives_it(found: Outcome) -> None:
    for one in found.proposals[:5]:
        assert one.model is not None
        entry = one.ranked.entry
        every = [with_draft(one.group.scenario, one.model, k, one.group.degree) for k in entry.lookahead]
        assert max(at(drafted, one.for_gain) for drafted in every) == pytest.approx(1.5, rel=1e-6)
        own = with_draft(one.group.scenario, one.model, one.ranked.lookahead, one.group.degree)
        assert at(own, one.needs) == pytest.approx(1.0, rel=1e-6)


def test_nothing_is_needed_where_all_pays_and_nothing_helps_where_none_does() -> None:
    cheap, dear = (Entry(name, "", (2, 4), (s, s), (0.5, 0.5)) for name, s in (("cheap", 0.1), ("dear", 9.0)))
    plain = Entry("plain", "", (), (), (1.0,))
    least = needed([plain, cheap, dear], np.ones(3))
    assert np.isnan(least[0])
    assert least[1] == 0.0
    assert np.isnan(least[2])
    assert np.isnan(needed([plain], np.ones(1))).all()


def test_a_head_without_a_stated_acceptance_is_no_candidate_and_one_with_it_is(found: Outcome) -> None:
    assert not [one for one in found.proposals if one.head]
    stated = asked(plan={"heads": ({"kind": "eagle", "acceptance": (0.9, 0.95)}, {"kind": "medusa"})})
    with_it = plan(stated)
    (head,) = [one for one in with_it.proposals if one.head]
    assert head.ranked.entry.name == "eagle-1x1024"
    assert head.acceptance is not None
    assert head.acceptance[1:] == (0.9, 0.95)
    assert with_it.leader is head
    assert sum(one.ranked.p_best for one in with_it.proposals) == pytest.approx(1.0)
    said = " ".join(tables.plan_answer(with_it))
    assert "take eagle-1x1024 (1 layer of width 1,024" in said
    assert "as stated" in said
    # A page has figures of models of their own, and the table of all heads.
    page = rendered(plan_page(with_it, None))
    assert "medusa-8x1" in page


def test_draws_have_the_interval_that_is_stated() -> None:
    drawn = stated_draws((0.6, 0.8), np.array([-NORMAL_95, 0.0, NORMAL_95]))
    assert drawn[[0, 2]] == pytest.approx([0.6, 0.8])
    assert 0.7 < drawn[1] < 0.72
    many = stated_draws((0.6, 0.8), np.random.default_rng(0).standard_normal(100_000))
    assert np.quantile(many, [0.05, 0.95]) == pytest.approx([0.6, 0.8], abs=0.002)


@pytest.mark.parametrize(
    ("option", "target", "published"),
    [
        ({"kind": "eagle"}, "llama-2-70b", "eagle-llama-2-70b"),
        ({"kind": "eagle3", "vocabulary": (32000,)}, "llama-3.1-8b", "eagle3-llama-3.1-8b"),
        ({"kind": "eagle3", "vocabulary": (32000,)}, "llama-3.1-70b", "eagle3-llama-3.1-70b"),
        ({"kind": "block", "layers": (5,)}, "qwen3-8b", "dflash-qwen3-8b"),
    ],
)
def test_heads_are_made_as_the_published_ones(option: dict[str, Any], target: str, published: str) -> None:
    (made,) = head_models(HeadOption.model_validate(option), KNOWN[target], 8, {})
    real = KNOWN[published]
    # EAGLE's heads beside grouped-query targets have all key-value heads in some files.
    assert made.parameters == pytest.approx(real.parameters, rel=0.13)
    same = ("layers", "d_model", "heads", "head_dim", "vocabulary", "hidden_states")
    for key in same:
        expected = getattr(real, key)
        if key == "hidden_states":
            expected = expected.model_copy(update={"of": None, "width": None})
        assert getattr(made, key) == expected, key


def test_a_head_that_exists_is_taken_by_its_name() -> None:
    one = scenario(
        draft={"kind": "none"},
        target=KNOWN["llama-3.1-8b"],
        plan={"drafts": {"layers": (4,), "d_model": (1024,)}, "heads": ({"kind": "model", "model": "h"},)},
    )
    found = plan(one, {"h": KNOWN["eagle3-llama-3.1-8b"]})
    assert [head.candidate.entry.name for head in found.heads] == ["eagle3-llama-3.1-8b"]
    with pytest.raises(RefusedError, match=r"llama-3\.2-1b reads no hidden states; plan\.existing"):
        plan(one, {"h": KNOWN["llama-3.2-1b"]})
    with pytest.raises(RefusedError, match=r"does not read hidden states as wide as those of llama-3\.1-8b"):
        plan(one, {"h": KNOWN["eagle3-llama-3.1-70b"]})
    assert (
        models_named([("plan.heads.model", "eagle3-llama-3.1-8b")], Path())["eagle3-llama-3.1-8b"]
        == KNOWN["eagle3-llama-3.1-8b"]
    )


def test_a_head_that_cannot_be_is_left_out_with_the_reason() -> None:
    with pytest.raises(RefusedError, match="eagle3 cannot have 999,999 tokens: target has"):
        plan(asked(plan={"heads": ({"kind": "eagle3", "vocabulary": (999_999,)},)}))
    large = plan(asked(plan={"heads": ({"kind": "eagle", "layers": (10_000,)},)}))
    assert not large.heads
    assert "eagle-10000x1024 beside target: " in " ".join(tables.plan_answer(large))


def test_a_target_with_experts_needs_the_size_of_a_dense_one_as_good() -> None:
    experts = model("mixture", experts={"count": 4, "per_token": 2, "d_ff": 1024})
    planned = {"plan": {"drafts": SPACE}, "draft": {"kind": "none"}}
    with pytest.raises(RefusedError, match=r"plan\.prior\.target_parameters says how large"):
        plan(scenario(target=experts, **planned))
    sizes = [4e8, 4e10]
    found = [
        plan(
            scenario(target=experts, draft={"kind": "none"}, plan={"drafts": SPACE, "prior": {"target_parameters": n}})
        )
        for n in sizes
    ]
    # The better the target, the further behind is the same draft.
    means = [one.mean_acceptance for one in found]
    assert (means[0] > means[1]).all()


def test_the_verb_says_what_heads_need(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(
        "name: heads\ntarget: llama-3.1-8b\ndraft: {kind: none}\ndeployment: {hardware: h100_sxm, chips: 1}\n"
        "acceptance: {kind: rate, acceptance_rate: 0.7}\ndecoding: {lookahead: 4}\n"
        "workload: {batch: 4, prompt_tokens: 512, output_tokens: 128}\n"
        "plan:\n  gain: 2\n  drafts: {layers: [2, 8], d_model: [512, 1024]}\n"
        "  heads: [{kind: model, model: eagle3-llama-3.1-8b, acceptance: [0.6, 0.8]}, {kind: block, layers: [5]}]\n",
        "utf-8",
    )
    shown = CliRunner().invoke(app, ["plan", str(file), "--out", str(tmp_path / "out")])
    assert shown.exit_code == 0, shown.output
    assert "Draft heads, by what they cost" in shown.stdout
    assert "to gain 2" in shown.stdout
    assert "a gain of 2 takes acceptance" in shown.stdout
    data = json.loads((tmp_path / "out" / "plan.json").read_text("utf-8"))
    assert {head["name"] for head in data["heads"]} == {"eagle3-llama-3.1-8b", "block-5x4096"}
    assert all(0 < head["to_pay"] < head["to_lead"] < 1 for head in data["heads"])
    own = next(one for one in data["candidates"] if one["name"] == "eagle3-llama-3.1-8b")
    assert "--speculative-algorithm EAGLE3" in own["serve"]["sglang"]
    assert '"method": "eagle3"' in own["serve"]["vllm"]


@pytest.mark.parametrize(
    ("head", "method", "algorithm"),
    [
        ({"kind": "eagle"}, "eagle", "EAGLE"),
        ({"kind": "eagle3"}, "eagle3", "EAGLE3"),
        ({"kind": "medusa"}, "medusa", None),
        ({"kind": "block"}, "dflash", "DFLASH"),
    ],
)
def test_engines_are_told_what_kind_of_head_it_is(head: dict[str, Any], method: str, algorithm: str | None) -> None:
    found = plan(asked(plan={"heads": (head | {"acceptance": (0.9, 0.95)},)}))
    (one,) = [each for each in found.proposals if each.head]
    first, second = commands(one)
    words = shlex.split(first.text)
    assert json.loads(words[words.index("--speculative-config") + 1])["method"] == method
    if algorithm is None:
        assert "no Medusa" in second.why_not
    else:
        words = shlex.split(second.text)
        assert words[words.index("--speculative-algorithm") + 1] == algorithm
