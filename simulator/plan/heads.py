"""Draft heads on the target's hidden states, as models that the cost model knows.

What each is made of is in :mod:`simulator.importing.drafts`, with its sources; here their sizes are the target's, as
those of published heads are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simulator.errors import RefusedError
from simulator.spec.drafting import MedusaDraft
from simulator.spec.model import HiddenStates, ModelSpec
from simulator.spec.plan import HeadOption

_MOST_HEADS = 64


def head_models(
    option: HeadOption, target: ModelSpec, lookahead: int, existing: Mapping[str, ModelSpec]
) -> Iterator[ModelSpec]:
    """Every head of an option.

    Args:
        option: what is asked for.
        target: whose hidden states are read, as the scenario has it: a head beside a quantised target stays as it is.
        lookahead: the largest that is tried, for which Medusa needs as many heads.
        existing: models by their names.

    Raises:
        RefusedError: a model that is named is no head of this target.
    """
    if option.kind == "model" and option.model is not None:
        yield _existing(existing[option.model], target)
        return
    for layers in option.layers:
        if option.kind == "medusa":
            yield MedusaDraft(kind="medusa", heads=min(lookahead, _MOST_HEADS), layers=layers).on(target)
        elif option.kind == "eagle3":
            for vocabulary in option.vocabulary or (target.vocabulary,):
                yield _eagle3(target, layers, vocabulary)
        elif option.kind == "block":
            reads = HiddenStates(proposes="block", inputs=layers, projected="once_a_round")
            yield _made(target, f"block-{layers}x{target.d_model}", layers, reads)
        else:
            yield _made(target, f"eagle-{layers}x{target.d_model}", layers, HiddenStates(inputs=2))


def _eagle3(target: ModelSpec, layers: int, vocabulary: int) -> ModelSpec:
    if vocabulary > target.vocabulary:
        tokens = f"{target.name} has {target.vocabulary:,} tokens"
        raise RefusedError(f"plan.heads: eagle3 cannot have {vocabulary:,} tokens: {tokens}")
    reads = HiddenStates(inputs=3, projected="once_a_round", attention_inputs=2, shares_head=False)
    less = f"-v{vocabulary}" if vocabulary < target.vocabulary else ""
    return _made(target, f"eagle3-{layers}x{target.d_model}{less}", layers, reads, vocabulary)


def _existing(model: ModelSpec, target: ModelSpec) -> ModelSpec:
    reads = model.hidden_states
    if reads is None:
        raise RefusedError(f"plan.heads: {model.name} reads no hidden states; plan.existing is for models of their own")
    if (reads.width or model.d_model) != target.d_model:
        raise RefusedError(f"plan.heads: {model.name} does not read hidden states as wide as those of {target.name}")
    return model


def _made(target: ModelSpec, name: str, layers: int, reads: HiddenStates, vocabulary: int | None = None) -> ModelSpec:
    shared = target.head_dtype or target.weight_dtype
    return ModelSpec(
        name=name,
        source="a candidate of a plan",
        layers=layers,
        d_model=target.d_model,
        heads=target.heads,
        kv_heads=target.heads if target.latent is not None else target.kv_heads,
        head_dim=target.head_dim,
        # Heads beside mixtures of experts are dense: 6 D in SpecForge's configurations, whatever an expert has.
        d_ff=target.d_ff if target.experts is None else 6 * target.d_model,
        feed_forward="gated",
        vocabulary=vocabulary or target.vocabulary,
        tokenizer=target.tokenizer,
        weight_dtype=target.compute_dtype,
        head_dtype=shared if reads.shares_head else None,
        hidden_states=reads,
    )
