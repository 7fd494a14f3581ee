"""sps compare: records about the same question, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.cli.files import read_records, records_json, write
from simulator.cli.options import AsJson
from simulator.errors import RefusedError

if TYPE_CHECKING:
    from simulator.compare import Comparison, CompiledComparison

_SHOWN_MISSING = 12


def compare(
    files: Annotated[
        list[str], typer.Argument(metavar="RECORD...", help="JSON files with records, as --json and --out write them.")
    ],
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a report.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set predicted, measured and published values of the same scenarios side by side."""
    from simulator import compare as comparing

    records = read_records(files)
    if not records:
        raise RefusedError(f"no record in {', '.join(files)}: there is nothing to compare")
    comparison = comparing.compare(records)
    if html is not None:
        from simulator.report import report

        typer.echo(f"report: {write(html, report(comparison))}", err=as_json)
    if as_json:
        typer.echo(records_json(records, comparison=comparison.to_json()))
    else:
        typer.echo("\n".join([*_question(comparison), "", *told(comparison)]))
    if not comparison.rows and not any(each.counts for each in comparison.compiled):
        raise RefusedError("nothing could be compared")


def _question(comparison: Comparison) -> list[str]:
    from simulator import compare as comparing
    from simulator import tables

    return tables.wrapped(comparing.question(comparison.views))


def told(comparison: Comparison) -> list[str]:
    """The comparison for people, at most 100 columns wide."""
    from simulator import tables

    shown = tables.preferred(comparison.record_rows)
    single = len({row.question for row in shown}) == 1
    table = tables.by_term(shown).without_constant("point") if single else tables.by_point(comparison)
    sections = [table.text()] if shown else []
    sections += ["\n".join(tables.wrapped(*tables.verdicts(comparison)))]
    sections += [tables.summaries(shown).text()] if shown and not single else []
    published = tables.published(comparison.published_rows)
    sections += [published.text()] if published.rows else []
    sections += [text for each in comparison.compiled for text in of_compiled(each)]
    warnings = (*tables.status_lines(comparison), *tables.flag_lines(comparison), *tables.anchor_lines(comparison))
    sections += ["\n".join(tables.wrapped(*warnings))]
    sections += ["\n".join(tables.wrapped(*tables.derived_lines(comparison)))]
    missing = (f"not compared: {line}" for line in tables.missing_lines(comparison, _SHOWN_MISSING))
    sections += ["\n".join(tables.wrapped(*missing))]
    return "\n\n".join(section for section in sections if section).splitlines()


def of_compiled(comparison: CompiledComparison) -> list[str]:
    """What a compiled record says of the cost model's counts and times, in sections."""
    from simulator import tables

    found = [table.text() for table in tables.compiled_sections(comparison)]
    return [*found, "\n".join(tables.wrapped(*tables.compiled_verdict(comparison)))] if found else []
