"""sps sweep: every point of a large sweep, on this machine or a cluster; interrupted, it goes on where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.cli.files import ready, to_json
from simulator.cli.options import AsJson, File, Settings
from simulator.cli.progress import stage
from simulator.errors import RefusedError, UnfinishedError

if TYPE_CHECKING:
    from simulator.sweep import Executor, Outcome, Progress, Store, Task
    from simulator.sweep.tasks import Work

INTERRUPTED = 130
_BEST = 5
_FAILURES_SHOWN = 10
_LINE_EVERY_S = 10.0
_TERMS = ("speedup", "tpot_s", "tokens_per_s", "break_even_acceptance")
# A simulated point takes a hundred times as long as one by closed form.
_SIMULATED_BATCH = 4

Folder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results, and to go on from.")]
ExecutorName = Annotated[
    str, typer.Option("--executor", metavar="WHERE", help="local, or dask://HOST:PORT of a scheduler that runs.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Processes of this machine; 1: this one. Default: all processors."),
]
Simulate = Annotated[bool, typer.Option("--simulate", help="Simulate each point too, not by closed form alone.")]


def sweep(
    file: File,
    *,
    out: Folder,
    settings: Settings = None,
    executor: ExecutorName = "local",
    jobs: Jobs = None,
    simulate: Simulate = False,
    as_json: AsJson = False,
) -> None:
    """Predict all points of a sweep, up to 100,000, by closed form; started again, go on where it was stopped."""
    from simulator.spec.load import MAX_SWEEP, load_scenario
    from simulator.sweep import Store, executor_of
    from simulator.sweep.outputs import Rows, best, write_rows
    from simulator.sweep.points import closed_form, simulated, tasks_of

    with executor_of(executor, jobs) as workers:
        points = load_scenario(file, settings or (), MAX_SWEEP)
        ready(out)
        work = simulated if simulate else closed_form
        tasks = tasks_of(points, work)
        store = Store(out / "points")
        with _kept(store, tasks, out), store:
            outcome = _run(tasks, work, store, workers)
    rows = Rows(points, tasks, store, outcome.failures)
    files = write_rows(out, rows)
    found = best(rows, _BEST)
    if as_json:
        typer.echo(to_json({"records": [], "sweep": _summary(outcome, len(points), files), "best": found}))
    else:
        for line in _told(found, outcome, len(points), files):
            typer.echo(line)
    _refuse_failures(tasks, outcome, out)
    if not found:
        raise RefusedError(f"no point has an answer to rely on; the reasons are in {files['table']}")


def _run(tasks: Sequence[Task], work: Work, store: Store, workers: Executor) -> Outcome:
    from simulator.sweep import run
    from simulator.sweep.points import simulated
    from simulator.sweep.running import BATCH

    if store.damaged:
        words = f"{store.damaged} damaged file{'s' * (store.damaged != 1)} of results removed"
        typer.echo(f"{words}; those points are computed again", err=True)
    with _progress(len(tasks)) as report:
        return run(tasks, work, store, workers, report, _SIMULATED_BATCH if work is simulated else BATCH)


@contextmanager
def _kept(store: Store, tasks: Sequence[Task], out: Path) -> Iterator[None]:
    """Whatever stops the run, say what is kept and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, UnfinishedError) as stop:
        keys = {task.key for task in tasks}
        kept = f"{sum(key in store for key in keys):,} of {len(keys):,} points are kept in {out}"
        words = f"{kept}; the same command goes on from there"
        if isinstance(stop, UnfinishedError):
            raise UnfinishedError(f"{stop}\n{words}") from None
        typer.echo(f"stopped; {words}", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere a line now and then, with rate and time left."""
    reused, told_s = 0, time.monotonic()

    def line(progress: Progress) -> None:
        nonlocal reused, told_s
        if progress.reused != reused or time.monotonic() - told_s >= _LINE_EVERY_S:
            reused, told_s = progress.reused, time.monotonic()
            typer.echo(f"sweep: {_words(progress)}", err=True)

    with stage(f"sweep: {total:,} point{'s' * (total != 1)}") as bar:
        yield (lambda p: bar(f"{p.done} of {p.total}, {_crew(p)}")) if _on_terminal() else line


def _on_terminal() -> bool:
    from rich.console import Console

    return Console(stderr=True).is_terminal


def _words(progress: Progress) -> str:
    words = f"{progress.done:,} of {progress.total:,}"
    words += f" ({progress.reused:,} were there)" if progress.reused else ""
    if progress.rate and progress.left_s is not None:
        words += f", {progress.rate:,.3g} a second, {progress.left_s:,.0f} s left"
    return f"{words}, {_crew(progress)}"


def _crew(progress: Progress) -> str:
    failed = f", {progress.failed:,} FAILED" if progress.failed else ""
    return f"{progress.workers:,} worker{'s' * (progress.workers != 1)}{failed}"


def _summary(outcome: Outcome, points: int, files: dict[str, Path]) -> dict[str, Any]:
    return {
        "points": points,
        "computed": outcome.computed,
        "reused": outcome.reused,
        "failures": outcome.failures,
        "files": {name: str(path) for name, path in files.items()},
    }


def _told(found: Sequence[dict[str, Any]], outcome: Outcome, points: int, files: dict[str, Path]) -> list[str]:
    there = f", {outcome.reused:,} were there" if outcome.reused else ""
    lines = [f"{points:,} point{'s' * (points != 1)}: {outcome.computed:,} computed{there}"]
    if found:
        lines += ["", _table(found), ""]
    return [*lines, *(f"{name}: {path}" for name, path in files.items())]


def _table(found: Sequence[dict[str, Any]]) -> str:
    from simulator.tables import Column, Table
    from simulator.tables.wording import quantity, term_words

    axes, metrics = found[0]["axes"], [row["metrics"] for row in found]
    names = {path: path.rpartition(".")[2] for path in axes}
    columns = [Column(name, numeric=not isinstance(axes[path], str)) for path, name in names.items()]
    columns += [Column(term_words(term)) for term in _TERMS]
    rows = [
        (
            *(str(row["axes"][path]) for path in axes),
            *(quantity(term, values[term]) if term in values else "" for term in _TERMS),
        )
        for row, values in zip(found, metrics, strict=True)
    ]
    table = Table("", tuple(columns), tuple(rows)).without_empty_columns()
    # What all of them have in common needs no column.
    table = table.without_constant(*names.values())
    return f"highest speedup over plain decoding of the same target on the same chips\n{table.text()}"


def _refuse_failures(tasks: Sequence[Task], outcome: Outcome, out: Path) -> None:
    """Name the points that failed, with their keys.

    Raises:
        UnfinishedError: there are some.
    """
    if not outcome.failures:
        return
    labels = {task.key: task.label for task in tasks}
    failures = list(outcome.failures.items())
    lines = [f"    {key}  {labels[key]}: {why}" for key, why in failures[:_FAILURES_SHOWN]]
    more = len(failures) - _FAILURES_SHOWN
    lines += [f"    and {more:,} more, in sweep.csv"] if more > 0 else []
    head = f"{len(failures):,} of {outcome.points:,} points failed; the others are kept in {out}"
    raise UnfinishedError("\n".join([f"{head}, and the same command tries these again", *lines]))
