"""Appending at ragged cursors, and room for it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.kv_cache import append, room
from simulator.errors import RefusedError
from simulator.spec.scenario import Scenario
from tests.builders import scenario


@pytest.mark.parametrize("scatter", [True, False])
@pytest.mark.parametrize("cursor", [[3], [0, 5, 2]])
def test_every_sequence_is_written_at_its_own_cursor(cursor: list[int], scatter: bool) -> None:
    batch = len(cursor)
    old = jax.random.normal(jax.random.key(0), (batch, 2, 8, 4))
    new = jax.random.normal(jax.random.key(1), (batch, 2, 3, 4))
    wanted = np.array(old)
    for sequence, at in enumerate(cursor):
        wanted[sequence, :, at : at + 3] = new[sequence]
    np.testing.assert_array_equal(append(old, new, jnp.asarray(cursor), scatter=scatter), wanted)


def test_what_is_appended_takes_the_type_of_the_cache() -> None:
    cache = append(jnp.zeros((1, 1, 4, 2), jnp.bfloat16), jnp.ones((1, 1, 1, 2)), jnp.asarray([1]), scatter=True)
    assert cache.dtype == jnp.bfloat16


def test_room_is_what_a_frozen_sequence_may_write() -> None:
    # Its cursor stops at P + N - 1, where a verify step writes K + 1 positions.
    assert room(100, 50, 7, positions=157) == 157
    with pytest.raises(RefusedError, match="writes up to 157"):
        room(100, 50, 7, positions=156)
    assert room(100, 50, 7) == 192


def test_a_scenario_always_has_room() -> None:
    asked: Scenario = scenario()
    prompt, output = asked.workload.prompt_tokens, asked.workload.output_tokens
    assert room(prompt, output, 64, asked.cache_positions) == asked.cache_positions
