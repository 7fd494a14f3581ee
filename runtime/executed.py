"""What of a scenario this runtime executes."""

from __future__ import annotations

from simulator.spec.scenario import Scenario


def not_executed(scenario: Scenario) -> str:
    """What a deployment or workload can say and this runtime does not do; empty where it does all of it."""
    deployment = scenario.deployment
    asked = {
        f"a draft on {deployment.draft.placement}": deployment.draft.placement in ("sub_slice", "own_chips"),
        "pipeline_parallel": deployment.pipeline_parallel > 1,
        "expert_parallel": deployment.expert_parallel > 1,
        "weight_layout": deployment.weight_layout != "one_dimensional",
        "attention_sharding": deployment.attention_sharding != "heads",
        "batching continuous": scenario.workload.batching != "static",
    }
    return ", ".join(words for words, wanted in asked.items() if wanted)
