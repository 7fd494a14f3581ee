"""What `sps plan` leaves in its folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.files import ready, to_json, write

if TYPE_CHECKING:
    from simulator.plan import BestLookahead


_NESTED = ("model", "training", "serve")
"""Data of a candidate that are mappings, or None."""


def write_plan(folder: Path, data: Mapping[str, Any], html: str) -> list[Path]:
    """plan.json, plan.csv and plan.html, each whole or not at all; their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    ready(folder)
    return [
        write(folder / "plan.json", f"{to_json(data)}\n"),
        write(folder / "plan.csv", to_csv(data["candidates"])),
        write(folder / "plan.html", html),
    ]


def lookahead_data(best: BestLookahead | None) -> dict[str, Any] | None:
    """The best lookahead by batch and context as plain data."""
    return None if best is None else asdict(best)


def to_csv(candidates: Sequence[Mapping[str, Any]]) -> str:
    """A line for each candidate; what is nested in its data has a column for each part."""
    rows = [_flat(one) for one in candidates]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if name == "acceptance":
            flat |= dict(zip((name, f"{name}_low", f"{name}_high"), value or ("", "", ""), strict=True))
        elif name in _NESTED:
            flat |= {f"{name}.{part}": number for part, number in _flat(value or {}).items()}
        else:
            flat[name] = value
    return flat
