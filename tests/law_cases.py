"""Samples of the real decoding loop with models whose distributions are known tables, beside their exact laws."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from runtime.decode_loop import run_to_end, start
from runtime.decode_state import Setting, Wanted
from runtime.forcing import Forcing
from runtime.pace import Policy
from runtime.sampling import Sampling
from tests.exact_laws import (
    FALSE_ALARM,
    Fit,
    Floats,
    Ints,
    accepted_code,
    accepted_law,
    distributions,
    fit,
    histogram,
    masses,
    pair_fits,
)
from tests.table_models import disturbed, table_model

VOCABULARY = 8
TARGET = table_model(VOCABULARY, 0)
DRAFT = disturbed(TARGET, 1, 1.0)
CHUNK = 2**15
"""Sequences that one call samples."""
ALARMS = {"tokens": FALSE_ALARM / 3, "accepted": FALSE_ALARM / 3, "pairs": FALSE_ALARM / 3 / 28}
"""The false alarm of a test, shared out: a batch of eight has 28 pairs."""


@dataclass(frozen=True)
class Case:
    """How a law is sampled. Its length lets a second round follow a first whose K tokens were all accepted."""

    sampling: Sampling
    batch: int = 1
    lookahead: int = 1
    spare: int = 0
    """Positions of the caches beyond what a right loop needs."""
    round_cost: tuple[float, ...] = ()
    """Costs of rounds by how many tokens they draft, where that is chosen round by round."""

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return self.lookahead + 3

    @property
    def prompts(self) -> Ints:
        """A prompt of its own for each sequence of the batch."""
        steps = np.asarray([1, 3, 2], np.int64)
        return (np.arange(3) + np.arange(self.batch)[:, None] * steps) % VOCABULARY


def sampled(case: Case, samples: int, seed: int = 0) -> tuple[Ints, Ints]:
    """Numbered outcomes [n, B], and coded counts of accepted tokens [n, B], of n x B = ``samples`` sequences."""
    prompts = jnp.asarray(case.prompts, jnp.int32)
    positions = prompts.shape[1] + case.length + case.lookahead + case.spare
    setting = Setting(case.length, case.lookahead, positions, case.sampling)
    asked = Wanted(policy=Policy.by_cost(case.round_cost, prior=0.5)) if case.round_cost else Wanted()

    def batch(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = run_to_end(setting, TARGET, DRAFT, start(setting, TARGET, DRAFT, prompts, key, asked), Forcing())
        places = VOCABULARY ** jnp.arange(case.length - 1, -1, -1, dtype=jnp.int32)
        return state.tokens[:, : case.length] @ places, state.accepted[:, :2]

    # Batches of one and of eight, thousands of them at once: keys that are reused would go unnoticed in a large batch,
    # whose sequences do not read the same numbers of a key's stream.
    run = jax.jit(jax.vmap(batch))
    keys = jax.random.split(jax.random.key(seed), (samples // CHUNK, CHUNK // case.batch))
    parts = [jax.tree.map(np.asarray, run(row)) for row in keys]
    outcomes, counts = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
    return outcomes, accepted_code(counts[..., 0], counts[..., 1], case.lookahead)


def fits(case: Case, samples: int, seed: int = 0) -> dict[str, Fit]:
    """How a sample compares with each law; of the pairs the one that compares worst."""
    target, draft = (distributions(model.logits, case.sampling) for model in (TARGET, DRAFT))
    outcomes, accepted = sampled(case, samples, seed)
    laws = np.stack([masses([target] * case.length, prompt) for prompt in case.prompts])
    counts = np.stack([accepted_law(target, draft, prompt, case.lookahead) for prompt in case.prompts])
    found = {"tokens": fit(histogram(outcomes, laws.shape[1]), laws)}
    if not case.round_cost:  # else the counts depend on what was chosen
        found["accepted"] = fit(histogram(accepted, counts.shape[1]), counts)
    if case.batch > 1:
        codes = second_and_third(outcomes, laws)
        found["pairs"] = max(pair_fits(*codes), key=lambda pair: pair.excess(ALARMS["pairs"]))
    return found


def second_and_third(outcomes: Ints, laws: Floats) -> tuple[Ints, Floats]:
    """The first two tokens that the loop emits, as one code, and their laws [B, V x V]."""
    apart = laws.reshape(len(laws), VOCABULARY, VOCABULARY**2, -1)
    return outcomes // apart.shape[3] % VOCABULARY**2, apart.sum(axis=(1, 3))


def excesses(found: dict[str, Fit]) -> dict[str, float]:
    """Statistics over their thresholds: all of a right sampler are below 1 but for a false alarm."""
    return {name: one.excess(ALARMS[name]) for name, one in found.items()}
