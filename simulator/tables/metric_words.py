"""How every metric of a prediction comes about, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.spec.scenario import Scenario
from simulator.units import human_bytes, human_time


def metric_words(
    scenario: Scenario,
    components: Mapping[str, float],
    metrics: Mapping[str, float],
    provenance: Mapping[str, Any],
) -> dict[str, list[str]]:
    """How every metric that is no component comes about, in a line each; the memory of a chip term by term."""
    times = {name: human_time(value, 4) for name, value in (*components.items(), *metrics.items()) if value >= 0}
    plain, first = times["plain_step"], f"prefill {times['prefill']}"
    if "draft_prefill" in components:
        joined = "or, at the same time," if scenario.deployment.own_draft_chips else "+"
        first += f" {joined} draft prefill {times['draft_prefill']}"
    if scenario.target.encoder is not None:
        first += f" + a plain step {plain}, which makes the first token"
    terms = provenance["memory_terms_bytes"]
    memory = [f"  {name} {human_bytes(size, 4)}" for name, size in sorted(terms.items(), key=lambda term: -term[1])]
    whole = sum(terms.values())
    words = {
        "ttft": [f"ttft = {first} = {times['ttft_s']}"],
        "memory": [f"memory of a chip of the target = {human_bytes(whole, 4)}", *memory],
        "bandwidth_floor": [f"bandwidth floor = bytes of a plain step / datasheet = {times['bandwidth_floor_s']}"],
    }
    if "round" not in components:
        return words | {"tpot": [f"tpot = a plain step = {plain}"]}
    tokens, cost = metrics["acceptance_length"], metrics["round_cost"]
    together = metrics["speedup"] * cost
    slowest = "" if abs(together / tokens - 1) < 1e-9 else f", of the slowest of {scenario.workload.batch} in lockstep"
    round_words = times["round"]
    if "round_ahead" in components:
        round_words = (
            f"{human_time(metrics['tpot_s'] * tokens, 4)} (a mean of {times['round']} and {times['round_ahead']})"
        )
        together, slowest = tokens, ""
    words |= {
        "acceptance_length": [f"acceptance length = 1 + a1 + a1 a2 + ... = {tokens:.4g} tokens a round"],
        "round_cost": [f"round cost = round {times['round']} / plain step {plain} = {cost:.4g}"],
        "tpot": [f"tpot = round {round_words} / {together:.4g} tokens{slowest} = {times['tpot_s']}"],
        "speedup": [f"speedup = plain step {plain} / tpot {times['tpot_s']} = {metrics['speedup']:.4g}"],
    }
    if "break_even_acceptance" in metrics:
        even = metrics["break_even_acceptance"]
        words["break_even_acceptance"] = [
            f"break-even: a round emits its cost in tokens at an acceptance of {even:.4g}"
        ]
    if "rounds" in metrics:
        decoded = scenario.workload.output_tokens - 1
        rounds = f"{metrics['rounds']:.5g} rounds (mean to {decoded:,} tokens, by the exact law) x {times['round']}"
        words["e2e"] = [f"e2e = ttft {times['ttft_s']} + {rounds} = {times['e2e_s']}"]
    return words
