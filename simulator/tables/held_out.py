"""What a validation found, in tables."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures
from simulator.validation import Criterion, HeldOut, Outcome, Summary

NAMES = {
    "plain_step": "plain or draft step",
    "verify_step": "verify step",
    "draft_first_step": "first draft step",
    "sampling": "verification",
    "speedup_given_acceptance": "speedup, acceptance given",
    "speedup": "speedup, acceptance by law",
}


def validation_verdict(outcome: Outcome) -> list[str]:
    """The verdict in a few lines."""
    held = len({one.point.key for one in outcome.found})
    unseen = len({one.point.key for one in outcome.found if one.unseen})
    missed = [criterion for criterion in outcome.checked if not criterion.met]
    lines = [
        f"{outcome.verdict.upper()}: {held} held-out shapes, {unseen} of a width and a depth that no fit has seen",
    ]
    if not outcome.passed:
        lines.append("NOT VALIDATED: predictions by this calibration say so until a run passes")
    lines += [f"missed: {c.name}: {_value(c)} where {_bound(c)} is asked" for c in missed]
    pairs = outcome.pairs()
    if pairs["compared"]:
        lines.append(
            f"{pairs['ordered_rightly']} of {pairs['differ_by_more_than_noise']} pairs of drafts that differ by more "
            f"than the noise are in the right order, of {pairs['compared']} pairs, {pairs['within_30_percent']} of "
            f"them within 30 % of each other"
        )
    drifts = ", ".join(f"{value:.1%} on {chips}" for chips, value in outcome.drift.items())
    noise = (
        f"two processes differ by up to {outcome.noise_floor:.1%} (nine in ten shapes)" if outcome.noise_floor else ""
    )
    lines.append("; ".join(words for words in (noise, f"controls drifted by {drifts}" if drifts else "") if words))
    return [line for line in lines if line]


def criteria(outcome: Outcome) -> Table:
    """Every criterion, what it came to, and what was asked."""
    columns = (Column("criterion", numeric=False), Column("n"), Column("found"), Column("asked"), Column("met"))
    rows = tuple((c.name, str(c.count), _value(c), _bound(c), "yes" if c.met else "NO") for c in outcome.checked)
    return Table("", columns, rows)


def validation_errors(summaries: Sequence[Summary]) -> Table:
    """Errors by component and place."""
    columns = (
        Column("component", numeric=False),
        Column("on", numeric=False),
        Column("n"),
        Column("bias"),
        Column("median |error|"),
        Column("90th |error|"),
        Column("in 90 % interval"),
    )
    rows = tuple(
        (
            NAMES.get(s.quantity, s.quantity.replace("_", " ")),
            s.where,
            str(s.count),
            f"{s.bias:+.1%}",
            f"{s.median:.1%}",
            f"{s.ninetieth:.1%}",
            f"{s.covered:.0%}",
        )
        for s in summaries
    )
    return Table("", columns, rows)


def every_held_out(outcome: Outcome) -> Table:
    """All values, the worst first."""
    columns = (
        Column("component", numeric=False),
        Column("shape", numeric=False),
        Column("measured"),
        Column("predicted"),
        Column("from"),
        Column("to"),
        Column("error"),
        Column("near a cache's edge", numeric=False),
    )
    ranked = sorted(outcome.found, key=lambda one: -abs(one.error))
    return Table("every held-out value, times in ms", columns, tuple(_row(one) for one in ranked))


def _row(one: HeldOut) -> tuple[str, ...]:
    scale = 1.0 if one.quantity in ("round_cost", "speedup", "speedup_given_acceptance") else 1e3
    numbers = (figures(value * scale) for value in (one.measured, one.predicted, one.low, one.high))
    name = NAMES.get(one.quantity, one.quantity.replace("_", " "))
    return (name, one.words, *numbers, f"{one.error:+.1%}", "yes" if one.edge else "")


def _value(criterion: Criterion) -> str:
    return f"{criterion.value:.1%}"


def _bound(criterion: Criterion) -> str:
    if criterion.low and criterion.high < 1:
        return f"{criterion.low:.0%} to {criterion.high:.0%}"
    return f"at least {criterion.low:.0%}" if criterion.low else f"at most {criterion.high:.0%}"
