"""The fit: bounded robust linear least squares of relative errors, for every number of chips on its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from simulator.calibration.form import ATTENTION, BYTE, FLOP, KV, SECONDS, SIGNED, Form, form_of, uncertainty
from simulator.calibration.timed import Predictor
from simulator.errors import MeasurementError
from simulator.fitting import NINE_IN_TEN, LinearFit, fit_linear
from simulator.spec.hardware import Calibration, HardwareProfile
from simulator.spec.probe import HostDescription, ProbeRecord
from simulator.units import format_quantity

Array = npt.NDArray[np.float64]
Kinds = npt.NDArray[np.str_]

MOST_KNOTS = 8
FITTED = ("decode_step", "forward", "first_draft_step", "verification", "round")
LEAST = 8
"""Records of passes that a fit needs."""
SHARED = 10
"""As many records of its own a component needs to count as much as what all components show."""
BEND = 0.2
"""By how much of the usual time of a byte its arithmetic strays from a line over the rows: a standard deviation."""
REWEIGHTED = 1
NOISIER, NOISIEST = 1.75, 5.0
"""From how many times the usual error a kind counts as noisy, and by how much less at most its errors then weigh."""
LEAST_NOISE = 0.25
"""Share of the half-width of a program's own windows that the noise of its median is at least."""
COMPONENTS = {
    "plain_step": ("decode_step",),
    "draft_step": ("decode_step",),
    "verify_step": ("forward",),
    "draft_first_step": ("first_draft_step",),
    "sampling": ("verification",),
    "round": ("round",),
}
"""Of which records a component's spread is learnt."""


def calibrate(
    probes: Sequence[ProbeRecord], profile: HardwareProfile, name: str, date: dt.date | None = None
) -> HardwareProfile:
    """``profile`` with a calibration ``name`` fitted to ``probes``, one set of parameters a chip count.

    Raises:
        MeasurementError: no probe, or too few of a kind to fit anything.
    """
    if not probes:
        raise MeasurementError("no probe record to calibrate with")
    counts = sorted({probe.chips for probe in probes})
    solved = [_solve([p for p in probes if p.chips == chips], Predictor(profile)) for chips in counts]
    residuals = np.concatenate([fit.residuals for _, fit, _ in solved])
    names = [f"{name.replace('_', ' ')} on {form.chips}" for form, _, _ in solved for name in form.names]
    data: dict[str, Any] = {
        "description": "Fitted to probes of this host: decoder steps, verification, rounds, all-reduces.",
        "source": f"{len(probes)} probe records of {_host_words(probes[0].host)}",
        "free_parameters": len(names),
        "free_parameter_names": tuple(names),
        "fitted_values": len(residuals),
        "residual": float(np.sqrt(np.mean(residuals**2))),
        "assumptions": (
            "attention reads the whole allocated cache, as the runtime does",
            "the first draft step of a round finds its weights evicted by the target's",
            "one row is multiplied at the rate of memory; with more rows, arithmetic adds to it",
            "an all-reduce takes as long between layers as in a loop of its own",
        ),
        "records": tuple(probe.id for probe in probes),
        "cache_read": "allocated",
        "validity": _validity(probes),
        "parameters": tuple(form.to_yaml(_named(form, fit)) for form, fit, _ in solved),
    } | ({} if date is None else {"date": date})
    fitted = Calibration.model_validate(data)
    sure = tuple(uncertainty(form, _named(form, fit), fit.covariance, spread) for form, fit, spread in solved)
    fitted = fitted.model_copy(update={"uncertainty": sure})
    return profile.model_copy(update={"calibrations": {**profile.calibrations, name: fitted}})


