"""A target and its draft on their devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec

from runtime.decode_state import DecodeState, Setting
from runtime.mesh import cache_spec, chip_mesh, place, place_random, weight_specs
from runtime.shapes import PRNGKey
from runtime.transformer import Decoder
from simulator.errors import RefusedError
from simulator.spec.model import ModelSpec


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pair:
    """Models whose weights lie on the devices of one mesh."""

    target: Decoder
    draft: Decoder | None
    mesh: Mesh = field(metadata={"static": True})

    @classmethod
    def random(
        cls,
        target: ModelSpec,
        draft: ModelSpec | None,
        key: PRNGKey,
        degree: int = 1,
        draft_degree: int | None = None,
        devices: Sequence[Any] | None = None,
    ) -> Pair:
        """Random weights; the same key gives the same models on any number of chips.

        Args:
            target: shape of the served model.
            draft: shape of the draft, if there is one.
            key: of both models' weights.
            degree: chips over which the target is sharded.
            draft_degree: chips over which the draft is sharded; those of the target unless given.
            devices: where to run; the first of ``jax.devices()`` unless given.

        Raises:
            RefusedError: a shape that is not executed, vocabularies that differ, or too few devices.
        """
        refuse_other_vocabulary(target, draft)
        mesh = chip_mesh(degree, draft_degree or degree, devices)
        target_key, draft_key = jax.random.split(key)
        placed = place_random(draft, draft_key, mesh, draft_degree or degree) if draft is not None else None
        return cls(place_random(target, target_key, mesh, degree), placed, mesh)

    @classmethod
    def of(
        cls,
        target: Decoder,
        draft: Decoder | None,
        degree: int = 1,
        draft_degree: int | None = None,
        devices: Sequence[Any] | None = None,
    ) -> Pair:
        """Given weights, of one-chip models; arguments and errors as of :meth:`random`."""
        refuse_other_vocabulary(target.spec, draft.spec if draft is not None else None)
        mesh = chip_mesh(degree, draft_degree or degree, devices)
        placed = place(draft, mesh, draft_degree or degree) if draft is not None else None
        return cls(place(target, mesh, degree), placed, mesh)

    @property
    def models(self) -> tuple[Decoder, Decoder | None]:
        """Target and draft, as compiled programs take them."""
        return self.target, self.draft

    @property
    def specs(self) -> tuple[Any, Any]:
        """PartitionSpecs of :attr:`models`."""
        return weight_specs(self.target), weight_specs(self.draft) if self.draft is not None else None

    def without_draft(self) -> Pair:
        """The target alone."""
        return replace(self, draft=None)

    def state_specs(self, setting: Setting) -> DecodeState:
        """PartitionSpecs of a DecodeState: the caches are split by KV head, all else is the same on every chip."""
        same: Any = PartitionSpec()
        return DecodeState(
            key=same,
            tokens=same,
            emitted=same,
            limit=same,
            prompt_tokens=same,
            last_two=same,
            rounds=same,
            accepted=same,
            unforced_accepted=same,
            target_cache=cache_spec(self.target),
            draft_cache=cache_spec(self.draft) if setting.lookahead and self.draft is not None else None,
            pace=same,
        )


def refuse_other_vocabulary(target: ModelSpec, draft: ModelSpec | None) -> None:
    """Draft and target must have one vocabulary.

    Raises:
        RefusedError: they do not.
    """
    if draft is not None and draft.vocabulary != target.vocabulary:
        words = f"{draft.name} has {draft.vocabulary:,} tokens, {target.name} {target.vocabulary:,}"
        raise RefusedError(f"draft and target need one vocabulary: {words}")
