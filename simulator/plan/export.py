"""A candidate as arguments of serving engines.

vLLM: `--speculative-config`, fields of vllm.config.SpeculativeConfig; the degree of a draft is 1 or the target's.
SGLang: `--speculative-algorithm STANDALONE`, by its guide to speculative decoding; a draft has the target's degree, and
with `--speculative-eagle-topk 1` a chain of K tokens is K steps and K + 1 positions to verify.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from simulator.plan.outcome import Proposal

TARGET, DRAFT = "TARGET", "DRAFT"
"""What stands for the folders or names of the two models."""


@dataclass(frozen=True)
class Command:
    """How to start an engine with a candidate, or why it cannot serve it."""

    engine: str
    text: str = ""
    why_not: str = ""


def commands(one: Proposal) -> tuple[Command, Command]:
    """The candidate for vLLM and for SGLang, with the words TARGET and DRAFT for the models."""
    degree, drafted = one.group.scenario.deployment.target_degree, one.model is not None
    vllm = ["vllm", "serve", TARGET, "--tensor-parallel-size", str(degree)]
    sglang = ["python", "-m", "sglang.launch_server", "--model-path", TARGET, "--tp-size", str(degree)]
    if not drafted:
        return Command("vllm", shlex.join(vllm)), Command("sglang", shlex.join(sglang))
    lookahead, own = one.ranked.lookahead, one.group.degree
    config = {
        "method": "draft_model",
        "model": DRAFT,
        "num_speculative_tokens": lookahead,
        "draft_tensor_parallel_size": own,
    }
    vllm += ["--speculative-config", json.dumps(config)]
    sglang += ["--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", DRAFT]
    sglang += ["--speculative-num-steps", str(lookahead), "--speculative-eagle-topk", "1"]
    sglang += ["--speculative-num-draft-tokens", str(lookahead + 1)]
    first, second = Command("vllm", shlex.join(vllm)), Command("sglang", shlex.join(sglang))
    if own not in (1, degree):
        first = Command("vllm", why_not=f"its draft is over {own} of {degree} chips, and may be over 1 or all of them")
    if own != degree:
        second = Command(
            "sglang", why_not=f"its draft is over {own} of {degree} chips, and may be over all of them alone"
        )
    return first, second
