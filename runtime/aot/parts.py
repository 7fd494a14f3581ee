"""Which part of a model an argument or an operation belongs to, in the words of the cost model's operations.

`simulator/cost/operations.py` counts ``qkv``, ``attention`` (keys and values), ``distances``, ``output``,
``feed_forward``, ``experts``, ``head`` and ``embedding``; beside them stand ``norm``, ``sampling`` and ``other``.
"""

from __future__ import annotations

import re
from typing import Final

from runtime.aot.hlo import Module, Operation

OTHER: Final = "other"
ATTENTION_PARTS: Final = frozenset({"attention", "distances"})
MATRIX_PARTS: Final = frozenset({"qkv", "output", "feed_forward", "experts", "head"})
CACHE_WORDS: Final = ("keys", "values")

# Of the words of an argument's path, such as target.layers.0.qkv.value or cache.keys[0]; the last known one counts.
_ARGUMENTS = {
    "qkv": "qkv",
    "qkv_scale": "qkv",
    "keys": "attention",
    "values": "attention",
    "distances": "distances",
    "distance": "distances",
    "output": "output",
    "output_scale": "output",
    "up": "feed_forward",
    "up_scale": "feed_forward",
    "down": "feed_forward",
    "down_scale": "feed_forward",
    "experts": "experts",
    "router": "experts",
    "head": "head",
    "embedding": "embedding",
    "positions": "embedding",
    "attention_norm": "norm",
    "feed_forward_norm": "norm",
    "final_norm": "norm",
}
_SCOPES = {
    "embedding": "embedding",
    "norm": "norm",
    "qkv": "qkv",
    "cache": "attention",
    "attention": "attention",
    "distances": "distances",
    "output": "output",
    "up": "feed_forward",
    "down": "feed_forward",
    "experts": "experts",
    "head": "head",
    "sampling": "sampling",
}
# Where no scope is named, the function in which an operation was written; innermost first.
_FUNCTIONS = {
    "distance_scores": "distances",
    "attend": "attention",
    "append": "attention",
    "rotate": "attention",
    "Layer._heads": "attention",
    "rms_norm": "norm",
    "Decoder._embed": "embedding",
    "Decoder._part_of_logits": "head",
    "Share.gather_last": "head",
    "likeliest_of_shards": "head",
    "Layer._feed_forward": "feed_forward",
    "RoutedFeedForward.__call__": "experts",
    "Layer._attention": "attention",
    "Sampling.filter": "sampling",
    "Sampling.choose": "sampling",
    "judge": "sampling",
}
_LAYER_FUNCTION = "Layer.__call__"
_WORD = re.compile(r"[a-z_]+")


def part_of_argument(path: str) -> str:
    """The part that reads an argument, by its path; ``other`` for tokens, cursors and what nobody knows."""
    words = [_ARGUMENTS[word] for word in _WORD.findall(path) if word in _ARGUMENTS]
    if "experts" in words:
        return "experts"
    return words[-1] if words else OTHER


def model_of(path: str) -> str:
    """``draft`` or ``target``: whose argument it is, or whose operation by its scopes."""
    return "draft" if re.search(r"\bdraft", path) else "target"


def is_cache(path: str) -> bool:
    """Whether an argument holds keys or values of the sequences."""
    return any(word in _WORD.findall(path) for word in CACHE_WORDS)


def is_read_with_cache(path: str) -> bool:
    """Whether an argument is read as far as the cache is: keys, values, and the products of distances.

    The weights that those products were made of are no part of a step.
    """
    return is_cache(path) or "distances" in _WORD.findall(path)


def part_of_operation(module: Module, op: Operation) -> str:
    """The part in which an operation was written, by its scopes, or by the functions that were active."""
    for scope in reversed(op.op_name.split("/")):
        if scope in _SCOPES:
            return _SCOPES[scope]
    for function in module.traced_in(op):
        if function in _FUNCTIONS:
            return _FUNCTIONS[function]
    return OTHER


def in_layer(module: Module, op: Operation) -> bool:
    """Whether an operation belongs to a layer and not to what stands before and behind them."""
    return "layer" in op.op_name.split("/") or _LAYER_FUNCTION in module.traced_in(op)
