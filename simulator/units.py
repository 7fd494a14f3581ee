"""Quantities with units: the one place that knows GB from GiB.

Inside the program every quantity is a plain float in SI base units (seconds, bytes, FLOP). In YAML it is text, a
number and a unit, because a bare ``1200`` has been read as GB/s, GiB/s and Gbit/s by three people. The unit
registry is our own and small: pint's default one takes ``Gb`` for gilberts and a byte for eight dimensionless
bits. Conversion is exact (fractions), so ``1500 us`` and ``1.5 ms`` are the same float and the same scenario hash.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from fractions import Fraction
from typing import Any

GB = 1e9
GIB = float(2**30)

_PREFIXES = {
    "nano": ("1e-9", "n"),
    "micro": ("1e-6", "u"),
    "milli": ("1e-3", "m"),
    "kilo": ("1e3", "k"),
    "mega": ("1e6", "M"),
    "giga": ("1e9", "G"),
    "tera": ("1e12", "T"),
    "peta": ("1e15", "P"),
    "kibi": ("1024", "Ki"),
    "mebi": ("1048576", "Mi"),
    "gibi": ("1073741824", "Gi"),
    "tebi": ("1099511627776", "Ti"),
}
_UNITS = (
    "second = [time] = s",
    "minute = 60 * second = min",
    "hour = 3600 * second = h",
    "day = 86400 * second",
    "byte = [information] = B",
    "FLOP = [computation]",
    "token = [token]",
    "request = [request]",
    "watt = [power] = W",
    "USD = [money]",
)
# One example a unit, for messages; also the list of dimensions that the toolkit knows.
EXAMPLES = {
    "s": "1.5 us",
    "B": "32 GiB",
    "B/s": "1200 GB/s",
    "FLOP": "3.2 TFLOP",
    "FLOP/s": "275 TFLOP/s",
    "request/s": "12.5 request/s",
    "token/s": "900 token/s",
    "W": "170 W",
    "USD/h": "3.22 USD/h",
}
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
QUANTITY_PATTERN = rf"^\s*({_NUMBER})\s*([A-Za-zµμ]{{1,12}}(?:/[A-Za-z]{{1,12}}){{0,2}})\s*$"
_QUANTITY = re.compile(QUANTITY_PATTERN)
_BITS = re.compile(r"([kMGT]i?)?(?:b|bits?)(?:ps|/s)?")


class UnitProblem(ValueError):
    """Text that is no quantity of the wanted dimension; the message says what is accepted."""


@functools.cache
def _registry() -> Any:
    # pint takes a third of a second to import: only those who read files pay for it.
    import pint

    registry: Any = pint.UnitRegistry(None, case_sensitive=True, non_int_type=Fraction)
    for name, (factor, symbol) in _PREFIXES.items():
        registry.define(f"{name}- = {factor} = {symbol}-")
    for line in _UNITS:
        registry.define(line)
    return registry


def accepted_form(unit: str) -> str:
    """What a quantity in ``unit`` looks like, for messages."""
    return f"a quantity in {unit}, for example {EXAMPLES[unit]}"


@functools.lru_cache(maxsize=4096)
def _factor(text: str, unit: str) -> Fraction:
    """How many ``unit`` one ``text`` is; UnitProblem where they do not measure the same thing."""
    import pint

    registry = _registry()
    try:
        given = registry.Unit(text)
    except (pint.errors.PintError, ValueError, TypeError) as error:
        raise UnitProblem(f"{accepted_form(unit)}; {_unknown(text, unit)}") from error
    if given.dimensionality != registry.Unit(unit).dimensionality:
        raise UnitProblem(f"{accepted_form(unit)}; '{text}' measures something else")
    return Fraction(registry.Quantity(1, given).to(unit).magnitude)


def _unknown(text: str, unit: str) -> str:
    """Why ``text`` is no unit here, with the one that was probably meant."""
    if unit.startswith("B") and _BITS.fullmatch(text):
        return f"'{text}' counts bits, which are not a unit here: write bytes, one for 8 bits"
    known = [f"{prefix}{unit}" for prefix in ("", *(symbol for _, symbol in _PREFIXES.values()))]
    same = [name for name in known if name.lower() == text.lower()]
    close = same or difflib.get_close_matches(text, known, n=1, cutoff=0.6)
    return f"'{text}' is not a unit known here" + (f"; did you mean '{close[0]}'?" if close else "")


def parse_quantity(text: object, unit: str) -> float:
    """Read ``'1200 GB/s'`` as a float in ``unit`` (an SI base unit of :data:`EXAMPLES`), correctly rounded.

    Raises:
        UnitProblem: a bare number, an unknown unit, a unit of another dimension, a number that is not finite.
    """
    if not isinstance(text, str) or len(text) > 64:
        raise UnitProblem(accepted_form(unit))
    return _parse(text, unit)


# A sweep reads the same profile at every point.
@functools.lru_cache(maxsize=4096)
def _parse(text: str, unit: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitProblem(accepted_form(unit))
    factor = _factor(match[2].replace("µ", "u").replace("μ", "u"), unit)
    try:
        return float(Fraction(match[1]) * factor)
    except OverflowError:
        raise UnitProblem(f"{accepted_form(unit)}; this number is too large") from None


def format_quantity(value: float, unit: str) -> str:
    """The exact inverse of :func:`parse_quantity`: ``1.2e12, 'B/s'`` -> ``'1200000000000.0 B/s'``."""
    return f"{value!r} {unit}"


def human_time(seconds: float, figures: int = 3) -> str:
    """A time with three figures and a fitting unit, for people: ``14.1 ms``."""
    return _human(seconds, (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)), figures)


def human_bytes(count: float, figures: int = 3) -> str:
    """A size with three figures in decimal units, for people: ``8.45 GB``."""
    return _human(count, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)), figures)


def _human(value: float, scales: tuple[tuple[str, float], ...], figures: int) -> str:
    if not math.isfinite(value):
        return str(value)
    value = float(f"{value:.{figures}g}")  # before the unit is chosen, so that 0.9999 s is 1.00 s and not 1,000 ms
    unit, scale = next(((u, s) for u, s in scales if abs(value) >= s), scales[-1])
    scaled = value / scale
    digits = max(0, figures - 1 - math.floor(math.log10(abs(scaled)))) if scaled else 0
    return f"{scaled:,.{digits}f} {unit}"
