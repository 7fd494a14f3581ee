"""sps plan: which draft to train for a target, how good it must become to pay, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.cli.files import ready, records_json, to_json, write
from simulator.cli.options import AsJson, OutFolder
from simulator.cli.plan_files import write_plan
from simulator.cli.sweep import ExecutorName, Jobs
from simulator.errors import ConfigError, Problem

if TYPE_CHECKING:
    pass

File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario with a `plan:`.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a key of the scenario; may be repeated.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Seed of the draws; that of the scenario unless given.")
]

Simulated = Annotated[
    int | None,
    typer.Option(
        "--simulate", metavar="N", min=1, max=50, help="Play N candidates with their tails: the first, then the front."
    ),
]
Confirmed = Annotated[
    str | None,
    typer.Option(
        "--confirm",
        metavar="N|compile[:N]",
        help="Really run the first N candidates here, acceptance forced; or have the TPU compiler compile N (3).",
    ),
]


def plan(  # noqa: PLR0913, PLR0917 - the options of a verb
    file: File,
    settings: Settings = None,
    seed: Seed = None,
    out: OutFolder = None,
    as_json: AsJson = False,
    simulate: Simulated = None,
    confirm: Confirmed = None,
    executor: ExecutorName = "local",
    jobs: Jobs = None,
) -> None:
    """Choose a draft before anyone trains it: time every shape, draw the best under uncertainty, and say who wins."""
    from simulator.cli import confirm as last
    from simulator.cli.plan_answer import lines_of, to_data
    from simulator.cli.plan_sweep import plan_elsewhere, plan_points, seeded
    from simulator.plan import best_lookahead
    from simulator.plan import plan as search
    from simulator.report import plan_page, rendered
    from simulator.spec.load import load_scenario
    from simulator.spec.named import models_named
    from simulator.sweep import executor_of

    asked_of_last = last.confirmation(confirm) if confirm is not None else None
    points = load_scenario(file, settings or ())
    scenario = points[0].scenario
    if scenario.plan is None:
        raise ConfigError((Problem(str(file), 0, 0, "plan", "", "the key 'plan', which is missing: what is searched"),))
    named = {name for point in points if point.scenario.plan for name in point.scenario.plan.named_models}
    models, folder = models_named(sorted(named), file.parent), out or Path("out") / scenario.name
    if len(points) > 1 or executor != "local" or jobs is not None:
        if simulate is not None or confirm is not None:
            accepts = "one point that is planned here: neither a sweep nor --executor or --jobs beside it"
            raise ConfigError((Problem("", 0, 0, "--simulate or --confirm", "", accepts),))
        asked = [seeded(point, seed) for point in points]
        with executor_of(executor, jobs) as workers:
            if len(points) > 1:
                plan_points(asked, models, workers, folder, as_json=as_json)
            else:
                plan_elsewhere(asked[0], models, workers, folder, as_json=as_json)
        return
    outcome = search(scenario, models, seed)
    played = last.simulate(outcome, simulate) if simulate is not None else []
    run, compiled = last.confirmed(outcome, asked_of_last, ready(folder)) if asked_of_last is not None else ([], [])
    if as_json or out is not None:
        best = best_lookahead(outcome)
        data = to_data(outcome, best)
        if out is not None:
            for path in write_plan(out, data, rendered(plan_page(outcome, best))):
                typer.echo(f"plan: {path}", err=True)
            if records := [*played, *run, *compiled]:
                typer.echo(f"records: {write(out / 'candidates.json', records_json(records))}", err=True)
        if as_json:
            typer.echo(to_json({"records": [r.to_json() for r in (*played, *run, *compiled)], "plan": data}))
            return
    for line in lines_of(outcome, played, run, compiled):
        typer.echo(line)
