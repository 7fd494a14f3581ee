"""A draft on chips of its own, or on some of the target's, against both models on one mesh."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from runtime.apart import ApartPair, Placement, generate_apart
from runtime.generate import generate
from runtime.pair import Pair
from runtime.sampling import Sampling
from simulator.errors import RefusedError
from simulator.spec.acceptance import ForcedAcceptance
from tests.tiny_models import decoder, noisy, prompts, tiny


@pytest.mark.parametrize("placement", ["own_chips", "sub_slice"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_tokens_are_those_of_one_mesh(placement: Placement, temperature: float) -> None:
    target = decoder(tiny(kv_heads=4), 3)
    draft = noisy(target, 4, 0.1)
    asked, key, sampling = prompts(3, 5, 64), jax.random.key(1), Sampling(temperature=temperature)
    together = generate(Pair.of(target, draft), asked, 24, 3, sampling, key)
    apart = generate_apart(ApartPair.of(target, draft, 4, 2, placement), asked, 24, 3, sampling, key)
    np.testing.assert_array_equal(apart.tokens, together.tokens)
    np.testing.assert_array_equal(apart.accepted, together.accepted)
    np.testing.assert_array_equal(apart.rounds, together.rounds)
    assert np.asarray(apart.rounds).max() < 23, "some drafted token must have been kept"


def test_acceptance_can_be_forced() -> None:
    target = decoder(tiny(), 3)
    pair = ApartPair.of(target, decoder(tiny(), 9), 1, 1, "own_chips")
    forced = ForcedAcceptance(kind="forced", accepted=(2, 0, 3))
    made = generate_apart(pair, prompts(1, 4, 64), 13, 3, Sampling(temperature=0.0), jax.random.key(0), forced=forced)
    np.testing.assert_array_equal(np.asarray(made.accepted)[0, :6], [2, 0, 3, 2, 0, -1])


def test_what_cannot_be_placed_is_refused() -> None:
    target = decoder(tiny(layers=1), 0)
    with pytest.raises(RefusedError, match="9 devices are needed"):
        ApartPair.of(target, target, 8, 1, "own_chips")
    with pytest.raises(RefusedError, match="one vocabulary"):
        ApartPair.of(target, decoder(tiny(layers=1, vocabulary=32), 0), 1, 1, "own_chips")
    pair = ApartPair.of(target, target, 1, 1, "own_chips")
    with pytest.raises(RefusedError, match="at least 1"):
        generate_apart(pair, prompts(1, 4, 64), 8, 0, Sampling(), jax.random.key(0))
