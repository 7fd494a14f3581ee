"""Draft heads of a plan: what acceptance each needs."""

from __future__ import annotations

import math

from simulator.plan import Outcome
from simulator.tables.layout import Column, Table

HEADS_LEGEND = (
    "No law knows how often a head is accepted. to pay: the acceptance from which it beats plain decoding; to lead: "
    "from which it beats the first candidate; each at the best K for it, every token of a round accepted alike."
)


def heads_table(outcome: Outcome) -> Table:
    """Draft heads by what they cost; no rows where none were asked for."""
    gain = outcome.scenario.plan.gain if outcome.scenario.plan is not None else None
    columns = (
        Column("head", numeric=False),
        Column("B"),
        Column("pass ms"),
        Column("to pay", group="acceptance that it needs"),
        Column("to lead", group="acceptance that it needs"),
        *([Column(f"to gain {gain:g}", group="acceptance that it needs")] if gain is not None else []),
    )
    rows = []
    for head in outcome.heads:
        one = head.candidate
        size = one.model.parameters / 1e9 if one.model is not None else 0.0
        needs = [head.to_pay, head.to_lead, *([head.for_gain] if gain is not None else [])]
        words = ("never" if math.isnan(value) else f"{value:.2f}" for value in needs)
        rows.append((one.entry.name, f"{size:.2f}", f"{one.step_s * 1e3:.2f}", *words))
    return Table("Draft heads, by what they cost", columns, tuple(rows))
