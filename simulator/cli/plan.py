"""sps plan: which draft to train for a target, how good it must become to pay, and how sure that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.cli.compare import told
from simulator.cli.files import ready, records_json, to_json, write
from simulator.cli.options import AsJson, OutFolder
from simulator.cli.plan_files import lookahead_data, write_plan
from simulator.errors import ConfigError, Problem

if TYPE_CHECKING:
    from simulator.plan import BestLookahead, Outcome
    from simulator.spec.record import RunRecord

File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario with a `plan:`.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a key of the scenario; may be repeated.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Seed of the draws; that of the scenario unless given.")
]

Simulated = Annotated[
    int | None,
    typer.Option("--simulate", metavar="N", min=1, max=50, help="Play the first N candidates, with their tails."),
]
Confirmed = Annotated[
    int | None,
    typer.Option(
        "--confirm", metavar="N", min=1, max=20, help="Really run the first N candidates here, acceptance forced."
    ),
]


def plan(  # noqa: PLR0917
    file: File,
    settings: Settings = None,
    seed: Seed = None,
    out: OutFolder = None,
    as_json: AsJson = False,
    simulate: Simulated = None,
    confirm: Confirmed = None,
) -> None:
    """Choose a draft before anyone trains it: time every shape, draw the best under uncertainty, and say who wins."""
    from simulator.cli import confirm as last
    from simulator.plan import best_lookahead
    from simulator.plan import plan as search
    from simulator.spec.load import load_scenario
    from simulator.spec.named import find_all

    points = load_scenario(file, settings or ())
    if len(points) > 1:
        accepts = f"one point; this one has {len(points)}: --set fixes what is swept, 'sweep: {{}}' takes away a base's"
        raise ConfigError((Problem(str(file), 0, 0, "sweep", "", accepts),))
    scenario = points[0].scenario
    if scenario.plan is None:
        raise ConfigError((Problem(str(file), 0, 0, "plan", "", "the key 'plan', which is missing: what is searched"),))
    names = [("plan.existing", name, "model") for name in scenario.plan.existing]
    outcome = search(scenario, [found.spec for found in find_all(names, file.parent)], seed)
    folder = out or Path("out") / scenario.name
    played = last.simulate(outcome, simulate) if simulate is not None else []
    run = last.confirm(outcome, confirm, ready(folder)) if confirm is not None else []
    if as_json or out is not None:
        best = best_lookahead(outcome)
        data = to_data(outcome, best)
        if out is not None:
            for path in write_plan(out, outcome, best, data):
                typer.echo(f"plan: {path}", err=True)
            if records := [*played, *run]:
                typer.echo(f"records: {write(out / 'candidates.json', records_json(records))}", err=True)
        if as_json:
            typer.echo(to_json({"records": [r.to_json() for r in (*played, *run)], "plan": data}))
            return
    for line in _told(outcome, played, run):
        typer.echo(line)


def _told(outcome: Outcome, played: Sequence[RunRecord], run: Sequence[RunRecord]) -> Iterator[str]:
    """The answer for people, at most 100 columns wide; commands to be copied stay whole."""
    from simulator import compare, tables
    from simulator.plan import commands

    scenario = outcome.scenario
    yield f"{scenario.target.name} on {scenario.deployment.chips} x {scenario.deployment.hardware.name}: which draft?"
    yield from tables.wrapped(*tables.plan_answer(outcome))
    yield f"\n{tables.plan_table(outcome).text()}"
    yield from tables.wrapped(tables.PLAN_LEGEND)
    if played:
        yield "\nplayed round by round, acceptance as the mean of the prior:\n"
        yield tables.tails(played).text()
    if run:
        yield "\nreally run here, acceptance forced to the mean of the prior:\n"
        yield from told(compare.compare(run))
    for made in commands(outcome.leader):
        yield f"\n{made.engine}: {made.text or 'cannot serve it: ' + made.why_not}"


def to_data(outcome: Outcome, best: BestLookahead | None) -> dict[str, Any]:
    """Everything as plain data."""
    from simulator.plan import commands, training_cost

    asked = outcome.scenario.plan
    if asked is None:  # an outcome is of a scenario with a plan
        raise AssertionError
    costs = [training_cost(one, asked) for one in outcome.proposals]
    return {
        "screened": outcome.screened,
        "shapes": len(outcome.drafts),
        "statement": outcome.statement,
        "left_out": list(outcome.left_out),
        "best_lookahead": lookahead_data(best),
        "candidates": [
            {
                "name": one.ranked.entry.name,
                "model": one.model.model_dump(mode="json", exclude_defaults=True) if one.model else None,
                "option": one.group.option,
                "draft_tensor_parallel": one.group.degree if one.model else None,
                "lookahead": one.ranked.lookahead,
                "p_best": one.ranked.p_best,
                "regret": one.ranked.regret,
                "gain": one.gain,
                "value_s": one.ranked.value_s,
                "value_s_low": one.ranked.low_s,
                "value_s_high": one.ranked.high_s,
                "acceptance": one.acceptance,
                "needs": None if one.needs != one.needs else one.needs,
                "draft_step_s": one.step_s,
                "collective_share": one.collective_share,
                "told_from_the_first": one.ranked.apart,
                "training": None if cost is None else dataclasses.asdict(cost) | {"payback_days": cost.payback_days},
                "serve": {made.engine: made.text or None for made in commands(one)},
            }
            for one, cost in zip(outcome.proposals, costs, strict=True)
        ],
    }
