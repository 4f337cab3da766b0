"""Random numbers without a state: each draw is a hash of what it is drawn for.

A weight's initial value depends on the seed, the array's name and the weight's place, and a dropout decision on
the seed, the record's number and the unit: nothing has to be saved, growth does not shift later draws, and
predicting draws what learning will draw.

The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from braided.kernels.native import SingleRows, entry


@entry
def mix(key: np.uint64, value: np.uint64) -> np.uint64:
    """Hash two 64-bit integers into one."""
    z = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15) * (np.uint64(value) + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@entry
def unit_interval(bits: np.uint64) -> float:
    """Map a hash to [0, 1): the upper 53 bits as a fraction."""
    return np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@entry
def draw_uniform(out: SingleRows, key: np.uint64, first_row: int, first_column: int, bound: float) -> None:
    """Draw uniform(-bound, bound) outside the corner of `first_row` rows and `first_column` columns."""
    for i in range(out.shape[0]):
        row_key = mix(key, i)
        for j in range(0 if i >= first_row else first_column, out.shape[1]):
            out[i, j] = bound * (2.0 * unit_interval(mix(row_key, j)) - 1.0)


def fill_uniform(out: NDArray[np.float32], key: int, first_row: int, first_column: int, bound: float) -> None:
    """Draw the entries of `out` outside its old corner, which ends before (`first_row`, `first_column`)."""
    draw_uniform(out, np.uint64(key), first_row, first_column, bound)


@entry
def _fill_normal(out: SingleRows, key: np.uint64, first_row: int, scale: float) -> None:
    """Draw normal numbers in the rows from `first_row` on (Box and Muller)."""
    for i in range(first_row, out.shape[0]):
        row_key = mix(key, i)
        for j in range(out.shape[1]):
            radius = np.sqrt(-2.0 * np.log(1.0 - unit_interval(mix(row_key, 2 * j))))
            out[i, j] = scale * radius * np.cos(2.0 * np.pi * unit_interval(mix(row_key, 2 * j + 1)))


def fill_normal(out: NDArray[np.float32], key: int, first_row: int, scale: float) -> None:
    """Draw N(0, scale^2) in the rows of `out` from `first_row` on."""
    _fill_normal(out, np.uint64(key), first_row, scale)


def key_of(seed: int, *parts: str | int) -> int:
    """Derive the key of a named random source, e.g. `key_of(seed, "mlp", "weights 1")`.

    >>> key_of(0, "mlp", "weights 1") == key_of(0, "mlp", "weights 1")
    True
    >>> key_of(0, "mlp", "weights 1") == key_of(1, "mlp", "weights 1")
    False
    """
    key = int(mix(np.uint64(0), np.uint64(seed)))
    for part in parts:
        value = zlib.crc32(part.encode(errors="surrogatepass")) if isinstance(part, str) else part
        key = int(mix(np.uint64(key), np.uint64(value)))
    return key
