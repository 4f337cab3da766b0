"""The plain guesses that a model is compared with: they look at no feature, only at the labels that have arrived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.kernels.tally import LEARNERS, guess_classes, guess_values
from braided.store import MAX_COUNT, Array, check, counts

#: What the two guesses are called, in the order of their losses.
CLASS_GUESSES = ("majority so far", "last label")
VALUE_GUESSES = ("mean so far", "last value")


class PlainGuesses:
    """What is usual (the most frequent class, or the mean) and what was last, of the labels that have arrived.

    Labels are given as places of classes, or as numbers. Before the first has arrived, no class is right, and the
    guess of a number is 0.

    Parameters
    ----------
    regression
        Whether targets are numbers.

    Examples
    --------
    >>> guesses, losses = PlainGuesses(regression=True), np.zeros((3, LEARNERS))
    >>> values = np.array([4.0, 6.0, 6.0])
    >>> guesses.count(values, values, losses)
    >>> losses[:, 1:].tolist()
    [[4.0, 4.0], [2.0, 2.0], [1.0, 0.0]]
    """

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self._seen: NDArray[Any] = np.zeros(2) if regression else np.zeros(0, dtype=np.int64)
        self._guesses: NDArray[Any] = np.zeros(2) if regression else np.full(2, -1, dtype=np.int64)

    @property
    def names(self) -> tuple[str, str]:
        """What they are called, in the order of their losses."""
        return VALUE_GUESSES if self.regression else CLASS_GUESSES

    def grow(self, n_classes: int) -> None:
        """Make room for new classes."""
        self._seen = np.pad(self._seen, (0, n_classes - self._seen.size))

    def count(self, truth: NDArray[Any], arrived: NDArray[Any], losses: NDArray[np.float64]) -> None:
        """Guess some records: their columns of `losses`, (n, columns), receive what each guess loses.

        `arrived` has for each record the label that arrives after it and before the next; -1, or NaN, for none.
        """
        guess = guess_values if self.regression else guess_classes
        guess(truth, arrived, self._seen, self._guesses, losses)

    def add_labels(self, arrived: NDArray[Any]) -> None:
        """Count labels that have arrived, with no record to guess in between."""
        self.count(arrived, arrived, np.empty((arrived.size, LEARNERS)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Named arrays to go on from."""
        return {"seen": self._seen, "guesses": self._guesses}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], n_classes: int) -> None:
        """Take over a `state` of `n_classes` classes; the guesses of a classification are places of classes."""
        schema = {"seen": counts(n_classes), "guesses": Array((2,), "int64", -1, n_classes - 1)}
        if self.regression:
            seen = Array((2,), low=[0.0, -np.inf], high=[MAX_COUNT, np.inf])
            schema = {"seen": seen, "guesses": Array((2,))}
        check("state of the plain guesses", schema, arrays)
        self._seen, self._guesses = arrays["seen"].copy(), arrays["guesses"].copy()
