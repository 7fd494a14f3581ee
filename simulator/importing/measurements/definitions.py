"""Acceptance and times as other tools define them -> as we do. The words are those of the report.

Ours: ``acceptance_length`` is the mean of the tokens of a round with the target's own, 1 to K+1;
``draft_acceptance_ratio`` is accepted over proposed; an ``acceptance_rate`` is conditional on all before it in the
round. TPOT is (end-to-end time - TTFT) / (output tokens - 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.importing.measurements.found import Finding

MOST_TOKENS = 65.0
"""The most tokens of a round that any record may tell of: K is at most 64."""
ROUNDED = 0.0051
"""What two decimals hide."""


def conditional(survival: Sequence[float]) -> tuple[float, ...]:
    """Rates given that all before were accepted, from the shares of rounds that kept at least so many tokens.

    Ends where no round got further; empty where the shares rise, as no such shares do.
    """
    rates, before = [], 1.0
    for share in survival:
        if share > before + 1e-9:
            return ()
        if before <= 0:
            break
        rates.append(share / before)
        before = share
    return tuple(rates)


def put_length(finding: Finding, value: float, whose: str, how: str = "") -> None:
    """An acceptance length that counts the target's own token, as ours does."""
    finding.put("acceptance_length", value, how)
    finding.converted.append(f"acceptance {value:.3g} read as acceptance length with the bonus token ({whose})")


def put_ratio(finding: Finding, accepted: float, proposed: float, whose: str) -> None:
    """Accepted over proposed, which is no acceptance rate."""
    finding.put("draft_acceptance_ratio", accepted / proposed)
    text = f"acceptance rate {accepted / proposed:.3g} read as draft_acceptance_ratio, accepted / proposed"
    finding.converted.append(f"{text} ({whose})")


def survival_off(positions: int) -> float:
    """By how much printed survival rates may miss the acceptance length less 1, which they add up to."""
    return ROUNDED + 0.0006 * positions


def put_survival(finding: Finding, survival: Sequence[float], whose: str) -> bool:
    """Rates by position as survival; False where they rise and so are none."""
    rates = conditional(survival)
    if not rates:
        return False
    finding.read["survival_rates"] = [round(share, 6) for share in survival]
    finding.read["acceptance_rates"] = [round(rate, 6) for rate in rates]
    shares, given = (", ".join(f"{value:.3f}" for value in values) for values in (survival, rates))
    finding.converted.append(
        f"rates by position {shares} read as survival ({whose}); conditional, as quotients: acceptance_rates [{given}]"
    )
    return True
