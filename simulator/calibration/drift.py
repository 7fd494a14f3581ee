"""Drift between processes, seen by controls and taken out.

One program takes up to a fifth longer in one process than in the next: pages of memory lie otherwise, a neighbour is
busy. Every process of a design times the same few controls, decode steps of models of several sizes. By how much they
are slow or fast in a process is taken out of what else it timed, at the size of each model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.calibration.timed import Predictor
from simulator.spec.model import ModelSpec
from simulator.spec.probe import ProbeRecord

STREAMING = ("decode_step", "forward", "first_draft_step", "round", "generation")
"""Kinds that stream weights; the others hardly touch memory."""


def steadied(records: Sequence[ProbeRecord], predictor: Predictor) -> list[ProbeRecord]:
    """``records`` as they would have been in a process whose controls take their median over all processes.

    The factor is interpolated between the controls in the logarithm of the footprint. Records of processes without a
    control stay as they are.
    """
    factors = {
        (chips, process): _factors(records, predictor, chips, process)
        for chips, process in {(r.chips, r.process) for r in records}
    }
    found = []
    for record in records:
        sizes, logs = factors[record.chips, record.process]
        if not sizes or record.kind not in STREAMING:
            found.append(record)
            continue
        models: list[ModelSpec] = [m for m in (record.model, record.partner) if m is not None]
        footprint = max(predictor.footprint(model, record.chips) for model in models)
        factor = float(np.exp(np.interp(np.log(footprint), sizes, logs)))
        time = record.time
        scaled = {"median": time.median / factor, "low": time.low / factor, "high": time.high / factor}
        found.append(record.model_copy(update={"time": time.model_copy(update=scaled)}))
    return found


def _factors(
    records: Sequence[ProbeRecord], predictor: Predictor, chips: int, process: str
) -> tuple[list[float], list[float]]:
    """Logarithms of footprint and of slowness, by rising footprint, of the controls of one process."""
    keys = {r.key for r in records if r.role == "control"}
    controls = [r for r in records if r.key in keys and r.chips == chips]
    usual = {
        key: float(np.median([r.time.median for r in controls if r.key == key])) for key in {r.key for r in controls}
    }
    pairs = sorted(
        (float(np.log(predictor.footprint(r.model, chips))), float(np.log(r.time.median / usual[r.key])))
        for r in controls
        if r.process == process
    )
    return [size for size, _ in pairs], [log for _, log in pairs]
