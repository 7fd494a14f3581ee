"""Ten thousand scenarios drawn from everything that a scenario can say: what must hold of each prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.predict import predict_scenario
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from tests.builders import PROFILE, model, scenario

COUNT = 10_000
SEED = 20_251_129
CHIPS = (1, 2, 3, 4, 8, 16)


def profiles() -> list[dict[str, Any]]:
    """The invented chip under calibrations of every form."""
    base = PROFILE["calibrations"]["made-up"]
    forms: list[dict[str, Any]] = [
        {},
        {"all_reduce": {"algorithm": "one_shot", "base": "3 us", "hop_latency": "1 us"}},
        {"all_reduce": {"algorithm": "tree", "hop_latency": "1 us"}, "point_to_point": {"base": "5 us"}},
        {"all_reduce": {"algorithm": "in_switch", "hop_latency": "1 us"}, "kv_efficiency": 0.5},
        {
            "all_reduce": {
                "algorithm": "table",
                "table": ({"payload": "1 kB", "time": "9 us"}, {"payload": "1 MB", "time": "80 us"}),
            },
            "row_factor": ({"rows": 1, "factor": 1.0}, {"rows": 8, "factor": 1.7}, {"rows": 64, "factor": 3.0}),
        },
        {
            "hbm_efficiency": (
                {"footprint": "10 MB", "efficiency": 2.0},
                {"footprint": "1 GB", "efficiency": 0.7},
            ),
            "matmul_efficiency": ({"rows": 1, "efficiency": 0.1}, {"rows": 64, "efficiency": 0.6}),
            "verification": {"base": "10 us", "per_logit": "2 ns", "sort_per_logit": "1 ns"},
        },
    ]
    tile = {"tile": {"value": 128, "source": "invented"}}
    found = []
    for index, form in enumerate(forms):
        calibration = base | {"parameters": (base["parameters"][0] | form,)}
        peaks = PROFILE["peaks"] | (tile if index % 2 else {})
        found.append(PROFILE | {"peaks": peaks, "calibrations": {"made-up": calibration}})
    return found


class Drawer:
    """Draws scenarios."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.profiles = profiles()

    def one_of(self, *values: Any) -> Any:
        """One of ``values``, uniformly."""
        return values[int(self.rng.integers(len(values)))]

    def number(self, low: int, high: int) -> int:
        """A whole number, evenly over its magnitude."""
        return int(np.exp(self.rng.uniform(np.log(low), np.log(high + 0.99))))

    def model(self, name: str, experts_on: int) -> dict[str, Any]:
        """A model with at least 16 heads."""
        layers, kv_heads = self.number(2, 40), self.one_of(1, 4, 16)
        changes: dict[str, Any] = {
            "layers": layers,
            "d_model": self.one_of(64, 384, 1024, 4096),
            "kv_heads": kv_heads,
            "heads": max(16, kv_heads) * self.one_of(1, 3),
            "head_dim": self.one_of(32, 64, 128),
            "d_ff": self.number(16, 20_000),
            "feed_forward": self.one_of("gated", "plain"),
            "block": self.one_of("serial", "parallel"),
            "weight_dtype": self.one_of("bfloat16", "float32", "int8", "int4"),
            "head_dtype": self.one_of(None, "bfloat16"),
            "kv_dtype": self.one_of(None, "int8"),
        }
        if changes["weight_dtype"].startswith("int"):
            changes["weight_group"] = self.one_of(None, 32, 128)
        if self.rng.random() < 0.3:
            count = self.one_of(16, 64)
            changes["experts"] = {
                "count": count * (experts_on if count % experts_on else 1),
                "per_token": self.one_of(1, 2, 8),
                "d_ff": self.number(16, 4000),
                "shared_d_ff": self.one_of(0, 512),
                "layers": self.number(1, layers),
                "correlation": self.one_of(0.0, 0.4),
            }
        if self.rng.random() < 0.3:
            changes["window"] = {"positions": self.number(16, 5000), "layers": self.number(1, layers)}
        if self.rng.random() < 0.2:
            changes["kv_heads"] = changes["heads"]
            changes["latent"] = {"kv_rank": 64, "rotary_dim": 16, "query_rank": self.one_of(None, 96)}
        return model(name, **changes)

    def deployment(self) -> tuple[dict[str, Any], int]:
        """Where the models lie, and over how many chips each layer of the target is split."""
        degree, stages, own = self.one_of(*CHIPS), self.one_of(1, 1, 2), self.one_of(1, 2, 4)
        placements: list[dict[str, Any]] = [{}, {"placement": "own_chips", "tensor_parallel": own}]
        smaller = [n for n in CHIPS if n < degree]
        if smaller:
            placements.append({"placement": "sub_slice", "tensor_parallel": self.one_of(*smaller)})
            placements.append({"placement": "replicated", "tensor_parallel": 1})
        draft = dict(self.one_of(*placements))
        beside = own if draft.get("placement") == "own_chips" else 0
        if beside:
            draft["ahead"] = self.one_of(True, False)
        place = {
            "hardware": self.one_of(*self.profiles),
            "calibration": "made-up",
            "chips": degree * stages + beside,
            "pipeline_parallel": stages,
            "draft": draft,
        }
        return place, degree

    def law(self) -> dict[str, Any]:
        """An acceptance law of any kind that needs no list."""
        second, first = sorted(float(p) for p in self.rng.random(2))
        return self.one_of(
            {"kind": "rate", "acceptance_rate": first},
            {"kind": "per_position", "acceptance_rates": (first, second)},
            {"kind": "markov", "easy_rate": first, "hard_rate": second, "easy_rounds": 5.0, "hard_rounds": 2.0},
            {"kind": "adversarial", "share": first, "acceptance_rate": second},
        )

    def scenario(self) -> Scenario:
        """A scenario."""
        place, degree = self.deployment()
        target = self.model("target", degree)
        if "experts" in target:
            groups = self.one_of(*(n for n in CHIPS if degree % n == 0))
            place |= {"expert_parallel": groups, "expert_dispatch": self.one_of("all_reduce", "all_to_all")}
        return scenario(
            target=target,
            draft={"kind": "model", "model": self.model("draft", 1)},
            deployment=place,
            decoding={"lookahead": self.one_of(0, 1, 2, 4, 8), "temperature": self.one_of(0.0, 1.0), "top_p": 0.9},
            acceptance=self.law(),
            workload={
                "batch": 1 if place["draft"].get("ahead") else self.number(1, 256),
                "batching": self.one_of("static", "continuous"),
                "prompt_tokens": self.number(1, 100_000),
                "output_tokens": self.number(2, 40),
            },
        )


