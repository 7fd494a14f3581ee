"""What a decoding loop is compiled for, what is asked of it, and the one frozen pytree that a round changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Int32

from runtime.pace import Pace, Policy
from runtime.sampling import Sampling
from runtime.shapes import Count, Cursor, PRNGKey

HostCount = Int32[np.ndarray, " B"]
"""A count a sequence, on the host."""


@dataclass(frozen=True)
class Setting:
    """What is fixed when the loop is compiled."""

    output_tokens: int
    """N, the most tokens that a sequence emits; the first comes from prefill."""
    lookahead: int
    """K, the most tokens that are drafted a round; 0 is plain decoding."""
    positions: int
    """S, allocated positions of each cache; see ``kv_cache.room``."""
    sampling: Sampling
    """How tokens are chosen."""
    stop_tokens: tuple[int, ...] = ()
    """A sequence ends with the first of these that it emits."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wanted:
    """What else is asked of a batch: values that recompile nothing."""

    prompt_tokens: Count | HostCount | None = None
    """Lengths of prompts that are padded at their ends; None where all are full."""
    output_tokens: Count | HostCount | None = None
    """Tokens wanted of each sequence, 1..N; None where all N are."""
    policy: Policy | None = None
    """What decides how many tokens a round drafts; None where that is always K."""


NOTHING_ELSE = Wanted()
"""All of every prompt is read, N tokens are emitted, K drafted."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DecodeState:
    """Everything that a round changes."""

    key: PRNGKey
    tokens: Int32[jax.Array, "B N+K+1"]
    """Emitted tokens; what lies beyond ``emitted`` is scratch."""
    emitted: Count
    """Tokens emitted, 1..N."""
    limit: Count
    """Tokens after which the sequence ends: those wanted, or fewer once it has emitted a stop token."""
    prompt_tokens: Count
    """Length of each prompt."""
    last_two: Int32[jax.Array, "B 2"]
    """The last two tokens of prompt and output; only the first of them is in the target's cache."""
    rounds: Count
    """Rounds in which the sequence still emitted."""
    accepted: Int32[jax.Array, "B N-1"]
    """Accepted drafted tokens of each of those rounds; -1 where there was none."""
    unforced_accepted: Count
    """Drafted tokens, over all rounds, that the two models would have kept without forcing."""
    target_cache: Any
    draft_cache: Any
    """None in plain decoding."""
    pace: Pace | None = None
    """What chooses the lookahead; None where every round drafts K tokens."""

    @property
    def cursor(self) -> Cursor:
        """Valid positions of the target's cache: all tokens but the last."""
        return self.prompt_tokens + self.emitted - 1

    @property
    def finished(self) -> jax.Array:
        """Which sequences have all their tokens; [B]."""
        return self.emitted >= self.limit
