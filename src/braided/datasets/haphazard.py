"""The streams of the review of learning with haphazard inputs (Agarwal et al. 2024), draw for draw.

NumPy's legacy generator is seeded with 2023. It draws the order of the n records (what a data frame's
`sample(frac=1)` does), then n times d numbers below 1, of which those below p make a feature available; what is
missing in the file stays missing; at last, for each record that is left without any feature, the place of one that
it gets. No feature is always there, and every model and seed sees the same stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.datasets.catalogue import CATALOGUE
from braided.datasets.load import load
from braided.datasets.locate import locate
from braided.records import Records
from braided.streams import text_files
from braided.streams.base import ArrayStream, read_whole

SEED = 2023
#: Probabilities that a feature is available.
AVAILABILITIES = (0.25, 0.5, 0.75)
#: The data sets in the review's order -> the label of the positive class.
POSITIVE: dict[str, Any] = {
    "wpbc": "R",
    "ionosphere": "g",
    "wdbc": "M",
    "australian": 1,
    "wbc": 4,
    "diabetes_f": 1,
    "german": 1,
    "ipd": 1,
    "svmguide3": -1,
    "krvskp": "won",
    "spambase": 1,
    "magic04": "g",
    "a8a": -1,
}


@dataclass(frozen=True)
class ReviewSettings:
    """What the review tuned for one data set, of the two of its methods that we have as well.

    Attributes
    ----------
    olvf_aggressiveness
        C of OLVF.
    auxdrop_learning_rate, auxdrop_dropout, auxdrop_width
        Of Aux-Drop, whose AuxLayer is its first layer, since no feature is always there.
    """

    olvf_aggressiveness: float
    auxdrop_learning_rate: float
    auxdrop_dropout: float
    auxdrop_width: int


REVIEW_SETTINGS: dict[str, ReviewSettings] = {
    "wpbc": ReviewSettings(1.0, 0.01, 0.5, 200),
    "ionosphere": ReviewSettings(1.0, 0.5, 0.3, 200),
    "wdbc": ReviewSettings(0.0001, 0.01, 0.5, 200),
    "australian": ReviewSettings(0.01, 0.005, 0.5, 100),
    "wbc": ReviewSettings(0.01, 0.1, 0.3, 100),
    "diabetes_f": ReviewSettings(0.01, 0.001, 0.5, 100),
    "german": ReviewSettings(0.01, 0.001, 0.5, 100),
    "ipd": ReviewSettings(1.0, 0.3, 0.3, 100),
    "svmguide3": ReviewSettings(1.0, 0.001, 0.3, 100),
    "krvskp": ReviewSettings(1.0, 0.1, 0.3, 200),
    "spambase": ReviewSettings(0.01, 0.005, 0.5, 300),
    "magic04": ReviewSettings(0.0001, 0.01, 0.3, 100),
    "a8a": ReviewSettings(1.0, 0.01, 0.3, 500),
}


@dataclass(frozen=True)
class Draws:
    """What the generator decides.

    Attributes
    ----------
    order
        (n,) the records' places in the file.
    available
        (n, d) whether a feature is there, in that order.
    """

    order: NDArray[np.int64]
    available: NDArray[np.bool_]


def draw(known: NDArray[np.bool_], available: float) -> Draws:
    """The order and the mask of records of which `known`, (n, d), says what is in the file.

    >>> draws = draw(np.ones((4, 3), dtype=bool), 0.25)
    >>> draws.order, draws.available.sum(axis=1)
    (array([2, 0, 1, 3]), array([1, 1, 1, 1]))
    """
    n, d = known.shape
    generator = np.random.RandomState(SEED)
    order = generator.permutation(n)
    there = (generator.random_sample((n, d)) < available) & known[order]
    empty = np.flatnonzero(~there.any(axis=1))
    there[empty, generator.randint(d, size=len(empty))] = True
    return Draws(order, there)


#: Records of `german` that the review leaves out.
_GLUED = 41


def _unglued(path: Path, n_fields: int) -> list[int]:
    """The records of `german` that the review keeps: all fields there when a line is split at double spaces.

    In the others a number of three digits is glued to the one before it; the review leaves these out.
    """
    lines = [line for line in text_files.lines(path) if line.strip()]
    return [i for i, line in enumerate(lines) if len(line.strip().split("  ")) == n_fields]


@cache
def _table(name: str, data_dir: Path | None, whole: bool) -> Records:
    """A data set's records in the file's order; small, so kept for the other availabilities and seeds."""
    table = read_whole(load(name, data_dir)).table
    if name == "german" and not whole:
        table = table.at(_unglued(locate(name, data_dir).paths[0], len(table.names) + 1))
    return table


def review_length(name: str) -> int:
    """How many records the review's stream of a data set has."""
    return CATALOGUE[name].records - (_GLUED if name == "german" else 0)


def haphazard_stream(name: str, available: float, data_dir: Path | None, whole: bool = False) -> ArrayStream:
    """A stream of the review; labels are 1 for the positive class and 0 for the other.

    Parameters
    ----------
    name
        One of `POSITIVE`.
    available
        Probability that a feature is available.
    data_dir
        Where the data sets are.
    whole
        Read all of `german`'s 1,000 records, instead of the 959 that the review's way of reading leaves.
    """
    table = _table(name, data_dir, whole)
    draws = draw(~np.isnan(table.values), available)
    values = np.where(draws.available, table.values[draws.order], np.nan)
    labels = [int(table.known_targets[i] == POSITIVE[name]) for i in draws.order]
    return ArrayStream(name, Records(table.names, values, labels))
