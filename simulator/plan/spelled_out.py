"""Drafts that are spelled out, beside those that are searched: models that exist, and heads on hidden states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from simulator.cost.memory import does_not_fit, memory_terms
from simulator.errors import RefusedError
from simulator.plan.candidates import Candidate, entry_name
from simulator.plan.heads import head_models
from simulator.plan.ranking import Entry
from simulator.plan.screen import REST, Candidates, Group, with_draft
from simulator.prior.sizes import sizes_of
from simulator.spec.model import ModelSpec
from simulator.spec.named import may_draft
from simulator.spec.plan import Plan
from simulator.spec.scenario import Scenario
from simulator.steps import Steps

DRAFTED = ("draft_first_step", "draft_step")
"""Components of a round that are the draft's."""


def existing(known: Sequence[Candidates], asked: Plan, model: ModelSpec) -> tuple[list[Candidate], list[str]]:
    """A draft that exists, in every group that it can be in; and why it is left out of others."""
    target = known[0].group.scenario.target
    if model.hidden_states is not None:
        return [], [f"{model.name} reads hidden states of the target: it belongs in plan.heads"]
    try:
        sizes_of([model])
    except RefusedError as error:
        return [], [str(error)]
    if not may_draft(model, target):
        return [], [f"{model.name} cannot draft for {target.name}: other tokens, or as large"]
    found = [_by_its_steps(one.group, asked.lookahead, model) for one in known]
    return _apart(found)


def heads(
    scenario: Scenario, known: Sequence[Candidates], asked: Plan, models: Mapping[str, ModelSpec]
) -> tuple[list[Candidate], list[str]]:
    """Every head of `plan.heads`, beside every way to serve the target; and why some are left out.

    Raises:
        RefusedError: a head is none of this target.
    """
    # A head runs on all chips of the target, where its hidden states are.
    served = {one.group.option: one.group for one in known}
    found: list[Candidate | str] = []
    for option in asked.heads:
        for model in head_models(option, scenario.target, max(asked.lookahead), models):
            reads = model.hidden_states
            most = reads.lm_heads if reads is not None and reads.proposes == "heads" else max(asked.lookahead)
            tried = tuple(k for k in asked.lookahead if k <= most)
            if not tried:
                found.append(f"{model.name} proposes at most {most} tokens, fewer than any of plan.lookahead")
                continue
            for group in served.values():
                whole = replace(group, degree=group.scenario.deployment.target_degree)
                one = _by_its_steps(whole, tried, model)
                found.append(replace(one, stated=option.acceptance) if isinstance(one, Candidate) else one)
    return _apart(found)


def _apart(found: Sequence[Candidate | str]) -> tuple[list[Candidate], list[str]]:
    return [one for one in found if isinstance(one, Candidate)], [why for why in found if isinstance(why, str)]


def _by_its_steps(group: Group, lookaheads: Sequence[int], model: ModelSpec) -> Candidate | str:
    """A draft in a group by the cost model of one scenario, or why it cannot be there."""
    largest = with_draft(group.scenario, model, max(*lookaheads, 2), group.degree)
    if model.heads < group.degree:
        return f"{model.name} has {model.heads} heads, too few for {group.degree} chips"
    if reason := does_not_fit(largest, memory_terms(largest)):
        return f"{model.name} beside {group.target}: {reason}"
    drafted, rest = [], []
    for lookahead in lookaheads:
        parts = Steps.of(with_draft(group.scenario, model, lookahead, group.degree)).mechanisms()
        seconds = {name: sum(parts.get(name, {}).values()) for name in (*DRAFTED, *REST)}
        drafted.append(seconds["draft_first_step"] + (lookahead - 1) * seconds["draft_step"])
        rest.append(sum(seconds[name] for name in REST))
    parts = Steps.of(largest).mechanisms()
    # Where all tokens come of one pass, that is the step.
    own = parts.get("draft_step") or parts["draft_first_step"]
    step_s = sum(own.values())
    wires = sum(own.get(f"collective_{kind}", 0.0) for kind in ("latency", "bandwidth"))
    entry = Entry(entry_name(model, group), group.option, tuple(lookaheads), tuple(drafted), tuple(rest), group.weight)
    return Candidate(entry, group, model, step_s, wires / step_s if step_s else 0.0)
