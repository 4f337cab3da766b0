"""Where the numbers of a key are in its row, how rows grow, and what a file may hold of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from braided.kernels import keyed
from braided.store import MAX_COUNT, Array, Arrays, check

#: How many features, those that came first, and classes a key's own learners have room for.
MAX_FEATURES, MAX_CLASSES = 32, 32
_FEATURES, _CLASSES = (8, 16, MAX_FEATURES), (2, 4, 8, 16, MAX_CLASSES)
#: How far rounding takes a variance below 0, in prior variances.
_ROUNDING = 1e-3


def _room(n: int, steps: tuple[int, ...]) -> int:
    return next((step for step in steps if step >= n), steps[-1])


@dataclass(frozen=True)
class RowLayout:
    """Sizes of a key's row: the features and classes that it has room for.

    >>> layout = RowLayout.for_sizes(regression=False, n_features=5, n_classes=2)
    >>> layout.features, layout.classes, layout.size
    (8, 2, 853)
    >>> 4 * layout.size + 8 * keyed.DOUBLES  # bytes of a key
    3484
    """

    regression: bool
    features: int
    classes: int

    @classmethod
    def for_sizes(cls, regression: bool, n_features: int, n_classes: int) -> RowLayout:
        """Room for these numbers of features and classes, up to the largest layout."""
        return cls(regression, _room(n_features, _FEATURES), 1 if regression else _room(n_classes, _CLASSES))

    @property
    def n_weights(self) -> int:
        """How many weights are learned for each key."""
        return keyed.VALUE_INPUTS if self.regression else keyed.CLASS_INPUTS

    @property
    def n_own(self) -> int:
        """How many learners of its own a key has."""
        return keyed.VALUE_OWN if self.regression else keyed.OWN

    def inputs(self, own: int) -> int:
        """How many inputs one of a key's own learners has."""
        return 1 + (keyed.COSINES if own == keyed.WAVES else self.features)

    @cached_property
    def parts(self) -> dict[str, tuple[int, int]]:
        """The start and length of each part of a row, in order."""
        sizes = {f"mean {own}": self.classes * self.inputs(own) for own in range(self.n_own)}
        # Of a symmetric matrix the lower half, row after row.
        sizes |= {f"covariance {own}": sum(range(1 + self.inputs(own))) for own in range(self.n_own)}
        sizes["past"] = 0 if self.regression else len(keyed.RATES) * self.classes
        sizes |= {"weights": self.n_weights, "weight covariance": self.n_weights**2}
        found, start = {}, 0
        for name, size in sizes.items():
            found[name] = (start, size)
            start += size
        return found

    @property
    def size(self) -> int:
        """Numbers in a row."""
        start, length = self.parts["weight covariance"]
        return start + length

    def shape(self, n_features: int, n_classes: int, held: bool = False) -> NDArray[np.int64]:
        """The kernel's view of a row: the sizes in use, where parts start, and whether what keys share is held."""
        places = [self.parts[name][0] for name in ("past", "weights", "weight covariance")]
        means = [self.parts[f"mean {own}"][0] for own in range(self.n_own)]
        covariances = [self.parts[f"covariance {own}"][0] for own in range(self.n_own)]
        outputs = 1 if self.regression else min(max(n_classes, 1), self.classes)
        sizes = [int(self.regression), 1 + self.features, self.classes, min(n_features, self.features), outputs]
        room = [0] * (keyed.VALUE_OWN - self.n_own)
        return np.array([*sizes, *places, *means, *room, *covariances, *room, int(held)], dtype=np.int64)

    @cached_property
    def fresh(self) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The row of a key that has learned nothing, to be copied."""
        single, double = np.zeros(self.size, dtype=np.float32), np.zeros(keyed.DOUBLES)
        for own in range(self.n_own):
            start, _ = self.parts[f"covariance {own}"]
            # Classes share the prior variance of a weight between two of them.
            variance = keyed.VARIANCES[own] / (1.0 if self.regression else 2.0)
            single[start + _diagonal(self.inputs(own))] = variance
        start, length = self.parts["weight covariance"]
        single[start : start + length] = (np.eye(self.n_weights) * keyed.KEY_VARIANCE).ravel()
        double[keyed.NOISE] = 1.0
        return single, double

    def grown(self, rows: NDArray[np.float32], old: RowLayout) -> NDArray[np.float32]:
        """Rows of a smaller layout, in this one."""
        if old == self:
            return rows
        found = np.repeat(self.fresh[0][None], len(rows), axis=0)
        for name, (start, length) in old.parts.items():
            at, part = self.parts[name][0], rows[:, start : start + length]
            if name.startswith("mean") or name == "past":
                # One block for each class, or for each rate: the blocks become longer, or more of them.
                width = old.inputs(int(name[-1])) if name.startswith("mean") else old.classes
                new_width = self.inputs(int(name[-1])) if name.startswith("mean") else self.classes
                for block in range(length // width if width else 0):
                    to = at + block * new_width
                    found[:, to : to + width] = part[:, block * width : (block + 1) * width]
            else:  # the lower half of a covariance, row after row: more inputs come after those that are there
                found[:, at : at + length] = part
        return found

    def check(self, what: str, n: int, arrays: Arrays) -> None:
        """Refuse the rows of n keys, `single` and `double`, unless kernels can go on from them."""
        low = np.full(self.size, -np.inf)
        for own in range(self.n_own):
            start, _ = self.parts[f"covariance {own}"]
            low[start + _diagonal(self.inputs(own))] = 0.0
        start, length = self.parts["past"]
        low[start : start + length] = 0.0
        start, length = self.parts["weight covariance"]
        low[start : start + length : self.n_weights + 1] = -_ROUNDING * keyed.KEY_VARIANCE
        smallest, largest = np.full(keyed.DOUBLES, -np.inf), np.full(keyed.DOUBLES, np.inf)
        smallest[[keyed.COUNT, keyed.NOISE]] = 0.0
        largest[keyed.COUNT] = MAX_COUNT
        schema = {
            "single": Array((n, self.size), "float32", low),
            "double": Array((n, keyed.DOUBLES), "float64", smallest, largest),
        }
        check(what, schema, arrays)


def shared_weights(n: int) -> Array:
    """What all keys share: n weights, their covariance, noise and units."""
    variances = np.full((n, n), -np.inf)
    np.fill_diagonal(variances, -_ROUNDING * keyed.FLEET_VARIANCE)
    more = np.full(keyed.FLEET_MORE, np.inf)
    more[keyed.UNITS] = keyed.MEMORY
    high = np.concatenate([np.full(n + n * n, np.inf), more])
    low = np.concatenate([np.full(n, -np.inf), variances.ravel(), np.zeros(keyed.FLEET_MORE)])
    return Array(high.shape, "float64", low, high)


def _diagonal(n: int) -> NDArray[np.int64]:
    """Where the variances are in the lower half of a covariance, row after row."""
    rows = np.arange(n, dtype=np.int64)
    return rows * (rows + 1) // 2 + rows
