"""sps init: a first scenario, every key of it explained."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.cli.files import write
from simulator.errors import ConfigError, Problem

if TYPE_CHECKING:
    from simulator.spec.scenario import Scenario

_UNNAMED = Path("scenario.yaml")

Model = Annotated[str, typer.Option("--model", metavar="NAME", help="The target: see `sps list models`.")]
Hardware = Annotated[str, typer.Option("--hardware", metavar="NAME", help="The chip: see `sps list hardware`.")]
Chips = Annotated[int, typer.Option("--chips", metavar="X", help="How many of them.")]
Draft = Annotated[
    str | None,
    typer.Option("--draft", metavar="NAME", help="The draft, or none; unless given, one of the library is proposed."),
]
Batch = Annotated[int | None, typer.Option("--batch", metavar="B", help="Sequences decoded together; 1 unless given.")]
PromptTokens = Annotated[int, typer.Option("--prompt-tokens", metavar="N", help="Tokens of each prompt.")]
OutputTokens = Annotated[int, typer.Option("--output-tokens", metavar="N", help="Tokens that each sequence emits.")]
Lookahead = Annotated[
    int | None, typer.Option("--lookahead", metavar="K", help="Draft tokens a round; several are tried unless given.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of to stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE.")]


def init(  # noqa: PLR0913, PLR0917
    model: Model,
    hardware: Hardware,
    chips: Chips,
    draft: Draft = None,
    batch: Batch = None,
    prompt_tokens: PromptTokens = 1024,
    output_tokens: OutputTokens = 128,
    lookahead: Lookahead = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Write a first scenario for a model on a chip, every key of it explained; what is not said is proposed."""
    from simulator.spec.starter import Asked, starter

    if out is not None and out.exists() and not force:
        raise ConfigError((Problem(str(out), 0, 0, "", "", "a file that is not there yet; --force overwrites it"),))
    asked = Asked(model, hardware, chips, draft, batch, prompt_tokens, output_tokens, lookahead)
    made = starter(asked, out or _UNNAMED, _not_covered)
    if reason := _does_not_fit(made.scenario):
        typer.echo(f"does not fit: {reason}", err=True)
    if out is None:
        typer.echo(made.text, nl=False)
        return
    typer.echo(f"scenario: {write(out, made.text)}")
    typer.echo(f"next: sps predict {shlex.quote(str(out))}")


def _not_covered(scenario: Scenario) -> str:
    """What a calibration was not fitted for; empty where it was fitted for this."""
    from simulator.predict import predict_scenario

    status = predict_scenario(scenario).status
    return f"outside what it was fitted on, {status.reason}" if status.state == "outside_calibration" else ""


def _does_not_fit(scenario: Scenario) -> str:
    from simulator.predict import predict_scenario

    status = predict_scenario(scenario).status
    return status.reason if status.state == "does_not_fit" else ""
