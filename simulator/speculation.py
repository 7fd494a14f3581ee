"""Closed forms of speculative sampling: tokens per round, round cost, speedup, best lookahead, break-even.

Everything broadcasts. ``acceptance_rate`` is alpha, P(a draft token is accepted, given that all before it were);
``lookahead`` is K; ``round_cost`` is the time of a round in plain decode steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.errors import RefusedError
from simulator.spec.processes import Process, Replay, RoundProcess

Array = npt.NDArray[np.float64]
Number = Any

MAX_LOOKAHEAD = 64
MAX_LAW_TOKENS = 16_384
MAX_CHAINED_TOKENS = 2_048
"""Tokens beyond which the recursion over rounds that depend on each other takes seconds."""
"""Tokens up to which the law of the rounds is computed: the time grows with their square."""
NOISE = 1e-15
"""Chances below it are rounding."""


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


def break_even_ahead(cold_cost: float, hot_cost: float, lookahead: int) -> float:
    """The constant acceptance rate at which a draft that works ahead pays exactly; NaN where there is none.

    A round costs ``hot_cost`` after one that kept all K tokens, ``cold_cost`` otherwise, and emits
    ``1 + alpha + ... + alpha^(K-1)`` tokens; the gain rises with alpha on both counts. Bisection to the last bit.
    """

    def gain(alpha: float) -> float:
        full = alpha**lookahead
        return float(tokens_per_round(alpha, lookahead - 1)) / (full * hot_cost + (1 - full) * cold_cost)

    if lookahead < 1 or gain(0.0) > 1 or gain(1.0) < 1:
        return float("nan")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) < 1 else (low, middle)
    return (low + high) / 2


def best_lookahead(acceptance_rate: Number, round_cost_by_lookahead: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The K with the highest speedup, 0 where plain decoding is best.

    ``round_cost_by_lookahead[..., k]`` is the round cost at K = k + 1; ties go to the smaller K.
    """
    costs = np.asarray(round_cost_by_lookahead, dtype=np.float64)
    depth = np.arange(1, costs.shape[-1] + 1)
    gains = tokens_per_round(np.asarray(acceptance_rate)[..., None], depth) / costs
    plain = np.ones((*gains.shape[:-1], 1))
    return np.asarray(np.argmax(np.concatenate([plain, gains], axis=-1), axis=-1), dtype=np.int64)


def longest_law(acceptance: npt.ArrayLike | Sequence[Process]) -> int:
    """Tokens up to which :func:`rounds_to_tokens_law` is quickly had: fewer where rounds depend on each other."""
    chained = any(isinstance(one, RoundProcess) and len(one.initial) > 1 for one in _processes(acceptance))
    return MAX_CHAINED_TOKENS if chained else MAX_LAW_TOKENS


def rounds_to_tokens_law(acceptance: npt.ArrayLike | Sequence[Process], tokens: int, batch: int = 1) -> Array:
    """P(exactly r rounds are needed), r = 0, 1, ...: until each of ``batch`` independent sequences has ``tokens``.

    ``acceptance`` are the processes of a law, or the conditional acceptances [K] of independent rounds. A batch in
    lockstep ends with its slowest, so its distribution function is that of one sequence to the power ``batch``; a slot
    whose sequence is replaced as soon as it ends has the law of one. Exact up to rounding.

    Raises:
        RefusedError: more than :func:`longest_law`.
    """
    if tokens > (longest := longest_law(acceptance)):
        raise RefusedError(f"the law of the rounds to {tokens:,} tokens; it is computed up to {longest:,}")
    short = np.zeros(tokens + 1)
    for process in _processes(acceptance):
        short += process.weight * _short(process, tokens)
    rounds = int(np.argmax(short[:-1] < NOISE)) or tokens
    done = np.clip(1.0 - short[: rounds + 1], 0.0, 1.0)
    return np.diff(done**batch, prepend=0.0)


def law_mean(law: npt.ArrayLike) -> float:
    """Mean of a law over r = 0, 1, ..."""
    chances = np.asarray(law, dtype=np.float64)
    return float(chances @ np.arange(len(chances)))


def law_variance(law: npt.ArrayLike) -> float:
    """Variance of a law over r = 0, 1, ..."""
    chances = np.asarray(law, dtype=np.float64)
    return float(chances @ (np.arange(len(chances)) - law_mean(chances)) ** 2)


def law_quantile(law: npt.ArrayLike, level: float) -> int:
    """The smallest r up to which a law over r = 0, 1, ... has the mass ``level``, rounding aside."""
    reached = np.cumsum(np.asarray(law, dtype=np.float64)) >= level - 1e-12
    return int(np.argmax(reached)) if reached.any() else len(reached) - 1


def refilled_tokens_per_round(acceptance: npt.ArrayLike | Sequence[Process], tokens: int) -> float:
    """Tokens per round of a slot that gets a fresh sequence as soon as its last has ``tokens``.

    By renewal and reward, tokens over the mean rounds of a sequence: what the last round makes too many is dropped.
    """
    return tokens / law_mean(rounds_to_tokens_law(acceptance, tokens))


