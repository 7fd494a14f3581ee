"""Published values beside their predictions, in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from simulator.tables.layout import Column, Table
from simulator.units import human_time
from simulator.validation.published import Judged, Order, Summary, Verdict

_METRICS = {
    "plain_step_s": "plain step",
    "tpot_s": "a token",
    "tokens_per_s": "tokens/s",
    "round_s": "round",
    "round_cost": "round cost",
    "draft_step_s": "draft step",
    "draft_first_step_s": "first draft step",
    "verify_step_s": "verify step",
    "prefill_s": "prefill",
    "e2e_s": "end to end",
    "ttft_s": "first token",
}
_SHORT = {"decoding.lookahead": "K", "deployment.chips": "X", "workload.batch": "B", "draft.model": "draft"}
_SHOWN = {"quantity": "by quantity", "hardware": "by hardware", "engine": "by engine", "source": "by source"}


def published_verdict(rows: Sequence[Judged]) -> list[str]:
    """How many rows came out how."""
    counts = Counter(row.verdict for row in rows)
    order: tuple[Verdict, ...] = ("fitted", "validated", "missed", "floor alone", "contradicts physics", "not modelled")
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in order if counts[verdict])
    sources = len({row.about.name for row in rows})
    return [f"{len(rows)} published values of {sources} sources: {told}"]


def published_errors(summaries: Sequence[Summary], by: str) -> Table:
    """Errors of all rows of a kind together; rows that were fitted to apart from those that were not."""
    columns = (
        Column(_SHOWN.get(by, by), numeric=False),
        Column("use", numeric=False),
        Column("n"),
        Column("bias"),
        Column("median |error|"),
        Column("90th |error|"),
        Column("worst"),
    )
    rows = tuple(
        (
            one.name,
            one.use,
            str(one.count),
            f"{one.bias:+.1%}",
            f"{one.median:.1%}",
            f"{one.p90:.1%}",
            f"{one.worst:.1%}",
        )
        for one in summaries
        if one.by == by
    )
    return Table("", columns, rows)


def published_orders(orders: Sequence[Order]) -> Table:
    """How often a sign or an order came out as published."""
    columns = (
        Column("question", numeric=False),
        Column("right"),
        Column("of"),
        Column("share"),
        Column("ties left out"),
    )
    rows = tuple(
        (one.name, str(one.right), str(one.asked), f"{one.right / one.asked:.0%}" if one.asked else "", str(one.ties))
        for one in orders
    )
    return Table("", columns, rows)


def published_rows(rows: Sequence[Judged]) -> Table:
    """Every value."""
    columns = (
        Column("source", numeric=False),
        Column("what", numeric=False),
        Column("published"),
        Column("predicted"),
        Column("error"),
        Column("verdict", numeric=False),
    )
    return Table("", columns, tuple(_row(row) for row in rows))


def published_reasons(rows: Sequence[Judged], *, missed: bool = False) -> list[str]:
    """Why some rows cannot be true, or are not predicted: each reason once, with how many rows it is of.

    With ``missed`` also what of a time is not explained: it is the engine's, or a mistake of the model.
    """
    lines: dict[tuple[str, str, str], int] = {}
    told = ("contradicts physics", "not modelled", *(("missed",) if missed else ()))
    for row in rows:
        if row.verdict in told:
            key = (row.verdict, row.about.name, row.reason)
            lines[key] = lines.get(key, 0) + 1
    return [
        f"{verdict}: {name}, {count} row{'s' * (count > 1)}: {why}" for (verdict, name, why), count in lines.items()
    ]


def _row(row: Judged) -> tuple[str, ...]:
    own = row.entry.row
    changed = ", ".join(f"{_SHORT.get(key, key.rpartition('.')[2])} {_short(value)}" for key, value in own.set.items())
    what = f"{_METRICS.get(own.metric, own.metric)}{f' ({changed})' if changed else ''}"
    error = f"{row.error:+.1%}" if row.error is not None else ""
    return (row.about.name, what, value_words(row, row.published), value_words(row, row.predicted), error, row.verdict)


def _short(value: object) -> str:
    """A value that a row sets, in a word: of a mapping its name or kind."""
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("model") or value.get("kind") or "...")
    return str(value)


def value_words(row: Judged, value: float | None) -> str:
    """A value in its unit."""
    if value is None:
        return ""
    unit = row.entry.row.unit
    return human_time(value, 3) if unit == "s" else f"{value:,.3g} token/s" if unit else f"{value:.2f}"
