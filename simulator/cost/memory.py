"""What the memory of one chip must hold, term by term."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.cost.counted import LOGIT_BYTES
from simulator.cost.extra import STATE_BYTES
from simulator.cost.operations import head, resident_weight_bytes
from simulator.cost.shape import Pass, Shape, query_heads, split, stored, tiled
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from simulator.units import human_bytes

WEIGHTS = ("target weights", "draft weights")


def memory_terms(scenario: Scenario) -> dict[str, float]:
    """Bytes on the fullest chip: weights and KV caches of both models, buffers of a round, activations of a prefill.

    A draft on chips of its own is on the chips of :func:`draft_terms`; here it then leaves only its distributions.
    """
    deployment, batch = scenario.deployment, scenario.workload.batch
    target, degree, draft = scenario.target, deployment.target_degree, scenario.draft_model
    tile, stages, groups = deployment.hardware.tile, deployment.pipeline_parallel, scenario.sequence_groups
    terms = {
        "target weights": _weights(target, degree, tile, deployment.expert_parallel, stages, scenario.width_parts),
        # Where chips attend to sequences of their own, each has those sequences alone.
        "target KV cache": _cache(target, degree // groups, tile, batch // groups, scenario.cache_positions)
        * _fullest(target, stages),
    }
    if target.recurrent is not None:
        terms["recurrent states"] = _states(target, degree, scenario) * _fullest(target, stages)
    if target.encoder is not None:
        encoded = float(stored(scenario.workload.prompt_tokens, target.head_dim, tile)) * target.kv_bytes
        heads = 2 * float(split(target.kv_heads, degree))
        terms["keys and values of the encoder"] = heads * encoded * target.layers * batch
    if draft is not None and not deployment.own_draft_chips:
        terms |= _of_draft(scenario, draft)
    rows = batch * (scenario.lookahead + 1)
    # Logits and probabilities of the target over K+1 positions, and the draft's whole distributions for the residual.
    # In greedy decoding there are logits alone, of a chip's own part of the vocabulary.
    greedy = scenario.decoding.temperature == 0
    copies = 1 / degree if greedy else (2 if draft is None else 4)
    terms["logits and probabilities"] = copies * rows * target.vocabulary * LOGIT_BYTES
    if tables := _distances(target, degree, tile, scenario.cache_positions):
        terms["products of distances"] = tables * _fullest(target, stages)
    terms["attention scores"] = _scores(target, degree // groups, rows // groups, scenario.cache_positions)
    terms["activations of the prefill"] = _activations(scenario, target, degree, scenario.width_parts)
    return terms


def draft_terms(scenario: Scenario) -> dict[str, float]:
    """Bytes on one of the chips that only the draft uses; empty where there are none."""
    draft, deployment = scenario.draft_model, scenario.deployment
    if draft is None or not deployment.own_draft_chips:
        return {}
    rows = scenario.workload.batch * (scenario.lookahead + 1)
    return _of_draft(scenario, draft) | {
        "logits and probabilities": (0 if scenario.decoding.temperature == 0 else 2)
        * rows
        * draft.vocabulary
        * LOGIT_BYTES,
        "attention scores": _scores(draft, deployment.draft_degree, rows, scenario.cache_positions),
        "activations of the prefill": _activations(scenario, draft, deployment.draft_degree),
    }


def does_not_fit(scenario: Scenario, terms: Mapping[str, float], where: str = "a chip") -> str:
    """Empty where the terms fit; otherwise the reason, naming the largest term and the largest batch that fits."""
    hardware, chips = scenario.deployment.hardware, scenario.deployment.chips
    # Devices of one host share its memory.
    usable = hardware.usable_bytes() / (chips if hardware.shares_memory else 1)
    needed = sum(terms.values())
    if needed <= usable:
        return ""
    largest = max(terms, key=lambda name: terms[name])
    fixed = sum(size for name, size in terms.items() if name in WEIGHTS)
    batch = _largest_batch(scenario, usable)
    if batch:
        advice = f"largest batch that fits: {batch}"
    elif usable > fixed:
        advice = "not even one sequence of this length fits: a shorter one, or more chips"
    else:
        advice = "the weights alone do not fit: more chips, or fewer bytes"
    return (
        f"{human_bytes(needed)} of {human_bytes(usable)} {where}; "
        f"most of it is {largest}, {human_bytes(terms[largest])}; {advice}"
    )


def _largest_batch(scenario: Scenario, usable: float) -> int:
    """The most sequences whose terms fit, on the target's chips and on those of the draft; 0 where none does."""

    def fits(batch: int) -> bool:
        workload = scenario.workload.model_copy(update={"batch": batch})
        asked = scenario.model_copy(update={"workload": workload})
        return max(sum(memory_terms(asked).values()), sum(draft_terms(asked).values())) <= usable

    low, high = 0, scenario.workload.batch
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _fullest(model: ModelSpec, stages: int) -> float:
    """Share of the layers on the stage of a pipeline that has the most."""
    return float(split(model.layers, stages)) / model.layers


