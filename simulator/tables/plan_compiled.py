"""The last candidates of a plan as the TPU compiler makes them, beside what the plan said."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.plan import Outcome, Proposal
from simulator.spec.record import RunRecord
from simulator.speculation import tokens_per_round
from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures
from simulator.units import human_bytes

_NOTE = (
    "compiled: replayed schedules with assumed prices of collectives, the best variant; scanned: the slowest, without\n"
    "collectives. gain: of a round of K such steps and a verify step at the mean of the prior, sampling and host left\n"
    "out. Nothing ran on a TPU, and no software's overhead is in it: the order of drafts is what to look at."
)


def confirmed(outcome: Outcome, records: Sequence[RunRecord]) -> Table:
    """A row for each candidate: the draft step and the gain by the plan and by the compiler."""
    columns = (
        Column("candidate", numeric=False),
        Column("a chip holds"),
        Column("reduces/layer"),
        Column("plan", group="draft step, ms"),
        Column("compiled", group="draft step, ms"),
        Column("scanned", group="draft step, ms"),
        Column("K"),
        Column("plan", group="gain"),
        Column("compiled", group="gain"),
    )
    named = {one.ranked.entry.name: one for one in outcome.proposals}
    rows = tuple(_row(named[str(record.axes["candidate"])], record) for record in records)
    return Table("compiled for the slice by the TPU compiler", columns, rows, _NOTE)


def _row(one: Proposal, record: RunRecord) -> tuple[str, ...]:
    name, lookahead = one.ranked.entry.name.removeprefix("draft-"), one.ranked.lookahead
    if record.status.state != "ok" or one.model is None:
        return (name, record.status.reason, *[""] * 7)
    known = {key: record.metric(key) or 0.0 for key in record.metrics}
    plain, draft, verify = (known.get(f"{step}_replay_with_collectives_s") for step in _STEPS)
    scanned = known.get("draft_step_replay_scanned_s")
    gain = None
    if plain and draft and verify and one.acceptance is not None:
        round_s = lookahead * draft + verify
        gain = float(tokens_per_round(one.acceptance[0], lookahead)) * plain / round_s
    return (
        name,
        human_bytes(known["memory_per_chip_bytes"]),
        figures(known["draft_step_layer_all_reduces"] / one.model.layers),
        f"{one.step_s * 1e3:.3f}",
        *("" if value is None else f"{value * 1e3:.3f}" for value in (draft, scanned)),
        str(lookahead),
        f"{one.gain:.2f}",
        "" if gain is None else f"{gain:.2f}",
    )


_STEPS = ("plain_step", "draft_step", "verify_step")
