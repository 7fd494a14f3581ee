"""Do speculative tokens follow the target's own distribution?

Real models, the real loop, a vocabulary of four: the joint law of the first four tokens is enumerated exactly (256
outcomes) in float64 from the target's logits, and compared with n sampled sequences by Pearson's chi-square. Outcomes
expected fewer than 100 times are pooled, so the statistic of a right sampler is chi-square distributed with one degree
of freedom less than there are cells; the threshold is its quantile at a false alarm of 1e-6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import softmax
from scipy.stats import chi2

from runtime import decode_loop, verification
from runtime.decode_loop import Setting, run_to_end, start
from runtime.forcing import Forcing
from runtime.sampling import Sampling
from runtime.transformer import Decoder
from tests.tiny_models import decoder, tiny

Floats = npt.NDArray[np.float64]

FALSE_ALARM = 1e-6
VOCABULARY, LENGTH, LOOKAHEAD = 4, 4, 3
PROMPT = (0, 1)
POSITIONS = len(PROMPT) + LENGTH + LOOKAHEAD
BATCH = 2**17
SPEC = tiny(layers=1, d_model=8, heads=2, kv_heads=1, head_dim=4, d_ff=16, vocabulary=VOCABULARY)
TARGET, DRAFT = decoder(SPEC, 6), decoder(SPEC, 4)
PLACES = VOCABULARY ** np.arange(LENGTH - 1, -1, -1)


def kept(probs: Floats, top_p: float) -> Floats:
    """The nucleus of one distribution, written down a second time: add the likeliest tokens until the mass is there."""
    result, mass = np.zeros_like(probs), 0.0
    for token in np.argsort(-probs):
        if mass >= top_p:
            break
        result[token] = probs[token]
        mass += probs[token]
    return np.asarray(result / result.sum())


def joint_law(model: Decoder, sampling: Sampling) -> Floats:
    """Probability of each of the 256 outcomes."""
    outcomes = np.stack(np.unravel_index(np.arange(VOCABULARY**LENGTH), (VOCABULARY,) * LENGTH), axis=1)
    fed = np.concatenate([np.tile(PROMPT, (len(outcomes), 1)), outcomes[:, :-1]], axis=1).astype(np.int32)
    cursor = jnp.zeros((len(fed),), jnp.int32)
    logits, _ = model(jnp.asarray(fed), model.empty_cache(len(fed), POSITIONS), cursor)
    scaled = np.asarray(logits, np.float64)[:, len(PROMPT) - 1 :] / sampling.temperature
    probs = np.apply_along_axis(kept, -1, softmax(scaled, axis=-1), sampling.top_p)
    return np.asarray(np.take_along_axis(probs, outcomes[:, :, None], axis=2)[:, :, 0].prod(axis=1))


def sampled(sampling: Sampling, lookahead: int, batches: int) -> tuple[npt.NDArray[np.int64], float]:
    """How often each outcome was sampled, and the mean of accepted tokens a round."""
    setting = Setting(LENGTH, lookahead, POSITIONS, sampling)
    prompts = jnp.tile(jnp.asarray(PROMPT, jnp.int32), (BATCH, 1))

    @jax.jit
    def count(models: tuple[Decoder, Decoder], key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = run_to_end(setting, *models, start(setting, *models, prompts, key), Forcing())
        outcome = state.tokens[:, :LENGTH] @ jnp.asarray(PLACES, jnp.int32)
        accepted = jnp.where(state.accepted >= 0, state.accepted, 0).sum() / state.rounds.sum()
        return jnp.bincount(outcome, length=VOCABULARY**LENGTH), accepted

    results = [count((TARGET, DRAFT), jax.random.key(seed)) for seed in range(batches)]
    total = np.sum([np.asarray(counts, np.int64) for counts, _ in results], axis=0)
    return total, float(np.mean([accepted for _, accepted in results]))


def excess(counts: npt.NDArray[np.int64], law: Floats) -> float:
    """Pearson's statistic over its threshold: above 1 the counts do not follow the law."""
    expected = counts.sum() * law
    assert not counts[law == 0].any(), "an outcome that the target rules out"
    large = expected >= 100
    rest = expected[~large].sum()
    pooled = ([counts[~large].sum()], [rest]) if rest >= 100 else ([], [])
    observed, wanted = np.append(counts[large], pooled[0]), np.append(expected[large], pooled[1])
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    return statistic / float(chi2.isf(FALSE_ALARM, len(wanted) - 1))


@pytest.mark.parametrize(
    ("sampling", "lookahead", "batches"),
    [
        (Sampling(), LOOKAHEAD, 8),
        (Sampling(), 1, 1),
        (Sampling(), 0, 1),
        (Sampling(temperature=0.7), LOOKAHEAD, 2),
        (Sampling(temperature=1.3, top_p=0.8), LOOKAHEAD, 1),
    ],
    ids=["temperature 1", "lookahead 1", "plain", "temperature 0.7", "nucleus"],
)
def test_the_joint_law_of_four_tokens(sampling: Sampling, lookahead: int, batches: int) -> None:
    # n = batches x 131,072: 1,048,576 sequences at temperature 1.
    counts, accepted = sampled(sampling, lookahead, batches)
    assert counts.sum() == batches * BATCH
    assert excess(counts, joint_law(TARGET, sampling)) < 1
    if lookahead:
        assert 0.1 * lookahead < accepted < 0.9 * lookahead, "both acceptances and rejections must be exercised"


@functools.cache
def law() -> Floats:
    """The target's law at temperature 1."""
    return joint_law(TARGET, Sampling())


BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "residual from the target": (verification, "residual", lambda target, _: target),
    "residual from the draft": (verification, "residual", lambda target, draft: jnp.where(draft > 0, draft, target)),
    "one key for draft and verdict": (
        decode_loop,
        "round_keys",
        lambda key: (jax.random.fold_in(key, 0), jax.random.fold_in(key, 1), jax.random.fold_in(key, 1)),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    counts, _ = sampled(Sampling(), LOOKAHEAD, 1)
    assert excess(counts, law()) > 2
