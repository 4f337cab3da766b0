"""Text as features: its words and pairs of words, hashed into a fixed number of them, signed and counted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode.cells import as_category

_WORD = re.compile(r"\w+")
#: Words of one text that are read.
_MAX_WORDS = 10_000


@lru_cache(maxsize=2**16)
def _place(token: str, n: int) -> tuple[int, float]:
    """The feature of a token and its sign, the same in every process and on every machine."""
    digest = hashlib.blake2b(token.encode(errors="surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return (number >> 1) % n, 1.0 if number & 1 else -1.0


def names(column: Hashable, n: int) -> list[str]:
    """The features that a column of text becomes."""
    return [f"{column}~{i}" for i in range(n)]


def values(cells: Sequence[Any], n: int) -> NDArray[np.float64]:
    """The features of texts, (texts, n); NaN where there is none.

    Each word, and each pair of words that follow each other, adds 1 to a feature or takes 1 from it, as its hash says:
    where two share a feature they do not add up on the whole. With c such a sum, the feature is sign(c) log(1 + |c|),
    so that a word that is repeated counts less each time.

    >>> values(["Red, red wine", None], 4)
    array([[ 1.09861229, -0.69314718,  1.09861229,  0.        ],
           [        nan,         nan,         nan,         nan]])
    """
    out = np.zeros((len(cells), n))
    for row, cell in enumerate(cells):
        text = as_category(cell)
        if text is None:
            out[row] = np.nan
            continue
        found = _WORD.findall(text.casefold())[:_MAX_WORDS]
        for token in (*found, *map(" ".join, pairwise(found))):
            place, sign = _place(token, n)
            out[row, place] += sign
    counts: NDArray[np.float64] = np.sign(out) * np.log1p(np.abs(out))
    return counts
