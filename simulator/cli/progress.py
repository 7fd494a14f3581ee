"""Progress on stderr: a bar with rate and time left on a terminal, one line a stage elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

_STEP = re.compile(r"(\d{1,6}) ?(?:/|of) ?(\d{1,6})")

Report = Callable[[str], None]


@contextmanager
def stage(words: str) -> Iterator[Report]:
    """Announce a stage and yield the function that it reports to.

    What is reported is shown beside the bar; a report with ``3 of 12`` or ``3/12`` in it also moves the bar, which
    is what rate and time left are reckoned from.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        typer.echo(words, err=True)
        yield lambda _text: None
        return
    with _bar(console) as bar:
        task = bar.add_task(words, total=None, latest="")

        def report(text: str) -> None:
            step = _STEP.search(text)
            known: dict[str, Any] = {"completed": int(step[1]), "total": int(step[2])} if step else {}
            bar.update(task, latest=text, **known)

        yield report
        bar.update(task, completed=1, total=1, latest="")


def _bar(console: Any) -> Any:
    from rich import progress

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=20),
        progress.TaskProgressColumn(show_speed=True),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[latest]}", markup=False),
        console=console,
    )
