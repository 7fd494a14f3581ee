"""A hardware profile: what the datasheet says, and, apart from it, what somebody measured.

`peaks`, `topology` and `price` are facts with a source each. `calibrations` is a named set: a device, a publication, an
engine and version. A scenario names the one it uses; nothing measured is ever mixed into the peaks.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simulator.spec.confidence import Range, Uncertainty, ValidationClaim
from simulator.spec.engine import Engine
from simulator.spec.fields import (
    Bytes,
    Date,
    DType,
    Efficiency,
    Name,
    PositiveSeconds,
    Seconds,
    SignedSeconds,
    Source,
    Strict,
    mistake,
)
from simulator.spec.sourced import SourcedBandwidth, SourcedBytes, SourcedCount, SourcedFlopPerSecond, SourcedPrice
from simulator.spec.topology import Topology


class Peaks(Strict):
    """Datasheet figures of one chip."""

    hbm_bandwidth: SourcedBandwidth
    """Peak read rate of the memory that holds the weights."""
    hbm_capacity: SourcedBytes
    """Size of that memory."""
    hbm_usable: SourcedBytes | None = None
    """What of it a program may use, where that is known to be less."""
    on_chip_memory: SourcedBytes | None = None
    """Memory on the chip that holds prefetched weights."""
    tile: SourcedCount | None = None
    """To a multiple of how many columns matrices are padded, in memory and in the matrix unit; not, where absent."""
    matmul: Annotated[dict[DType, SourcedFlopPerSecond], Field(min_length=1)]
    """Peak dense matrix-multiply rate by type of the operands."""

    @model_validator(mode="after")
    def _usable_fits(self) -> Self:
        if self.hbm_usable is not None and self.hbm_usable.value_bytes > self.hbm_capacity.value_bytes:
            raise mistake("at most the value of hbm_capacity", "hbm_usable.value")
        return self


Rows = Annotated[int, Field(ge=1, le=10_000_000)]


def _increasing(key: str, points: tuple[tuple[float, float], ...], what: str) -> None:
    keys = [point for point, _ in points]
    if any(later <= earlier for earlier, later in itertools.pairwise(keys)):
        raise mistake(f"{what} in rising order, each once", key)


class EfficiencyPoint(Strict):
    """One point of a curve of efficiency over size."""

    footprint_bytes: Bytes
    """Bytes that one chip streams again and again: the weights of the step's model (and of the other model's)."""
    efficiency: Efficiency
    """Achieved over peak bandwidth. May exceed 1 where a cache holds the footprint."""


class RowPoint(Strict):
    """One point of the table T(n): how a weight-streaming matmul's time grows with the rows it multiplies."""

    rows: Rows
    """B x T."""
    factor: Efficiency
    """Time over the time at one row."""


class RowEfficiencyPoint(Strict):
    """One point of a curve of matrix-multiply efficiency over the rows that a weight is multiplied with."""

    rows: Rows
    """B x T."""
    efficiency: Efficiency
    """Achieved over peak matrix-multiply rate."""


class AllReducePoint(Strict):
    """A measured all-reduce."""

    payload_bytes: Bytes
    """Bytes that each chip contributes."""
    time_s: PositiveSeconds
    """Time of one all-reduce."""


class LargerAllReduce(Strict):
    """How an all-reduce is done from some payload on."""

    payload_bytes: Bytes
    """The smallest payload that is reduced this way."""
    algorithm: Literal["ring", "torus", "one_shot", "two_shot", "tree", "in_switch"]
    """As of `all_reduce`."""
    base_s: Seconds = 0.0
    """Fixed time of one all-reduce."""
    hop_latency_s: Seconds = 0.0
    """Time of one dependent hop."""
    link_efficiency: Efficiency = 1.0
    """Achieved over datasheet link bandwidth."""


class AllReduceCost(Strict):
    """An all-reduce by formula or by measured table."""

    algorithm: Literal["ring", "torus", "one_shot", "two_shot", "tree", "in_switch", "table"]
    """`ring` over all chips; `torus`, one ring an axis; `one_shot`, everyone to everyone; `two_shot`, everyone adds up
    a part and sends it to everyone; `tree`, up and down a binary tree; `in_switch`, added up by the switch; or a
    measured `table`."""
    base_s: Seconds = 0.0
    """Fixed time of one all-reduce (all but table)."""
    hop_latency_s: Seconds = 0.0
    """Time of one dependent hop (all but table)."""
    link_efficiency: Efficiency = 1.0
    """Achieved over datasheet link bandwidth (all but table)."""
    table: tuple[AllReducePoint, ...] = ()
    """Payload and time, rising (table)."""
    larger: tuple[LargerAllReduce, ...] = ()
    """How larger payloads are reduced, rising: libraries change the algorithm with the size."""

    @model_validator(mode="after")
    def _table_or_formula(self) -> Self:
        if (self.algorithm == "table") != bool(self.table):
            key = "table" if self.table else "algorithm"
            raise mistake("a table with the algorithm 'table', and none with the others", key)
        _increasing("table", tuple((p.payload_bytes, p.time_s) for p in self.table), "payloads")
        _increasing("larger", tuple((p.payload_bytes, p.base_s) for p in self.larger), "payloads")
        return self

    def slower(self, seconds: float) -> AllReduceCost:
        """The same with every all-reduce longer by ``seconds``."""
        later = tuple(one.model_copy(update={"base_s": one.base_s + seconds}) for one in self.larger)
        table = tuple(point.model_copy(update={"time_s": point.time_s + seconds}) for point in self.table)
        return self.model_copy(update={"base_s": self.base_s + seconds, "larger": later, "table": table})

    def by_payload(self) -> tuple[tuple[float, AllReduceCost], ...]:
        """The smallest payload of each algorithm, rising from 0, and its cost."""
        known = [(0.0, self.model_copy(update={"larger": ()}))]
        for one in self.larger:
            numbers = {
                "algorithm": one.algorithm,
                "base_s": one.base_s,
                "hop_latency_s": one.hop_latency_s,
                "link_efficiency": one.link_efficiency,
            }
            known.append((one.payload_bytes, self.model_copy(update={"larger": (), "table": (), **numbers})))
        return tuple(known)


