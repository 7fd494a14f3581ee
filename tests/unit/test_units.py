"""Are quantities read exactly, written exactly, and refused with the form that is accepted?"""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.units import EXAMPLES, UnitProblem, format_quantity, human_bytes, human_time, parse_quantity

PREFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1200 GB/s", "B/s", 1.2e12),
        ("32 GiB", "B", 32 * 2**30),
        ("32 GB", "B", 32e9),
        ("1.5 us", "s", 1.5e-6),
        ("1.5 µs", "s", 1.5e-6),
        ("2.2us", "s", 2.2e-6),
        (" 5 ms ", "s", 5e-3),
        ("-5 ms", "s", -5e-3),
        ("1e3 ns", "s", 1e-6),
        (".5 min", "s", 30.0),
        ("2 day", "s", 172_800.0),
        ("275 TFLOP/s", "FLOP/s", 2.75e14),
        ("90 request/min", "request/s", 1.5),
        ("900 tokens/s", "token/s", 900.0),
        ("170 W", "W", 170.0),
        ("24 USD/day", "USD/h", 1.0),
        ("1e-400 s", "s", 0.0),
    ],
)
def test_parse(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value


@pytest.mark.parametrize("unit", EXAMPLES)
def test_the_example_of_a_message_is_accepted(unit: str) -> None:
    assert parse_quantity(EXAMPLES[unit], unit) > 0


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(sorted(EXAMPLES)))
def test_written_and_read_back_is_the_same_float(value: float, unit: str) -> None:
    assert parse_quantity(format_quantity(value, unit), unit) == value


@given(st.decimals(0, 10**6, places=6), st.sampled_from(sorted(PREFIXES)))
def test_decimal_prefixes_round_once(number: object, prefix: str) -> None:
    # The nearest float of the true value: 3.3 us is 3.3e-6, not 3.3 times the nearest float of 1e-6.
    exact = Fraction(str(number)) * Fraction(10) ** PREFIXES[prefix]
    assert parse_quantity(f"{number} {prefix}s", "s") == float(exact)


@given(st.integers(0, 10**9), st.sampled_from(sorted(BINARY)))
def test_binary_prefixes_are_powers_of_two(number: int, prefix: str) -> None:
    assert parse_quantity(f"{number} {prefix}B", "B") == number * 2 ** BINARY[prefix]


@pytest.mark.parametrize(
    ("text", "unit", "said"),
    [
        (1200, "B/s", "a quantity in B/s, for example 1200 GB/s"),
        ("1200", "B/s", "a quantity in B/s, for example 1200 GB/s"),
        (None, "s", "a quantity in s, for example 1.5 us"),
        (["5 ms"], "s", "a quantity in s, for example 1.5 us"),
        ("5 ms 3 us", "s", "a quantity in s, for example 1.5 us"),
        ("1_000 s", "s", "a quantity in s, for example 1.5 us"),
        ("٣ s", "s", "a quantity in s, for example 1.5 us"),
        ("nan s", "s", "a quantity in s, for example 1.5 us"),
        ("5 s; import os", "s", "a quantity in s, for example 1.5 us"),
        ("5 s*s", "s", "a quantity in s, for example 1.5 us"),
        ("5 s**999999999", "s", "a quantity in s, for example 1.5 us"),
        ("5 s/s", "s", "'s/s' measures something else"),
        ("5 GB", "B/s", "'GB' measures something else"),
        ("5 TFLOPS", "FLOP/s", "did you mean 'TFLOP/s'?"),
        ("5 KB", "B", "did you mean 'kB'?"),
        ("5 GBps", "B/s", "did you mean 'GB/s'?"),
        ("5 Gb/s", "B/s", "counts bits"),
        ("5 Gbps", "B/s", "counts bits"),
        ("1e999 s", "s", "this number is too large"),
        ("9" * 65 + " s", "s", "a quantity in s, for example 1.5 us"),
        ("1e99999 s", "s", "a quantity in s, for example 1.5 us"),
    ],
)
def test_refused(text: object, unit: str, said: str) -> None:
    with pytest.raises(UnitProblem) as caught:
        parse_quantity(text, unit)
    assert str(caught.value).startswith(f"a quantity in {unit}, for example {EXAMPLES[unit]}")
    assert said in str(caught.value)


def test_the_default_units_of_pint_are_not_known() -> None:
    for text in ("5 meter", "5 Gb", "5 mb", "5 degC", "5 e", "5 pi", "5 count", "5 delta", "5 fortnight", "5 lambda"):
        with pytest.raises(UnitProblem):
            parse_quantity(text, "s")


@given(
    st.text(max_size=80) | st.text("abdefmnoprstuwBDFGKLMOPSTUW/", min_size=1, max_size=12).map("1 {}".format),
    st.sampled_from(sorted(EXAMPLES)),
)
def test_any_text_is_read_or_refused(text: str, unit: str) -> None:
    with contextlib.suppress(UnitProblem):
        assert isinstance(parse_quantity(text, unit), float)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0141, "14.1 ms"),
        (1.5e-6, "1.50 us"),
        (0.9999, "1.00 s"),
        (9.996e-3, "10.0 ms"),
        (2e-10, "0.200 ns"),
        (0.0, "0 ns"),
        (-0.002, "-2.00 ms"),
        (123456.0, "123,000 s"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_human_time_has_three_figures(seconds: float, text: str) -> None:
    assert human_time(seconds) == text


def test_human_bytes_is_decimal() -> None:
    assert human_bytes(8.45e9) == "8.45 GB"
    assert human_bytes(2**30) == "1.07 GB"
    assert human_bytes(0) == "0 B"
