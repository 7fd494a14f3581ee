"""Which layouts of weights and of attention a scenario may ask for."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.spec.document import PathKey
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Scenario
from simulator.spec.topology import parse_slice, slice_chips


def layout_problems(scenario: Scenario) -> Iterator[tuple[PathKey, str]]:
    """Where the target's matrices and its cache may be split otherwise than by heads: a path, and what is accepted."""
    deployment, target = scenario.deployment, scenario.target
    for key, usual in (("weight_layout", "one_dimensional"), ("attention_sharding", "heads")):
        if getattr(deployment, key) != usual and (what := _beside_plain(target)) is not None:
            yield ("deployment", key), f"only {usual}: the other way is not modelled with {what}"
            return
    axes = [n for n in parse_slice(deployment.slice or "1") if n > 1]
    filled = deployment.slice is not None and slice_chips(deployment.slice) == deployment.target_degree
    if deployment.weight_layout == "two_dimensional" and not (filled and len(axes) > 1 and scenario.width_parts > 1):
        accepts = "a slice whose first axis, of 2 chips or more, splits the width, with another axis beside it"
        yield ("deployment", "slice" if deployment.slice else "weight_layout"), accepts
    if deployment.attention_sharding == "batch" and deployment.target_degree > 1 and scenario.sequence_groups == 1:
        yield ("deployment", "attention_sharding"), "only heads: no axis of the slice divides the batch"


def _beside_plain(target: ModelSpec) -> str | None:
    """What a model has beside plain attention and a dense feed-forward, if anything."""
    parts = {
        "experts": target.experts,
        "compressed keys and values": target.latent,
        "layers of linear attention": target.recurrent,
        "an encoder": target.encoder,
        "relative positions": target.positions == "relative" or None,
    }
    return next((name for name, part in parts.items() if part is not None), None)
