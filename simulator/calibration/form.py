"""The parameters of a calibration as a list of numbers in which every predicted time is linear.

What is fitted is time, not rate: 1 over an efficiency, seconds of an overhead. With memory and arithmetic adding up
(``overlap`` 0) each predicted time is then a sum of products of one number and one count, so that a fit is a linear
least-squares problem with one optimum, and its covariance is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.spec.confidence import Uncertainty
from simulator.spec.hardware import CostParameters
from simulator.spec.probe import ProbeRecord
from simulator.units import format_quantity

SECONDS = (
    "step_overhead",
    "layer_overhead",
    "layer_overhead_many_rows",
    "round_overhead",
    "sampling_base",
    "sampling_per_logit",
    "verification_base",
    "verification_per_logit",
)
"""Numbers in seconds; the others are relative to the profile's peaks."""
SIGNED = ("round_overhead",)
"""Those that may be negative."""
KV, ATTENTION = "time_a_kv_byte", "time_an_attention_flop"
BYTE, FLOP = "time_a_byte_", "time_a_flop_"
FREE = 1e-3
"""Time of a flop at one row: the product of a matrix and a vector waits for memory and for nothing else."""
FASTEST = 2e-3
"""No efficiency is fitted above 1 over it."""


@dataclass(frozen=True)
class Form:
    """Which numbers there are for one number of chips."""

    chips: int
    knots: tuple[float, ...]
    """Footprints in bytes at which the curve of bandwidth has its points."""
    rows: tuple[int, ...]
    """Rows, from 2, at which that of arithmetic has its points."""
    all_reduce: tuple[tuple[float, float], ...] = ()
    """Payload in bytes and seconds of measured all-reduces; not fitted."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        curve = [f"{BYTE}{index + 1}" for index in range(len(self.knots))]
        return (*curve, KV, ATTENTION, *(f"{FLOP}{rows}" for rows in self.rows), *SECONDS)

    def parameters(self, values: Mapping[str, float]) -> CostParameters:
        """The parameters of a profile that stand for ``values``."""
        return CostParameters.model_validate(self.to_yaml(values))

    def to_yaml(self, values: Mapping[str, float]) -> dict[str, Any]:
        """The same as a profile's YAML has them."""
        curve = [
            {"footprint": format_quantity(size, "B"), "efficiency": 1 / max(values[f"{BYTE}{index + 1}"], FASTEST)}
            for index, size in enumerate(self.knots)
        ]
        rates = [{"rows": 1, "efficiency": 1 / FREE}]
        rates += [{"rows": n, "efficiency": 1 / max(values[f"{FLOP}{n}"], FASTEST)} for n in self.rows]
        seconds = {
            n: format_quantity(float(values[n]) if n in SIGNED else max(float(values[n]), 0.0), "s") for n in SECONDS
        }
        data: dict[str, Any] = {
            "chips": self.chips,
            "hbm_efficiency": tuple(curve),
            "kv_efficiency": 1 / max(values[KV], FASTEST),
            "matmul_efficiency": tuple(rates),
            "attention_efficiency": 1 / max(values[ATTENTION], FASTEST),
            "overlap": 0.0,
            "step_overhead": seconds["step_overhead"],
            "layer_overhead": seconds["layer_overhead"],
            "layer_overhead_many_rows": seconds["layer_overhead_many_rows"],
            "round_overhead": seconds["round_overhead"],
            "sampling": {"base": seconds["sampling_base"], "per_logit": seconds["sampling_per_logit"]},
            "verification": {"base": seconds["verification_base"], "per_logit": seconds["verification_per_logit"]},
        }
        if self.all_reduce:
            table = [
                {"payload": format_quantity(payload, "B"), "time": format_quantity(seconds_each, "s")}
                for payload, seconds_each in self.all_reduce
            ]
            data["all_reduce"] = {"algorithm": "table", "table": tuple(table)}
        return data


