"""A candidate as arguments of serving engines.

vLLM: `--speculative-config`, fields of vllm.config.SpeculativeConfig; the degree of a draft is 1 or the target's.
SGLang: `--speculative-algorithm`, by its guide to speculative decoding: STANDALONE for a model of its own, for heads
EAGLE, EAGLE3 and DFLASH; a draft has the target's degree, and with `--speculative-eagle-topk 1` a chain of K tokens is
K steps and K + 1 positions to verify.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from simulator.plan.proposals import Proposal

TARGET, DRAFT = "TARGET", "DRAFT"
"""What stands for the folders or names of the two models."""


@dataclass(frozen=True)
class Command:
    """How to start an engine with a candidate, or why it cannot serve it."""

    engine: str
    text: str = ""
    why_not: str = ""


def _method(one: Proposal) -> tuple[str, str]:
    """What vLLM and SGLang call a drafter of its kind; empty where an engine does not have it."""
    reads = one.model.hidden_states if one.model is not None else None
    if reads is None:
        return "draft_model", "STANDALONE"
    if reads.proposes == "heads":
        return "medusa", ""
    if reads.proposes == "block":
        return "dflash", "DFLASH"
    return ("eagle3", "EAGLE3") if reads.projected == "once_a_round" else ("eagle", "EAGLE")


def commands(one: Proposal) -> tuple[Command, Command]:
    """The candidate for vLLM and for SGLang, with the words TARGET and DRAFT for the models."""
    degree, drafted = one.group.scenario.deployment.target_degree, one.model is not None
    vllm = ["vllm", "serve", TARGET, "--tensor-parallel-size", str(degree)]
    sglang = ["python", "-m", "sglang.launch_server", "--model-path", TARGET, "--tp-size", str(degree)]
    if not drafted:
        return Command("vllm", shlex.join(vllm)), Command("sglang", shlex.join(sglang))
    lookahead, own = one.ranked.lookahead, one.group.degree
    method, algorithm = _method(one)
    config = {
        "method": method,
        "model": DRAFT,
        "num_speculative_tokens": lookahead,
        "draft_tensor_parallel_size": own,
    }
    vllm += ["--speculative-config", json.dumps(config)]
    sglang += ["--speculative-algorithm", algorithm, "--speculative-draft-model-path", DRAFT]
    sglang += ["--speculative-num-steps", str(lookahead), "--speculative-eagle-topk", "1"]
    sglang += ["--speculative-num-draft-tokens", str(lookahead + 1)]
    first, second = Command("vllm", shlex.join(vllm)), Command("sglang", shlex.join(sglang))
    if own not in (1, degree):
        first = Command("vllm", why_not=f"its draft is over {own} of {degree} chips, and may be over 1 or all of them")
    if own != degree:
        second = Command(
            "sglang", why_not=f"its draft is over {own} of {degree} chips, and may be over all of them alone"
        )
    elif not algorithm:
        second = Command("sglang", why_not="it has no Medusa heads")
    return first, second
