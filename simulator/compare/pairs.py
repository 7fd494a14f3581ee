"""Which record is set against which, and why the rest is not.

Records pair when they ask the same question: the same models, chips, decoding, acceptance and workload on hardware
of the same name. The calibration does not count, since a prediction has one and a measurement does not; nor do the
name, the description, the seed, the published values and the measured steps that a prediction is anchored to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.compare.views import View, label

# From computed to observed: of two records, the later kind is the one to be met.
_RANK = {"analytic": 0, "simulated": 1, "compiled": 2, "published": 3, "measured": 4}


@dataclass(frozen=True)
class Pair:
    """A record and what it is set against."""

    predicted: View
    reference: View


@dataclass(frozen=True)
class NotCompared:
    """Something that is in the records and not in the rows."""

    what: str
    why: str
    points: int = 1


def pairs(views: Sequence[View]) -> tuple[list[Pair], list[NotCompared]]:
    """Every pair to compare, in the order of ``views``, and the records that have no partner."""
    groups: dict[str, list[View]] = {}
    for view in views:
        groups.setdefault(view.key, []).append(view)
    found: list[Pair] = []
    alone: list[View] = []
    missing: list[NotCompared] = []
    for group in groups.values():
        usable = [view for view in group if view.record.status.state == "ok" or view.record.metrics]
        missing += [_unusable(view) for view in group if view not in usable]
        if len(usable) < 2:
            alone += usable
            continue
        reference = max(usable, key=lambda view: _RANK[view.record.kind])
        found += [Pair(view, reference) for view in usable if view is not reference]
    return found, missing + list(_unmatched(alone, views))


def _unusable(view: View) -> NotCompared:
    status = view.record.status
    return NotCompared(f"{view.record.kind} {label(view)}", status.reason or status.state.replace("_", " "))


def _unmatched(alone: Sequence[View], views: Sequence[View]) -> Iterator[NotCompared]:
    """Why each lonely record is so: nothing like it, or a namesake that differs, and in what."""
    for view in alone:
        if view.record.kind == "compiled":
            continue  # it needs no partner: simulator.compare.compiled counts for it
        same_place = (
            other
            for other in views
            if other is not view
            and other.record.kind != view.record.kind
            and other.record.axes == view.record.axes
            and other.scenario.name == view.scenario.name
        )
        namesake = next(same_place, None)
        why = "no record asks the same question"
        if namesake is not None:
            why = f"the {namesake.record.kind} record of this point differs in {_differences(view, namesake)}"
        yield NotCompared(f"{view.record.kind} {label(view)}", why)


def _differences(one: View, other: View) -> str:
    found = list(_paths(one.asked, other.asked))
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def _paths(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Dotted paths at which two questions differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from _paths(one.get(name), other.get(name), f"{path}.{name}".lstrip("."))
    elif one != other:
        yield path
