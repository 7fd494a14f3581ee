"""sps import: files of other tools as files of ours."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from simulator.cli.messages import within_width
from simulator.cli.options import Settings
from simulator.errors import ConfigError, Problem

Config = Annotated[Path, typer.Argument(metavar="CONFIG.json", help="The config.json of a model or a draft head.")]
Called = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Its name; made of the file's unless given")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of to stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE.")]
Quantization = Annotated[
    Path | None,
    typer.Option("--quantization", metavar="FILE", help="A hf_quant_config.json; one beside the file is taken anyway."),
]
AsFamily = Annotated[
    str | None, typer.Option("--as", metavar="FAMILY", help="Read the file as one of this model_type, such as llama.")
]
DraftHead = Annotated[
    Literal["eagle", "eagle3", "peagle", "dflash", "none"] | None,
    typer.Option("--draft-head", help="The file is that of a draft head of this kind; its keys decide unless given."),
]
Part = Annotated[
    Literal["mtp"] | None, typer.Option("--part", help="mtp: the multi-token prediction module instead of the model.")
]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", metavar="NAME", help="Its tokenizer, which no config.json names.")
]


def model(  # noqa: PLR0913, PLR0917
    config: Config,
    name: Called = None,
    out: Out = None,
    force: Force = False,
    quantization: Quantization = None,
    as_family: AsFamily = None,
    draft_head: DraftHead = None,
    part: Part = None,
    tokenizer: Tokenizer = None,
) -> None:
    """Write the model file for a config.json of Hugging Face; what was inferred and left out goes to stderr."""
    from simulator.cli.files import write
    from simulator.importing import Asked, import_model
    from simulator.importing.words import report_lines, to_yaml

    if out is not None and out.exists() and not force:
        raise ConfigError((Problem(str(out), 0, 0, "", "", "a file that is not there yet; --force overwrites it"),))
    asked = Asked(name, as_family, draft_head, part, tokenizer, quantization)
    imported = import_model(config, asked)
    text = to_yaml(imported)
    for line in report_lines(imported):
        typer.echo(within_width(line), err=True)
    if out is None:
        typer.echo(text, nl=False)
        return
    typer.echo(f"model: {write(out, text)}")
    typer.echo(f"next: sps init --model {shlex.quote(str(out))} --hardware NAME --chips N")


Measured = Annotated[Path, typer.Argument(metavar="FILE", help="A result file, a log or a table of another tool.")]
FormatName = Annotated[
    str | None, typer.Option("--format", metavar="NAME", help="Its format; told from the content unless given.")
]
About = Annotated[
    str | None,
    typer.Option("--scenario", metavar="SCENARIO.yaml", help="What was measured; of a sweep, the point that agrees."),
]
Only = Annotated[
    str | None, typer.Option("--only", metavar="TEXT", help="Only configurations whose name has this text in it.")
]


def measurement(  # noqa: PLR0917
    file: Measured,
    format_name: FormatName = None,
    out: Out = None,
    scenario: About = None,
    settings: Settings = None,
    only: Only = None,
    force: Force = False,
) -> None:
    """Write measured records for what another tool measured; every definition converted is named on stderr.

    Formats: results of vllm bench serve, SGLang's bench_serving, genai-perf and AIPerf; logs and /metrics of vLLM; logs
    of SGLang; llama-bench, llama-speculative and llama-cli; answers of Spec-Bench, EAGLE and Medusa; acceptance lengths
    by K; nccl-tests.
    """
    from simulator.cli.files import records_json, to_json, write
    from simulator.importing.measurements import import_measurement, with_scenario
    from simulator.importing.measurements.words import data_of, needs, report_lines
    from simulator.spec.load import load_scenario

    if out is not None and out.exists() and not force:
        raise ConfigError((Problem(str(out), 0, 0, "", "", "a file that is not there yet; --force overwrites it"),))
    if settings and scenario is None:
        raise ConfigError((Problem(f"--set {settings[0][:80]}", 0, 0, "", "", "--scenario FILE beside it"),))
    imported = import_measurement(file, format_name, only)
    if scenario is not None:
        imported = with_scenario(imported, load_scenario(scenario, settings or ()), scenario)
    elif imported.outcome.findings and out is not None:
        raise ConfigError((Problem("--out", 0, 0, "", "", "--scenario FILE beside it: a record is about a scenario"),))
    for line in report_lines(imported):
        typer.echo(within_width(line), err=True)
    if imported.records:
        text = records_json(imported.records)
    else:
        text = imported.outcome.written or to_json(data_of(imported))
    if imported.outcome.findings and not imported.records:
        typer.echo(within_width(needs(imported)), err=True)
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    typer.echo(f"{'records' if imported.records else 'written'}: {write(out, text)}")
    if imported.records:
        typer.echo(f"next: sps compare PREDICTED.json {shlex.quote(str(out))}")
