"""Sequences that end with a stop token against the unstopped ones, cut behind their first one."""

from __future__ import annotations

import jax
import numpy as np
import numpy.testing as npt
import pytest

from runtime.decode_loop import stopped
from runtime.generate import Generation, generate, generate_plain
from runtime.pair import Pair
from runtime.sampling import Sampling
from tests.tiny_models import decoder, noisy, prompts, tiny

pytestmark = pytest.mark.usefixtures("quick_compilation")

GREEDY, KEY = Sampling(temperature=0.0), jax.random.key(0)
BATCH, OUTPUT, LOOKAHEAD = 512, 16, 3
STOPS = (5, 17, 40, 41)
TARGET = decoder(tiny(layers=1), 3)
ASKED = prompts(BATCH, 3, 64)
LIMITS = np.random.default_rng(0).integers(1, OUTPUT + 1, BATCH)


@pytest.fixture(scope="module")
def unstopped() -> np.ndarray:
    """What the target says when nothing stops it."""
    return np.asarray(generate_plain(Pair.of(TARGET, None), ASKED, OUTPUT, GREEDY, KEY).tokens)


def cut(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens up to and with the first stop token within each sequence's limit, -1 behind it, and how many they are."""
    stops = np.isin(tokens, STOPS)
    first = np.where(stops.any(axis=1), stops.argmax(axis=1) + 1, OUTPUT)
    ends = np.minimum(first, LIMITS)
    return np.where(np.arange(OUTPUT) < ends[:, None], tokens, -1), ends


def assert_cut(made: Generation, unstopped: np.ndarray) -> None:
    """What was made is what the target says, cut."""
    tokens, ends = cut(unstopped)
    npt.assert_array_equal(made.emitted, ends)
    npt.assert_array_equal(made.tokens, tokens)


def stop_places(made: Generation, unstopped: np.ndarray) -> set[tuple[int, int]]:
    """Places within a round, and tokens that the round emits where it is not cut, of all that ended with a stop."""
    _, ends = cut(unstopped)
    stopped_ones = np.isin(unstopped[np.arange(BATCH), ends - 1], STOPS)
    found = set()
    for sequence in np.flatnonzero(stopped_ones & (ends > 1)):
        counts = np.asarray(made.accepted[sequence])[: made.rounds[sequence]] + 1
        assert counts[:-1].sum() + 1 < ends[sequence] <= counts.sum() + 1, "it must end within its last round"
        found.add((int(ends[sequence] - counts[:-1].sum() - 1), int(counts[-1])))
    return found


@pytest.mark.parametrize("draft", ["target", "noisy"])
def test_a_stop_token_ends_a_sequence_wherever_it_comes(draft: str, unstopped: np.ndarray) -> None:
    pair = Pair.of(TARGET, TARGET if draft == "target" else noisy(TARGET, 8, 0.1))
    made = generate(pair, ASKED, LIMITS, LOOKAHEAD, GREEDY, KEY, stop_tokens=STOPS, capacity=OUTPUT)
    assert_cut(made, unstopped)
    places = stop_places(made, unstopped)
    if draft == "target":  # every round keeps all: the first three places are drafted tokens, the last is the target's
        assert places == {(place, LOOKAHEAD + 1) for place in range(1, LOOKAHEAD + 2)}
    else:
        assert places == {(place, emits) for emits in range(1, LOOKAHEAD + 2) for place in range(1, emits + 1)}
    assert (cut(unstopped)[1] == 1).any(), "some must stop with the token of prefill"


def test_plain_decoding_stops_alike(unstopped: np.ndarray) -> None:
    pair = Pair.of(TARGET, None)
    assert_cut(generate_plain(pair, ASKED, LIMITS, GREEDY, KEY, stop_tokens=STOPS, capacity=OUTPUT), unstopped)


def test_the_limit_behind_a_stop_token() -> None:
    limit, emitted = np.array([10, 10, 10, 3]), np.array([4, 4, 4, 3])
    block = np.array([[1, 2, 3], [9, 7, 9], [1, 7, 7], [7, 7, 7]])
    npt.assert_array_equal(stopped(limit, emitted, block, (7, 8)), [10, 6, 6, 3])
    assert stopped(limit, emitted, block, ()) is limit
