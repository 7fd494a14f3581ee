"""How `engines:` of hardware_profiles/*.yaml were fitted: host time of serving engines beside the kernels of a chip.

    python docs/calibrations/engines.py            # prints the fits and the errors of the rows that were not fitted
    python docs/calibrations/engines.py --write    # writes the profiles
    python docs/calibrations/engines.py --check    # fails where what is written is not what comes out

Which numbers are free stands in engines.yaml, the rows in scenarios/published, those with `use: fit`.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from simulator.files import settle
from simulator.fitting import Free, fit
from simulator.spec.engine import Engine
from simulator.spec.library import PROFILES
from simulator.spec.publication import load_all
from simulator.spec.scenario import Scenario
from simulator.units import format_quantity
from simulator.validation.published import Judged, judge

HERE = Path(__file__).resolve().parent
SCRIPT = "docs/calibrations/engines.py"
START, END = f"  # Written by {SCRIPT}, from here", "  # to here."
DATE = dt.date(2026, 11, 30)
FREE = {
    "fixed_times": Free(1.0, 0.0, 20.0),
    "memory": Free(0.7, 0.05, 2.0),
    "rows": Free(0.2, 0.0, 2.0),
    "collective": Free(5e-6, 0.0, 2e-3),
    "step": Free(5e-4, 0.0, 0.2),
    "draft_step": Free(5e-4, 0.0, 0.2),
    "round": Free(5e-4, -0.05, 0.2),
}


RATIOS = ("fixed_times", "memory", "rows")


@dataclass(frozen=True)
class Fitted:
    """One engine on one chip."""

    profile: str
    name: str
    engine: Engine
    fitted: tuple[Judged, ...]
    tested: tuple[Judged, ...]


def under(row: Judged, engine: Engine) -> Judged:
    """The row as predicted with this engine."""
    scenario = row.entry.scenario
    if scenario is None:
        return row
    hardware = scenario.deployment.hardware
    name = scenario.deployment.engine or ""
    known = hardware.model_copy(update={"engines": {**hardware.engines, name: engine}})
    deployment = scenario.deployment.model_copy(update={"hardware": known})
    changed: Scenario = scenario.model_copy(update={"deployment": deployment})
    entry = type(row.entry)(row.entry.row, changed, row.entry.place)
    return judge(row.about, entry)


def engine_of(asked: Mapping[str, Any], values: Mapping[str, float], rows: list[Judged]) -> Engine:
    """The engine with these numbers, as they are."""
    calibrations = {row.entry.scenario.deployment.calibration for row in rows if row.entry.scenario}
    (calibration,) = calibrations
    values = {**values, **{name: values[other] for name, other in asked.get("same", {}).items()}}
    sources = dict.fromkeys(row.about.source for row in rows)
    numbers = {name: value if name in RATIOS else format_quantity(value, "s") for name, value in values.items()}
    return Engine.model_validate(
        {
            "description": asked["description"],
            "source": "; ".join(sources),
            "date": DATE,
            "calibration": calibration or "datasheet",
            "free_parameters": len(asked["free"]),
            "assumptions": tuple(asked.get("assumptions", ())),
            "fitted_values": len(rows),
            "fitted_on": tuple(f"{row.about.name}: {row.entry.row.where}" for row in rows),
            **numbers,
        }
    )


def fitted(asked: Mapping[str, Any], rows: list[Judged]) -> Fitted:
    """Fit one engine to its rows that say so, and judge all of them."""
    own = [row for row in rows if (row.hardware, row.engine) == (asked["profile"], asked["engine"])]
    told = [row for row in own if row.entry.row.use == "fit"]
    if asked.get("plain"):
        told = [row for row in told if row.entry.scenario and row.entry.scenario.lookahead == 0]
    free = {name: FREE[name] for name in asked["free"]}
    if len(told) < len(free):
        raise ValueError(f"{asked['engine']}: {len(free)} numbers and {len(told)} rows")

    def residuals(values: Mapping[str, float]) -> npt.NDArray[np.float64]:
        engine = engine_of(asked, values, told)
        return np.array([under(row, engine).error or 0.0 for row in told])

    found = fit(residuals, free, robust=False).values
    # Microseconds, and four figures of a factor: what is written is what was judged.
    rounded = {name: round(value, 4 if name in RATIOS else 6) for name, value in found.items()}
    engine = engine_of(asked, rounded, told)
    tested = tuple(under(row, engine) for row in own if row.entry.row.use == "test")
    return Fitted(asked["profile"], asked["engine"], engine, tuple(under(row, engine) for row in told), tested)


def fits() -> list[Fitted]:
    """Every engine of engines.yaml."""
    rows = [judge(one.about, entry) for one in load_all() for entry in one.entries if entry.scenario]
    return [fitted(asked, rows) for asked in yaml.safe_load((HERE / "engines.yaml").read_text(encoding="utf-8"))]


def block(found: list[Fitted]) -> str:
    """The engines of one profile as YAML, between the two marks."""
    data = {one.name: one.engine.model_dump(mode="json", exclude_defaults=True) for one in found}
    text = yaml.safe_dump(data, sort_keys=False, width=116, allow_unicode=True)
    return "\n".join([START, *(f"  {line}".rstrip() for line in text.splitlines()), END]) + "\n"


def profile_with(text: str, written: str) -> str:
    """A profile's text with the engines between the marks replaced, or put at its end."""
    if START in text:
        before, _, rest = text.partition(START)
        return before + written + rest.partition(END + "\n")[2]
    return text.rstrip("\n") + "\nengines:\n" + written


def outputs(found: list[Fitted]) -> dict[Path, str]:
    """What has to stand in which profile."""
    files = {}
    for profile in dict.fromkeys(one.profile for one in found):
        path = PROFILES / f"{profile}.yaml"
        own = [one for one in found if one.profile == profile]
        files[path] = profile_with(path.read_text(encoding="utf-8"), block(own))
    return files


def main(arguments: list[str]) -> int:
    """Print, write or check."""
    found = fits()
    for one in found:
        numbers = {k: v for k, v in one.engine.model_dump(mode="json", exclude_defaults=True).items() if k in FREE}
        print(f"{one.profile} {one.name}: {numbers}")
        for row in (*one.fitted, *one.tested):
            error = f"{row.error:+.1%}" if row.error is not None else row.reason
            print(f"  {row.entry.row.use:4s} {row.about.name} {row.entry.row.where}: {error}")
    if stale := settle(outputs(found), arguments):
        print("not as fitted:", *stale)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