def test_ten_thousand_scenarios() -> None:
    drawer, seen = Drawer(SEED), set()
    for index in range(COUNT):
        small = drawer.scenario()
        found = predict_scenario(small)
        for name, seconds in found.components.items():
            parts = found.mechanisms[name]
            assert abs(sum(parts.values()) - seconds) <= 1e-12 * seconds, (index, name)
            assert min(parts.values(), default=0.0) >= 0, (index, name)
        seen |= {part for parts in found.mechanisms.values() for part in parts} | set(found.components)
        if "round" in found.components:
            check_round(small, found.components, found.metrics, index)
        if index % 20 == 0:
            check_spans(small, index)
    assert {"shipping", "round_ahead", "draft_prefill", "compute", "kv", "collective_bandwidth"} <= seen


def check_round(small: Scenario, parts: dict[str, float], metrics: dict[str, float], index: int) -> None:
    """A round is the sum of its parts, and its tokens lie between 1 and K + 1."""
    whole = parts["draft_first_step"] + (small.lookahead - 1) * parts.get("draft_step", 0.0)
    whole += parts.get("shipping", 0.0) + parts["verify_step"] + parts["sampling"] + parts["round_overhead"]
    assert parts["round"] == pytest.approx(whole, rel=1e-12), index
    assert parts.get("round_ahead", parts["round"]) <= parts["round"] * (1 + 1e-12), index
    least = 0 if small.deployment.draft.ahead else 1
    assert least <= metrics["acceptance_length"] <= small.lookahead + 1 + 1e-12, index
    assert metrics["speedup"] == pytest.approx(parts["plain_step"] / metrics["tpot_s"]), index
    assert metrics["e2e_s"] >= metrics["ttft_s"], index


def check_spans(small: Scenario, index: int) -> None:
    """What the discrete-event model plays sums to the closed form."""
    for name, step in Steps.of(small).passes.items():
        total = sum(s.weights_s + s.kv_s + s.compute_s + s.overhead_s + s.collective_s for s in step.spans())
        assert total == pytest.approx(float(step.cost.seconds), rel=1e-11), (index, name)