def host_profile(profile: HardwareProfile, host: HostDescription) -> HardwareProfile:
    """A CPU profile whose bounds, stated for two cores, are scaled to the host's cores and memory."""
    data = profile.model_dump(mode="json", exclude={"calibrations"}, exclude_defaults=True)
    scale, peaks = host.cores / 2, profile.peaks
    note = f"; scaled to {host.cores} cores"
    data["peaks"]["hbm_bandwidth"] = {
        "value": format_quantity(peaks.hbm_bandwidth.value_bytes_per_s * scale, "B/s"),
        "source": peaks.hbm_bandwidth.source + note,
    }
    for dtype, rate in peaks.matmul.items():
        data["peaks"]["matmul"][dtype]["value"] = format_quantity(rate.value_flop_per_s * scale, "FLOP/s")
        data["peaks"]["matmul"][dtype]["source"] = rate.source + note
    if host.memory_bytes:
        data["peaks"]["hbm_capacity"] = {
            "value": format_quantity(float(host.memory_bytes), "B"),
            "source": "what the operating system reports",
        }
    return HardwareProfile.model_validate(data)


def solve(records: Sequence[ProbeRecord], predictor: Predictor, form: Form) -> LinearFit:
    """Fit the numbers of ``form`` to ``records``; relative errors weigh alike, but less in a kind that is noisier."""
    matrix, constant = predictor.linear(records, form)
    windows = [(record.time.high - record.time.low) / 2 / record.time.median for record in records]
    least = LEAST_NOISE * float(np.median(windows))
    kinds = np.array([record.kind for record in records])
    return solve_linear(matrix, constant, np.array([record.time.median for record in records]), form, kinds, least)


def solve_linear(
    matrix: Array, constant: Array, measured: Array, form: Form, kinds: Kinds, least_noise: float = 0.0
) -> LinearFit:
    """Numbers of ``form`` for which ``matrix @ numbers + constant`` is about ``measured``, of records of ``kinds``."""
    signed = [form.names.index(name) for name in SIGNED]

    def weighted(usual: Array, noise: Array) -> LinearFit:
        scale = usual * noise
        beliefs = _beliefs(form, matrix, usual)
        fit = fit_linear(matrix / scale[:, None], (measured - constant) / scale, beliefs, least_noise, signed)
        return replace(fit, residuals=fit.residuals * noise)

    fit = weighted(measured, np.ones(len(measured)))
    for _ in range(REWEIGHTED):
        # Relative to what is predicted: relative to what was measured, times that came out short would count more.
        usual = np.maximum(matrix @ fit.values + constant, 0.2 * measured)
        fit = weighted(usual, _noise_of_kinds(fit, kinds))
    return fit


def _noise_of_kinds(fit: LinearFit, kinds: Kinds) -> Array:
    """How much noisier than the others the records of each kind are; 1 where that may be chance."""
    off = np.abs(fit.residuals) / np.sqrt(1 - fit.leverage)
    overall, noise = max(float(np.median(off)), 1e-12), np.ones(len(off))
    for kind in set(kinds.tolist()):
        own = kinds == kind
        if own.sum() >= LEAST:
            ratio = float(np.median(off[own])) / overall
            # Medians of a dozen records differ by a half through chance alone.
            noise[own] = min(ratio, NOISIEST) if ratio > NOISIER else 1.0
    return noise


def spreads(records: Sequence[ProbeRecord], fit: LinearFit) -> dict[str, float]:
    """By component, how far nine in ten of the records it is learnt from lie off, over 1.645; fitting discounted."""
    off = np.abs(fit.residuals) / np.sqrt(1 - fit.leverage)
    freedom = max(len(records) - float(fit.leverage.sum()), 1.0)
    wider = float(stdtrit(freedom, 0.95)) / NINE_IN_TEN
    overall = float(np.quantile(off, 0.9)) / NINE_IN_TEN
    found = {}
    for component, kinds in COMPONENTS.items():
        own = off[[record.kind in kinds for record in records]]
        spread = float(np.quantile(own, 0.9)) / NINE_IN_TEN if len(own) else overall
        # A handful of records says little of nine in ten: what all show together counts as many more.
        shared = (len(own) * spread**2 + SHARED * overall**2) / (len(own) + SHARED)
        found[component] = round(wider * float(np.sqrt(shared)), 5)
    return found


