"""Small scenarios for tests, built from plain data as a file would give them."""

from __future__ import annotations

from typing import Any

from simulator.spec.scenario import Scenario

PROFILE: dict[str, Any] = {
    "name": "chip",
    "description": "an invented chip",
    "peaks": {
        "hbm_bandwidth": {"value": "1000 GB/s", "source": "invented"},
        "hbm_capacity": {"value": "64 GiB", "source": "invented"},
        "matmul": {
            "bfloat16": {"value": "100 TFLOP/s", "source": "invented"},
            "float32": {"value": "50 TFLOP/s", "source": "invented"},
        },
    },
    "topology": {
        "kind": "torus",
        "axes": 3,
        "link_bandwidth": {"value": "50 GB/s", "source": "invented"},
        "wrap_multiple": 4,
    },
    "calibrations": {
        "made-up": {
            "description": "invented numbers",
            "source": "invented",
            "free_parameters": 0,
            "fitted_values": 0,
            "parameters": (
                {
                    "hbm_efficiency": 0.8,
                    "matmul_efficiency": 0.5,
                    "step_overhead": "100 us",
                    "layer_overhead": "5 us",
                    "all_reduce": {"algorithm": "ring", "base": "2 us", "hop_latency": "1 us"},
                    "sampling": {"base": "20 us", "per_logit": "0.1 ns"},
                    "round_overhead": "30 us",
                },
            ),
        }
    },
}


def model(name: str = "model", **changes: Any) -> dict[str, Any]:
    """A small transformer."""
    return {
        "name": name,
        "layers": 8,
        "d_model": 512,
        "heads": 8,
        "kv_heads": 8,
        "head_dim": 64,
        "d_ff": 2048,
        "feed_forward": "gated",
        "vocabulary": 4096,
    } | changes


def scenario(**changes: Any) -> Scenario:
    """A small scenario; ``changes`` are dotted paths with ``__`` for the dot."""
    data: dict[str, Any] = {
        "name": "small",
        "target": model("target", layers=16, d_model=1024, heads=16, kv_heads=16, d_ff=4096),
        "draft": {"kind": "model", "model": model("draft", layers=2)},
        "deployment": {"hardware": PROFILE, "calibration": "made-up", "chips": 4},
        "decoding": {"lookahead": 4},
        "acceptance": {"kind": "rate", "acceptance_rate": 0.7},
        "workload": {"batch": 1, "prompt_tokens": 100, "output_tokens": 128},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = data
        for part in parents:
            place[part] = dict(place[part])
            place = place[part]
        place[last] = value
    return Scenario.model_validate(data)
