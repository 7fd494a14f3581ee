"""Draft heads, recurrent layers and encoders against counts by hand, and their rounds against the simulation."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.cost.counted import Operation
from simulator.cost.operations import collectives, head, operations, streamed_bytes
from simulator.cost.shape import Pass, Shape
from simulator.des.playback import closed_form_s, phases, play
from simulator.errors import ConfigError
from simulator.predict import predict_scenario
from simulator.spec.drafting import MedusaDraft
from simulator.spec.load import load_text
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from tests.builders import model, scenario

TARGET = model(d_model=256, heads=8, kv_heads=4, head_dim=32, d_ff=1024, vocabulary=1000, layers=6)
EAGLE3 = model(d_model=256, heads=8, kv_heads=4, head_dim=32, d_ff=1024, vocabulary=500, layers=1) | {
    "name": "eagle3",
    "hidden_states": {"inputs": 3, "projected": "once_a_round", "attention_inputs": 2, "shares_head": False},
}
EAGLE1 = TARGET | {"name": "eagle", "layers": 1, "hidden_states": {"inputs": 2, "projected": "every_pass"}}
BLOCK = TARGET | {
    "name": "block",
    "layers": 3,
    "hidden_states": {"proposes": "block", "inputs": 5, "projected": "once_a_round"},
}
MEDUSA = {"kind": "medusa", "heads": 5, "layers": 1}
RECURRENT = {"layers": 4, "key_heads": 4, "value_heads": 8, "key_dim": 16, "value_dim": 32}
GATED = TARGET | {"name": "hybrid", "recurrent": RECURRENT, "attention_gate": True}
T5 = TARGET | {"name": "t5", "encoder": {"layers": 3}, "positions": "none"}
T5_DRAFT = T5 | {"name": "t5-draft", "layers": 2, "encoder": {"layers": 2}}
LAYER = 256 * 32 * 2 * (8 + 4) + 3 * 256 * 1024  # attention and feed-forward of one layer
NORMS = 2 * 256
BF16 = 2


def spec(values: dict[str, Any]) -> ModelSpec:
    return ModelSpec.model_validate(values)


def ops(values: dict[str, Any], step: Pass) -> dict[str, Operation]:
    return {op.name: op for op in operations(Shape.of(spec(values)), step)}


def drafted(draft: dict[str, Any], target: dict[str, Any] = TARGET, **changes: Any) -> Scenario:
    if draft is not MEDUSA:
        subset = {"vocabulary_map": "subset"} if draft["vocabulary"] != target["vocabulary"] else {}
        draft = {"kind": "model", "model": draft, **subset}
    return scenario(target=target, draft=draft, **changes)


def test_eagle_reads_its_projection_its_layer_and_the_head_of_the_target() -> None:
    whole = float(streamed_bytes(Shape.of(spec(EAGLE1)), Pass(1, 1, 0, 1, 1)))
    cached = 1 * 1 * 2 * 4 * 32 * BF16
    assert whole == (2 * 256 * 256 + LAYER + 256 * 1000) * BF16 + cached
    assert spec(EAGLE1).parameters == 2 * 256 * 256 + LAYER + NORMS + 256  # embedding and head are the target's
    assert spec(EAGLE1 | {"hidden_states": EAGLE1["hidden_states"] | {"shares_head": False}}).parameters == (
        2 * 256 * 256 + LAYER + NORMS + 256 + 256 * 1000
    )


def test_eagle_3_projects_once_a_round_and_its_attention_is_wider() -> None:
    first, later = (ops(EAGLE3, Pass(1, 1, 0, 1, 1, projects=projects)) for projects in (True, False))
    assert first["hidden_states"].streamed_bytes == 3 * 256 * 256 * BF16
    assert "hidden_states" not in later
    assert later["wider_qkv"].streamed_bytes == 256 * 32 * (8 + 2 * 4) * BF16
    assert spec(EAGLE3).parameters == 3 * 256**2 + 256 * 32 * 16 + LAYER + NORMS + 256 + 256 * 500
    passes = Steps.of(drafted(EAGLE3)).passes
    assert (passes["draft_first_step"].forward.tokens, passes["draft_first_step"].forward.projects) == (5, True)
    assert (passes["draft_step"].forward.tokens, passes["draft_step"].forward.projects) == (1, False)


def test_the_projection_is_whole_on_every_chip() -> None:
    one, four = (ops(EAGLE3, Pass(1, 1, 0, chips, 1)) for chips in (1, 4))
    assert one["hidden_states"].streamed_bytes == four["hidden_states"].streamed_bytes
    assert one["wider_qkv"].streamed_bytes == 4 * four["wider_qkv"].streamed_bytes


def test_a_block_is_proposed_in_one_pass() -> None:
    asked = drafted(BLOCK)
    steps = Steps.of(asked)
    assert "draft_step" not in steps.passes
    first = steps.passes["draft_first_step"]
    assert (first.forward.tokens, first.forward.head_tokens, first.sampled_rows) == (5, 4, 4)
    parts = predict_scenario(asked).components
    together = ("draft_first_step", "verify_step", "sampling", "round_overhead")
    assert parts["round"] == pytest.approx(sum(parts[name] for name in together), rel=1e-12)


def test_medusa_reads_every_head_once() -> None:
    heads = MedusaDraft.model_validate(MEDUSA).on(spec(TARGET))
    assert heads.parameters == 5 * (256**2 + 256 * 1000)
    shape, step = Shape.of(heads), Pass(2, 1, 0, 4, 1)
    (blocks,) = operations(shape, step)
    assert blocks.streamed_bytes == 5 * 256**2 * BF16
    assert head(shape, step).streamed_bytes == 5 * 256 * 250 * BF16
    assert head(shape, step).flop == 2 * 2 * 5 * 256 * 250
    counts = {part.name: float(part.count) for part in collectives(shape, step)}
    assert counts == {"layers": 0, "embedding": 0, "logits": 1, "stages": 0}
    parts = predict_scenario(drafted(MEDUSA)).components
    assert not {"draft_prefill", "draft_step"} & set(parts)


def test_recurrent_layers_have_a_state_instead_of_a_cache() -> None:
    hybrid = spec(GATED)
    attention = 256 * 32 * (2 * 8 + 8 + 2 * 4)  # a gate for each query
    rates, keys, values = 2 * 8, 4 * 16, 8 * 32
    recurrent = 256 * (2 * keys + 2 * values + rates + values) + 4 * (2 * keys + values)
    rest = 6 * (3 * 256 * 1024 + NORMS) + 256 + 2 * 256 * 1000
    assert hybrid.parameters == 2 * attention + 4 * recurrent + rest
    assert hybrid.kv_bytes_per_token == 2 * 2 * 4 * 32 * BF16  # two of six layers
    assert hybrid.state_bytes_per_sequence == 4 * 8 * 16 * 32 * 4
    decode, verify = (ops(GATED, Pass(3, tokens, 100, 2, wanted)) for tokens, wanted in ((1, 1), (5, None)))
    state = 3 * 4 * (8 // 2) * 16 * 32 * 4
    assert decode["states"].streamed_bytes == 2 * state  # read and written
    assert verify["states"].streamed_bytes == 6 * state  # and kept for each of five tokens
    assert verify["states"].flop == 6 * 3 * 5 * 4 * (8 // 2) * 16 * 32
    assert decode["recurrent_inputs"].streamed_bytes == 4 * 256 * (2 * 32 + 2 * 128 + 2 * 4) * BF16
    assert decode["attention"].streamed_bytes == 3 * 2 * 101 * 2 * 2 * 32 * BF16


def test_an_encoder_reads_the_prompt_and_every_layer_attends_to_it() -> None:
    whole = spec(T5)
    cross = 256 * 32 * 2 * (8 + 4)
    encoder = 3 * (LAYER + NORMS) + 256
    assert whole.parameters == encoder + 6 * (LAYER + cross + NORMS) + 256 + 2 * 256 * 1000
    asked = drafted(T5_DRAFT, T5)
    passes = Steps.of(asked).passes
    prompt, output = asked.workload.prompt_tokens, asked.workload.output_tokens
    assert passes["plain_step"].forward.positions == output / 2
    found = {op.name: op for op in operations(passes["plain_step"].shape, passes["plain_step"].forward)}
    chips = asked.deployment.target_degree
    assert found["encoder_attention"].streamed_bytes == 6 * prompt * 2 * (4 // chips) * 32 * BF16
    assert found["encoder_queries"].streamed_bytes == 6 * 256 * 256 // chips * BF16
    read = {op.name: op for op in operations(passes["prefill"].shape, passes["prefill"].forward)}
    assert read["encoder_keys"].streamed_bytes == 6 * 256 * 2 * (4 // chips) * 32 * BF16
    assert read["qkv"].streamed_bytes == 3 * 256 * (8 + 2 * 4) // chips * 32 * BF16
    scores = 4 * prompt * prompt * 3  # every position attends to all
    assert read["attention"].flop == scores * 8 // chips * 32
    metrics = predict_scenario(asked).metrics
    parts = predict_scenario(asked).components
    both = parts["prefill"] + parts["draft_prefill"] + parts["plain_step"]
    assert metrics["ttft_s"] == pytest.approx(both, rel=1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        *(drafted(draft, deployment__chips=chips) for draft in (EAGLE1, EAGLE3, BLOCK, MEDUSA) for chips in (1, 4)),
        drafted(EAGLE3, GATED),
        drafted(EAGLE3, deployment__draft={"placement": "replicated", "tensor_parallel": 1}),
        drafted(MEDUSA, deployment__draft={"placement": "sub_slice", "tensor_parallel": 1}),
        drafted(BLOCK, deployment__draft={"placement": "sub_slice", "tensor_parallel": 2}),
        drafted(T5_DRAFT, T5),
    ],
    ids=lambda asked: f"{asked.draft_model.name} on {asked.deployment.chips} {asked.deployment.draft.placement}",
)
def test_a_round_played_on_its_chips_is_what_was_predicted(asked: Scenario) -> None:
    predicted = predict_scenario(asked)
    for name, seconds in predicted.components.items():
        assert sum(predicted.mechanisms[name].values()) == pytest.approx(seconds, rel=1e-12)
        if name in ("sampling", "round_overhead", "shipping"):
            continue
        assert closed_form_s(asked, name) == seconds
        assert play(phases(asked, name), asked.deployment.chips).seconds == pytest.approx(seconds, rel=1e-9)


def problems(draft: str, target: str = "", decoding: str = "") -> list[str]:
    import yaml

    values = scenario().resolved()
    values["target"] = TARGET | yaml.safe_load(target or "{}")
    values["draft"] = yaml.safe_load(draft)
    values["decoding"] = {"lookahead": 4} | yaml.safe_load(decoding or "{}")
    with pytest.raises(ConfigError) as raised:
        load_text(yaml.safe_dump(values), "x.yaml")
    return [problem.accepts for problem in raised.value.problems]


def test_what_does_not_go_together_is_said() -> None:
    assert problems("{kind: medusa, heads: 3}") == ["at most 3: medusa-3x1 has no more heads"]
    narrow = str({"kind": "model", "model": EAGLE1 | {"d_model": 128}})
    assert problems(narrow) == ["a draft head for hidden states of width 256; eagle reads 128"]
    assert problems("{kind: none}", str({"hidden_states": EAGLE1["hidden_states"]})) == [
        f"a model of its own: {TARGET['name']} is a draft head"
    ]
    assert problems(str({"kind": "model", "model": T5_DRAFT})) == [
        f"a draft with no encoder: {TARGET['name']} has no encoder"
    ]
