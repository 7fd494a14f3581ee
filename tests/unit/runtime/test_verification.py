"""The corners of modified rejection sampling; its law is tested in tests/statistical."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.forcing import Forcing
from runtime.sampling import Sampling
from runtime.verification import Proposal, accept, judge, judge_choices, leading, residual
from simulator.errors import RefusedError
from simulator.spec.acceptance import ForcedAcceptance

KEY = jax.random.key(0)


def repeated(rows: list[list[float]], times: int = 1000) -> jax.Array:
    """Distributions [times, len(rows), V]."""
    return jnp.tile(jnp.asarray(rows, jnp.float32), (times, 1, 1))


def test_leading_stops_at_the_first_rejection() -> None:
    passed = jnp.asarray([[True, True, True], [True, False, True], [False, True, True]])
    np.testing.assert_array_equal(leading(passed), [3, 1, 0])


def test_a_token_that_the_target_rules_out_is_never_accepted() -> None:
    tokens = jnp.zeros((1000, 1), jnp.int32)
    counts = accept(KEY, tokens, repeated([[0.5, 0.5]]), repeated([[0.0, 1.0], [0.5, 0.5]]))
    assert not np.asarray(counts).any()


def test_equal_distributions_accept_everything() -> None:
    same = [[0.3, 0.7], [0.9, 0.1]]
    tokens = jnp.tile(jnp.asarray([[1, 0]], jnp.int32), (1000, 1))
    counts = accept(KEY, tokens, repeated(same), repeated([*same, [0.5, 0.5]]))
    assert (np.asarray(counts) == 2).all()


def test_residual_is_the_positive_excess_or_the_target_where_there_is_none() -> None:
    target = jnp.asarray([[0.5, 0.3, 0.2], [0.2, 0.8, 0.0]])
    draft = jnp.asarray([[0.2, 0.7, 0.1], [0.2, 0.8, 0.0]])
    np.testing.assert_allclose(residual(target, draft), [[0.3, 0.0, 0.1], [0.2, 0.8, 0.0]], atol=1e-7)


def test_where_no_residual_is_left_only_the_targets_own_tokens_are_drawn() -> None:
    # Equal distributions, and draft probabilities beyond any target's, as padding has them; the acceptance is forced.
    target = [[0.2, 0.8, 0.0, 0.0]]
    for draft in (target, [[np.inf] * 4], [[0.3, 0.9, 0.1, 0.1]]):
        proposal = Proposal(jnp.ones((1000, 1), jnp.int32), repeated(draft))
        forcing = Forcing.of(ForcedAcceptance(kind="forced", accepted=(0,)), 1)
        logits = jnp.log(repeated(target * 2))
        verdict = judge(Sampling(), KEY, proposal, logits, forcing, jnp.zeros((1000,), jnp.int32))
        assert set(np.unique(np.asarray(verdict.next_token))) == {0, 1}
        assert abs(float(verdict.next_token.mean()) - 0.8) < 0.06


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_k=2), Sampling(temperature=0.0)])
def test_what_the_models_accept_is_counted_apart_from_what_is_forced(sampling: Sampling) -> None:
    # Drafted are 1 and 0, of which the target keeps the first: it gives all its mass to 1, 1 and 0.
    logits = jnp.log(repeated([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], times=3))
    probs = None if sampling.greedy else repeated([[0.5, 0.5], [0.5, 0.5]], times=3)
    proposal = Proposal(jnp.tile(jnp.asarray([[1, 0]], jnp.int32), (3, 1)), probs)
    forcing = Forcing.of(ForcedAcceptance(kind="forced", accepted=(2, 0, 1)), 2)
    verdict = judge(sampling, KEY, proposal, logits, forcing, jnp.arange(3))
    np.testing.assert_array_equal(verdict.accepted, [2, 0, 1])
    np.testing.assert_array_equal(verdict.unforced, [1, 1, 1])
    np.testing.assert_array_equal(verdict.next_token, [0, 1, 1])
    own = judge(sampling, KEY, proposal, logits, Forcing(), jnp.arange(3))
    np.testing.assert_array_equal(own.accepted, own.unforced)


def test_bfloat16_logits_are_judged_in_float32() -> None:
    logits = jax.random.normal(KEY, (200, 3, 16), jnp.bfloat16)
    probs = jax.nn.softmax(jax.random.normal(jax.random.key(1), (200, 2, 16)), axis=-1)
    proposal = Proposal(jax.random.randint(KEY, (200, 2), 0, 16), probs)
    rounds = jnp.zeros((200,), jnp.int32)
    sampling = Sampling(temperature=0.7, top_k=9)
    found = judge(sampling, KEY, proposal, logits, Forcing(), rounds)
    wanted = judge(sampling, KEY, proposal, logits.astype(jnp.float32), Forcing(), rounds)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)


def test_choices_are_judged_as_the_logits_that_they_come_from() -> None:
    logits = jax.random.normal(KEY, (100, 4, 3))
    proposal = Proposal(jax.random.randint(KEY, (100, 3), 0, 3), None)
    rounds = jnp.zeros((100,), jnp.int32)
    forcing = Forcing(rates=jnp.full((3,), 0.5))
    for given in (Forcing(), forcing):
        found = judge_choices(KEY, proposal, jnp.argmax(logits, axis=-1).astype(jnp.int32), given, rounds)
        wanted = judge(Sampling(temperature=0.0), KEY, proposal, logits, given, rounds)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(one, other)


def test_after_full_acceptance_the_next_token_is_the_targets_own() -> None:
    same = [[0.5, 0.5]]
    logits = jnp.log(repeated([*same, [0.0, 1.0]]))
    proposal = Proposal(jnp.zeros((1000, 1), jnp.int32), repeated(same))
    verdict = judge(Sampling(), KEY, proposal, logits, Forcing(), jnp.zeros((1000,), jnp.int32))
    assert (np.asarray(verdict.accepted) == 1).all()
    assert (np.asarray(verdict.next_token) == 1).all()


def test_greedy_compares_choices() -> None:
    logits = jnp.asarray([[[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]])
    verdict = judge(
        Sampling(temperature=0.0),
        KEY,
        Proposal(jnp.asarray([[1, 1]], jnp.int32), None),
        logits,
        Forcing(),
        jnp.zeros((1,), jnp.int32),
    )
    assert (int(verdict.accepted[0]), int(verdict.next_token[0])) == (1, 0)


def test_forced_counts_are_those_of_the_sequences_own_round() -> None:
    forcing = Forcing.of(ForcedAcceptance(kind="forced", accepted=(2, 0, 1)), 2)
    counts = forcing.override(jnp.zeros((4,), jnp.int32), jnp.asarray([0, 1, 2, 3]), KEY)
    np.testing.assert_array_equal(counts, [2, 0, 1, 2])


def test_a_list_for_a_longer_lookahead_is_refused() -> None:
    with pytest.raises(RefusedError, match="lookahead 2 cannot accept 3"):
        Forcing.of(ForcedAcceptance(kind="forced", accepted=(1, 3)), 2)
