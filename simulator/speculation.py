"""Closed forms of speculative sampling: tokens per round, round cost, speedup, best lookahead, break-even.

Everything broadcasts. ``acceptance_rate`` is alpha, P(a draft token is accepted, given that all before it were);
``lookahead`` is K; ``round_cost`` is the time of a round in plain decode steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Number = Any

MAX_LOOKAHEAD = 64


def acceptance_length(conditional: npt.ArrayLike) -> Array:
    """Mean tokens of a round, tau, from conditional acceptances a_1..a_K along the last axis; shape [...].

    ``1 + a_1 + a_1 a_2 + ... + a_1...a_K``: each term is P(at least that many draft tokens were accepted), and every
    round emits one token of the target's own.
    """
    rates = np.asarray(conditional, dtype=np.float64)
    return np.asarray(1.0 + np.cumprod(rates, axis=-1).sum(axis=-1))


def tokens_per_round(acceptance_rate: Number, lookahead: Number) -> Array:
    """Mean tokens of a round at a constant acceptance rate: Leviathan et al. 2023, equation 1.

    Evaluated as the polynomial ``1 + alpha + ... + alpha^K`` (Horner), because the quotient
    ``(1 - alpha^(K+1)) / (1 - alpha)`` of the paper loses its figures near 1.
    """
    alpha, depth = np.broadcast_arrays(np.asarray(acceptance_rate, dtype=np.float64), np.asarray(lookahead))
    total = np.ones(alpha.shape)
    for k in range(int(depth.max(initial=0)), 0, -1):
        total = np.where(depth >= k, 1.0 + alpha * total, total)
    return total


def speedup(tokens: Number, round_cost: Number) -> Array:
    """Speedup over plain decoding of one long sequence: tokens per round over round cost."""
    return np.asarray(np.asarray(tokens, dtype=np.float64) / round_cost)


def break_even_acceptance(round_cost: Number, lookahead: Number) -> Array:
    """The acceptance rate at which a round pays exactly: ``tokens_per_round(alpha, K) = round_cost``.

    NaN where there is none: a round cost above K+1 never pays, one below 1 always does. Bisection to the last bit;
    the polynomial rises strictly in alpha.
    """
    cost, depth = np.broadcast_arrays(np.asarray(round_cost, dtype=np.float64), np.asarray(lookahead))
    low, high = np.zeros(cost.shape), np.ones(cost.shape)
    for _ in range(60):
        middle = (low + high) / 2
        under = tokens_per_round(middle, depth) < cost
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    pays = (cost >= 1) & (cost <= depth + 1)
    return np.where(pays, (low + high) / 2, np.nan)


def best_lookahead(acceptance_rate: Number, round_cost_by_lookahead: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The K with the highest speedup, 0 where plain decoding is best.

    ``round_cost_by_lookahead[..., k]`` is the round cost at K = k + 1; ties go to the smaller K.
    """
    costs = np.asarray(round_cost_by_lookahead, dtype=np.float64)
    depth = np.arange(1, costs.shape[-1] + 1)
    gains = tokens_per_round(np.asarray(acceptance_rate)[..., None], depth) / costs
    plain = np.ones((*gains.shape[:-1], 1))
    return np.asarray(np.argmax(np.concatenate([plain, gains], axis=-1), axis=-1), dtype=np.int64)


def emission_law(conditional: npt.ArrayLike) -> Array:
    """P(a round emits 1, 2, ..., K+1 tokens); shape [K+1]."""
    survival = np.concatenate([[1.0], np.cumprod(np.asarray(conditional, dtype=np.float64)), [0.0]])
    return np.asarray(survival[:-1] - survival[1:])


def rounds_to_tokens_law(conditional: npt.ArrayLike, tokens: int, batch: int = 1) -> Array:
    """P(exactly r rounds are needed), r = 0, 1, ...: until each of ``batch`` independent sequences has ``tokens``.

    Exact, by dynamic programming over the tokens emitted so far; a batch in lockstep ends with its slowest, so its
    distribution function is that of one sequence to the power ``batch``. Rounds must be independent of each other.
    """
    step = emission_law(conditional)
    short = np.zeros(tokens)  # P(n tokens so far and not done), n < tokens
    short[0] = 1.0
    unfinished = [1.0]
    while unfinished[-1] > 0 and len(unfinished) <= tokens:
        short = np.convolve(short, np.concatenate([[0.0], step]))[:tokens]
        unfinished.append(float(short.sum()))
    done = (1.0 - np.asarray(unfinished)) ** batch
    return np.diff(np.concatenate([[0.0], done]))