def _of_draft(scenario: Scenario, draft: ModelSpec) -> dict[str, float]:
    degree, tile = scenario.deployment.draft_degree, scenario.deployment.hardware.tile
    terms = {
        "draft weights": _weights(draft, degree, tile, 1, 1, 1),
        "draft KV cache": _cache(draft, degree, tile, scenario.workload.batch, scenario.cache_positions),
    }
    if tables := _distances(draft, degree, tile, scenario.cache_positions):
        terms["draft products of distances"] = tables
    return terms


def _weights(model: ModelSpec, chips: int, tile: int, groups: int, stages: int, parts: int) -> float:
    """Weights of a model on its fullest chip: sharded matrices padded, norms and what is not sharded whole.

    Of a pipeline's stages the first has the embedding, the last the head, and some have a layer more than others.
    """
    shape, width = Shape.of(model), float(tiled(model.d_model, tile))
    layers = float(resident_weight_bytes(shape, chips, tile, groups, parts))
    if model.encoder is not None:
        layers += float(resident_weight_bytes(Shape.of_encoder(model), chips, tile, groups))
    if model.positions == "relative":
        heads = float(query_heads(shape, chips)) * model.head_dim
        layers += model.layers * float(stored(model.d_model, heads, tile)) * model.weight_bytes
    norms = (model.layers * model.norm_parameters + model.d_model) * model.activation_bytes
    matrices = _embeddings(model, stages)
    embedding = matrices * float(head(shape, Pass(1, 1, 0, chips, width_parts=parts), tile).streamed_bytes)
    learned = (model.max_positions or 0) * width * model.activation_bytes
    return (layers + norms) * _fullest(model, stages) + embedding + learned


def _embeddings(model: ModelSpec, stages: int) -> int:
    """Embeddings and LM heads on one chip: one each, less what is tied, on other stages or the target's."""
    if (reads := model.hidden_states) is not None:
        return (not reads.shares_embedding) + (not reads.shares_head)
    return 1 if model.tied_embeddings or stages > 1 else 2


def _states(model: ModelSpec, chips: int, scenario: Scenario) -> float:
    """States of the recurrent layers: one a sequence, and one for each token of a round that may be taken back."""
    own = model.recurrent
    if own is None:
        return 0.0
    each = own.layers * float(split(own.value_heads, chips)) * own.key_dim * own.value_dim * STATE_BYTES
    return each * scenario.workload.batch * (scenario.lookahead + 2)


def _cache(model: ModelSpec, chips: int, tile: int, batch: int, positions: int) -> float:
    """Keys and values of every position, the K+1 slots of a round included; a window keeps its own positions only."""
    if not Shape.of(model).has_layers:
        return 0.0
    # A windowed layer keeps its window and the slots of a round that may be taken back.
    windowed = min(positions, model.window.positions + 66) if model.window is not None else 0
    unbounded = model.layers - model.window_layers - model.recurrent_layers
    heads = 2 * float(split(model.kv_heads, chips))

    def layer(kept: int) -> float:
        if (latent := model.latent) is not None:
            return float(stored(kept, latent.kv_rank + latent.rotary_dim, tile))  # compressed, whole on every chip
        return heads * float(stored(kept, model.head_dim, tile))

    return (unbounded * layer(positions) + model.window_layers * layer(windowed)) * model.kv_bytes * batch


def _distances(model: ModelSpec, chips: int, tile: int, positions: int) -> float:
    """What relative positions keep of each layer's projection: its product with every distance."""
    if model.positions != "relative":
        return 0.0
    heads = float(query_heads(Shape.of(model), chips))
    return model.layers * heads * float(stored(positions, model.head_dim, tile)) * model.activation_bytes


def _scores(model: ModelSpec, chips: int, rows: int, positions: int) -> float:
    """Scores of one layer over the cache while a round is verified, in float32, and their exponentials."""
    return 2 * rows * float(query_heads(Shape.of(model), chips)) * positions * LOGIT_BYTES


def _activations(scenario: Scenario, model: ModelSpec, chips: int, parts: int = 1) -> float:
    """Activations of one layer of the prefill; its attention is taken as blockwise (Dao et al. 2022): no S x S."""
    widest = max(scenario.workload.prompt_tokens, scenario.lookahead + 1) * scenario.workload.batch
    inner = float(split(model.d_ff, chips / parts))
    if (experts := model.experts) is not None:
        inner = max(inner if model.expert_layers < model.layers else 0.0, _routed_width(model, chips))
        inner += float(split(experts.shared_d_ff, chips))
    return widest * (4 * model.d_model / parts + 2 * inner) * model.activation_bytes


def _routed_width(model: ModelSpec, chips: int) -> float:
    experts = model.experts
    return 0.0 if experts is None else float(split(experts.per_token * experts.d_ff, chips))
