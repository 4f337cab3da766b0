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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.datasets.catalogue import CATALOGUE
from braided.datasets.locate import load, locate
from braided.records import Records
from braided.streams import text_files
from braided.streams.base import ArrayStream, read_whole

SEED = 2023
#: Probabilities that a feature is available.
AVAILABILITIES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class ReviewSettings:
    """Which class the review calls positive, and what it tuned of the two of its methods that we have as well.

    Attributes
    ----------
    positive
        The label of the positive class.
    olvf_aggressiveness
        C of OLVF.
    auxdrop_learning_rate, auxdrop_dropout, auxdrop_width
        Of Aux-Drop, whose AuxLayer is its first layer, since no feature is always there.
    """

    positive: str | int
    olvf_aggressiveness: float
    auxdrop_learning_rate: float
    auxdrop_dropout: float
    auxdrop_width: int


#: In the review's order.
REVIEW_SETTINGS: dict[str, ReviewSettings] = {
    "wpbc": ReviewSettings("R", 1.0, 0.01, 0.5, 200),
    "ionosphere": ReviewSettings("g", 1.0, 0.5, 0.3, 200),
    "wdbc": ReviewSettings("M", 0.0001, 0.01, 0.5, 200),
    "australian": ReviewSettings(1, 0.01, 0.005, 0.5, 100),
    "wbc": ReviewSettings(4, 0.01, 0.1, 0.3, 100),
    "diabetes_f": ReviewSettings(1, 0.01, 0.001, 0.5, 100),
    "german": ReviewSettings(1, 0.01, 0.001, 0.5, 100),
    "ipd": ReviewSettings(1, 1.0, 0.3, 0.3, 100),
    "svmguide3": ReviewSettings(-1, 1.0, 0.001, 0.3, 100),
    "krvskp": ReviewSettings("won", 1.0, 0.1, 0.3, 200),
    "spambase": ReviewSettings(1, 0.01, 0.005, 0.5, 300),
    "magic04": ReviewSettings("g", 0.0001, 0.01, 0.3, 100),
    "a8a": ReviewSettings(-1, 1.0, 0.01, 0.3, 500),
}


class Draws(NamedTuple):
    """What the generator decides: the records' places in the file, and in that order whether a feature is there."""

    order: NDArray[np.int64]  # (n,)
    available: NDArray[np.bool_]  # (n, d)


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


#: Records of `german` that the review leaves out: a number of three digits is glued to the one before it, so not all
#: fields are found when a line is split at double spaces.
_GLUED = 41


@cache
def _table(name: str, data_dir: Path | None, whole: bool) -> Records:
    """A data set's records in the file's order; small, so kept for the other availabilities and seeds."""
    table = read_whole(load(name, data_dir)).table
    if name == "german" and not whole:
        lines = [line.strip() for line in text_files.lines(locate(name, data_dir).paths[0]) if line.strip()]
        table = table.at([i for i, line in enumerate(lines) if len(line.split("  ")) == len(table.names) + 1])
    return table


def review_length(name: str) -> int:
    """How many records the review's stream of a data set has."""
    return CATALOGUE[name].records - (_GLUED if name == "german" else 0)


def haphazard_stream(name: str, available: float, data_dir: Path | None, whole: bool = False) -> ArrayStream:
    """A stream of the review; labels are 1 for the positive class and 0 for the other.

    Parameters
    ----------
    name
        One of `REVIEW_SETTINGS`.
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
    labels = [int(table.known_targets[i] == REVIEW_SETTINGS[name].positive) for i in draws.order]
    return ArrayStream(name, Records(table.names, values, labels))
