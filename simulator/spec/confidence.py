"""How far a calibration is to be trusted: where it holds, how sure its parameters are, whether it was validated."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from simulator.spec.fields import Date, Name, Source, Strict, mistake


class Range(Strict):
    """A closed interval."""

    low: float
    """Smallest value seen in the fit."""
    high: float
    """Largest value seen in the fit."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise mistake("a low that is not above high", "low")
        return self


class ValidationClaim(Strict):
    """What a validation of this calibration found."""

    passed: bool
    """Whether its verdict was that predictions hold."""
    record: Source
    """Where the run is kept."""
    date: Date | None = None
    """The day it was made."""


class Uncertainty(Strict):
    """How well the parameters of one number of chips are known, and how far measured times lie from the model."""

    chips: Annotated[int, Field(ge=1, le=1_000_000)]
    """The number of chips."""
    parameters: tuple[Name, ...]
    """Fitted numbers: `time_a_byte_I`, of the I-th point of `hbm_efficiency`, 1 over the efficiency; `time_a_flop_N`,
    at N rows, likewise; `time_a_kv_byte`, `time_an_attention_flop`; overheads and sampling by their keys, in s."""
    values: tuple[float, ...]
    """Their values."""
    standard_errors: tuple[float, ...]
    """Their standard errors, in the same units."""
    correlation: tuple[tuple[float, ...], ...]
    """Their correlations, by row, up to and without the diagonal."""
    residual: dict[Name, Annotated[float, Field(ge=0, le=10)]]
    """By component, the spread of measured over predicted time: 1/1.645 of what nine in ten lie within."""

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        count = len(self.parameters)
        if not len(self.values) == len(self.standard_errors) == len(self.correlation) == count:
            raise mistake("one value, one standard error and one row of correlations for each parameter", "parameters")
        if any(len(row) != index for index, row in enumerate(self.correlation)):
            raise mistake("rows of 0, 1, 2, ... correlations", "correlation")
        return self
