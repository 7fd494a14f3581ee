"""The choice of how many tokens to draft, and rounds that follow it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adaptive import AtMost, widths
from runtime.decode_loop import decode_round, start
from runtime.decode_state import Setting, Wanted
from runtime.drafters import NoDrafter
from runtime.forcing import Forcing
from runtime.generate import finish, generate, generate_plain, job_of, prefill
from runtime.pace import Pace, Policy
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.slots import admit, empty_slots
from runtime.stepping import one_round
from simulator.errors import RefusedError
from simulator.spec.acceptance import ForcedAcceptance
from tests.hlo_counts import matmuls_of_loops
from tests.tiny_models import decoder, noisy, prompts, tiny

pytestmark = pytest.mark.usefixtures("quick_compilation")

GREEDY, KEY = Sampling(temperature=0.0), jax.random.key(0)
OUTPUT, LOOKAHEAD = 40, 3
TARGET = decoder(tiny(layers=1), 3)
NOISY = Pair.of(TARGET, noisy(TARGET, 8, 0.1))
ASKED = prompts(2, 5, 64)


def choice(policy: Policy, kept: float, tried: float) -> int:
    """What a policy chooses."""
    return int(policy.choose(jnp.float32(kept), jnp.float32(tried)))


@given(
    st.lists(st.floats(0.5, 10) | st.just(math.inf), min_size=2, max_size=9).filter(lambda costs: min(costs) < 20),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_the_choice_emits_most_tokens_per_time(costs: list[float], kept: int, rejected: int) -> None:
    policy = Policy.by_cost(costs, prior=0.5)
    rate = (kept + 0.5) / (kept + rejected + 1)
    speeds = [sum(rate**place for place in range(k + 1)) / cost for k, cost in enumerate(costs)]
    assert speeds[choice(policy, kept, kept + rejected)] == pytest.approx(max(speeds), rel=1e-5)


def test_a_fixed_policy_never_changes_its_mind() -> None:
    for drafted in range(5):
        policy = Policy.fixed(drafted, 4)
        assert {choice(policy, kept, 10) for kept in range(11)} == {drafted}


def test_what_is_not_seen_again_is_forgotten() -> None:
    policy = Policy.by_cost([1.0, 1.5], keep=0.5, prior=0.9)
    one, active = jnp.ones((1,), jnp.int32), jnp.ones((1,), bool)
    pace = Pace.start(policy, one)
    assert pace.drafted == 1
    for _ in range(3):
        pace = pace.after(jnp.int32(1), 0 * one, active, one)
    assert pace.drafted == 0
    for _ in range(3):
        pace = pace.after(jnp.int32(0), 0 * one, active, one)
    assert pace.drafted == 1
    npt.assert_array_equal(pace.rounds, [3, 3])


def test_only_active_sequences_teach() -> None:
    pace = Pace.start(Policy.by_cost([1.0] * 4, keep=0.5), jnp.zeros((3,), jnp.int32))
    pace = pace.after(jnp.int32(3), jnp.asarray([3, 1, 2]), jnp.asarray([True, True, False]), pace.draft_cursor)
    # All three of the first, of the second one that was accepted and one that was not.
    assert (float(pace.kept), float(pace.tried)) == (4, 5)
    pace = pace.after(jnp.int32(1), jnp.asarray([1, 0, 1]), jnp.asarray([True, True, False]), pace.draft_cursor)
    assert (float(pace.kept), float(pace.tried)) == (3, 4.5)


@pytest.mark.parametrize(
    ("costs", "options"),
    [
        ([math.inf, math.inf], {}),
        ([1.0, 0.0], {}),
        ([1.0, math.nan], {}),
        ([1.0], {"keep": 1.0}),
        ([1.0], {"prior": 2}),
    ],
)
def test_policies_that_make_no_sense(costs: list[float], options: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="must"):
        Policy.by_cost(costs, **options)


def test_a_fixed_policy_beyond_the_lookahead() -> None:
    with pytest.raises(RefusedError, match="cannot draft 3 tokens of at most 2"):
        Policy.fixed(3, 2)


def test_compiled_widths() -> None:
    assert widths(1) == (1, 2)
    assert widths(4) == (1, 2, 3, 5)
    assert widths(6) == (1, 2, 3, 5, 7)
    assert widths(16) == (1, 2, 3, 5, 9, 17)


@pytest.fixture(scope="module")
def plain() -> np.ndarray:
    """What the target says alone."""
    return np.asarray(generate_plain(Pair.of(TARGET, None), ASKED, OUTPUT, GREEDY, KEY).tokens)


@pytest.mark.parametrize("drafted", range(LOOKAHEAD + 1))
def test_rounds_of_every_number_of_drafted_tokens(drafted: int, plain: np.ndarray) -> None:
    policy = Policy.fixed(drafted, LOOKAHEAD)
    made = generate(NOISY, ASKED, OUTPUT, LOOKAHEAD, GREEDY, KEY, policy=policy)
    npt.assert_array_equal(made.tokens, plain)
    counts = np.asarray(made.accepted)
    assert counts.max() == drafted
    assert np.flatnonzero(made.rounds_by_drafted).tolist() == [drafted]
    npt.assert_array_equal(made.unforced_accepted, np.where(counts > 0, counts, 0).sum(axis=1))


def test_a_draft_catches_up_with_what_it_did_not_read(plain: np.ndarray) -> None:
    # The draft is the target: all that it drafts must be accepted, after many rounds without it too. Nothing is drafted
    # until two rejections, which are made up, are forgotten.
    pair, policy = Pair.of(TARGET, TARGET), Policy.by_cost([1.0, 9.0, 9.0, 1.6], keep=0.95, prior=0.6)
    job = job_of(pair, ASKED, OUTPUT, LOOKAHEAD, GREEDY, KEY, policy=policy)
    state = prefill(job.setting, pair, ASKED, KEY, job.wanted)
    state = finish(job.setting, pair, replace(state, pace=replace(state.pace, tried=state.pace.tried + 2)), Forcing())
    rounds, accepted = np.asarray(state.pace.rounds), np.asarray(state.accepted)
    assert rounds[0] > 2 * (LOOKAHEAD + 1), "more must have been missed than two blocks"
    assert rounds[3] > 2
    wanted = [0] * rounds[0] + [LOOKAHEAD] * rounds[3]
    npt.assert_array_equal(accepted[:, : rounds.sum()], [wanted] * len(ASKED))
    npt.assert_array_equal(state.tokens[:, :OUTPUT], plain)


def test_forced_counts_are_cut_to_what_was_drafted() -> None:
    law = Forcing.of(ForcedAcceptance(kind="forced", accepted=(0, 3, 1, 2)), LOOKAHEAD)
    rounds = jnp.arange(4)
    for most in range(LOOKAHEAD + 1):
        counts = AtMost(own=law, most=most).override(0 * rounds, rounds, KEY)
        npt.assert_array_equal(counts, np.minimum([0, 3, 1, 2], most))
    npt.assert_array_equal(AtMost(own=Forcing(), most=2).override(rounds, rounds, KEY), [0, 1, 2, 2])


def test_nobody_to_draft() -> None:
    setting = Setting(4, 0, 64, GREEDY)

    def run(prompts: jax.Array) -> None:
        state = start(setting, TARGET, None, prompts, KEY, Wanted(policy=Policy.fixed(0, 0)))
        decode_round(GREEDY, TARGET, NoDrafter(), state, Forcing())

    with pytest.raises(RefusedError, match="where a draft model drafts"):
        jax.eval_shape(run, ASKED)
    with pytest.raises(RefusedError, match="drafts nothing"):
        generate_plain(Pair.of(TARGET, None), ASKED, 4, GREEDY, KEY, policy=Policy.fixed(0, 0))


@pytest.mark.parametrize("program", ["finish", "one_round", "admit"])
def test_no_program_copies_a_cache_or_computes_what_it_does_not_need(program: str) -> None:
    pair, setting = Pair.of(TARGET, TARGET), Setting(50, 2, 128, Sampling())
    policy = Policy.by_cost([1.0, 1.2, 1.4]) if program == "finish" else None
    state = jax.eval_shape(lambda: empty_slots(setting, pair, 3, KEY, policy))
    one = np.ones(1, np.int32)
    more: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "finish": (finish, (Forcing(),)),
        "one_round": (one_round, (Forcing(),)),
        "admit": (admit, (np.int32(0), np.zeros((1, 16), np.int32), Wanted(one, one))),
    }
    jitted, arguments = more[program]
    # The same copies; their machine code, which nobody runs, is not optimised.
    compiled = jitted.lower(setting, pair, state, *arguments).compile({"xla_backend_optimization_level": "0"})
    text, cache = compiled.as_text(), r"f32\[(?:3,2|6),128,8\]\S*"
    assert re.search(cache, text)
    assert not re.search(rf"= {cache} copy\(", text)
    if program == "finish":
        # Six matmuls a layer and the head, in each of two loops that draft and of three verify steps; one where a draft
        # of one layer catches up. Fewer would mean that some are computed whether the step is taken or not.
        assert matmuls_of_loops(text) == [1] + [7] * 5
