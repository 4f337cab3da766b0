"""Decimal text to float64, against Python's own."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from braided.streams.decimal import POWERS, parse_lines


def parse(text: str, wanted: tuple[bool, ...] = (True,)) -> NDArray[np.float64] | None:
    bits = np.empty((text.count("\n") + 1, sum(wanted)), dtype=np.uint64)
    n = parse_lines(np.frombuffer(text.encode(), dtype=np.uint8), np.uint8(44), np.array(wanted), POWERS, bits)
    return None if n < 0 else bits[:n].view(np.float64)


def same(text: str) -> bool:
    found = parse(text)
    return found is not None and struct.pack("d", found[0, 0]) == struct.pack("d", float(text))


@settings(deadline=None)  # the first call compiles
@given(st.floats(min_value=1e-280, max_value=1e280) | st.floats(min_value=-1e280, max_value=-1e-280))
def test_what_python_prints_comes_back(value: float) -> None:
    assert same(repr(value))


@settings(deadline=None)
@given(st.integers(0, 10**19 - 1), st.integers(-290, 280))
def test_nineteen_digits_and_an_exponent(digits: int, exponent: int) -> None:
    assert same(f"{digits}e{exponent}") or not -290 < exponent + len(str(digits)) < 300


def test_numbers_exactly_between_two_floats_go_to_the_even_one() -> None:
    rng = random.Random(0)
    for _ in range(2_000):
        middle = 2**53 + 2 * rng.getrandbits(51) + 1
        assert same(str(middle))
        assert same(f"{middle}.0")


def test_physics_files() -> None:
    """HIGGS prints float32 values with 18 decimals."""
    values = np.random.default_rng(0).normal(size=5_000).astype(np.float32).astype(float)
    np.testing.assert_array_equal(parse("\n".join(f"{value:.18e}" for value in values))[:, 0], values)  # type: ignore[index]


@pytest.mark.parametrize("text", ["0", "-0.0", "+1.", "1.e3", ".5", "-.5E-3", "000000000000000000000000012", "7\r\n"])
def test_spellings(text: str) -> None:
    assert same(text)


@pytest.mark.parametrize(
    "text",
    ["x", "1e", "e5", "--1", "1 ", " 1", "nan", "inf", "1_0", "0x10", "1e-400", "1e400", "12345678901234567890", "\n",
     "1\n\n2", "1,2", '"1"', "1\r2", "."],
)  # fmt: skip
def test_what_is_left_to_python(text: str) -> None:
    assert parse(text) is None


def test_columns_that_are_not_wanted_are_counted_but_not_read() -> None:
    found = parse("1,x,3\n4,,6\r\n", (True, False, True))
    np.testing.assert_array_equal(found, [[1, 3], [4, 6]])
    for text in ("1,x\n", "1,x,3,4\n", '1,"x,3\n', "1,a\rb,3\n"):
        assert parse(text, (True, False, True)) is None
