"""Requests served in the slots of one batch against each of them alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing as npt
import pytest

from runtime.arithmetic import Lowering
from runtime.decode_state import DecodeState, Wanted
from runtime.generate import generate_plain
from runtime.pace import Policy
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.serving import Desk, Request, bucket, serve
from runtime.slots import BY_SEQUENCE, admit, batch_axes, empty_slots, take_row
from simulator.errors import RefusedError
from tests.tiny_models import decoder, noisy, prompts, tiny

pytestmark = pytest.mark.usefixtures("quick_compilation")

GREEDY, KEY = Sampling(temperature=0.0), jax.random.key(0)
LENGTHS, OUTPUTS, STOPS = (3, 20, 1, 16, 17, 9, 30, 2), (9, 1, 16, 12, 2, 5, 16, 16), (9, 26)
TARGET = decoder(tiny(layers=1), 3)
DRAFT = noisy(TARGET, 8, 0.1)
DESK = Desk(slots=3, prompt_tokens=30, output_tokens=16, lookahead=3, sampling=GREEDY, stop_tokens=STOPS)
TOKENS = np.asarray(prompts(len(LENGTHS), max(LENGTHS), 64))
REQUESTS = [
    Request(f"request {number}", TOKENS[number, :length].tolist(), output)
    for number, (length, output) in enumerate(zip(LENGTHS, OUTPUTS, strict=True))
]


@pytest.fixture(scope="module")
def alone() -> dict[str, list[int]]:
    """What the target says to each, token by token."""
    said = {}
    pair = Pair.of(TARGET, None)
    for number, (request, length) in enumerate(zip(REQUESTS, LENGTHS, strict=True)):
        made = generate_plain(
            pair,
            jnp.asarray(TOKENS[number : number + 1]),
            request.output_tokens,
            GREEDY,
            KEY,
            capacity=max(OUTPUTS),
            prompt_tokens=(length,),
            stop_tokens=STOPS,
        )
        said[request.name] = np.asarray(made.tokens)[0, : int(made.emitted[0])].tolist()
    assert any(len(tokens) < request.output_tokens for tokens, request in zip(said.values(), REQUESTS, strict=True))
    return said


@pytest.mark.parametrize(
    ("chips", "desk"),
    [
        (1, DESK),
        (1, replace(DESK, lookahead=0)),
        (2, replace(DESK, lookahead=2, policy=Policy.by_cost([1.0, 1.2, 1.4]))),
    ],
    ids=["fixed lookahead", "plain", "adaptive on two chips"],
)
def test_every_request_is_told_what_it_is_told_alone(chips: int, desk: Desk, alone: dict[str, list[int]]) -> None:
    told: dict[str, list[int]] = {request.name: [] for request in REQUESTS}
    done = []
    for delivery in serve(Pair.of(TARGET, DRAFT, chips), iter(REQUESTS), desk, KEY):
        assert delivery.name not in done
        told[delivery.name] += delivery.tokens
        if delivery.done:
            done.append(delivery.name)
    assert told == alone
    assert sorted(done) == sorted(alone)
    assert done != sorted(done), "some must have overtaken others"


def test_requests_are_taken_when_a_slot_is_free() -> None:
    taken, busy = [], set()

    def asked() -> Iterator[Request]:
        for request in REQUESTS:
            taken.append(request.name)
            busy.add(request.name)
            assert len(busy) <= DESK.slots
            yield request

    for delivery in serve(Pair.of(TARGET, DRAFT), asked(), DESK, KEY):
        if delivery.done:
            busy.remove(delivery.name)
    assert len(taken) == len(REQUESTS)


@pytest.mark.parametrize("scanned", [False, True], ids=["unrolled", "scanned"])
def test_other_slots_stay_as_they_are(scanned: bool) -> None:
    lowering = replace(Lowering.on("cpu", "float32"), scan_layers=scanned)
    pair = Pair.of(*(decoder(tiny(layers=1), seed, lowering=lowering) for seed in (0, 1)))
    setting = replace(DESK, stop_tokens=()).setting
    axes = batch_axes(pair.target, setting.positions)
    assert set(axes) == {1 if scanned else 0}
    state: DecodeState = empty_slots(setting, pair, 3, KEY, None)
    for slot, number in ((0, 3), (2, 1), (1, 0)):
        before = jax.tree.map(jnp.copy, state)
        prompt = np.zeros((1, 32), np.int32)
        prompt[0, : LENGTHS[number]] = TOKENS[number, : LENGTHS[number]]
        asked = Wanted(np.array([LENGTHS[number]], np.int32), np.array([7], np.int32))
        state, first = admit(setting, pair, state, np.int32(slot), prompt, asked)
        assert state.prompt_tokens[slot] == LENGTHS[number]
        assert np.asarray(first).tolist() == [[1, 0, int(state.tokens[slot, 0])]]
        for other in {0, 1, 2} - {slot}:
            for name in BY_SEQUENCE:
                npt.assert_array_equal(getattr(state, name)[other], getattr(before, name)[other])
            for name in ("target_cache", "draft_cache"):
                rows = (take_row(getattr(s, name), axes, jnp.int32(other)) for s in (state, before))
                for new, old in zip(*map(jax.tree.leaves, rows), strict=True):
                    npt.assert_array_equal(new, old)


def test_what_all_sequences_share_is_no_row() -> None:
    axes = batch_axes(decoder(tiny(positions="relative"), 0), 64)
    assert None in axes
    assert 0 in axes
    assert batch_axes(None, 64) == ()


def test_buckets_are_powers_of_two() -> None:
    assert [bucket(length) for length in (1, 16, 17, 32, 33, 1000)] == [16, 16, 32, 32, 64, 1024]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request("r", [1] * 31, 4), "prompt tokens of r must be one number or 1, from 1 to 30"),
        (Request("r", [], 4), "prompt tokens of r"),
        (Request("r", [1], 17), "output tokens of r"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(request_: Request, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        list(serve(Pair.of(TARGET, DRAFT), [request_], DESK, KEY))


def test_a_desk_that_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(RefusedError, match="needs a draft"):
        serve(Pair.of(TARGET, None), [], DESK, KEY)
    with pytest.raises(RefusedError, match="needs 4 costs"):
        serve(Pair.of(TARGET, DRAFT), [], replace(DESK, policy=Policy.fixed(1, 1)), KEY)
    with pytest.raises(RefusedError, match="stop tokens"):
        serve(Pair.of(TARGET, DRAFT), [], replace(DESK, stop_tokens=(-1,)), KEY)
