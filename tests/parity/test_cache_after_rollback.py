"""The cache after ragged, partly rejected rounds against a fresh prefill of the same tokens."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing as npt
import pytest
from jax import lax

from runtime.arithmetic import from_bits
from runtime.decode_loop import DecodeState, Setting, decode_round, drafter_of, start
from runtime.forcing import Forcing
from runtime.kv_cache import KVCache
from runtime.sampling import Sampling
from runtime.transformer import Decoder
from simulator.spec.acceptance import RateAcceptance
from tests.tiny_models import KINDS, decoder, noisy, prompts, tiny

LOOKAHEAD, ROUNDS, POSITIONS = 3, 5, 64
TOLERANCE = {"float32": 1e-6, "bfloat16": 2**-6}
"""Of the largest entry: a few roundings of the type."""
SETTING = Setting(output_tokens=40, lookahead=LOOKAHEAD, positions=POSITIONS, sampling=Sampling())


def after_rounds(target: Decoder, draft: Decoder, asked: jax.Array, forcing: Forcing) -> DecodeState:
    """The state after a number of rounds that finishes no sequence."""

    @jax.jit
    def run(models: tuple[Decoder, Decoder], key: jax.Array) -> DecodeState:
        state = start(SETTING, *models, asked, key)
        drafter = drafter_of(models[1], SETTING)
        one = partial(decode_round, SETTING.sampling, models[0], drafter, forcing=forcing)
        return lax.fori_loop(0, ROUNDS, lambda _, state: one(state=state), state)

    state: DecodeState = run((target, draft), jax.random.key(3))
    return state


def largest_gap(cache: KVCache, fresh: KVCache, valid: np.ndarray) -> float:
    """Largest difference where ``valid`` [B, S], in any layer, over the largest entry there."""
    gaps = []
    for name in ("keys", "values"):
        for kept, made in zip(getattr(cache, name), getattr(fresh, name), strict=True):
            rows, wanted = (np.moveaxis(np.asarray(from_bits(a), np.float32), 1, 2)[valid] for a in (kept, made))
            gaps.append(float(np.abs(rows - wanted).max() / np.abs(wanted).max()))
    return max(gaps)


@pytest.mark.parametrize("kind", KINDS)
def test_cache_is_that_of_a_fresh_prefill(kind: str) -> None:
    target = decoder(tiny(**KINDS[kind]), 0)
    draft = decoder(tiny(), 8) if target.spec.weight_dtype.startswith("int") else noisy(target, 1, 0.2)
    asked = prompts(5, 4, 64)
    # Forced to 0.7, so that some rounds keep nothing and some everything, which the draft's cache must survive.
    forcing = Forcing.of(RateAcceptance(kind="rate", acceptance_rate=0.7), LOOKAHEAD)
    state = after_rounds(target, draft, asked, forcing)
    cursor = np.asarray(state.cursor)
    counts = np.asarray(state.accepted)[:, :ROUNDS]
    assert len(set(cursor)) > 1, "the sequences must have different lengths"
    assert set(np.unique(counts)) == set(range(LOOKAHEAD + 1))

    # One causal pass over all tokens; what lies behind a sequence's own cursor is compared with nothing.
    tokens = jnp.concatenate([asked, state.tokens[:, : cursor.max() - asked.shape[1]]], axis=1)
    valid = np.arange(POSITIONS) < cursor[:, None]
    zero = jnp.zeros((len(tokens),), jnp.int32)
    for model, cache, rows in (
        (target, state.target_cache, valid),
        # The draft reads the last two tokens at the start of a round: its cache may end one position earlier.
        (draft, state.draft_cache, valid & (np.arange(POSITIONS) < cursor[:, None] - 1)),
    ):
        _, fresh = model(tokens, model.empty_cache(len(tokens), POSITIONS), zero, fresh=True)
        assert largest_gap(cache, fresh, rows) < TOLERANCE[model.spec.compute_dtype]


def test_frozen_sequences_emit_nothing_and_keep_their_cursor() -> None:
    target, draft = decoder(tiny(layers=1), 0), decoder(tiny(layers=1), 1)
    asked = prompts(3, 4, 64)
    setting = Setting(output_tokens=3, lookahead=LOOKAHEAD, positions=4 + 3 + LOOKAHEAD, sampling=Sampling())

    @jax.jit
    def run(models: tuple[Decoder, Decoder], rounds: int) -> DecodeState:
        one = partial(decode_round, setting.sampling, models[0], drafter_of(models[1], setting), forcing=Forcing())
        state = start(setting, *models, asked, jax.random.key(0))
        return lax.fori_loop(0, rounds, lambda _, state: one(state=state), state)

    state, later = run((target, draft), 2), run((target, draft), 5)
    assert bool(state.finished.all())
    for name in ("emitted", "cursor", "rounds", "accepted", "unforced_accepted"):
        npt.assert_array_equal(getattr(later, name), getattr(state, name))
    npt.assert_array_equal(later.tokens[:, :3], state.tokens[:, :3])
