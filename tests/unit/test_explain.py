"""Is every key explained, in words of the schema alone?"""

from __future__ import annotations

import re

import pytest

from simulator.errors import ConfigError
from simulator.spec.describe import every_path
from simulator.spec.explain import explain
from simulator.spec.hardware import HardwareProfile
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario

PATHS = sorted({path for root in (Scenario, HardwareProfile, ModelSpec) for path in every_path(root)})


def flat(path: str) -> str:
    return " ".join(explain(path).split())


def test_a_leaf_says_meaning_range_and_whether_it_is_required() -> None:
    assert flat("decoding.lookahead") == (
        "decoding.lookahead K, draft tokens proposed per round; 0 drafts nothing. A whole number, 0 to 64. Required."
    )
    assert flat("decoding.top_p").endswith("A number, more than 0 and at most 1. Default: 1.")
    assert flat("target.tied_embeddings").endswith("True or false. Default: false.")
    assert flat("seed") == "seed Seed of every random stream. A whole number, 0 to 2,147,483,647. Default: 0."


def test_a_quantity_says_its_unit_and_its_bounds() -> None:
    said = flat("deployment.hardware.calibrations.fitted.parameters.sampling.base")
    assert said.endswith("A quantity in s, for example 1.5 us, 0 to 1,000,000,000 s. Default: 0 s.")
    assert "more than 0 B/s" in flat("peaks.hbm_bandwidth.value")


def test_a_section_lists_its_keys() -> None:
    lines = explain("workload").splitlines()
    assert [line.split()[0] for line in lines if re.match("  [a-z]", line)] == [
        "batch",
        "batching",
        "prompt_tokens",
        "output_tokens",
    ]


def test_variants_are_told_apart_by_their_kind() -> None:
    assert "kind: torus Chips on a grid" in flat("deployment.hardware.topology")
    kinds = "rate, per_position, forced, mixture, beta, markov, recorded, adversarial"
    assert flat("acceptance.kind") == f"acceptance.kind Which variant it is. One of {kinds}. Required."


def test_lists_are_looked_into() -> None:
    assert explain("published[0].use").replace("[0]", "") == explain("published.use")


def test_measured_steps_say_which_others_they_shift() -> None:
    lines = explain("measured").splitlines()
    assert [line.split()[0] for line in lines if re.match("  [a-z]+_step ", line)] == [
        "plain_step",
        "draft_step",
        "verify_step",
    ]
    assert "Its factor over the model also shifts the first draft step" in flat("measured.draft_step")
    assert flat("measured.verify_step").endswith("such as {2: 7.9 ms, 5: 8.1 ms}. Optional.")


def test_without_a_path_the_keys_of_a_scenario() -> None:
    for key in ("base", "sweep", "target", "workload"):
        assert f"\n  {key}   " in explain().replace("\nbase", "\n  base").replace("\nsweep", "\n  sweep")


@pytest.mark.parametrize("path", PATHS)
def test_every_key_is_explained_within_100_columns(path: str) -> None:
    text = explain(path)
    assert text.startswith(f"{path}   ")
    assert max(len(line) for line in text.splitlines()) <= 100
    assert re.search(r"(Required|Optional|Default:\s.+)\.$", text.partition("\n\n")[0])
    assert not re.search(r"None|<|pydantic|\bstr\b|\bint\b|`", text)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("decoding.lookahed", "a key of decoding; did you mean 'lookahead'?"),
        ("lookahead", "a key of the scenario; did you mean 'decoding.lookahead' or 'plan.lookahead'?"),
        ("peaks.hbm_bandwith", "a key of peaks; did you mean 'hbm_bandwidth'?"),
        ("decoding.lookahead.value", "a path that ends at decoding.lookahead, which has no keys below it"),
    ],
)
def test_an_unknown_key_leads_to_the_nearest(path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        explain(path)
    assert str(caught.value) == f"{path}\n    accepts  {said}\n1 problem. Nothing was run."
