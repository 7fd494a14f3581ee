"""What the memory of one chip must hold, term by term."""

from __future__ import annotations

import numpy as np

from simulator.cost.operations import LOGIT_BYTES, Shape, query_heads, split
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario


def memory_terms(scenario: Scenario) -> dict[str, float]:
    """Bytes on one chip: weights and KV cache of both models, logits and probabilities of a round, activations."""
    deployment, batch = scenario.deployment, scenario.workload.batch
    rows = batch * (scenario.lookahead + 1)
    terms = {
        "target weights": _weights(scenario.target, deployment.target_degree),
        "target KV cache": _cache(scenario.target, deployment.target_degree, batch, scenario.cache_positions),
    }
    draft = scenario.draft_model
    if draft is not None:
        terms["draft weights"] = _weights(draft, deployment.draft_degree)
        terms["draft KV cache"] = _cache(draft, deployment.draft_degree, batch, scenario.cache_positions)
    # Logits and probabilities of the target over K+1 positions, and the draft's whole distributions for the residual.
    copies = 2 if draft is None else 4
    terms["logits and probabilities"] = copies * rows * scenario.target.vocabulary * LOGIT_BYTES
    widest = max(scenario.workload.prompt_tokens * batch, rows)
    per_row = 4 * scenario.target.d_model + 2 * float(split(scenario.target.d_ff, deployment.target_degree))
    terms["activations of the prefill"] = widest * per_row * scenario.target.activation_bytes
    return terms


def does_not_fit(scenario: Scenario, terms: dict[str, float]) -> str:
    """Empty where the terms fit; otherwise the reason, naming the largest term and the largest batch that fits."""
    hardware, chips = scenario.deployment.hardware, scenario.deployment.chips
    # Devices of one host share its memory.
    usable = hardware.usable_bytes() / (chips if hardware.shares_memory else 1)
    needed = sum(terms.values())
    if needed <= usable:
        return ""
    largest = max(terms, key=lambda name: terms[name])
    fixed = sum(size for name, size in terms.items() if name.endswith("weights"))
    each = (needed - fixed) / scenario.workload.batch
    batch = int(np.floor((usable - fixed) / each)) if usable > fixed else 0
    advice = (
        f"largest batch that fits: {batch}" if batch else "the weights alone do not fit: more chips, or fewer bytes"
    )
    return (
        f"{needed / 2**30:.1f} of {usable / 2**30:.1f} GiB a chip; "
        f"most of it is {largest}, {terms[largest] / 2**30:.1f} GiB; {advice}"
    )


def _weights(model: ModelSpec, chips: int) -> float:
    """All weights of a model on one chip: sharded matrices padded, norms on every chip."""
    heads, kv_heads = float(query_heads(Shape.of(model), chips)), float(split(model.kv_heads, chips))
    attention = model.d_model * model.head_dim * 2 * (heads + kv_heads)
    matrices = 3 if model.feed_forward == "gated" else 2
    feed_forward = matrices * model.d_model * float(split(model.d_ff, chips))
    positions = model.d_model * model.head_dim * heads if model.positions == "relative" else 0.0
    embedding = float(split(model.vocabulary, chips)) * model.d_model * (1 if model.tied_embeddings else 2)
    per_layer = attention + feed_forward + positions + 2 * model.d_model
    return (model.layers * per_layer + model.d_model + embedding) * model.weight_bytes


def _cache(model: ModelSpec, chips: int, batch: int, positions: int) -> float:
    kv_heads = float(split(model.kv_heads, chips))
    return model.layers * 2 * kv_heads * model.head_dim * model.kv_bytes * batch * positions
