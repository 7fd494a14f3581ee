"""What predictions were anchored to: measured steps beside the model's own, and where those may not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulator.compare import Comparison, View, label
from simulator.tables.wording import term_words
from simulator.units import human_time

_FAR = "far from the model: check that both mean the same step"
# By what was measured: the paths that make another step of it, and those below them that do not.
_WHERE = ("deployment", "workload.batch", "workload.prompt_tokens")
_CHANGES = {"plain_step": ("target", *_WHERE), "draft_step": ("draft", *_WHERE), "verify_step": ("target", *_WHERE)}
_KEEPS = {
    "plain_step": ("deployment.calibration", "deployment.draft"),
    "draft_step": ("deployment.calibration",),
    "verify_step": ("deployment.calibration", "deployment.draft"),
}


def anchored_to(view: View) -> str:
    """``measured plain step 7.07 ms (model alone 6.40 ms, x 1.10)`` and so on; empty where nothing was measured."""
    anchors = view.record.provenance.get("anchored")
    if not isinstance(anchors, Mapping):
        return ""
    measured = ", ".join(_measured(name, anchor) for name, anchor in _met(anchors))
    with_them: dict[str, list[str]] = {}
    for name, anchor in anchors.items():
        if "measured_s" not in anchor:
            at = f" (T {view.lookahead + 1})" if name == "verify_step" else ""
            how = f"x {anchor['factor']:.2f} {anchor['how']}"
            with_them.setdefault(how, []).append(f"{term_words(f'{name}_s')}{at}")
    shifted = ", ".join(f"{' and '.join(names)} {how}" for how, names in with_them.items())
    return f"measured {measured}" + (f"; so also {shifted}" if shifted else "")


def _met(anchors: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every step that was measured, by name."""
    for name in ("plain_step", "draft_step"):
        if name in anchors:
            yield term_words(name), anchors[name]
    for tokens, anchor in anchors.get("verify_step", {}).get("by_tokens", {}).items():
        yield f"verify step (T {tokens})", anchor


def _measured(name: str, anchor: Mapping[str, Any]) -> str:
    factor = anchor["factor"]
    far = "" if 0.5 <= factor <= 2 else f", {_FAR}"
    alone = f"model alone {human_time(anchor['predicted_s'])}, x {factor:.2f}{far}"
    return f"{name} {human_time(anchor['measured_s'])} ({alone})"


def anchor_warnings(views: Sequence[View]) -> list[str]:
    """A sentence for each sweep over what a measured step depends on: it was measured at one of the points."""
    paths = dict.fromkeys(path for view in views for path in view.record.axes)
    swept = [path for path in paths if len({str(view.record.axes.get(path)) for view in views}) > 1]
    touched = {path: [term_words(name) for name in _given(views) if _depends(name, path)] for path in swept}
    return [
        f"! measured {' and '.join(names)}: the same for every {path} of the sweep. It holds for one of them; the "
        f"others are shifted to a time that is not theirs"
        for path, names in touched.items()
        if names
    ]


def _given(views: Sequence[View]) -> list[str]:
    found = [view.scenario.measured for view in views if view.scenario.measured is not None]
    return [name for name in _CHANGES if any(getattr(measured, f"{name}_s") is not None for measured in found)]


def _depends(name: str, path: str) -> bool:
    """Whether another value at ``path`` makes another step of the one that was measured."""

    def below(part: str, whole: str) -> bool:
        return part == whole or part.startswith(f"{whole}.")

    if any(below(path, kept) for kept in _KEEPS[name]):
        return False
    return any(below(path, changing) or below(changing, path) for changing in _CHANGES[name])


def anchor_lines(comparison: Comparison) -> list[str]:
    """For each anchor of a prediction that is compared: that its agreement is no test."""
    points: dict[str, set[str]] = {}
    for view in comparison.views:
        if view.predicted and (words := anchored_to(view)):
            points.setdefault(words, set()).add(label(view))
    return [
        f"! anchored to {words}: how near these come to a measurement says nothing of the model "
        f"({len(where)} point{'s' * (len(where) != 1)})"
        for words, where in points.items()
    ]
