"""The text of a first scenario: what was asked and chosen, with the words of the schema beside every key."""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.spec import library
from simulator.spec.commented import Entry, entries, laid_out, yaml_value
from simulator.spec.explain import MORE_KEYS
from simulator.spec.named import Named
from simulator.spec.scenario import Scenario
from simulator.spec.topology import TorusTopology

SCHEMAS = library.SCENARIOS.parent / "docs" / "schema"
_MOST_CHIPS = 100_000
"""With more, or with none, the number of chips is what is wrong, and there is no slice to propose."""
LOOKAHEAD = 4
_LOOKAHEADS = (1, 2, 3, LOOKAHEAD, 5, 7)
_ACCEPTANCE = 0.7


@dataclass(frozen=True)
class Asked:
    """What the planner said; None where it is to be proposed."""

    model: str
    hardware: str
    chips: int
    draft: str | None = None
    batch: int | None = None
    prompt_tokens: int = 1024
    output_tokens: int = 128
    lookahead: int | None = None


@dataclass(frozen=True)
class Choice:
    """What is proposed beside it."""

    draft: str | None = None
    """The words that name the draft; None for plain decoding."""
    subset: bool = False
    """Whether the draft knows a part of the target's tokens alone."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Where the draft runs, as far as it is not where the target does."""
    calibration: str | None = None


def text_of(asked: Asked, target: Named, profile: Named, choice: Choice, notes: Mapping[str, str], folder: Path) -> str:
    """The scenario as YAML for a file in ``folder``; ``notes`` are what comments say besides, by dotted path."""
    said = {"acceptance.acceptance_rate": "An assumption: put in what you measured or expect"}
    if slice_of(profile, asked.chips):
        said["deployment.slice"] = "Proposed: as near to a cube as can be"
    if engines := profile.spec.engines:
        said["deployment.engine"] = f"Known on {profile.spec.name}: {', '.join(engines)}"
    lines = [*entries(Scenario, _values(asked, target, profile, choice), {**said, **notes}), *_more_keys(asked, choice)]
    if example := notes.get("draft.example"):
        comment = f"Instead, a smaller model with the same {target.spec.vocabulary:,} tokens"
        at = next(index for index, line in enumerate(lines) if line.path == ("deployment",))
        named = yaml_value({"kind": "model", "model": example})
        lines.insert(at, Entry(("draft",), f"draft: {named}", comment, 0))
    return f"{schema_line(folder)}\n{laid_out(lines)}"


def _values(asked: Asked, target: Named, profile: Named, choice: Choice) -> dict[str, Any]:
    question = f"{target.spec.name} on {asked.chips} x {profile.spec.name}"
    if choice.draft is not None:
        draft_name = Path(choice.draft).name.removesuffix(".yaml")
        question += f" with {draft_name} as its draft: does it pay, and at which lookahead?"
    workload = {"prompt_tokens": asked.prompt_tokens, "output_tokens": asked.output_tokens}
    deployment = {"hardware": profile.words, "chips": asked.chips, **slice_of(profile, asked.chips)}
    if choice.calibration is not None:
        deployment["calibration"] = choice.calibration
    if choice.where:
        deployment["draft"] = choice.where
    draft = {"kind": "model", "model": choice.draft, **({"vocabulary_map": "subset"} if choice.subset else {})}
    return {
        "name": _name(f"{target.spec.name}-{profile.spec.name}-{asked.chips}"),
        "description": question,
        "target": target.words,
        "draft": {"kind": "none"} if choice.draft is None else draft,
        "deployment": deployment,
        "decoding": {"lookahead": LOOKAHEAD if asked.lookahead is None else asked.lookahead},
        "acceptance": {"kind": "rate", "acceptance_rate": _ACCEPTANCE},
        "workload": workload if asked.batch is None else {"batch": asked.batch, **workload},
    }


def _more_keys(asked: Asked, choice: Choice) -> list[Entry]:
    """The keys of a file that are no part of a scenario, commented out; a sweep over K where none was asked for."""
    off = None if asked.lookahead is None and choice.draft is not None else 0
    return [
        Entry(("base",), "base: other.yaml", MORE_KEYS["base"].rstrip("."), 0),
        Entry(("sweep",), "sweep:", MORE_KEYS["sweep"].rstrip("."), off),
        Entry(("sweep", "decoding.lookahead"), f"decoding.lookahead: {yaml_value(_LOOKAHEADS)}", "", off),
    ]


def _name(words: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", words)[:80]


def slice_of(profile: Named, chips: int) -> dict[str, str]:
    """The slice that is proposed for so many chips, where they are connected as a torus."""
    topology = profile.spec.topology
    if not isinstance(topology, TorusTopology) or not 1 <= chips <= _MOST_CHIPS:
        return {}
    return {"slice": "x".join(map(str, most_cubic(chips, topology.axes)))}


@functools.cache
def most_cubic(chips: int, axes: int) -> tuple[int, ...]:
    """The sides, in rising order, of the slice of ``chips`` that is nearest to a cube: 16 on 3 axes -> 2, 2, 4."""
    divisors = [n for n in range(1, chips + 1) if chips % n == 0]
    found = [
        (*sides, chips // math.prod(sides))
        for sides in itertools.combinations_with_replacement(divisors, axes - 1)
        if chips % math.prod(sides) == 0
    ]
    rising = [sides for sides in found if list(sides) == sorted(sides)]
    return min(rising, key=lambda sides: (sum(sides), sides[-1]))


def schema_line(folder: Path, kind: str = "scenario") -> str:
    """The first line of a file in ``folder``: the schema that editors check it with, where there is one."""
    schema = SCHEMAS / f"{kind}.schema.json"
    if not schema.is_file():
        return f"# A {kind}; `sps explain KEY` says more about each key."
    home = SCHEMAS.parents[1]
    inside = folder.resolve().is_relative_to(home)
    where = Path(os.path.relpath(schema, folder.resolve())).as_posix() if inside else schema.as_uri()
    return f"# yaml-language-server: $schema={where}"
