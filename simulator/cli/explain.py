"""sps explain: what a key means, its unit, range and default."""

from __future__ import annotations

from typing import Annotated

import typer

from simulator.cli.files import to_json
from simulator.cli.options import AsJson


def explain(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A dotted key, such as decoding.lookahead.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say what a key of a scenario, a hardware profile or a model means; without a path, list the keys."""
    from simulator.spec.explain import explain as explained

    words = explained(path)
    typer.echo(to_json({"records": [], "path": path, "text": words}) if as_json else words)
