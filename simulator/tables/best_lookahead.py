"""The best lookahead over batch and context, and what the prior behind it is worth."""

from __future__ import annotations

from simulator.plan import Outcome
from simulator.plan.lookahead import BestLookahead, Cell
from simulator.prior.acceptance import AcceptancePrior
from simulator.tables.layout import Column, Table


def prior_worth(outcome: Outcome) -> str:
    """One sentence on what the prior is worth; the whole of it is the outcome's statement."""
    asked = outcome.scenario.plan
    prior = AcceptancePrior.of(asked.prior if asked else None, outcome.scenario.decoding.temperature)
    if prior.own_points:
        return f"Acceptance is the prior's, with its level from {prior.own_points} of your own measurements."
    off = f"off by {prior.worth.error:.2f} on average, a constant by {prior.worth.constant_error:.2f}"
    tells = "order and level of drafts" if prior.worth.beats_constant else "the order of drafts, not their level"
    return f"Acceptance is the prior's ({off}): it gives {tells}."


def lookahead_words(found: BestLookahead) -> list[str]:
    """What the table shows."""
    mean, low, high = found.acceptance
    tried = f"{found.tried[0]} to {found.tried[-1]}" if len(found.tried) > 1 else str(found.tried[0])
    said = [
        (
            f"{found.draft} at acceptance {mean:.2f} [{low:.2f}, {high:.2f}], K of {tried}: best K, its gain over "
            "plain decoding in brackets; off: no K is faster; -: does not fit in memory."
        )
    ]
    said.append("This is at one acceptance; the K of the candidates above has the least mean time over all draws.")
    if found.cells and all(cell.outside for cell in found.cells):
        said.append("! All of it lies outside the sizes that the calibration was fitted on.")
    elif any(cell.outside for cell in found.cells):
        said.append("! *: outside the sizes that the calibration was fitted on.")
    return said


def lookahead_table(found: BestLookahead) -> Table:
    """A row for each batch, a column for each context, as far as the target fits."""
    cells = {(cell.batch, cell.context): cell for cell in found.cells}
    batches, contexts = (sorted({key[axis] for key in cells}) for axis in (0, 1))
    columns = (Column("batch"), *(Column(f"{context:,}", group="tokens of context") for context in contexts))
    marked = not all(cell.outside for cell in found.cells)
    rows = tuple((str(b), *(_words(cells.get((b, c)), marked) for c in contexts)) for b in batches)
    return Table("Best K", columns, rows)


def _words(cell: Cell | None, marked: bool) -> str:
    if cell is None:
        return "-"
    star = "*" if marked and cell.outside else ""
    if cell.gain is None:
        return f"no room{star}"
    return f"{cell.lookahead or 'off'} ({cell.gain:.2f}){star}"
