"""Does a sharded transformer sample the same law as on one chip?

Real models, real collectives, four virtual chips: the joint law of three tokens is enumerated from the logits that the
whole target has on one chip. Batches of eight, as in ``test_speculative_law.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime.generate import generate
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.transformer import Decoder
from tests.exact_laws import FALSE_ALARM, Floats, distributions, fit, histogram, pair_fits
from tests.tiny_models import decoder, tiny

SAMPLES, CHUNK = 2**20, 2**15
BATCH, LENGTH, LOOKAHEAD, VOCABULARY, CHIPS = 8, 3, 1, 8, 4
PROMPTS = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, 2)).astype(np.int32)
SPEC = tiny(layers=1, d_model=8, heads=4, kv_heads=2, head_dim=4, d_ff=16, vocabulary=VOCABULARY)
RULE = Sampling(temperature=0.7, min_p=0.05)


def joint_laws(model: Decoder) -> Floats:
    """Probability of each outcome after each prompt, [B, V x V x V]."""
    outcomes = np.stack(np.unravel_index(np.arange(VOCABULARY**LENGTH), (VOCABULARY,) * LENGTH), axis=1)
    fed = np.stack([np.column_stack([np.tile(prompt, (len(outcomes), 1)), outcomes[:, :-1]]) for prompt in PROMPTS])
    rows = fed.reshape(-1, fed.shape[2]).astype(np.int32)
    logits, _ = model(jnp.asarray(rows), model.empty_cache(len(rows), 8), jnp.zeros(len(rows), jnp.int32), fresh=True)
    probs = distributions(np.asarray(logits)[:, PROMPTS.shape[1] - 1 :], RULE).reshape(BATCH, -1, LENGTH, VOCABULARY)
    return np.asarray(np.take_along_axis(probs, outcomes[None, :, :, None], axis=3)[..., 0].prod(axis=2))


@pytest.mark.slow
def test_a_million_sequences_of_four_chips_follow_the_law_of_one(
    record_property: Callable[[str, object], None],
) -> None:
    target, draft = decoder(SPEC, 6), decoder(SPEC, 4)
    pair = Pair.of(target, draft, CHIPS)

    @jax.jit
    def run(pair: Pair, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        def batch(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            made = generate(pair, jnp.asarray(PROMPTS), LENGTH, LOOKAHEAD, RULE, key, positions=8)
            places = VOCABULARY ** jnp.arange(LENGTH - 1, -1, -1, dtype=jnp.int32)
            return made.tokens @ places, made.accepted[:, 0]

        return jax.vmap(batch)(keys)

    keys = jax.random.split(jax.random.key(0), (SAMPLES // CHUNK, CHUNK // BATCH))
    parts = [jax.tree.map(np.asarray, run(pair, row)) for row in keys]
    outcomes, accepted = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
    laws = joint_laws(target)
    tokens = fit(histogram(outcomes, laws.shape[1]), laws)
    last_two = laws.reshape(BATCH, VOCABULARY, VOCABULARY**2).sum(axis=1)
    pairs = max(pair_fits(outcomes % VOCABULARY**2, last_two), key=lambda pair: pair.excess(FALSE_ALARM))
    record_property("tokens", str(tokens))
    record_property("pairs", str(pairs))
    assert (tokens.samples, tokens.ruled_out, pairs.ruled_out) == (SAMPLES, 0, 0)
    assert tokens.excess(FALSE_ALARM / 2) < 1
    assert pairs.excess(FALSE_ALARM / (2 * 28)) < 1
    assert 0.1 < accepted.mean() < 0.9, "both acceptances and rejections must be exercised"
