"""The likeliest token of a split vocabulary, against the likeliest of the gathered logits."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax.sharding import PartitionSpec

from runtime.mesh import axes_of, chip_mesh, on_chips
from runtime.sampling import likeliest
from runtime.sharded_choice import likeliest_of_shards
from runtime.share import Share
from tests.tiny_models import collectives, tiny

ROWS = 64
SAME = PartitionSpec()


def on_all(vocabulary: int, chips: int, small: int) -> tuple[Share, Callable[[jax.Array], jax.Array]]:
    """A chip's share, and the choice from padded logits [rows, X * V share]; ``small`` is the other model's degree."""
    mesh = chip_mesh(chips, small)
    share = Share.of(tiny(vocabulary=vocabulary), chips, axes_of(mesh, chips))

    def choose(part: jax.Array) -> jax.Array:
        return likeliest_of_shards(part, share, vocabulary)

    return share, jax.jit(on_chips(choose, mesh, (PartitionSpec(None, share.axes or None),), SAME))


def padded(logits: npt.NDArray[np.float32], share: Share) -> jax.Array:
    """The logits that all chips hold together; the padding is what zero weights give, or worse."""
    width = share.chips * share.vocabulary - logits.shape[1]
    return jnp.asarray(np.pad(logits, ((0, 0), (0, width)), constant_values=1e9))


def hard_rows(vocabulary: int) -> npt.NDArray[np.float32]:
    """Ties everywhere, between chips too; rows of one value, of -inf, of both zeros, with +inf."""
    rng = np.random.default_rng(3)
    logits = rng.integers(-2, 2, (ROWS, vocabulary)).astype(np.float32)
    logits[0], logits[1], logits[2] = 0, -np.inf, -1e30
    logits[3] = rng.choice(np.asarray([0.0, -0.0], np.float32), vocabulary)
    logits[4, -1] = logits[5, 0] = logits[5, -1] = np.inf
    logits[6], logits[6, -1] = -np.inf, -5
    return logits


@pytest.mark.parametrize(("chips", "small"), [(4, 4), (4, 2), (2, 2), (1, 1)])
@pytest.mark.parametrize("vocabulary", [64, 61, 9, 5, 2])
def test_it_is_the_likeliest_of_the_gathered_logits(vocabulary: int, chips: int, small: int) -> None:
    # 9 tokens on 4 chips leave the last one padding alone, 5 and 2 leave more.
    share, choose = on_all(vocabulary, chips, small)
    spread = np.random.default_rng(4).normal(size=(ROWS, vocabulary)).astype(np.float32)
    for logits in (spread, -abs(spread) * 1e30, hard_rows(vocabulary)):
        chosen = np.asarray(choose(padded(logits, share)))
        np.testing.assert_array_equal(chosen, np.argmax(logits, axis=1))
        np.testing.assert_array_equal(chosen, likeliest(jnp.asarray(logits)))


def test_a_row_that_is_no_number_is_treated_alike() -> None:
    logits = np.zeros((2, 8), np.float32)
    logits[0, 5] = np.nan
    share, choose = on_all(8, 4, 4)
    np.testing.assert_array_equal(choose(padded(logits, share)), likeliest(jnp.asarray(logits)))


@pytest.mark.parametrize("chips", [1, 2, 4])
def test_two_numbers_a_row_and_chip_are_exchanged(chips: int) -> None:
    share, choose = on_all(4096, chips, chips)
    compiled = choose.lower(padded(np.zeros((ROWS, 4096), np.float32), share)).compile()  # type: ignore[attr-defined]
    assert collectives(compiled) == ({"all-gather": 1} if chips > 1 else {})
    if chips > 1:
        assert f"s32[{chips},2,{ROWS}]" in compiled.as_text()
