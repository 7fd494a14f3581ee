"""The `sps` command: one module a verb.

Heavy imports (the schema, SimPy, plotly, JAX) stand inside the verbs, so that `sps --help` and `sps check` are
quick. This package is the only place of the simulator that may import the runtime.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from simulator.cli import (
    calibrate,
    check,
    compare,
    compile,  # noqa: A004
    explain,
    importing,
    init,
    measure,
    plan,
    predict,
    run,
    sweep,
    trace,
    validate,
)
from simulator.cli.list import list_known
from simulator.cli.messages import within_width
from simulator.errors import SpsError

INTERRUPTED = 130


class _Verbs(TyperGroup):
    """Turns the toolkit's own exceptions into a message and an exit code; a bug still shows its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SpsError as error:
            typer.echo(within_width(str(error)), err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="sps",
    cls=_Verbs,
    help="Predict, measure and compare speculative sampling: is a draft worth it on this hardware?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("init")(init.init)
app.command("check")(check.check)
app.command("predict")(predict.predict)
app.command("sweep")(sweep.sweep)
app.command("measure")(measure.measure)
app.command("compile")(compile.compile_programs)
app.command("compare")(compare.compare)
app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("calibrate")(calibrate.calibrate)
app.command("validate")(validate.validate)
app.command("trace")(trace.trace)
app.command("explain")(explain.explain)
app.command("list")(list_known)

imports = typer.Typer(help="Write files of ours from files of other tools.", no_args_is_help=True)
imports.command("model")(importing.model)
imports.command("measurement")(importing.measurement)


app.add_typer(imports, name="import")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"sps {metadata.version('sps-planner')}, python {sys.version.split()[0]}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Predict, measure and compare speculative sampling: is a draft worth it on this hardware?"""


def main() -> None:
    """Entry point of the `sps` script and of `python -m simulator`."""
    app(prog_name="sps")