class MessageCost(Strict):
    """A message from one chip to another."""

    base_s: Seconds = 0.0
    """Fixed time of one message, its hops included."""
    link_efficiency: Efficiency = 1.0
    """Achieved over datasheet link bandwidth."""


class SamplingCost(Strict):
    """Time to turn logits into tokens and acceptances."""

    base_s: Seconds = 0.0
    """Fixed time of one call."""
    per_logit_s: Seconds = 0.0
    """Time a logit (B x T x V of them)."""
    sort_per_logit_s: Seconds = 0.0
    """Time a logit more where they must be sorted (nucleus sampling)."""


class CostParameters(Strict):
    """What a calibration says of steps on a given number of chips."""

    chips: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of chips these hold for; any, where absent."""
    matmul_dtypes: tuple[DType, ...] = ()
    """Types of operands of the matrices that these hold for; any, where none is named."""
    hbm_efficiency: Annotated[tuple[EfficiencyPoint, ...], Field(min_length=1)] | Efficiency
    """Achieved over peak bandwidth of weight streaming: one number, or a curve over the footprint of a chip."""
    kv_efficiency: Efficiency | None = None
    """The same for reading cached keys and values; that of the weights where absent."""
    matmul_efficiency: Annotated[tuple[RowEfficiencyPoint, ...], Field(min_length=1)] | Efficiency
    """Achieved over peak matrix-multiply rate: one number, or a curve over the rows that are multiplied."""
    attention_efficiency: Annotated[tuple[RowEfficiencyPoint, ...], Field(min_length=1)] | Efficiency | None = None
    """The same of attention over the cache; that of the weights where absent."""
    overlap: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the shorter of an operation's memory and arithmetic time that the longer hides: 1 on an accelerator
    that prefetches, 0 where weights are first packed and then multiplied."""
    row_factor: tuple[RowPoint, ...] = ()
    """T(n), where measured: overrides the roofline's flat start."""
    step_overhead_s: Seconds
    """Fixed time of one step."""
    layer_overhead_s: Seconds
    """Fixed time of one layer, collectives apart."""
    layer_overhead_many_rows_s: Seconds = 0.0
    """What it takes longer with more than one row: other kernels, which pack their operands."""
    all_reduce: AllReduceCost | None = None
    """Time of an all-reduce; needed wherever a step runs on more than one chip."""
    collective_overlap: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the shorter of a layer's matrix multiplications and the bytes of their collectives that the longer
    hides, where both are done part by part in a loop; 0 where they follow each other."""
    point_to_point: MessageCost | None = None
    """Time of a message between two chips; one hop of the all-reduce at its link efficiency where absent."""
    network: MessageCost | None = None
    """Time of a message between chips of different hosts, and what of the network's bandwidth it reaches; needed
    wherever a model lies on more than one host."""
    sampling: SamplingCost
    """Time to draw one token a row from logits."""
    verification: SamplingCost | None = None
    """Time to accept or reject and to draw from the residual; that of sampling the same rows where absent."""
    round_overhead_s: SignedSeconds
    """Fixed time of one round beside its steps; negative where they take less together than in loops of their own."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if isinstance(self.hbm_efficiency, tuple):
            curve = tuple((p.footprint_bytes, p.efficiency) for p in self.hbm_efficiency)
            _increasing("hbm_efficiency", curve, "footprints")
        if isinstance(self.matmul_efficiency, tuple):
            curve = tuple((float(p.rows), p.efficiency) for p in self.matmul_efficiency)
            _increasing("matmul_efficiency", curve, "rows")
        if isinstance(self.attention_efficiency, tuple):
            curve = tuple((float(p.rows), p.efficiency) for p in self.attention_efficiency)
            _increasing("attention_efficiency", curve, "rows")
        _increasing("row_factor", tuple((float(p.rows), p.factor) for p in self.row_factor), "rows")
        return self


