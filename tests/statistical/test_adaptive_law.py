"""Do tokens follow the target's own distribution when what was accepted before decides how many are drafted?

Every sequence is a batch of its own, whose policy forgets and changes its mind fast: the lookahead of a round depends
on what the very same sequence emitted. The law is that of ``tests/exact_laws.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from runtime import adaptive
from runtime.decode_loop import run_to_end, start
from runtime.decode_state import Setting, Wanted
from runtime.forcing import Forcing
from runtime.pace import Policy
from runtime.sampling import Sampling
from runtime.verification import Proposal
from tests.exact_laws import FALSE_ALARM, Fit, distributions, fit, masses
from tests.law_cases import DRAFT, TARGET, VOCABULARY

SAMPLES, FEW = 2**17, 2**15
PROMPT, LENGTH, LOOKAHEAD = (0, 1, 2), 5, 3
SETTING = Setting(LENGTH, LOOKAHEAD, len(PROMPT) + LENGTH + LOOKAHEAD, Sampling())
POLICY = Policy.by_cost([1.0, 1.3, 1.5, 1.7], keep=0.5, prior=0.5)


def sampled(samples: int = SAMPLES) -> tuple[Fit, npt.NDArray[np.int64], int]:
    """Sequences of the real loop against the law, rounds by the tokens that they drafted, padding that was emitted."""
    prompt = jnp.asarray([PROMPT], jnp.int32)

    @jax.jit
    @jax.vmap
    def run(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = start(SETTING, TARGET, DRAFT, prompt, key, Wanted(policy=POLICY))
        state = run_to_end(SETTING, TARGET, DRAFT, state, Forcing())
        assert state.pace is not None
        places = VOCABULARY ** jnp.arange(LENGTH - 1, -1, -1, dtype=jnp.int32)
        tokens = state.tokens[0, :LENGTH]
        return jnp.where(jnp.all(tokens >= 0), tokens @ places, -1), state.pace.rounds

    outcomes, rounds = (np.asarray(array, np.int64) for array in run(jax.random.split(jax.random.key(0), samples)))
    law = masses([distributions(TARGET.logits, SETTING.sampling)] * LENGTH, PROMPT)
    emitted = outcomes[outcomes >= 0]
    return fit(np.bincount(emitted, minlength=len(law)), law), rounds.sum(axis=0), len(outcomes) - len(emitted)


def test_the_joint_law_of_all_tokens(record_property: Callable[[str, object], None]) -> None:
    found, rounds, padding = sampled()
    record_property("adaptive", str(found))
    record_property("rounds by tokens drafted", rounds.tolist())
    assert found.samples == SAMPLES
    assert padding == 0
    assert (rounds > SAMPLES / 20).all(), "every lookahead must have been chosen"
    assert found.excess(FALSE_ALARM) < 1


def test_padding_must_not_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two guards stand against it: what is padded with, and the largest count.
    own = adaptive.first_of

    def acceptable(proposal: Proposal, count: int, zero: jax.Array) -> Proposal:
        part = own(proposal, count, zero)
        if part.probs is None:
            return part
        return Proposal(jnp.maximum(part.tokens, 0), jnp.where(jnp.isinf(part.probs), 0, part.probs))

    def unlimited(_self: Forcing, unforced: jax.Array, _rounds: jax.Array, _key: jax.Array) -> jax.Array:
        return unforced

    monkeypatch.setattr(adaptive, "first_of", acceptable)
    monkeypatch.setattr(adaptive.AtMost, "override", unlimited)
    monkeypatch.setattr(adaptive, "widths", lambda lookahead: (1, lookahead + 1))
    found, _, padding = sampled(FEW)
    assert padding > FEW / 20
    assert found.excess(FALSE_ALARM) > 2
