"""How far the compiled calibration of TPU v4 is off on published numbers, beside those fitted to some of them.

compiled.py prints it, and writes the error of every row to compiled/published.csv.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simulator.spec.hardware import Calibration
from simulator.spec.publication import load_all
from simulator.validation.machine import read_profile
from simulator.validation.published import COMPILED, Judged, Summary, judge, summary

CHIP = "tpu_v4"
LINKS = "with-links"
"""The compiled calibration with links at the datasheet's rate and without latency, in place of the assumed prices. It
stands in no profile, and says how much of an error is that of the prices."""
FITTED_TO = {
    "chen-2023": ("chen2023_chinchilla_sps",),
    "pope-2022": ("pope2022",),
    "tpu-v4-2022": ("chen2023_chinchilla_sps", "pope2022"),
    COMPILED: (),
    LINKS: (),
}
"""By calibration, the sources of which some rows were fitted to."""


@dataclass(frozen=True)
class Line:
    """One published value and its prediction under every calibration."""

    own: Judged
    """As its file has it."""
    others: dict[str, Judged]
    """By calibration."""

    def error(self, name: str) -> float | None:
        """Predicted over published, less 1; None where that calibration does not predict it."""
        found = self.others[name]
        return found.error if found.counted else None


def lines(compiled: Calibration, with_links: Calibration) -> list[Line]:
    """Every published value of the chip whose error counts, under every calibration."""
    hardware = read_profile(CHIP)
    known = {**hardware.calibrations, COMPILED: compiled, LINKS: with_links}
    hardware = hardware.model_copy(update={"calibrations": known})
    found = []
    for one in load_all():
        for entry in one.entries:
            if entry.scenario is None or entry.scenario.deployment.hardware.name != CHIP:
                continue
            deployment = entry.scenario.deployment.model_copy(update={"hardware": hardware})
            scenario = entry.scenario.model_copy(update={"deployment": deployment})
            own = judge(one.about, entry)
            if own.counted:
                again = type(entry)(entry.row, scenario, entry.place)
                found.append(Line(own, {name: judge(one.about, again, name) for name in FITTED_TO}))
    return found


def table(found: Sequence[Line]) -> str:
    """The errors of all rows, for a file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("source", "where", "set", "metric", "use", "published", *FITTED_TO))
    for line in found:
        row = line.own.entry.row
        settings = " ".join(f"{key.rpartition('.')[2]}={_short(value)}" for key, value in row.set.items())
        errors = [_words(line.error(name)) for name in FITTED_TO]
        writer.writerow((line.own.about.name, row.where, settings, row.metric, row.use, f"{row.measured:.6g}", *errors))
    return text.getvalue()


def _short(value: object) -> object:
    return value.get("name") or value.get("model") or value.get("kind") if isinstance(value, dict) else value


def _words(error: float | None) -> str:
    return "" if error is None else f"{error:+.3f}"


def grouped(found: Sequence[Line]) -> Iterator[tuple[str, bool, list[Line]]]:
    """Each source with all its lines, then its kinds of numbers if there are several: name, whether a kind, lines."""
    for source in dict.fromkeys(line.own.about.name for line in found):
        own = [line for line in found if line.own.about.name == source]
        yield source, False, own
        for kind in _quantities(own):
            yield kind, True, [line for line in own if line.own.quantity == kind]


def _summary(group: Sequence[Line], name: str) -> Summary | None:
    errors = [error for line in group if (error := line.error(name)) is not None]
    return summary("", name, "", errors) if errors else None


def markdown(found: Sequence[Line]) -> str:
    """Median error and bias of each group under every calibration."""
    lines = [f"| median error (bias) of | n | {' | '.join(f'`{name}`' for name in FITTED_TO)} |"]
    lines.append("|---" * (2 + len(FITTED_TO)) + "|")
    source = ""
    for name, is_kind, group in grouped(found):
        source = source if is_kind else name
        cells = []
        for calibration, sources in FITTED_TO.items():
            one = _summary(group, calibration)
            star = "*" if source in sources else ""
            cells.append("" if one is None else f"{one.median:.0%} ({one.bias:+.0%}){star}")
        lines.append(f"| {'- ' if is_kind else ''}{name} | {len(group)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def report(found: Sequence[Line]) -> Iterator[str]:
    """Errors of each source under every calibration: all its rows, and by quantity."""
    columns = "n     bias   median     90th    worst"
    yield f"{'published values of ' + CHIP:26s} {'calibration':13s} {'fitted to':9s}   {columns}"
    source = ""
    for group_name, is_kind, group in grouped(found):
        source = source if is_kind else group_name
        for name, sources in FITTED_TO.items():
            one = _summary(group, name)
            if one is not None:
                told = f"{one.count:3d}  {one.bias:+7.1%}  {one.median:7.1%}  {one.p90:7.1%}  {one.worst:7.1%}"
                title = f"{'  ' * is_kind}{group_name}"
                yield f"{title:26s} {name:13s} {'some' if source in sources else 'none':9s} {told}"


def _quantities(found: Sequence[Line]) -> list[str]:
    kinds = list(dict.fromkeys(line.own.quantity for line in found))
    return kinds if len(kinds) > 1 else []
