"""The page of a validation."""

from __future__ import annotations

from simulator import figures, tables
from simulator.report.sections import Figure, Page, Section
from simulator.validation import Outcome

_CAPTIONS = {
    "parity": "Measured over predicted times of shapes that no fit has seen; the bars are 90 % intervals.",
    "by_component": "Relative errors by component and number of devices; negative is too fast.",
    "over_size": "Relative errors over the size of the larger model.",
    "coverage": "How many measured values lie inside intervals of each nominal width.",
}


def validation_page(outcome: Outcome) -> Page:
    """Verdict, criteria, errors by component, figures, every held-out value."""
    drawn = figures.held_out(outcome)
    words = tuple(("" if outcome.passed else "! ") + line for line in tables.validation_verdict(outcome))
    sections = (
        Section("", words=words),
        Section("What was asked of it", tables=(tables.criteria(outcome),)),
        Section("Errors by component", tables=(tables.validation_errors(outcome.summaries()),)),
        *(Section("", figures=(Figure(drawn[name], caption),)) for name, caption in _CAPTIONS.items()),
        Section("Every held-out value", tables=(tables.every_held_out(outcome),), folded=True),
    )
    question = f"How far are predictions from what {outcome.host.processor or outcome.host.device} takes?"
    return Page("validation", question, (f"design {outcome.design}, calibration {outcome.calibration}",), sections)
