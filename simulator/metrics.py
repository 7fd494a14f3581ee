"""Components of a scenario in seconds -> what a planner asks: TPOT, TTFT, speedup, break-even, wasted work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator import speculation
from simulator.spec.scenario import Scenario


def closed_form_metrics(scenario: Scenario, components: Mapping[str, float]) -> dict[str, float]:
    """Metrics by closed form; TPOT and speedup are those of a long output, end-to-end time that of N tokens."""
    plain = components["plain_step"]
    metrics = {f"{name}_s": value for name, value in components.items()} | {"ttft_s": ttft(scenario, components)}
    if "round" not in components:
        found = {
            "tpot_s": plain,
            "acceptance_length": 1.0,
            "speedup": 1.0,
            "tokens_per_s": scenario.workload.batch / plain,
        }
        found |= million_tokens(scenario, found["tokens_per_s"], plain)
        return metrics | found | _end_to_end(scenario, metrics | found, None)
    tokens, round_s = tokens_of_a_round(scenario), mean_round(scenario, components)
    together = lockstep_tokens(scenario)
    cost = components["round"] / plain
    metrics |= {
        "round_cost": cost,
        "acceptance_length": tokens,
        "tpot_s": round_s / together,
        "speedup": together * plain / round_s,
        "tokens_per_s": scenario.workload.batch * together / round_s,
        "draft_acceptance_ratio": (scenario.acceptance.mean_tokens(scenario.lookahead) - 1) / scenario.lookahead,
        "wasted_draft_s": wasted_draft(scenario, components),
    }
    metrics |= million_tokens(scenario, metrics["tokens_per_s"], plain)
    metrics |= _end_to_end(scenario, metrics, components["round"])
    even = _break_even(scenario, components)
    return metrics if np.isnan(even) else metrics | {"break_even_acceptance": even}


def ttft(scenario: Scenario, components: Mapping[str, float]) -> float:
    """Time to the first token: both models read the prompt first, at the same time where each has its own chips."""
    target, draft = components["prefill"], components.get("draft_prefill", 0.0)
    return max(target, draft) if scenario.deployment.own_draft_chips else target + draft


def million_tokens(scenario: Scenario, tokens_per_s: float, plain_step_s: float) -> dict[str, float]:
    """USD for a million output tokens, prefill apart, and by plain decoding on the target's chips alone.

    Empty where nobody said what a chip costs.
    """
    deployment, price = scenario.deployment, scenario.deployment.chip_usd_per_h
    if price is None:
        return {}
    each_s = 1e6 * price / 3600
    plainly = each_s * deployment.target_chips * plain_step_s / scenario.workload.batch
    return {
        "million_tokens_usd": each_s * deployment.chips / tokens_per_s,
        "plain_million_tokens_usd": plainly,
    }


def full_acceptance(scenario: Scenario) -> float:
    """P(a round keeps all K proposed tokens)."""
    return float(np.prod(scenario.acceptance.conditional(scenario.lookahead)))


def tokens_of_a_round(scenario: Scenario) -> float:
    """Mean tokens of a round; working ahead leaves no use for the target's own token after a full acceptance."""
    tokens = scenario.acceptance.mean_tokens(scenario.lookahead)
    return tokens - full_acceptance(scenario) if scenario.deployment.draft.ahead else tokens


def lockstep_tokens(scenario: Scenario) -> float:
    """Tokens of a round by which the output of a whole batch grows: of a static one, those of its slowest sequence."""
    if scenario.workload.batching == "continuous" or scenario.workload.batch == 1:
        return tokens_of_a_round(scenario)
    return scenario.acceptance.lockstep_tokens(scenario.lookahead, scenario.workload.batch)


def mean_round(scenario: Scenario, components: Mapping[str, float]) -> float:
    """Seconds of a round; a draft that works ahead hides its work in the round after a full acceptance."""
    if "round_ahead" not in components:
        return components["round"]
    hot = full_acceptance(scenario)
    return hot * components["round_ahead"] + (1 - hot) * components["round"]


def draft_seconds(scenario: Scenario, components: Mapping[str, float]) -> float:
    """Seconds in which the draft proposes the K tokens of one round."""
    return components["draft_first_step"] + (scenario.lookahead - 1) * components.get("draft_step", 0.0)


def wasted_draft(scenario: Scenario, components: Mapping[str, float]) -> float:
    """Draft seconds a round for tokens that are thrown away: rejected ones, and all that was drafted ahead of them.

    While a round that will be rejected is verified, a draft that works ahead proposes tokens in vain, at most K.
    """
    drafted, lookahead = draft_seconds(scenario, components), scenario.lookahead
    rejected = drafted * (1 - (scenario.acceptance.mean_tokens(lookahead) - 1) / lookahead)
    if not scenario.deployment.draft.ahead:
        return rejected
    verified = components["verify_step"] + components["sampling"] + components["round_overhead"]
    return rejected + (1 - full_acceptance(scenario)) * min(drafted, verified)


def _end_to_end(scenario: Scenario, metrics: Mapping[str, float], round_s: float | None) -> dict[str, float]:
    """Rounds and seconds of a whole request of N tokens, by the exact law where it is quickly had."""
    workload = scenario.workload
    decoded = workload.output_tokens - 1
    if round_s is None:
        return {"e2e_s": metrics["ttft_s"] + decoded * metrics["tpot_s"]}
    processes = scenario.acceptance.processes(scenario.lookahead, decoded)
    if scenario.deployment.draft.ahead or decoded > speculation.longest_law(processes):
        return {"e2e_s": metrics["ttft_s"] + decoded * metrics["tpot_s"]}
    together = workload.batch if workload.batching == "static" else 1
    rounds = speculation.law_mean(speculation.rounds_to_tokens_law(processes, decoded, together))
    return {"rounds": rounds, "e2e_s": metrics["ttft_s"] + rounds * round_s}


def _break_even(scenario: Scenario, components: Mapping[str, float]) -> float:
    plain, lookahead = components["plain_step"], scenario.lookahead
    cost = components["round"] / plain
    if "round_ahead" not in components:
        return float(speculation.break_even_acceptance(cost, lookahead))
    return speculation.break_even_ahead(cost, components["round_ahead"] / plain, lookahead)
