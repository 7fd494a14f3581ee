"""What an import gives as text: a file with a comment behind every inferred value, and the report beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from simulator.importing.hf_config import Imported
from simulator.importing.reader import LeftOut
from simulator.spec.commented import WIDTH, yaml_value
from simulator.spec.describe import keys_of
from simulator.spec.drafting import MedusaDraft
from simulator.spec.model import ModelSpec

_COLUMN = 34
_ALWAYS = ("tied_embeddings", "positions", "weight_dtype")
"""Told although they may be the default: a reader looks for them."""


def to_yaml(imported: Imported) -> str:
    """The file: a model, or for Medusa a part of a scenario that another can be based on."""
    if isinstance(imported.made, MedusaDraft):
        first = "Heads of Medusa: write `base:` and this file's name in a scenario, and no draft of its own."
        return _comment(first) + f"draft: {yaml_value(imported.values)}\n"
    reasons = {item.field: item.reason for item in imported.report.inferred}
    lines = [_comment(text) for text in _head(imported)]
    lines += [_line(key, value, reasons) for key, value in _in_order(imported.values)]
    return "".join(lines)


def _head(imported: Imported) -> Iterator[str]:
    yield "Written by `sps import model`; what the configuration did not say is marked as inferred."
    if "tokenizer" not in imported.values:
        yield "No config.json names a tokenizer: add `tokenizer:`, or sizes of vocabularies are compared."
    if imported.report.left_out:
        yield f"Left out: {'; '.join(item.what for item in imported.report.left_out)}."


def _in_order(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What was set, in the order of the schema, without what is the default anyway."""
    for key, field in keys_of(ModelSpec).items():
        if key in values and (key in _ALWAYS or field.is_required() or values[key] != field.default):
            yield key, values[key]


def _line(key: str, value: Any, reasons: Mapping[str, str]) -> str:
    said = [reasons[key]] if key in reasons else []
    said += [f"{inner}: {reasons[f'{key}.{inner}']}" for inner in _inner(value) if f"{key}.{inner}" in reasons]
    code = f"{key}: {yaml_value(value)}"
    if not said:
        return f"{code}\n"
    reason = f"inferred: {'; '.join(said)}"
    if len(code) + 2 <= _COLUMN and _COLUMN + len(reason) + 2 <= WIDTH:
        return f"{code.ljust(_COLUMN)}# {reason}\n"
    return _comment(reason) + f"{code}\n"


def _inner(value: Any) -> list[str]:
    return [str(key) for key in value] if isinstance(value, Mapping) else []


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False))


def report_lines(imported: Imported) -> list[str]:
    """The report, one line each: what it is, what was inferred and left out, and the sizes that follow."""
    report, made = imported.report, imported.made
    lines = [f"read: {imported.file} as {imported.family}{_known_of(made)}"]
    lines += [f"inferred: {item.field} = {_shown(item.value)}: {item.reason}" for item in report.inferred]
    if isinstance(made, ModelSpec):
        lines += [f"left out: {_left(item, made)}" for item in report.left_out]
        if made.tokenizer is None:
            lines.append("left out: tokenizer, which no config.json names; --tokenizer NAME sets it")
        lines += [f"note: {note}" for note in report.notes]
        return lines + _sizes(made)
    return lines + [f"note: {note}" for note in report.notes]


def _known_of(made: object) -> str:
    """What no configuration says of a family, and its code does."""
    if not isinstance(made, ModelSpec):
        return ""
    positions = "no" if made.positions == "none" else made.positions
    return f", whose code has {made.feed_forward} feed-forwards, {positions} positions and {made.block} blocks"


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else yaml_value(value)


def _left(item: LeftOut, made: ModelSpec) -> str:
    share = f": {item.weights:,} weights, {item.weights / made.parameters:.2g} of all" if item.weights else ""
    return f"{item.what}{share}{'; ' if item.reason else ''}{item.reason}"


def _sizes(made: ModelSpec) -> list[str]:
    lines = [
        f"parameters: {made.parameters:,} ({made.parameters / 1e9:.4g} B)",
        f"active parameters: {made.active_parameters:,}, LM head included, embedding not",
        f"KV cache: {made.kv_bytes_per_token:,.0f} bytes a token",
    ]
    if made.window is not None:
        window = f"beyond the window of {made.window.positions:,}"
        lines.append(f"KV cache {window}: {made.kv_bytes_per_far_token:,.0f} bytes a token")
    if made.recurrent is not None:
        lines.append(f"states: {made.state_bytes_per_sequence:,.0f} bytes a sequence")
    return lines
