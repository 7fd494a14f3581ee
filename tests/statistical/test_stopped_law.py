"""Do sequences that end with a stop token follow the law of plain sampling, cut behind its first stop token?

The law of ``tests/exact_laws.py``, in which all outcomes that are alike up to their first stop token are one.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime import decode_loop
from runtime.decode_loop import run_to_end, start
from runtime.decode_state import Setting
from runtime.forcing import Forcing
from runtime.sampling import Sampling
from tests.exact_laws import FALSE_ALARM, Fit, Ints, distributions, fit, masses
from tests.law_cases import DRAFT, TARGET, VOCABULARY

SAMPLES, FEW = 2**17, 2**12
PROMPT, STOPS, LENGTH, LOOKAHEAD = (0, 1, 2), (1, 6), 5, 3
SETTING = Setting(LENGTH, LOOKAHEAD, len(PROMPT) + LENGTH + LOOKAHEAD, Sampling(), STOPS)
PLACES = VOCABULARY ** np.arange(LENGTH - 1, -1, -1)


def cut(tokens: Ints, ends: Ints) -> Ints:
    """The number of each outcome [n, N], its last token ``ends[n]`` being repeated in all places behind it."""
    return np.take_along_axis(tokens, np.minimum(np.arange(LENGTH), ends[:, None]), axis=1) @ PLACES


def law() -> np.ndarray:
    """The probability of each numbered outcome."""
    tokens = np.stack(np.unravel_index(np.arange(VOCABULARY**LENGTH), (VOCABULARY,) * LENGTH), axis=1)
    stops = np.isin(tokens, STOPS)
    ends = np.where(stops.any(axis=1), stops.argmax(axis=1), LENGTH - 1)
    uncut = masses([distributions(TARGET.logits, SETTING.sampling)] * LENGTH, PROMPT)
    return np.bincount(cut(tokens, ends), uncut, minlength=VOCABULARY**LENGTH)


def sampled(samples: int = SAMPLES) -> Fit:
    """Sequences of the real loop against the law; what lies beyond their emitted tokens counts for nothing."""
    prompts = jnp.tile(jnp.asarray(PROMPT, jnp.int32), (samples, 1))

    @jax.jit
    def run(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = run_to_end(SETTING, TARGET, DRAFT, start(SETTING, TARGET, DRAFT, prompts, key), Forcing())
        return state.tokens[:, :LENGTH], state.emitted

    tokens, emitted = (np.asarray(array, np.int64) for array in run(jax.random.key(0)))
    return fit(np.bincount(cut(tokens, emitted - 1), minlength=VOCABULARY**LENGTH), law())


def test_the_law_of_stopped_sequences(record_property: Callable[[str, object], None]) -> None:
    found = sampled()
    record_property("stopped", str(found))
    assert found.samples == SAMPLES
    assert found.ruled_out == 0
    assert found.excess(FALSE_ALARM) < 1


def test_a_stop_token_in_the_middle_of_a_round_must_not_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = decode_loop.stopped

    def only_the_last(limit: jax.Array, emitted: jax.Array, block: jax.Array, stops: tuple[int, ...]) -> jax.Array:
        return own(limit, emitted + block.shape[1] - 1, block[:, -1:], stops)

    monkeypatch.setattr(decode_loop, "stopped", only_the_last)
    assert sampled(FEW).ruled_out > FEW / 20
