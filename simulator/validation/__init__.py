"""Predictions of shapes that a calibration was not fitted to, against what they took: errors, intervals, verdict."""

from simulator.validation.criteria import Criterion, verdict
from simulator.validation.held_out import HeldOut, Ranking, held_out, noise_floor, rankings
from simulator.validation.outcome import Outcome, Summary, outcome
from simulator.validation.table import read_table, table_text

__all__ = [
    "Criterion",
    "HeldOut",
    "Outcome",
    "Ranking",
    "Summary",
    "held_out",
    "noise_floor",
    "outcome",
    "rankings",
    "read_table",
    "table_text",
    "verdict",
]
