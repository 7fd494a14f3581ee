"""Do speculative tokens follow the target's own distribution, whatever the sampling rule and the batch?

The real loop with models whose distributions are known. Three laws are enumerated exactly and compared with 1,048,576
sequences by Pearson's chi-square: the joint law of all tokens of a sequence; that of the counts accepted in its first
two rounds; and, in a batch, that of every two sequences together, which have to be independent. A sampler that is right
exceeds any threshold of a test with probability 1e-6. See ``tests/exact_laws.py``.
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
from tests.law_cases import Case, excesses, fits
from tests.tiny_models import decoder, noisy, prompts, tiny

SAMPLES = 2**20
GREEDY = Sampling(temperature=0.0)

CASES = {
    "temperature 0.7": Case(Sampling(temperature=0.7), lookahead=2),
    "top-k 5": Case(Sampling(top_k=5)),
    "nucleus 0.9": Case(Sampling(top_p=0.9)),
    "min-p 0.1": Case(Sampling(min_p=0.1)),
    "all": Case(Sampling(temperature=0.7, top_k=5, top_p=0.9, min_p=0.1)),
    "temperature, top-k, batch 8": Case(Sampling(temperature=0.7, top_k=5), 8),
    "top-k, nucleus, batch 8": Case(Sampling(top_k=5, top_p=0.9), 8),
    "nucleus, min-p, batch 8": Case(Sampling(top_p=0.9, min_p=0.1), 8),
    "all, batch 8": Case(Sampling(temperature=0.7, top_k=5, top_p=0.9, min_p=0.1), 8, lookahead=2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_million_sequences_follow_the_law(name: str, record_property: Callable[[str, object], None]) -> None:
    found = fits(CASES[name], SAMPLES)
    for law, one in found.items():
        record_property(law, str(one))
    assert found["tokens"].samples == SAMPLES
    assert [one.ruled_out for one in found.values()] == [0] * len(found)
    assert max(excesses(found).values()) < 1


def test_a_lookahead_chosen_round_by_round_changes_no_law(record_property: Callable[[str, object], None]) -> None:
    # Sequences of a batch share the choice, which depends on what all of them accepted before: they stay independent.
    found = fits(Case(Sampling(), 8, lookahead=2, round_cost=(1.0, 1.3, 1.7)), SAMPLES // 8)
    for law, one in found.items():
        record_property(law, str(one))
    assert max(excesses(found).values()) < 1


@pytest.mark.parametrize("batch", [1, 8])
def test_a_million_greedy_tokens_are_the_targets(batch: int) -> None:
    # Batches of one and eight, thousands at once, each sequence with a prompt of its own. A token is the target's if it
    # is the likeliest after all before it, read at once: that needs neither a cache nor a round.
    length, spec = 8, tiny(layers=1, d_model=8, heads=2, kv_heads=1, head_dim=4, d_ff=16)
    target = decoder(spec, 0)
    pair = Pair.of(target, noisy(target, 1, 0.2))
    asked = prompts(SAMPLES // length, 5, spec.vocabulary)

    @jax.jit
    @jax.vmap
    def run(asked: jax.Array) -> tuple[jax.Array, jax.Array]:
        made = generate(pair, asked, length, 2, GREEDY, jax.random.key(0), positions=15)
        return made.tokens, made.rounds

    @jax.jit
    def likeliest_after(fed: jax.Array) -> jax.Array:
        logits, _ = target(fed, target.empty_cache(len(fed), 12), jnp.zeros(len(fed), jnp.int32), fresh=True)
        return jnp.argmax(logits[:, 4:], axis=-1)

    parts = [run(part) for part in asked.reshape(4, -1, batch, 5)]
    tokens, rounds = (np.concatenate([np.asarray(part[index]) for part in parts]) for index in (0, 1))
    tokens = tokens.reshape(-1, length)
    assert tokens.size == SAMPLES
    np.testing.assert_array_equal(tokens, likeliest_after(jnp.concatenate([asked, tokens[:, :-1]], axis=1)))
    assert (length - 1) / 3 < rounds.mean() < length - 1, "both acceptances and rejections must be exercised"
