"""The page of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from simulator import figures, tables
from simulator.plan import BestLookahead, Outcome, leading_draft
from simulator.report.sections import Figure, Page, Section
from simulator.steps import Steps


def plan_page(outcome: Outcome, best: BestLookahead | None) -> Page:
    """The recommendation, the first candidates, figures, the best lookahead by load."""
    scenario = outcome.scenario
    question = f"Which draft for {scenario.target.name} on {scenario.deployment.chips} x {_chip(outcome)}?"
    sections = [
        Section("", words=tuple(tables.plan_answer(outcome))),
        Section("The first candidates", words=(tables.PLAN_LEGEND,), tables=(tables.plan_table(outcome),)),
        *_heads(outcome),
        *_plots(outcome),
    ]
    if best is not None:
        words = (*tables.lookahead_words(best), tables.prior_worth(outcome))
        sections.append(Section("Best K by batch and context", words=words, tables=(tables.lookahead_table(best),)))
    described = (f"{scenario.name}: {scenario.description}",)
    return Page(scenario.name, question, described, tuple(one for one in sections if not one.empty))


def _heads(outcome: Outcome) -> Iterator[Section]:
    if outcome.heads:
        yield Section("Draft heads", words=(tables.HEADS_LEGEND,), tables=(tables.heads_table(outcome),))


def _chip(outcome: Outcome) -> str:
    return outcome.scenario.deployment.hardware.name


def _plots(outcome: Outcome) -> Iterator[Section]:
    worth, validated, leader = tables.prior_worth(outcome), _validated(outcome), leading_draft(outcome)
    option = f", {leader.group.option}" if leader and leader.group.option else ""
    name, chips = (
        (leader.ranked.entry.name, leader.group.degree) if leader else ("", outcome.candidates[0].group.degree)
    )
    drawn = (
        (
            f"Gain of every shape{option}",
            figures.shapes(outcome, validated=validated),
            (
                "Gain over plain decoding at the mean of the prior, with each shape's best K and placement. Lines of "
                f"equal draft step are for a draft on {chips} chip{'s' * (chips != 1)}. {worth}"
            ),
        ),
        (
            "Draft step against acceptance",
            figures.front(outcome, validated=validated),
            (
                "Right of a line of equal gain a draft gains more. On the front no other is both faster and more often "
                f"accepted. Bars are 90 % intervals; those of the other drafts stand in their labels. {worth}"
            ),
        ),
        (
            f"Gain of {name} over acceptance and K",
            figures.gain_surface(outcome, validated=validated),
            f"Right of the line of gain 1 it pays. {worth}",
        ),
        (
            "Who is best, and what it costs to be wrong",
            figures.chances(outcome, validated=validated),
            (
                "Share of the draws in which each is the best, and what it loses to the best on average, as a share "
                f"of the best's. {worth}"
            ),
        ),
    )
    for title, plot, caption in drawn:
        if plot is not None:
            yield Section(title, figures=(Figure(plot, caption),))


def _validated(outcome: Outcome) -> bool:
    claim = Steps.of(outcome.scenario).calibration.validation
    return claim is not None and claim.passed