class FittedValue(Strict):
    """One value that a calibration was fitted to."""

    quantity: Source
    """What it is, e.g. plain step of Chinchilla 70B on 16 chips."""
    value_s: PositiveSeconds
    """The published or measured value."""
    source: Source
    """Where it stands."""


class Calibration(Strict):
    """Parameters that somebody measured or fitted, and how far to trust them."""

    description: Source
    """What was fitted, and how, in a sentence or two."""
    source: Source
    """A publication, a device and software version, or the records of a probe."""
    date: Date | None = None
    """The day it was made."""
    free_parameters: Annotated[int, Field(ge=0, le=1000)]
    """How many numbers were free in the fit."""
    free_parameter_names: tuple[Source, ...] = ()
    """Which they were."""
    fitted_values: Annotated[int, Field(ge=0, le=100_000)]
    """How many values they were fitted to."""
    fitted_on: tuple[FittedValue, ...] = ()
    """Those values, where they are few."""
    assumptions: tuple[Source, ...] = ()
    """What was assumed rather than fitted."""
    residual: Annotated[float, Field(ge=0, le=100)] | None = None
    """Root mean square of the relative error on the fitted values."""
    records: tuple[Source, ...] = ()
    """Ids of the probe records behind it."""
    validity: dict[
        Literal["weight_bytes_per_chip", "rows", "layers", "width", "payload_bytes", "chips", "positions"], Range
    ] = {}
    """Where the fit holds, by axis."""
    cache_read: Literal["used", "allocated"] = "used"
    """Whether attention reads the positions in use, or the whole of a static cache."""
    parameters: Annotated[tuple[CostParameters, ...], Field(min_length=1)]
    """For each type of operands one set for any number of chips, or one for each number that was measured."""
    uncertainty: tuple[Uncertainty, ...] = ()
    """For each of those numbers, how sure the parameters are."""
    validation: ValidationClaim | None = None
    """A run of `sps validate device` that this calibration passed or failed."""

    @model_validator(mode="after")
    def _one_set_per_chip_count(self) -> Self:
        named = {dtype for p in self.parameters for dtype in p.matmul_dtypes}
        types: set[DType | None] = {*named} or {None}
        for dtype in types:
            chips = [p.chips for p in self.parameters if not p.matmul_dtypes or dtype in p.matmul_dtypes]
            if len(set(chips)) != len(chips) or (None in chips and len(chips) > 1):
                accepts = "one set for any number of chips, or sets with 'chips' of their own, each once"
                raise mistake(f"{accepts}, of each of matmul_dtypes" if dtype else accepts, "parameters")
        return self

    def for_chips(self, chips: int, dtype: DType | None = None) -> CostParameters | None:
        """The set that holds for ``chips``, or None; that for operands of ``dtype`` where there are several."""
        known = [p for p in self.parameters if p.chips in (None, chips)]
        of_type = (p for p in known if not p.matmul_dtypes or dtype in p.matmul_dtypes)
        return next(of_type, known[0] if known else None)

    def uncertainty_for(self, chips: int) -> Uncertainty | None:
        """How sure the set for ``chips`` is, or None where nobody said."""
        return next((u for u in self.uncertainty if u.chips == chips), None)


class HardwareProfile(Strict):
    """One kind of chip and how many of them talk to each other."""

    name: Name
    """The chip."""
    description: Source
    """What it is."""
    peaks: Peaks
    """Datasheet figures, each with its source."""
    topology: Topology
    """How chips are connected."""
    price: SourcedPrice | None = None
    """What one chip costs for an hour."""
    calibrations: dict[Name, Calibration] = {}
    """Named sets of measured parameters."""
    engines: dict[Name, Engine] = {}
    """What serving engines add to the kernels, by engine and version."""

    @property
    def shares_memory(self) -> bool:
        """Whether all chips read through one memory bus, so that each has 1/X of its bandwidth."""
        return self.topology.kind == "shared_memory"

    @property
    def tile(self) -> int:
        """Columns to a multiple of which matrices are padded; 1 where they are not."""
        return self.peaks.tile.value if self.peaks.tile else 1

    def usable_bytes(self) -> float:
        """Memory of one chip that a program may use."""
        known = self.peaks.hbm_usable or self.peaks.hbm_capacity
        return float(known.value_bytes)


def datasheet_calibration() -> Calibration:
    """The roofline with every efficiency at 1 and every overhead at 0: a floor, not a prediction."""
    data: dict[str, Any] = {
        "description": "Datasheet peaks with no overhead at all: a lower bound on time, not a prediction.",
        "source": "the profile's peaks",
        "free_parameters": 0,
        "fitted_values": 0,
        "parameters": (
            {
                "hbm_efficiency": 1.0,
                "matmul_efficiency": 1.0,
                "step_overhead": "0 s",
                "layer_overhead": "0 s",
                "all_reduce": {"algorithm": "ring"},
                "network": {},
                "sampling": {},
                "round_overhead": "0 s",
            },
        ),
    }
    return Calibration.model_validate(data)
