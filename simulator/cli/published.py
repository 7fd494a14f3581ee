"""sps validate published: how far are predictions from what others measured?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from simulator.cli.files import ready, to_json, write
from simulator.errors import ConfigError, Problem


def validate_published(names: Sequence[str], out: Path | None, refused: Mapping[str, Any], *, as_json: bool) -> None:
    """Predict every published row, or those of some sources, and say how far off.

    Raises:
        ConfigError: an option that has no meaning here, a source that is not there, a mistake in a file.
    """
    from simulator.validation.published import judged
    from simulator.validation.published import to_json as plain

    given = [option for option, value in refused.items() if value]
    if given:
        problems = (Problem(option, 0, 0, "", "", "only with `sps validate device`") for option in given)
        raise ConfigError(tuple(problems))
    published = _chosen(names)
    rows = judged(published)
    if out is not None:
        from simulator.report import published_page, rendered

        folder = ready(out)
        write(folder / "published.json", to_json(plain(rows, published)) + "\n")
        page = write(folder / "published.html", rendered(published_page(rows, published)))
        typer.echo(f"report: {page}", err=True)
    if as_json:
        typer.echo(to_json({"records": [], "published": plain(rows, published)}))
        return
    for line in _told(rows, published):
        typer.echo(line)


def _chosen(names: Sequence[str]) -> Sequence[Any]:
    from simulator.spec.library import names as known_in
    from simulator.spec.problems import nearest
    from simulator.spec.publication import PUBLISHED, load_all, load_publication

    if not names:
        return load_all()
    known = known_in(PUBLISHED)
    problems = tuple(
        Problem(f"--source {name}", 0, 0, "", "", f"the name of a source{nearest(name, known)}")
        for name in names
        if name not in known
    )
    if problems:
        raise ConfigError(problems)
    return [load_publication(PUBLISHED / f"{name}.yaml") for name in dict.fromkeys(names)]


def _told(rows: Sequence[Any], published: Sequence[Any]) -> list[str]:
    """The answer for people: verdict, errors, signs; every value where they are few."""
    from simulator import tables
    from simulator.validation.published import crossed, orders, summaries

    found = [*summaries(rows), *crossed(published)]
    lines = [*tables.published_verdict(rows), ""]
    if len(published) == 1:
        lines += [tables.published_rows(rows).text(), ""]
    for by in ("quantity", "hardware", "engine", "source", "cross"):
        table = tables.published_errors(found, by)
        lines += [table.text(), ""] if table.rows else []
    lines += [tables.published_orders(orders(rows)).text(), ""]
    lines += tables.wrapped(*tables.published_reasons(rows, missed=len(published) == 1))
    return [*lines, "", "next: sps validate published --source NAME (every value of a source)   --out DIR (a report)"]
