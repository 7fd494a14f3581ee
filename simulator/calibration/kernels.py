"""Tables of single kernels, each timed on its own -> the numbers of a calibration.

Public tables have times of matrix multiplications, of attention and of small all-reduces, not of whole steps. Each
time is taken as a fixed part and a part that grows with what is moved or computed; what is fitted is time, linear in
the numbers, as on a device (``simulator.calibration.form``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.fitting import LinearFit, fit_linear

Array = npt.NDArray[np.float64]

FIT, HELD_OUT = "fit", "held out"
FEW_ROWS = 16
"""Up to so many rows a matrix multiplication waits for memory, whatever the number."""
LEAST_NOISE = 0.01
"""Relative noise of a published time is at least this: they are given with three or four figures."""
HIDDEN = 1.1
"""Up to so many times the time of memory, arithmetic is hidden behind it."""
TILE = 128
"""Rows of a tile of the matrix units (NVIDIA's 128 x 128 and 128 x 256 kernels)."""
OUT_OF_CACHE = 1.25
"""Times the size of the cache that repeatedly read bytes must have, to come from memory."""
NEGLIGIBLE = 0.1
"""Share of a time below which it does not matter where the bytes came from."""
MANY_SEQUENCES = 16
"""Beyond so many sequences attention's fixed time grows with them, which a calibration has no number for."""
UNBOUND = "few new tokens: neither memory nor arithmetic binds"
LEAST_ARITHMETIC = 0.3
"""Share of attention's time that is arithmetic, at least, where a rate of arithmetic is learnt from it."""


@dataclass(frozen=True)
class Chip:
    """What the fits must know of a chip."""

    bytes_per_s: float
    """Datasheet bandwidth of its memory."""
    flop_per_s: float
    """Datasheet matrix-multiply rate of the type at hand."""
    cache_bytes: float
    """Its last cache, which keeps what is read again and again."""


@dataclass(frozen=True)
class Gemm:
    """``rows`` x ``contract`` times ``contract`` x ``out``."""

    rows: int
    contract: int
    out: int
    bytes_each: float
    seconds: float
    copies: int = 1
    """Matrices that the benchmark multiplied in turn."""

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights."""
        return self.contract * self.out * self.bytes_each

    @property
    def flop(self) -> float:
        """Arithmetic, a multiply-add as two."""
        return 2.0 * self.rows * self.contract * self.out


@dataclass(frozen=True)
class Attention:
    """``batch`` sequences of ``tokens`` new tokens over ``positions`` cached ones."""

    heads: int
    kv_heads: int
    head_dim: int
    batch: int
    tokens: int
    positions: int
    seconds: float
    bytes_each: float = 2.0

    @property
    def kv_bytes(self) -> float:
        """Cached keys and values that are read or written."""
        return 2.0 * self.batch * (self.positions + self.tokens) * self.kv_heads * self.head_dim * self.bytes_each

    @property
    def flop(self) -> float:
        """Arithmetic of causal attention."""
        seen = self.positions + (self.tokens + 1) / 2
        return 4.0 * self.batch * self.tokens * seen * self.heads * self.head_dim


@dataclass(frozen=True)
class Judged:
    """A row of a table beside what the fitted numbers say of it."""

    key: str
    role: str
    """`fit`, `held out`, or why it is not used."""
    measured_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True)
class Matmuls:
    """What matrix multiplications say."""

    kernel_s: float
    """Fixed time of one."""
    hbm_efficiency: float
    matmul_efficiency: tuple[tuple[int, float], ...]
    """By rows."""
    standard_errors: dict[str, float]
    """Of the fixed time in s, and of 1 over the efficiency of memory."""
    rows: tuple[Judged, ...]


@dataclass(frozen=True)
class Cached:
    """What attention says."""

    kernel_s: float
    """Fixed time of one layer's."""
    kv_efficiency: float
    attention_efficiency: tuple[tuple[int, float], ...]
    """By rows; of arithmetic."""
    standard_errors: dict[str, float]
    rows: tuple[Judged, ...]


def relative_fit(matrix: Array, seconds: Array) -> LinearFit:
    """Numbers at or above 0 for which ``matrix @ numbers`` is about ``seconds``, relative errors weighing alike."""
    fit = fit_linear(matrix / seconds[:, None], np.ones(len(seconds)), least_noise=LEAST_NOISE)
    # Relative to what is predicted: relative to what was measured, times that came out short would count more.
    usual = np.maximum(matrix @ fit.values, 0.2 * seconds)
    return fit_linear(matrix / usual[:, None], seconds / usual, least_noise=LEAST_NOISE)


def impossible(streamed_bytes: float, seconds: float, chip: Chip) -> bool:
    """Whether more bytes than the cache holds came faster than the memory can give them: a mistaken row."""
    return streamed_bytes > OUT_OF_CACHE * chip.cache_bytes and streamed_bytes / seconds > chip.bytes_per_s


def fit_matmuls(gemms: Sequence[Gemm], held_out: Sequence[bool], chip: Chip) -> Matmuls:
    """The fixed time of a matrix multiplication, and the time of a byte of weights by the number of rows.

    Both the bytes and the arithmetic of ``rows`` rows go with the size of the matrix, so that one number for each count
    of rows says all: up to 16 rows it is that of memory, from there on that of arithmetic.
    """
    counts = sorted({gemm.rows for gemm in gemms if gemm.rows > FEW_ROWS})
    roles = [_role_of_gemm(gemm, out, chip) for gemm, out in zip(gemms, held_out, strict=True)]
    matrix = np.array([[1.0, *_by_rows(gemm, counts, chip)] for gemm in gemms])
    seconds = np.array([gemm.seconds for gemm in gemms])
    used = np.array([role == FIT for role in roles])
    fit = relative_fit(matrix[used], _steadied(gemms, seconds)[used])
    a_byte = np.maximum(fit.values[1:], 1e-3)
    knots = zip([FEW_ROWS, *counts], [a_byte[0], *np.maximum(a_byte[1:], a_byte[0])], strict=True)
    each = gemms[0].bytes_each
    timed = [(n, float(time), 2 * n * chip.bytes_per_s / (each * float(time) * chip.flop_per_s)) for n, time in knots]
    rates = _behind_memory(timed, float(a_byte[0]))
    errors = np.sqrt(np.diag(fit.covariance))
    judged = tuple(
        Judged(f"{gemm.rows} x {gemm.contract} x {gemm.out}", role, gemm.seconds, float(predicted))
        for gemm, role, predicted in zip(gemms, roles, matrix @ fit.values, strict=True)
    )
    named = {"kernel": float(errors[0]), "time_a_byte": float(errors[1])}
    return Matmuls(float(fit.values[0]), float(1 / a_byte[0]), rates, named, judged)


def _behind_memory(timed: Sequence[tuple[int, float, float]], memory: float) -> tuple[tuple[int, float], ...]:
    """Efficiency of arithmetic by rows: where memory takes as long, what is seen is its lower end alone.

    There a tile of the matrix units is taken to be computed as fast as at the first count where arithmetic shows,
    however few of its rows are used, where that is more: weights of fewer bytes must not wait for what was memory.
    """
    hidden = {n for n, time, _ in timed if time <= HIDDEN * memory}
    shown = next((rate for n, _, rate in timed if n not in hidden), 0.0)
    return tuple((n, max(rate, shown * min(1.0, n / TILE)) if n in hidden else rate) for n, _, rate in timed)


def _by_rows(gemm: Gemm, counts: Sequence[int], chip: Chip) -> list[float]:
    at = 0 if gemm.rows <= FEW_ROWS else 1 + counts.index(gemm.rows)
    return [gemm.weight_bytes / chip.bytes_per_s if index == at else 0.0 for index in range(1 + len(counts))]


def _steadied(gemms: Sequence[Gemm], seconds: Array) -> Array:
    """``seconds``, of few rows the median over all such counts of the same matrix.

    They differ by chance only, and in some tables by a factor of two, so that half of them lie beside every line.
    """
    shapes = [(gemm.contract, gemm.out) if gemm.rows <= FEW_ROWS else None for gemm in gemms]
    median = {
        shape: float(np.median([time for time, other in zip(seconds, shapes, strict=True) if other == shape]))
        for shape in set(shapes) - {None}
    }
    return np.array([median.get(shape, time) for shape, time in zip(shapes, seconds, strict=True)])


def _role_of_gemm(gemm: Gemm, held_out: bool, chip: Chip) -> str:
    streamed = gemm.weight_bytes * gemm.copies
    if impossible(streamed, gemm.seconds * gemm.copies, chip):
        return "faster than the memory"
    if streamed < OUT_OF_CACHE * chip.cache_bytes:
        return "weights in the cache"
    return HELD_OUT if held_out else FIT


def fit_attention(
    calls: Sequence[Attention], held_out: Sequence[bool], chip: Chip, arithmetic: Sequence[int]
) -> Cached:
    """The fixed time of a layer's attention, the time of a cached byte, and that of arithmetic by new tokens.

    Of one new token the time is fixed and memory's. Calls of many new tokens in ``arithmetic`` say how fast the scores
    of so many rows are computed; what is fixed is taken from the former.
    """
    decoding = np.array([call.tokens == 1 for call in calls])
    roles = [_role_of_attention(call, out, chip) for call, out in zip(calls, held_out, strict=True)]
    seconds = np.array([call.seconds for call in calls])
    memory = np.array([[1.0, call.kv_bytes / chip.bytes_per_s] for call in calls])
    used = decoding & np.array([role == FIT for role in roles])
    fit = relative_fit(memory[used], seconds[used])
    fixed, a_byte = float(fit.values[0]), max(float(fit.values[1]), 1e-3)
    rates, predicted = [], memory @ fit.values
    left = seconds - fixed
    for index, call in enumerate(calls):
        bound = call.tokens in arithmetic and left[index] > LEAST_ARITHMETIC * seconds[index]
        roles[index] = roles[index] if call.tokens == 1 or bound else UNBOUND
    for tokens in sorted(set(arithmetic)):
        own = [index for index, call in enumerate(calls) if call.tokens == tokens and roles[index] in (FIT, HELD_OUT)]
        ideal = np.array([calls[index].flop / chip.flop_per_s for index in own])
        known = np.array([roles[index] == FIT for index in own], dtype=bool)
        if known.any():
            slowness = float(np.median((left[own] / ideal)[known]))
            rates.append((tokens, 1 / slowness))
            predicted[own] = np.maximum(predicted[own], fixed + slowness * ideal)
    errors = np.sqrt(np.diag(fit.covariance))
    judged = tuple(
        Judged(_attention_key(call), role, call.seconds, float(time))
        for call, role, time in zip(calls, roles, predicted, strict=True)
    )
    named = {"kernel": float(errors[0]), "time_a_kv_byte": float(errors[1])}
    return Cached(fixed, 1 / a_byte, tuple(rates), named, judged)


def _attention_key(call: Attention) -> str:
    sizes = f"{call.heads}/{call.kv_heads} heads, batch {call.batch}"
    return f"{sizes}, {call.tokens} new over {call.positions}"


def _role_of_attention(call: Attention, held_out: bool, chip: Chip) -> str:
    if impossible(call.kv_bytes, call.seconds, chip):
        return "faster than the memory"
    short = call.kv_bytes / chip.bytes_per_s < NEGLIGIBLE * call.seconds
    if call.tokens == 1 and not short and call.kv_bytes < OUT_OF_CACHE * chip.cache_bytes:
        return "keys and values in the cache"
    if call.batch > MANY_SEQUENCES:
        return f"more than {MANY_SEQUENCES} sequences"
    return HELD_OUT if held_out else FIT


def spread(rows: Sequence[Judged], role: str) -> dict[str, float]:
    """Count, root mean square, median, ninth decile and worst of the relative errors of the rows in a role."""
    off = np.abs([row.error for row in rows if row.role == role])
    if not len(off):
        return {"count": 0}
    return {
        "count": len(off),
        "rms": float(np.sqrt(np.mean(off**2))),
        "median": float(np.median(off)),
        "p90": float(np.quantile(off, 0.9)),
        "worst": float(off.max()),
    }
