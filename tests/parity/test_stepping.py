"""Rounds stepped by the host against the loop on the device: the same tokens, to the bit."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpy.testing as npt
import pytest

from runtime.generate import generate
from runtime.pace import Policy
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.stepping import step_rounds
from simulator.errors import RefusedError
from tests.tiny_models import decoder, noisy, prompts, tiny

TARGET = decoder(tiny(layers=1), 3)
DRAFT = noisy(TARGET, 8, 0.1)
OUTPUT = 24
KEY = jax.random.key(0)
OPTIONS: dict[str, Any] = {"prompt_tokens": (5, 2, 4), "stop_tokens": (1, 2)}
ASKED = prompts(3, 5, 64)


@pytest.mark.parametrize(
    ("lookahead", "more"),
    [(3, {}), (1, {"policy": Policy.by_cost([1.0, 1.4])})],
    ids=["fixed lookahead", "adaptive"],
)
def test_stepped_tokens_are_those_of_the_loop(lookahead: int, more: dict[str, Any]) -> None:
    pair, sampling = Pair.of(TARGET, DRAFT), Sampling(temperature=0.8)
    for seed in range(3):
        key, options = jax.random.key(seed), OPTIONS | more
        whole = generate(pair, ASKED, OUTPUT, lookahead, sampling, key, **options)
        stream = step_rounds(pair, ASKED, OUTPUT, lookahead, sampling, key, **options)
        emissions = list(stream)
        assert [len(tokens) for tokens in emissions[0].tokens] == [1, 1, 1]
        assert len(emissions) == 1 + int(np.max(whole.rounds))
        for sequence, emitted in enumerate(np.asarray(whole.emitted)):
            stepped = np.concatenate([emission.tokens[sequence] for emission in emissions])
            npt.assert_array_equal(stepped, whole.tokens[sequence, :emitted])
        npt.assert_array_equal(stream.state.accepted, whole.accepted)
        last = stream.step()
        assert last.finished.all()
        assert not any(tokens.size for tokens in last.tokens)


def test_one_token_needs_no_round() -> None:
    emissions = list(
        step_rounds(Pair.of(TARGET, DRAFT), ASKED, 1, 3, Sampling(temperature=0.8), KEY, capacity=OUTPUT, **OPTIONS)
    )
    assert len(emissions) == 1
    assert emissions[0].finished.all()


def test_stepping_refuses_what_generating_refuses() -> None:
    with pytest.raises(RefusedError, match="needs a draft"):
        step_rounds(Pair.of(TARGET, None), ASKED, 4, 3, Sampling(), KEY)
