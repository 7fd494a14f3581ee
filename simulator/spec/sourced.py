"""Figures of a datasheet or a price list, each with where it is printed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simulator.spec.fields import Bytes, BytesPerSecond, Date, FlopPerSecond, Name, Source, Strict, UsdPerHour


class SourcedBandwidth(Strict):
    """A bandwidth and where it is printed."""

    value_bytes_per_s: BytesPerSecond
    """The figure, e.g. 1200 GB/s."""
    source: Source
    """Where it is printed."""


class SourcedBytes(Strict):
    """A size and where it is printed."""

    value_bytes: Bytes
    """The figure, e.g. 32 GiB."""
    source: Source
    """Where it is printed."""


class SourcedFlopPerSecond(Strict):
    """A rate of arithmetic and where it is printed."""

    value_flop_per_s: FlopPerSecond
    """The figure, dense, e.g. 275 TFLOP/s."""
    needs_cpu_flag: Name | None = None
    """The processor flag without which this rate is not reached, such as amx_bf16."""
    source: Source
    """Where it is printed."""


class SourcedCount(Strict):
    """A number of things and where it is printed."""

    value: Annotated[int, Field(ge=1, le=65_536)]
    """The figure, e.g. 128."""
    source: Source
    """Where it is printed."""


class SourcedPrice(Strict):
    """What one chip costs for an hour, and where it is printed."""

    value_usd_per_h: UsdPerHour
    """The figure, e.g. 3.22 USD/h: list price on demand, its share of the host included."""
    date: Date | None = None
    """The day of the list, where it is known."""
    source: Source
    """Who asks it, in which region, and where it is printed."""
