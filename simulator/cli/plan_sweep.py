"""`sps plan` over a sweep, and on a cluster: every point is a task of its own."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from simulator.cli.files import ready, to_json, write
from simulator.cli.plan_files import write_plan
from simulator.cli.progress import stage
from simulator.errors import RefusedError, UnfinishedError

if TYPE_CHECKING:
    from simulator.spec.load import Point
    from simulator.spec.model import ModelSpec
    from simulator.sweep import Executor, Task
    from simulator.sweep.plans import OneForAll
    from simulator.sweep.tasks import Work

_COLUMNS = (
    "first",
    "lookahead",
    "gain",
    "gain_low",
    "gain_high",
    "p_best",
    "top",
    "tokens_per_s",
    "plain_s",
    "outside",
    "refused",
)
_SHOWN = 3


def plan_points(
    points: Sequence[Point], models: Mapping[str, ModelSpec], workers: Executor, out: Path, *, as_json: bool
) -> None:
    """A plan at every point: a table of who is first, and the one draft for all of them.

    Raises:
        UnfinishedError: some points failed.
        RefusedError: no point has an answer.
    """
    from simulator.sweep.plans import one_for_all, plan_tasks, planned

    answers = computed(plan_tasks(points, models), planned, workers, out)
    best = one_for_all(answers)
    for path in _write(out, points, answers, best):
        typer.echo(f"plan: {path}", err=True)
    if as_json:
        typer.echo(to_json({"records": [], "points": _rows(points, answers), "one_for_all": list(map(asdict, best))}))
    else:
        for line in _told(points, answers, best):
            typer.echo(line)
    if not any(answer["candidates"] for answer in answers):
        raise RefusedError(f"no point has an answer: {answers[0]['refused']}")


def plan_elsewhere(
    point: Point, models: Mapping[str, ModelSpec], workers: Executor, out: Path, *, as_json: bool
) -> None:
    """One plan on a worker: the same lines and the same files as here."""
    from simulator.cli.plan_answer import answered
    from simulator.sweep import task_of
    from simulator.sweep.plans import question

    payload = (point.scenario, dict(models), None)
    task = task_of(answered, question(point.scenario, models), payload, point.scenario.name)
    (answer,) = computed([task], answered, workers, out)
    data = json.loads(answer["data"])
    for path in write_plan(out, data, answer["html"]):
        typer.echo(f"plan: {path}", err=True)
    for line in [to_json({"records": [], "plan": data})] if as_json else answer["lines"]:
        typer.echo(line)


def seeded(point: Point, seed: int | None) -> Point:
    """The point with the seed that an option gives: it is part of the question."""
    return point if seed is None else replace(point, scenario=point.scenario.model_copy(update={"seed": seed}))


def computed(tasks: Sequence[Task], work: Work, workers: Executor, out: Path) -> list[dict[str, Any]]:
    """The results of all tasks, in order; those that the folder has already are not computed again.

    Raises:
        UnfinishedError: some failed.
    """
    from simulator.sweep import Store, run

    ready(out)
    words = f"plan: {len(tasks):,} point{'s' * (len(tasks) != 1)}"
    with Store(out / "points") as store, stage(words) as bar:
        outcome = run(tasks, work, store, workers, lambda p: bar(f"{p.done} of {p.total}"), batch=1)
        if outcome.failures:
            labels = {task.key: task.label for task in tasks}
            lines = [f"    {labels[key]}: {why}" for key, why in list(outcome.failures.items())[:10]]
            head = f"{len(outcome.failures)} of {outcome.points} points failed; the others are kept in {out}"
            raise UnfinishedError("\n".join([head, *lines]))
        return [json.loads(store[task.key]) for task in tasks]


def _rows(points: Sequence[Point], answers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for point, answer in zip(points, answers, strict=True):
        first = answer["candidates"][0] if answer["candidates"] else {}
        values = {**answer, **first, "first": first.get("name", "")}
        rows.append({"axes": point.axes, **{name: values.get(name) for name in _COLUMNS}})
    return rows


def _write(
    out: Path, points: Sequence[Point], answers: Sequence[Mapping[str, Any]], best: Sequence[OneForAll]
) -> list[Path]:
    rows = _rows(points, answers)
    axes = list(points[0].axes)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*axes, *_COLUMNS])
    for row in rows:
        table.writerow([*(row["axes"][path] for path in axes), *(row[name] for name in _COLUMNS)])
    whole = [{"axes": point.axes, **answer} for point, answer in zip(points, answers, strict=True)]
    data = {"points": whole, "one_for_all": [asdict(one) for one in best]}
    return [write(out / "plans.json", f"{to_json(data)}\n"), write(out / "plans.csv", text.getvalue())]


def _told(points: Sequence[Point], answers: Sequence[Mapping[str, Any]], best: Sequence[OneForAll]) -> Iterator[str]:
    from simulator import tables

    scenario = points[0].scenario
    yield f"{scenario.target.name} on {scenario.deployment.hardware.name}: which draft, at {len(points)} points?"
    yield f"\n{_table(points, answers, best[0] if best else None).text()}"
    yield from tables.wrapped(
        "first: of least expected regret there; gain: over plain decoding; alike: candidates that cannot be told from "
        "it; tokens/s: of the whole batch; K of all: of the one draft below, off where plain decoding costs less; "
        "*: outside the calibration's sizes."
    )
    for refused in dict.fromkeys(answer["refused"] for answer in answers if answer["refused"]):
        yield from tables.wrapped(f"no answer (-): {refused}")
    for place, one in enumerate(best[:_SHOWN]):
        where = ", ".join(f"{path.rpartition('.')[2]} {value}" for path, value in points[one.worst_at].axes.items())
        head = "one for all" if place == 0 else "next"
        yield from tables.wrapped(
            f"{head}: {one.name}: mean regret {one.regret:.1%}, {one.worst:.1%} at worst ({where}), all points alike"
        )
    if not best and any(answer["candidates"] for answer in answers):
        yield from tables.wrapped("no draft is among the best of every point; a larger plan.survivors keeps more")


def _table(points: Sequence[Point], answers: Sequence[Mapping[str, Any]], best: OneForAll | None) -> Any:
    from simulator.tables import Column, Table

    names = [path.rpartition(".")[2] for path in points[0].axes]
    columns = [
        *(Column(name) for name in names),
        Column("first", numeric=False),
        *(Column(name) for name in ("K", "gain", "90 %", "P(best)", "alike", "tokens/s", "K of all")),
    ]
    rows = []
    for number, (point, answer) in enumerate(zip(points, answers, strict=True)):
        axes = [str(value) for value in point.axes.values()]
        if not answer["candidates"]:
            rows.append((*axes, "-", *[""] * 7))
            continue
        first = answer["candidates"][0]
        depth = best.lookahead[number] if best is not None else None
        rows.append(
            (
                *axes,
                first["name"].removeprefix("draft-"),
                str(first["lookahead"] or ""),
                f"{first['gain']:.2f}{'*' if answer['outside'] else ' '}",
                f"{first['gain_low']:.2f}-{first['gain_high']:.2f}",
                f"{first['p_best']:.2f}",
                str(answer["top"]),
                f"{first['tokens_per_s']:,.0f}",
                "" if depth is None else str(depth or "off"),
            )
        )
    return Table("", tuple(columns), tuple(rows))
