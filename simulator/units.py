"""Quantities with units: the one place that knows GB from GiB.

Inside the program every quantity is a plain float in SI base units (seconds, bytes, FLOP). In YAML it is text,
a number and a unit, because a bare ``1200`` has been read as GB/s, GiB/s and Gbit/s by three people. The unit
registry is our own and small: pint's default one takes ``Gb`` for gilberts and a byte for eight dimensionless
bits.
"""

from __future__ import annotations

import functools
import math
import re
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
_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)\s*([A-Za-z]{1,12}(?:/[A-Za-z]{1,12}){0,2})\s*")


class UnitProblem(ValueError):
    """Text that is no quantity of the wanted dimension; the message says what is accepted."""


@functools.cache
def _registry() -> Any:
    # pint takes a third of a second to import: only those who read files pay for it.
    import pint

    registry: Any = pint.UnitRegistry(None, case_sensitive=True)
    for name, (factor, symbol) in _PREFIXES.items():
        registry.define(f"{name}- = {factor} = {symbol}-")
    for line in _UNITS:
        registry.define(line)
    return registry


@functools.lru_cache(maxsize=4096)
def _factor(text: str, unit: str) -> float:
    """How many ``unit`` one ``text`` is; UnitProblem where they do not measure the same thing."""
    import pint

    registry = _registry()
    accepted = f"a quantity in {unit}, for example {EXAMPLES[unit]}"
    try:
        given = registry.Unit(text)
    except (pint.errors.UndefinedUnitError, pint.errors.DefinitionSyntaxError, ValueError, TypeError) as error:
        raise UnitProblem(f"{accepted}; '{text}' is not a unit known here") from error
    if given.dimensionality != registry.Unit(unit).dimensionality:
        raise UnitProblem(f"{accepted}; '{text}' measures something else")
    return float(registry.Quantity(1, given).to(unit).magnitude)


def parse_quantity(text: object, unit: str) -> float:
    """Read ``'1200 GB/s'`` as a float in ``unit`` (an SI base unit of :data:`EXAMPLES`).

    Raises:
        UnitProblem: a bare number, an unknown unit, a unit of another dimension, or a number that is not finite.
    """
    accepted = f"a quantity in {unit}, for example {EXAMPLES[unit]}"
    if not isinstance(text, str):
        raise UnitProblem(accepted)
    match = _QUANTITY.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise UnitProblem(accepted)
    value = float(match[1]) * _factor(match[2], unit)
    if not math.isfinite(value):
        raise UnitProblem(f"{accepted}; this number is too large")
    return value


def format_quantity(value: float, unit: str) -> str:
    """The exact inverse of :func:`parse_quantity`: ``1.2e12, 'B/s'`` -> ``'1200000000000.0 B/s'``."""
    return f"{value!r} {unit}"


def human_time(seconds: float) -> str:
    """A time with three figures and a fitting unit, for people: ``14.1 ms``."""
    return _human(seconds, (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)))


def human_bytes(count: float) -> str:
    """A size with three figures in decimal units, for people: ``8.45 GB``."""
    return _human(count, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))


def _human(value: float, scales: tuple[tuple[str, float], ...]) -> str:
    if not math.isfinite(value):
        return str(value)
    unit, scale = next(((u, s) for u, s in scales if abs(value) >= s), scales[-1])
    scaled = value / scale
    digits = max(0, 2 - int(math.floor(math.log10(abs(scaled))))) if scaled else 0
    return f"{scaled:,.{digits}f} {unit}"