def values_of(parameters: CostParameters) -> tuple[Form, dict[str, float]]:
    """The form and the numbers of parameters that were made by :meth:`Form.parameters`."""
    curve, rates = parameters.hbm_efficiency, parameters.matmul_efficiency
    points = curve if isinstance(curve, tuple) else ()
    rows = rates if isinstance(rates, tuple) else ()
    table = parameters.all_reduce.table if parameters.all_reduce is not None else ()
    form = Form(
        parameters.chips or 1,
        tuple(point.footprint_bytes for point in points),
        tuple(point.rows for point in rows if point.rows > 1),
        tuple((point.payload_bytes, point.time_s) for point in table),
    )
    verification = parameters.verification or parameters.sampling
    attention = parameters.attention_efficiency
    values = {ATTENTION: 1 / attention if isinstance(attention, float) else 1.0}
    values |= {f"{BYTE}{index + 1}": 1 / point.efficiency for index, point in enumerate(points)}
    values |= {f"{FLOP}{point.rows}": 1 / point.efficiency for point in rows if point.rows > 1}
    values |= {
        KV: 1 / (parameters.kv_efficiency or 1.0),
        "step_overhead": parameters.step_overhead_s,
        "layer_overhead": parameters.layer_overhead_s,
        "layer_overhead_many_rows": parameters.layer_overhead_many_rows_s,
        "round_overhead": parameters.round_overhead_s,
        "sampling_base": parameters.sampling.base_s,
        "sampling_per_logit": parameters.sampling.per_logit_s,
        "verification_base": verification.base_s,
        "verification_per_logit": verification.per_logit_s,
    }
    return form, values


def form_of(records: Sequence[ProbeRecord], footprint: Any, most_knots: int = 8) -> Form:
    """The numbers that ``records``, all of one number of chips, can tell.

    Args:
        records: what is fitted to.
        footprint: model -> bytes that its memory streams.
        most_knots: points of the curve of bandwidth, at most.
    """
    passes = [r for r in records if r.kind in ("decode_step", "forward")]
    sizes = [footprint(record.model) for record in passes if record.rows == 1]
    drafted = {2 * record.batch for record in records if record.kind in ("round", "first_draft_step")}
    verified = {record.rows for record in records if record.kind == "round"}
    rows = sorted(({record.rows for record in passes} | drafted | verified) - {1})
    payloads: dict[float, list[float]] = {}
    for record in records:
        if record.kind == "all_reduce":
            payloads.setdefault(record.payload_bytes, []).append(record.time.median)
    table = tuple((size, sum(found) / len(found)) for size, found in sorted(payloads.items()))
    return Form(records[0].chips, _knots(sizes, most_knots), tuple(rows), table)


def _knots(footprints: Sequence[float], most: int) -> tuple[float, ...]:
    """Where the curve over the footprint has its points: one for all shapes of about one size.

    Shapes of one size then share an efficiency, and what tells them apart is the cost of their layers.
    """
    same = 1.25
    while True:
        groups: list[list[float]] = []
        for size in sorted(set(footprints)):
            if groups and size < same * groups[-1][0]:
                groups[-1].append(size)
            else:
                groups.append([size])
        if len(groups) <= most:
            return tuple(float(_geometric_mean(group)) for group in groups)
        same *= 1.05


def _geometric_mean(values: Sequence[float]) -> float:
    product = 1.0
    for value in values:
        product *= value ** (1 / len(values))
    return round(product)


def uncertainty(form: Form, values: Mapping[str, float], covariance: Any, residual: Mapping[str, float]) -> Uncertainty:
    """What a profile's YAML says of the errors of a fit; ``covariance`` is in the order of ``form.names``."""
    names = form.names
    errors = [float(covariance[i][i]) ** 0.5 for i in range(len(names))]
    correlation = tuple(
        tuple(
            round(float(covariance[i][j]) / (errors[i] * errors[j]), 7) if errors[i] * errors[j] > 0 else 0.0
            for j in range(i)
        )
        for i in range(len(names))
    )
    return Uncertainty.model_validate(
        {
            "chips": form.chips,
            "parameters": names,
            "values": tuple(float(values[name]) for name in names),
            "standard_errors": tuple(errors),
            "correlation": correlation,
            "residual": dict(residual),
        }
    )
