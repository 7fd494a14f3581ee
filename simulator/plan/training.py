"""What it costs to train a draft, and when serving with it has paid that back."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.plan.proposals import Proposal
from simulator.spec.fields import DType
from simulator.spec.plan import Plan

FLOP_PER_WEIGHT_AND_TOKEN = 6.0
"""Forward and backward pass: Kaplan et al. 2020, arXiv 2001.08361, section 2.1, attention's own products aside."""
TOKENS_PER_PARAMETER = 20.0
"""Where a plan does not say how long drafts are trained: Hoffmann et al. 2022, arXiv 2203.15556."""
TRAINED_IN: DType = "bfloat16"


@dataclass(frozen=True)
class TrainingCost:
    """One run to the end, without the runs that fail."""

    tokens: float
    flop: float
    chip_hours: float | None
    """On chips of the scenario; None where their peak in bfloat16 is not known."""
    usd: float | None
    saved_usd_per_day: float | None
    """Against plain decoding of the same target on the same chips, at the stated traffic; negative where it loses."""

    @property
    def payback_days(self) -> float | None:
        """Days of serving that pay for the training; None where it never does or a price or traffic is not stated."""
        if self.usd is None or self.saved_usd_per_day is None or self.saved_usd_per_day <= 0:
            return None
        return self.usd / self.saved_usd_per_day


def training_cost(one: Proposal, asked: Plan) -> TrainingCost | None:
    """What one draft costs; None for plain decoding and for drafts that exist.

    ``6 N D`` floating-point operations at ``utilisation`` of the chips' peak.
    """
    if one.model is None or one.index is None:
        return None
    deployment, batch = one.group.scenario.deployment, one.group.scenario.workload.batch
    tokens = asked.prior.training_tokens or TOKENS_PER_PARAMETER * one.model.parameters
    flop = FLOP_PER_WEIGHT_AND_TOKEN * one.model.parameters * tokens
    peak = deployment.hardware.peaks.matmul.get(TRAINED_IN)
    hours = flop / (peak.value_flop_per_s * asked.training.utilisation) / 3600 if peak is not None else None
    serving = deployment.chip_usd_per_h
    price = asked.training.price_usd_per_h or serving
    saved = None
    if serving is not None and asked.training.tokens_per_day is not None:
        token_s = one.ranked.value_s / one.ranked.entry.weight
        chip_s = (one.group.plain_s - token_s) * deployment.chips / batch
        saved = asked.training.tokens_per_day * chip_s * serving / 3600
    return TrainingCost(tokens, flop, hours, hours * price if hours is not None and price is not None else None, saved)
