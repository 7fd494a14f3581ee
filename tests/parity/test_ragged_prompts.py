"""Prompts of different lengths in one batch against each of them alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing as npt
import pytest

from runtime.generate import Generation, generate, generate_plain
from runtime.pace import Policy
from runtime.pair import Pair
from runtime.sampling import Sampling
from simulator.errors import RefusedError
from tests.tiny_models import decoder, noisy, prompts, tiny

pytestmark = pytest.mark.usefixtures("quick_compilation")

GREEDY = Sampling(temperature=0.0)
LENGTHS, OUTPUTS, LOOKAHEAD = (6, 1, 3, 6), (20, 7, 1, 16), 3
TARGET = decoder(tiny(layers=1), 3)
DRAFT = noisy(TARGET, 8, 0.1)
ASKED = prompts(len(LENGTHS), max(LENGTHS), 64)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def alone() -> list[np.ndarray]:
    """What the target says to each prompt alone, without padding."""
    pair = Pair.of(TARGET, None)
    made = [generate_plain(pair, ASKED[i : i + 1, :n], max(OUTPUTS), GREEDY, KEY) for i, n in enumerate(LENGTHS)]
    return [np.asarray(one.tokens[0]) for one in made]


def together(asked: jax.Array = ASKED) -> Generation:
    """All of them in one batch."""
    pair = Pair.of(TARGET, DRAFT)
    return generate(pair, asked, OUTPUTS, LOOKAHEAD, GREEDY, KEY, prompt_tokens=LENGTHS)


def test_each_says_what_it_says_alone(alone: list[np.ndarray]) -> None:
    made = together()
    npt.assert_array_equal(made.emitted, OUTPUTS)
    for tokens, wanted, output in zip(np.asarray(made.tokens), alone, OUTPUTS, strict=True):
        npt.assert_array_equal(tokens[:output], wanted[:output])
        npt.assert_array_equal(tokens[output:], -1)
    assert len(set(np.asarray(made.rounds))) > 1


def test_plain_decoding_too(alone: list[np.ndarray]) -> None:
    made = generate_plain(Pair.of(TARGET, None), ASKED, max(OUTPUTS), GREEDY, KEY, prompt_tokens=LENGTHS)
    npt.assert_array_equal(made.tokens, alone)


def test_padding_is_not_read() -> None:
    padded = jnp.arange(max(LENGTHS)) >= jnp.asarray(LENGTHS)[:, None]
    one, other = (together(jnp.where(padded, fill, ASKED)) for fill in (0, 63))
    npt.assert_array_equal(one.tokens, other.tokens)
    npt.assert_array_equal(one.accepted, other.accepted)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"prompt_tokens": (6, 0, 3, 6)}, "lengths of prompts must be one number or 4, from 1 to 6"),
        ({"prompt_tokens": (6, 7, 3, 6)}, "from 1 to 6"),
        ({"prompt_tokens": (6, 1)}, "one number or 4"),
        ({"capacity": 19}, "output tokens must be one number or 4, from 1 to 19"),
        ({"stop_tokens": (64,)}, r"stop tokens \[64\] are not in a vocabulary of 64"),
        ({"policy": Policy.fixed(1, 2)}, "a lookahead of at most 3 needs 4 costs"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        generate(Pair.of(TARGET, DRAFT), ASKED, OUTPUTS, LOOKAHEAD, GREEDY, KEY, **wrong)
