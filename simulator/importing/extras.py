"""Weights that the schema has no place for: biases, and norms beyond one before each half of a layer.

They are named in the report with their share; all of them together are below 0.3 % of any model of use.
"""

from __future__ import annotations

from collections.abc import Callable

from simulator.importing.families import Family
from simulator.importing.reader import Reader
from simulator.spec.model import ModelSpec

Count = Callable[[ModelSpec], int]


def _attending(spec: ModelSpec) -> int:
    return spec.layers - spec.recurrent_layers


def _norms(spec: ModelSpec) -> int:
    return (1 if spec.block == "parallel" else 2) * spec.layers + 1


def _feed_forward_bias(spec: ModelSpec) -> int:
    return (spec.layers - spec.expert_layers) * ((spec.matrices - 1) * spec.d_ff + spec.d_model)


def _expert_bias(spec: ModelSpec) -> int:
    if spec.experts is None:
        return 0
    return spec.expert_layers * spec.experts.count * ((spec.matrices - 1) * spec.experts.d_ff + spec.d_model)


EXTRAS: dict[str, tuple[str, Count]] = {
    "qkv_bias": (
        "biases of queries, keys and values",
        lambda s: _attending(s) * s.head_dim * (s.heads + 2 * s.kv_heads),
    ),
    "output_bias": ("biases of the attention output", lambda s: _attending(s) * s.d_model),
    "ff_bias": ("biases of the feed-forwards", _feed_forward_bias),
    "expert_bias": ("biases of the experts", _expert_bias),
    "router_bias": ("biases of the routers", lambda s: s.expert_layers * (s.experts.count if s.experts else 0)),
    "norm_bias": ("biases of the norms", lambda s: _norms(s) * s.d_model),
    "head_bias": ("bias of the LM head", lambda s: s.vocabulary),
    "qk_norm": ("norms of queries and keys", lambda s: _attending(s) * 2 * s.head_dim),
    "wide_qk_norm": (
        "norms of queries and keys",
        lambda s: _attending(s) * s.head_dim * (s.heads + s.kv_heads),
    ),
    "post_norms": ("norms behind attention and feed-forward", lambda s: 2 * s.layers * s.d_model),
    "second_norm": (
        "a second norm of each parallel block",
        lambda s: 2 * s.layers * s.d_model * (s.block == "parallel"),
    ),
    "embedding_norm": ("the norm of the embedding", lambda s: 2 * s.d_model),
    "sinks": ("attention sinks", lambda s: s.layers * s.heads),
    "shared_gate": (
        "gates of the shared experts",
        lambda s: s.expert_layers * s.d_model * bool(s.experts and s.experts.shared_d_ff),
    ),
    "recurrent_rates": (
        "decay rates, their offsets and norms of the recurrent layers",
        lambda s: s.recurrent_layers * (2 * s.recurrent.value_heads + s.recurrent.value_dim) if s.recurrent else 0,
    ),
    "position_buckets": ("biases by distance, in buckets, in place of positions", lambda s: 64 * s.heads),
    "cross_norm": ("norms before the attention to the encoder", lambda s: s.layers * s.d_model),
}


def leave_extras(reader: Reader, family: Family, spec: ModelSpec) -> None:
    """Report what ``family`` has beside ``spec``."""
    for name, key in family.extras.items():
        what, count = EXTRAS[name]
        if _there(reader, key) and count(spec):
            reader.report.leave(what, count(spec))


def _there(reader: Reader, key: str) -> bool:
    """Whether the file, or the code of the family, says so."""
    if not key:
        return True
    if key.startswith("!"):
        return reader.flag(key[1:]) is not False
    return reader.flag(key) is True