def _processes(acceptance: npt.ArrayLike | Sequence[Process]) -> Sequence[Process]:
    found = [process for process in acceptance if isinstance(process, RoundProcess | Replay)]  # type: ignore[union-attr]
    return found or [RoundProcess.independent(1.0, np.asarray(acceptance, dtype=np.float64))]


def _short(process: Process, tokens: int) -> Array:
    """P(fewer than ``tokens`` are there after r rounds), r = 0, 1, ..., ``tokens``; it falls from 1 to 0."""
    if isinstance(process, Replay):
        short = _short_replayed(process, tokens)
    elif len(process.initial) == 1:
        short = _short_independent(process.accepted[0], tokens)
    else:
        short = _short_chained(process, tokens)
    return np.minimum.accumulate(np.clip(short, 0.0, 1.0))


def _short_replayed(process: Replay, tokens: int) -> Array:
    emitted = np.cumsum(process.accepted + 1)
    wraps = (tokens - 1) // int(emitted[-1])
    rounds = wraps * len(emitted) + int(np.searchsorted(emitted, tokens - wraps * emitted[-1])) + 1
    return np.where(np.arange(tokens + 1) < rounds, 1.0, 0.0)


def _short_chained(process: RoundProcess, tokens: int) -> Array:
    """By recursion over the rounds: P(state z, and n tokens so far), n < N, in an array [Z, N]."""
    short, now = np.zeros(tokens + 1), np.zeros((len(process.initial), tokens))
    now[:, 0] = process.initial
    for done in range(tokens):
        short[done] = now.sum()
        if short[done] < NOISE:
            break
        emitted = [np.convolve(row, law)[: tokens - 1] for row, law in zip(now, process.accepted, strict=True)]
        now[:, 1:] = process.transition.T @ np.array(emitted)
        now[:, 0] = 0.0
    return short


def _short_independent(accepted: Array, tokens: int) -> Array:
    """From the characteristic function of the tokens of a round, whose r-th power is that of r independent rounds.

    P(fewer than N) is a sum over the L points of a discrete Fourier transform, where L holds all that r rounds may
    emit but for a chance of exp(-40), for those r at which the outcome is open; Chernoff's bounds say which.
    """
    first, last, low, high = _open_rounds(accepted, tokens)
    length, stride = high - low + 1, 1 << (last - first).bit_length() // 2
    order = np.arange(length // 2 + 1)
    turn = _unit(order, length)
    step = turn * np.polyval(accepted[::-1], turn)
    # The transform of 1 at low, ..., N-1; orders above the middle are the conjugates of those below.
    weights = np.full(len(order), tokens - low, dtype=np.complex128)
    weights[1:] = (_unit(-order * low, length)[1:] - _unit(-order * tokens, length)[1:]) / (1 - np.conj(turn[1:]))
    weights[1 : (length + 1) // 2] *= 2
    within = _powers(step, stride)
    starts = weights / length * step**first * _powers(step**stride, (last - first) // stride + 1)
    chances = starts.view(np.float64) @ np.conj(within).view(np.float64).T  # the real part of starts @ within.T
    short = np.zeros(tokens + 1)
    short[:first] = 1.0
    short[first : last + 1] = chances.ravel()[: last - first + 1]
    return short


def _open_rounds(accepted: Array, tokens: int) -> tuple[int, int, int, int]:
    """The rounds r at which it is open whether N tokens are there, first and last; the fewest and most tokens then.

    Chernoff: P(T_r >= n) <= exp(r k(t) - t n) for t > 0, P(T_r <= n) likewise for t < 0, where k(t) is the logarithm of
    the moment generating function of a round's tokens.
    """
    tilts = np.geomspace(1e-5, 8, 80)
    sizes = np.arange(1, len(accepted) + 1)
    up, down = (np.log(np.exp(sign * tilts[:, None] * sizes) @ accepted) for sign in (1, -1))
    rare = 40.0
    first = max(int(((tilts * tokens - rare) / up).max()), (tokens - 1) // len(accepted), 0)
    last = min(int(np.ceil(((rare + tilts * (tokens - 1)) / -down).min())), tokens)
    low = max(int(((first * -down - rare) / tilts).max()), first)
    high = min(int(np.ceil(((rare + last * up) / tilts).min())), last * len(accepted))
    return first, last, low, high


def _unit(order: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.complex128]:
    """exp(2 pi i order / length)."""
    return np.asarray(np.exp(2j * np.pi / length * (order % length)))


def _powers(base: npt.NDArray[np.complex128], count: int) -> npt.NDArray[np.complex128]:
    """Powers 0, 1, ..., count-1 of every element; shape [count, F]."""
    powers = np.ones((count, len(base)), dtype=np.complex128)
    np.cumprod(np.broadcast_to(base, (count - 1, len(base))), axis=0, out=powers[1:])
    return powers