def _solve(probes: Sequence[ProbeRecord], predictor: Predictor) -> tuple[Form, LinearFit, dict[str, float]]:
    chips = probes[0].chips
    passes = [p for p in probes if p.kind in ("decode_step", "forward")]
    if len(passes) < LEAST:
        raise MeasurementError(
            f"only {len(passes)} probe records of passes on {chips} chips; a fit needs {LEAST} or more"
        )
    # A curve of many points through few shapes would follow their noise.
    form = form_of(probes, lambda model: predictor.footprint(model, chips), min(MOST_KNOTS, max(2, len(passes) // 3)))
    timed = [probe for probe in probes if probe.kind in FITTED]
    fit = solve(timed, predictor, form)
    return form, fit, spreads(timed, fit)


def _named(form: Form, fit: LinearFit) -> dict[str, float]:
    return dict(zip(form.names, fit.values.tolist(), strict=True))


def _beliefs(form: Form, matrix: Array, measured: Array) -> Array:
    """What is believed of the numbers before they are fitted, weakly: sums that should be about 0.

    The curve of bandwidth bends little between its points, cached keys and values come about as fast as weights, the
    time of a flop follows a line over the rows, and every number has about the size at which it would explain a part of
    what was measured.
    """
    names = form.names
    column = {name: index for index, name in enumerate(names)}
    curve = [column[f"{BYTE}{index + 1}"] for index in range(len(form.knots))]
    usual = _usual(matrix[:, curve], measured)
    rows: list[Array] = []

    def believe(spread: float, **weights: float) -> None:
        row = np.zeros(len(names))
        for name, weight in weights.items():
            row[column[name]] = weight / spread
        rows.append(row)

    for first, middle, last in zip(curve, curve[1:], curve[2:], strict=False):
        row = np.zeros(len(names))
        row[[first, middle, last]] = np.array([1.0, -2.0, 1.0]) / usual
        rows.append(row)
    if curve:
        believe(usual, **{KV: 1.0, names[curve[-1]]: -1.0})
    a_byte = {n: _byte_of(matrix, curve, column[f"{FLOP}{n}"]) for n in form.rows}
    for few, between, more in zip(form.rows, form.rows[1:], form.rows[2:], strict=False):
        # What a byte of weights costs beyond reading it: packing it, the same for all, and arithmetic, as many rows.
        near = (more - between) / (more - few)
        weights = {few: -near, between: 1.0, more: near - 1.0}
        believe(BEND * usual, **{f"{FLOP}{n}": weight * a_byte[n] for n, weight in weights.items()})
    for name in (ATTENTION, *SECONDS):
        size = _usual(matrix[:, [column[name]]], measured)
        believe(size, **{name: 1.0})
    return np.array(rows)


def _byte_of(matrix: Array, curve: Sequence[int], flop: int) -> float:
    """How much of the time of a byte one unit of the time of a flop makes, in passes of that many rows."""
    alone = (matrix[:, flop] > 0) & (matrix[:, curve].sum(axis=1) > 0)
    return float(np.median(matrix[alone, flop] / matrix[np.ix_(alone, curve)].sum(axis=1))) if alone.any() else 1.0


def _usual(columns: Array, measured: Array) -> float:
    """The number that, standing in these columns, would explain all of a typical record that depends on them."""
    summed = columns.sum(axis=1)
    touched = summed > 0
    return float(np.median(measured[touched] / summed[touched])) if touched.any() else 1.0


def _host_words(host: HostDescription) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(host.versions.items()))
    return f"{host.processor or host.device}, {host.cores} cores, {versions}"


def _validity(probes: Sequence[ProbeRecord]) -> dict[str, Any]:
    models = [(probe, probe.model) for probe in probes if probe.model is not None and probe.kind != "verification"]
    models += [(probe, probe.partner) for probe in probes if probe.partner is not None]
    seen = {
        "chips": [float(probe.chips) for probe in probes],
        "layers": [float(model.layers) for _, model in models],
        "width": [float(model.d_model) for _, model in models],
        "rows": [float(probe.rows) for probe, _ in models],
        "positions": [0.0, *(float(p.positions) for p in probes)],
        "weight_bytes_per_chip": [m.streamed_parameters * m.weight_bytes / p.chips for p, m in models],
        "payload_bytes": [0.0, *(p.payload_bytes for p in probes if p.kind == "all_reduce")],
    }
    if not any(probe.kind == "all_reduce" for probe in probes):
        del seen["payload_bytes"]
    return {axis: {"low": min(values), "high": max(values)} for axis, values in seen.items() if values}
