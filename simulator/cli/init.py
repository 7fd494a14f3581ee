"""sps init: a first scenario, or a hardware profile to fill in, every key of it explained."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.cli.files import write
from simulator.cli.messages import within_width
from simulator.errors import ConfigError, Problem

if TYPE_CHECKING:
    from simulator.spec.scenario import Scenario

_UNNAMED = Path("scenario.yaml")

Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The target: see `sps list models`.")]
Hardware = Annotated[str | None, typer.Option("--hardware", metavar="NAME", help="The chip: see `sps list hardware`.")]
Chips = Annotated[int | None, typer.Option("--chips", metavar="X", help="How many of them.")]
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
Template = Annotated[
    bool,
    typer.Option("--hardware-template", help="Write a hardware profile to fill in, for a chip called --hardware."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE.")]


def init(  # noqa: PLR0913, PLR0917
    model: Model = None,
    hardware: Hardware = None,
    chips: Chips = None,
    draft: Draft = None,
    batch: Batch = None,
    prompt_tokens: PromptTokens = 1024,
    output_tokens: OutputTokens = 128,
    lookahead: Lookahead = None,
    out: Out = None,
    force: Force = False,
    hardware_template: Template = False,
) -> None:
    """Write a first scenario for a model on a chip, every key of it explained; what is not said is proposed."""
    from simulator.spec.starter import Asked, starter

    if out is not None and out.exists() and not force:
        raise ConfigError((Problem(str(out), 0, 0, "", "", "a file that is not there yet; --force overwrites it"),))
    if hardware_template:
        _write_template(hardware or "my-chip", out)
        return
    if model is None or hardware is None or chips is None:
        given = {"--model": model, "--hardware": hardware, "--chips": chips}
        missing = ", ".join(name for name, value in given.items() if value is None)
        raise typer.BadParameter(f"missing {missing}; a scenario needs all three")
    asked = Asked(model, hardware, chips, draft, batch, prompt_tokens, output_tokens, lookahead)
    made = starter(asked, out or _UNNAMED, _not_covered)
    if reason := _does_not_fit(made.scenario):
        typer.echo(within_width(f"does not fit: {reason}"), err=True)
    if out is None:
        typer.echo(made.text, nl=False)
        return
    typer.echo(f"scenario: {write(out, made.text)}")
    typer.echo(f"next: sps predict {shlex.quote(str(out))}")


def _write_template(name: str, out: Path | None) -> None:
    from pydantic import TypeAdapter, ValidationError

    from simulator.spec.fields import Name
    from simulator.spec.starter_hardware import hardware_template

    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        accepts = "a name of letters, digits and . _ + -, at most 80, that starts with a letter or digit"
        raise ConfigError((Problem(f"--hardware {name}", 0, 0, "", "", accepts),)) from None
    text = hardware_template(name, (out or _UNNAMED).parent)
    if out is None:
        typer.echo(text, nl=False)
        return
    typer.echo(f"hardware profile: {write(out, text)}")
    typer.echo(f"next: fill it in, then sps init --model NAME --chips X --hardware {shlex.quote(str(out))}")


def _not_covered(scenario: Scenario) -> str:
    """What a calibration was not fitted for; empty where it was fitted for this."""
    from simulator.predict import predict_scenario

    status = predict_scenario(scenario).status
    return f"outside what it was fitted on, {status.reason}" if status.state == "outside_calibration" else ""


def _does_not_fit(scenario: Scenario) -> str:
    from simulator.predict import predict_scenario

    status = predict_scenario(scenario).status
    return status.reason if status.state == "does_not_fit" else ""
