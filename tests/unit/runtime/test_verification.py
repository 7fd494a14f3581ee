"""The corners of modified rejection sampling; its law is tested in tests/statistical."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.forcing import Forcing
from runtime.sampling import Sampling
from runtime.verification import Proposal, accept, judge, leading, residual
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
