"""Tables of compiled programs beside what the cost model says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from simulator.compare import REASONS, TOLERANCE, CompiledComparison, Count, Times
from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures, percent, time_scale
from simulator.units import human_bytes

_WORDS = {"flop": "FLOP", "bytes": "HBM bytes", "memory": "memory"}
_SIZES = ("bytes", "collective bytes", "memory")
_IN_ALL = "in all"


def compiled_counts(comparison: CompiledComparison) -> Table:
    """Sums, and every count that differs by more than the tolerance, with what explains it."""
    columns = (
        Column("program", numeric=False),
        Column("count", numeric=False),
        Column("of", numeric=False),
        Column("predicted"),
        Column("compiled"),
        Column("differs"),
        Column("because", numeric=False),
    )
    shown = [count for count in comparison.counts if count.part == _IN_ALL or count.state != "alike"]
    return Table("compiled against predicted: one chip, one call", columns, tuple(_row(count) for count in shown))


def _row(count: Count) -> tuple[str, ...]:
    why = {"alike": "", "unexplained": "UNEXPLAINED"}.get(count.state, ", ".join(count.reasons))
    if count.part == _IN_ALL and count.quantity != "memory" and count.state == "explained":
        why = "as its parts"
    return (
        count.program.replace("_", " "),
        _WORDS.get(count.quantity, count.quantity),
        count.part.replace("_", " "),
        _amount(count, count.predicted),
        _amount(count, count.compiled),
        percent(count.difference),
        why,
    )


def _amount(count: Count, value: float) -> str:
    if count.quantity in _SIZES:
        return human_bytes(value)
    return f"{value:,.0f}" if count.quantity == "collectives" else f"{value:.3g}"


def compiled_times(comparison: CompiledComparison) -> Table:
    """Floor, prediction and replay of every program."""
    times = comparison.times
    unit, scale = time_scale([each.predicted_s for each in times])
    predicted, compiled = f"predicted, {unit}", f"compiled, {unit}"
    columns = (
        Column("program", numeric=False),
        Column(f"floor {unit}"),
        *(Column(name, group=predicted) for name in ("work", "coll.", "overhead", "in all")),
        *(Column(name, group=compiled) for name in ("replay", "slower", "coll.")),
        Column("replay/work"),
        Column("/floor"),
    )
    note = (
        "floor: weights and used cache once a pass at datasheet bandwidth, as predicted; work: matrices and\n"
        "attention, which is what a replay has; slower: the replay at the compiler's own bandwidth; coll.:\n"
        "collectives, of a replay at assumed prices; overhead: sampling, steps, layers: no program has it"
    )
    rows = tuple(_times_row(each, scale) for each in times)
    return Table("compiled against predicted: time of one call", columns, rows, note).without_empty_columns()


def _times_row(times: Times, scale: float) -> tuple[str, ...]:
    predicted = (times.floor_s, times.worked_s, times.collectives_s, times.overhead_s, times.predicted_s)
    compiled = (times.replayed_s, times.replayed_at_compilers_s, times.assumed_collectives_s)
    cells = ["" if seconds is None else figures(seconds / scale) for seconds in (*predicted, *compiled)]
    ratios = (times.replayed_s / lower if lower else 0.0 for lower in (times.worked_s, times.floor_s))
    return (times.program.replace("_", " "), *cells, *map(figures, ratios))


def compiled_verdict(comparison: CompiledComparison) -> list[str]:
    """How many counts agree, and the sentences of the reasons that explain the rest."""
    states = Counter(count.state for count in comparison.counts)
    words = f"{states['alike']} of {len(comparison.counts)} counts agree to {100 * TOLERANCE:g} %"
    if states["explained"]:
        words += f", {states['explained']} are explained"
    if states["unexplained"]:
        words += f", {states['unexplained']} are UNEXPLAINED"
    return [words, *_sentences(comparison.counts), *_calibrations(comparison.times)]


def _sentences(counts: Sequence[Count]) -> Iterator[str]:
    used = {name for count in counts for name in count.reasons}
    yield from (f"{reason.name}: {reason.words}" for reason in REASONS if reason.name in used)


def _calibrations(times: Sequence[Times]) -> Iterator[str]:
    yield from (f"predicted times by calibration {name}" for name in dict.fromkeys(each.calibration for each in times))


def compiled_sections(comparison: CompiledComparison) -> list[Table]:
    """Both tables, as far as they have rows."""
    return [table for table in (compiled_counts(comparison), compiled_times(comparison)) if table.rows]
