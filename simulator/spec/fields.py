"""The base of every schema class, and field types that read quantities with units.

A field is called ``hbm_bandwidth_bytes_per_s`` in code (SI, plain float) and ``hbm_bandwidth`` in YAML (text with a
unit); the YAML name is its alias. Dumping gives text again, exactly, so a resolved scenario can be read back.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from simulator.units import EXAMPLES, QUANTITY_PATTERN, UnitProblem, format_quantity, parse_quantity

_UNIT_ENDING = re.compile(r"_(?:bytes_per_s|flop_per_s|usd_per_h|bytes|flop|usd|s)$")


def yaml_name(field: str) -> str:
    """``step_overhead_s`` in code is ``step_overhead`` in YAML, where the unit stands in the value."""
    return _UNIT_ENDING.sub("", field)


class Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversion, no NaN."""

    model_config = ConfigDict(
        alias_generator=yaml_name,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        validate_by_alias=True,
        validate_by_name=False,
        serialize_by_alias=True,
    )


@dataclass(frozen=True)
class Unit:
    """Marks a field that is a quantity; ``symbol`` is its SI unit."""

    symbol: str


@dataclass(frozen=True)
class Says:
    """What messages say that a field accepts, where its type and bounds alone would say it badly."""

    accepts: str


def mistake(accepts: str, key: str = "") -> PydanticCustomError:
    """For validators of a whole mapping: what is accepted, and the key of it to point at."""
    return PydanticCustomError("problem", "{accepts}", {"accepts": accepts, "key": key})


def _quantity(unit: str, *, ge: float | None = None, gt: float | None = None, le: float) -> Any:
    def read(value: object) -> float:
        try:
            return parse_quantity(value, unit)
        except UnitProblem as problem:
            raise mistake(str(problem)) from None

    def write(value: float) -> str:
        return format_quantity(value, unit)

    schema = {"type": "string", "pattern": QUANTITY_PATTERN, "examples": [EXAMPLES[unit]]}
    return Annotated[
        float,
        BeforeValidator(read),
        Field(ge=ge, gt=gt, le=le),
        PlainSerializer(write, return_type=str),
        WithJsonSchema(schema),
        Unit(unit),
    ]


def _read_date(value: object) -> dt.date:
    # No conversion of numbers, or 20240105 would be seconds since 1970.
    if type(value) is dt.date:
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            raise mistake("a day that exists, such as 2025-11-29") from None
    raise mistake("a date such as 2025-11-29")


# What each accepts is said by the unit and the bound; no physical quantity here may be infinite.
Seconds = _quantity("s", ge=0, le=1e9)
SignedSeconds = _quantity("s", ge=-1e3, le=1e9)
PositiveSeconds = _quantity("s", gt=0, le=1e9)
Bytes = _quantity("B", gt=0, le=1e21)
BytesPerSecond = _quantity("B/s", gt=0, le=1e21)
FlopPerSecond = _quantity("FLOP/s", gt=0, le=1e24)
UsdPerHour = _quantity("USD/h", gt=0, le=1e6)

Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Efficiency = Annotated[float, Field(gt=0, le=1000)]

Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,79}$"),
    Says("a name of letters, digits and . _ + -, at most 80, that starts with a letter or digit"),
]
# For what may also be named: see simulator.spec.library.
OR_FILE = "a .yaml file, or a mapping that spells it out"

Source = Annotated[str, Field(min_length=3, max_length=2000)]

Date = Annotated[dt.date, BeforeValidator(_read_date), Says("a date such as 2025-11-29")]

DType = Literal["float32", "bfloat16", "float16", "int8", "fp8", "int4"]
DTYPE_BYTES: dict[str, float] = {
    "float32": 4.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "int8": 1.0,
    "fp8": 1.0,
    "int4": 0.5,
}
