"""What lies between Chen et al. 2023 and Pope et al. 2022, term by term; printed by pope_2022.py.

Each source's calibration predicts the other's rows. Then the rows of Pope are predicted as if they had run the way
Chen's program did, one difference at a time: matrices split in one dimension, attention split by heads, a serial block.
And of the numbers of either fit each in turn is replaced by that of the joint fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.cost.step import Machine
from simulator.spec.hardware import CostParameters, SamplingCost
from simulator.steps import Step

Array = npt.NDArray[np.float64]


def one_dimensional(step: Step) -> Step:
    """Matrices split over all chips by heads and F alone."""
    return replace(step, forward=replace(step.forward, width_parts=1))


def by_heads(step: Step) -> Step:
    """The one KV head on every chip, with all sequences."""
    return replace(step, forward=replace(step.forward, sequence_groups=1))


def serial(step: Step) -> Step:
    """Attention first, then the feed-forward of its sum."""
    return replace(step, model=step.model.model_copy(update={"block": "serial"}))


def as_chen(step: Step) -> Step:
    """All three."""
    return serial(by_heads(one_dimensional(step)))


def by_ring(step: Step) -> Step:
    """All-reduces and their kin over one ring of all chips that take part, as `chen-2023` has it."""
    known = step.machine.parameters
    if known.all_reduce is None:
        return step
    ring = known.all_reduce.model_copy(update={"algorithm": "ring"})
    machine: Machine = replace(step.machine, parameters=known.model_copy(update={"all_reduce": ring}))
    return replace(step, machine=machine)


CHANGES: dict[str, Callable[[Step], Step]] = {
    "one-dimensional weights": one_dimensional,
    "attention by heads": by_heads,
    "serial block": serial,
    "all three, as Chen's": as_chen,
    "one ring, not a torus": by_ring,
}


def seconds(cases: tuple[Any, ...], known: CostParameters, change: Callable[[Step], Step] = lambda step: step) -> Array:
    """Predicted times of single steps, changed after their parameters are known."""

    def one(step: Step) -> float:
        return change(replace(step, machine=replace(step.machine, parameters=known))).seconds

    return np.array([sum(count * one(step) for count, step in case.steps) for case in cases])


def replaced(own: Mapping[str, float], joint: Mapping[str, float]) -> dict[str, Mapping[str, float]]:
    """The numbers of one source as they are, with each of the joint ones, and with all of them."""
    each = {name: {**own, name: number} for name, number in joint.items()}
    return {"none": own, **each, "all": joint}


def report(
    cases: tuple[Any, ...],
    chen: tuple[Any, ...],
    values: Mapping[str, Mapping[str, float]],
    parameters: Callable[[Mapping[str, float]], CostParameters],
) -> Iterator[str]:
    """What is printed; ``values`` are the fitted numbers of each calibration."""
    committed = chen[0].steps[0][1].machine.parameters
    known = {name: parameters(numbers) for name, numbers in values.items()}
    published = np.array([case.published_s for case in cases])
    groups = dict.fromkeys(case.group for case in cases)
    members = {group: np.array([case.group == group for case in cases]) for group in groups}

    yield "fitted on Pope, tested on Chen: error of each value"
    for case in chen:
        yield f"  {case.name:34s} {case.seconds(known['pope-2022']) / case.published_s - 1:+6.1%}"
    nothing_drawn = committed.model_copy(update={"sampling": SamplingCost()})
    for name, numbers in (
        ("chen-2023, a ring", committed),
        ("chen-2023 without its time of a logit", nothing_drawn),
        ("Chen alone, in the joint form", known["chen alone"]),
    ):
        found = seconds(cases, numbers) / published - 1
        size = np.abs(found)
        yield f"fitted on Chen ({name}), tested on Pope: median {np.median(size):.1%}, worst {size.max():.1%}"
        for group, picked in members.items():
            yield f"  {' '.join(group):34s} mean {found[picked].mean():+6.1%}, worst {size[picked].max():.1%}"

    yield "rows of Pope under the joint numbers: what time would grow by, and the mean error then"
    base = seconds(cases, known["tpu-v4-2022"])
    for name, change in CHANGES.items():
        changed = seconds(cases, known["tpu-v4-2022"], change)
        parts = [
            f"{' '.join(group).removeprefix('palm-')} {np.median(changed[picked] / base[picked]) - 1:+.0%}"
            f" ({(changed[picked] / published[picked]).mean() - 1:+.0%})"
            for group, picked in members.items()
        ]
        yield f"  {name:24s} {', '.join(parts)}"

    yield "the numbers of pope-2022 with one of the joint ones: error on Chen's four values"
    for name, numbers in replaced(values["pope-2022"], values["tpu-v4-2022"]).items():
        known_then = parameters(numbers)
        found = np.array([case.seconds(known_then) / case.published_s - 1 for case in chen])
        yield f"  {name:24s} {' '.join(f'{error:+6.1%}' for error in found)}"

    yield "the numbers of Chen alone with one of the joint ones: mean error on Pope's decode and other rows"
    decoding = np.array([case.group[1] == "decode" for case in cases])
    for name, numbers in replaced(values["chen alone"], values["tpu-v4-2022"]).items():
        found = seconds(cases, parameters(numbers)) / published - 1
        yield f"  {name:24s} {found[decoding].mean():+6.1%} {found[~decoding].mean():+6.1%}"
