"""What a serving engine adds to the kernels of a chip: host time that nothing hides, and how its kernels differ."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simulator.spec.fields import Date, Name, Seconds, SignedSeconds, Source, Strict


class Engine(Strict):
    """Overheads of one engine and version on one kind of chip, beside a calibration that knows its kernels."""

    description: Source
    """What was fitted, and how."""
    source: Source
    """Who measured it, and where that stands."""
    date: Date | None = None
    """The day it was fitted."""
    calibration: Name
    """The calibration of the same profile that it was fitted beside; `datasheet` where there was none."""
    free_parameters: Annotated[int, Field(ge=0, le=100)]
    """How many numbers were free in the fit."""
    fitted_values: Annotated[int, Field(ge=0, le=100_000)]
    """How many values they were fitted to."""
    fitted_on: tuple[Source, ...] = ()
    """Those values."""
    assumptions: tuple[Source, ...] = ()
    """What was assumed rather than fitted."""
    fixed_times: Annotated[float, Field(ge=0, le=100)] = 1.0
    """Factor on the fixed times of kernels: below 1 where they are fused, above 1 where each is launched alone."""
    memory: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Factor on the efficiency of memory: how well the engine's kernels stream weights and cache."""
    rows: Annotated[float, Field(ge=0, le=10)] = 0.0
    """What each further row adds to a matrix multiplication, over the time of one row: 0 where weights that are read
    once serve many rows, near 1 where a kernel multiplies them one by one."""
    collective_s: Seconds = 0.0
    """What each collective takes longer than in the calibration: another library, or launches that nothing hides."""
    step_s: Seconds = 0.0
    """Host time of a pass of the target that the chip waits for."""
    draft_step_s: Seconds = 0.0
    """The same of a pass of the draft."""
    round_s: SignedSeconds = 0.0
    """The same of a round, beside its passes."""
