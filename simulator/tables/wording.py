"""Numbers with their units, and the names of terms in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simulator.compare import Value
from simulator.units import human_bytes, human_time

_SCALES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
_RATE = "tokens_per_s"  # not a time, though its name ends like one


def term_words(term: str) -> str:
    """``verify_step_s`` -> ``verify step``; ``time_to_tokens_s.p50`` -> ``time to tokens, p50``."""
    name, _, part = term.partition(".")
    if name == "draft_first_step_s":
        return "first draft step"
    words = (name if name == _RATE else name.removesuffix("_s").removesuffix("_usd")).replace("_", " ")
    return f"{words}, {part}" if part else words


def is_time(term: str) -> bool:
    """Whether a term is in seconds."""
    name = term.partition(".")[0]
    return name.endswith("_s") and name != _RATE


def quantity(term: str, value: float) -> str:
    """A value with three figures and the unit that its term's name ends in."""
    name = term.partition(".")[0]
    if is_time(term):
        return human_time(value)
    if name.endswith("_bytes"):
        return human_bytes(value)
    return f"{figures(value)} USD" if name.endswith("_usd") else figures(value)


def interval(term: str, value: Value) -> str:
    """``[11.1 ms, 12.6 ms]``, or nothing."""
    if value.low is None or value.high is None:
        return ""
    return f"[{quantity(term, value.low)}, {quantity(term, value.high)}]"


def figures(value: float) -> str:
    """Three figures, at most two decimals: ``105``, ``33.9``, ``1.61``, ``0.92``."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def percent(share: float) -> str:
    """A signed relative error: ``-12%``, ``+4.1%``; as a factor where it is no small matter."""
    if abs(share) >= 9.995:
        return f"{share + 1:,.0f}x"
    if abs(share) < 0.0005:  # or -0.0% would stand beside +0.0%
        return "+0.0%"
    return f"{100 * share:+.{0 if abs(share) >= 0.0995 else 1}f}%"


def time_scale(seconds: Iterable[float]) -> tuple[str, float]:
    """The unit in which all of ``seconds`` read well, and its size: the largest has 1 or more of it."""
    largest = max(seconds, default=0.0)
    if largest >= 10:
        return _SCALES[0]
    return _SCALES[1] if largest >= 1e-3 else _SCALES[2]


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Names without the words that all of them start or end with: ``wide`` for ``quickstart-wide-draft``."""
    known = list(dict.fromkeys(names))
    parts = [name.split("-") for name in known]
    if len(known) < 2:
        return {name: name for name in known}
    start = _common(parts)
    end = _common([part[start:][::-1] for part in parts])
    # Where one is all that the others start with, its last word stays, and theirs.
    start -= start > 0 and any(len(part) == start + end for part in parts)
    short = ["-".join(part[start : len(part) - end]) for part in parts]
    return dict(zip(known, short if all(short) else known, strict=True))


def _common(parts: Sequence[Sequence[str]]) -> int:
    count = 0
    for words in zip(*parts, strict=False):
        if len(set(words)) > 1:
            break
        count += 1
    return count
