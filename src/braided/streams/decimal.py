"""Decimal text to float64, correctly rounded, for blocks of lines that hold nothing but plain numbers.

A number is w * 10^q with w of at most 19 digits. The product of w and the leading 128 bits of 5^q decides the
rounding in all but the rarest cases (Lemire 2021, "Number parsing at a gigabyte per second"); those, and every line
that is not plain numbers, are left to the caller, who reads them in Python.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from braided.kernels.native import Bytes, Flags, HashRows, entry, kernel

MIN_POWER, MAX_POWER = -300, 300


def _five_to_the(q: int) -> int:
    """128 bits of 5^q: the leading ones for q >= 0, else of the reciprocal, rounded up where 5^-q is below 2^64."""
    if q >= 0:
        power: int = 5**q
        return power << (128 - power.bit_length()) if power.bit_length() <= 128 else power >> (power.bit_length() - 128)
    power = 5**-q
    return (1 << ((power - 1).bit_length() + 127)) // power + int(q >= -27)


def _powers() -> NDArray[np.uint64]:
    """(n, 2): upper and lower 64 bits of the powers of five from MIN_POWER to MAX_POWER."""
    wide = [_five_to_the(q) for q in range(MIN_POWER, MAX_POWER + 1)]
    return np.array([(value >> 64, value & (2**64 - 1)) for value in wide], dtype=np.uint64)


POWERS = _powers()


@kernel()
def _multiply(a, b):
    """Upper and lower 64 bits of the product of two 64-bit integers."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    cross = (a0 * b0 >> half) + (a1 * b0 & low) + a0 * b1
    upper = a1 * b1 + (a1 * b0 >> half) + (cross >> half)
    return upper, a * b


@kernel()
def _bits(w, q, powers):
    """The bits of the float64 nearest to w * 10^q for w > 0, or 0 where this is not decided here."""
    one = np.uint64(1)
    place = q - MIN_POWER
    shift = 0
    while w < np.uint64(1) << np.uint64(63):
        w <<= one
        shift += 1
    upper, lower = _multiply(w, powers[place, 0])
    if upper & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _multiply(w, powers[place, 1])
        lower += more
        if lower < more:
            upper += one
        if lower == np.uint64(0xFFFFFFFFFFFFFFFF):
            return np.uint64(0)
    top = upper >> np.uint64(63)
    mantissa = upper >> (top + np.uint64(9))
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - shift + 1023
    if exponent <= 0 or exponent >= 2046:
        return np.uint64(0)
    if lower <= one and mantissa & np.uint64(3) == one and mantissa << (top + np.uint64(9)) == upper:
        if not -5 < q < 24:
            return np.uint64(0)
        mantissa &= ~one  # exactly between two float64: to the even one
    mantissa = (mantissa + (mantissa & one)) >> one
    if mantissa >= np.uint64(1) << np.uint64(53):
        mantissa = np.uint64(1) << np.uint64(52)
        exponent += 1
    return (mantissa & ~(np.uint64(1) << np.uint64(52))) | (np.uint64(exponent) << np.uint64(52))


@entry
def parse_lines(block: Bytes, delimiter: int, wanted: Flags, powers: HashRows, out: HashRows) -> int:
    """Read lines of delimited plain numbers into `out`, (lines, wanted columns), as bits of float64.

    Parameters
    ----------
    block
        Bytes of whole lines, the last one with or without its end.
    delimiter
        What stands between fields.
    wanted
        For each column whether it is read; others are passed over.
    powers
        `POWERS`.
    out
        uint64, a row for each line of the block at least.

    Returns
    -------
    int
        The number of lines, or -1 if any line is not plain numbers in as many columns as `wanted` has.
    """
    newline, carriage_return, quote = np.uint8(10), np.uint8(13), np.uint8(34)
    zero, nine, point = np.uint8(48), np.uint8(57), np.uint8(46)
    n_columns, end = wanted.shape[0], block.shape[0]
    at, row = 0, 0
    while at < end:
        place = 0
        for column in range(n_columns):
            if not wanted[column]:
                while at < end and block[at] != delimiter and block[at] != newline:
                    if block[at] == quote or (block[at] == carriage_return and not _ends(block, at, end)):
                        return -1
                    at += 1
            else:
                negative = False
                if at < end and (block[at] == 45 or block[at] == 43):
                    negative = block[at] == 45
                    at += 1
                w, q, digits, significant = np.uint64(0), 0, 0, 0
                fraction = False
                while at < end:
                    byte = block[at]
                    if zero <= byte <= nine:
                        digits += 1
                        if significant > 0 or byte != zero:
                            significant += 1
                        w = w * np.uint64(10) + np.uint64(byte - zero)
                        if fraction:
                            q -= 1
                    elif byte == point and not fraction:
                        fraction = True
                    else:
                        break
                    at += 1
                if digits == 0 or significant > 19:
                    return -1
                if at < end and (block[at] == 101 or block[at] == 69):
                    at += 1
                    down = False
                    if at < end and (block[at] == 45 or block[at] == 43):
                        down = block[at] == 45
                        at += 1
                    power, first = 0, at
                    while at < end and zero <= block[at] <= nine and at - first < 4:
                        power = power * 10 + (block[at] - zero)
                        at += 1
                    if at == first:
                        return -1
                    q += -power if down else power
                bits = np.uint64(0)
                if w != 0:
                    if q < MIN_POWER or q > MAX_POWER:
                        return -1
                    bits = _bits(w, q, powers)
                    if bits == 0:
                        return -1
                out[row, place] = bits | (np.uint64(negative) << np.uint64(63))
                place += 1
            if column < n_columns - 1:
                if at >= end or block[at] != delimiter:
                    return -1
                at += 1
        if at < end and block[at] == carriage_return and _ends(block, at, end):
            at += 1
        if at < end:
            if block[at] != newline:
                return -1
            at += 1
        row += 1
    return row


@kernel()
def _ends(block, at, end):
    """Whether the carriage return at this place belongs to the end of its line."""
    return at + 1 < end and block[at + 1] == np.uint8(10)
