"""Records with named columns, what a model admits of them, and what it predicts: the types that pass between layers.

Whoever makes a `Records` has checked it: the shape, finite numbers or NaN, and weights of at least 0. Below, nobody
checks them again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records.

    Attributes
    ----------
    names
        The columns' feature names, all different; they may differ from chunk to chunk.
    values
        (n, columns) in C order, finite or NaN for missing.
    targets
        n labels or numbers, None inside for one that is not known; None where records are only predicted.
    weights
        (n,) how much each record counts, at least 0; None for 1 each.
    keys
        n keys, by which a fleet finds its models; None without a key column.
    ids
        The ID under which each record's label may come later, None inside for a record without one.
    times
        (n,) when each record was made, in seconds since 1970 by its source; NaN for unknown.
    categories
        Features that stand for one value of a column: name -> (column, value). Such a feature is 1 where the column has
        the value and 0 where it has another. River's own models are given the columns back.
    first
        The number of the first record, for messages.

    Examples
    --------
    >>> records = Records(("a", "b"), np.array([[1.0, np.nan], [2.0, 3.0]]), ["idle", "busy"])
    >>> len(records), records.part(1, 2).targets, records.one(0)
    (2, ['busy'], {'a': 1.0})
    """

    names: tuple[Hashable, ...]
    values: Floats
    targets: list[Any] | None = None
    weights: Floats | None = None
    keys: list[str | None] | None = None
    ids: list[str | int | None] | None = None
    times: Floats | None = None
    categories: Mapping[Hashable, tuple[Hashable, str]] = field(default_factory=dict)
    first: int = 1

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def part(self, start: int, stop: int) -> Records:
        """The records from `start` to `stop`; arrays are views."""
        if start == 0 and stop >= len(self):
            return self
        found: dict[str, Any] = {name: column[start:stop] for name, column in self._columns()}
        return replace(self, **found, first=self.first + start)

    def at(self, rows: Sequence[int] | NDArray[np.int64]) -> Records:
        """The records at these places, in this order, copied; messages count on from this chunk's first record."""
        found: dict[str, Any] = {
            name: column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]
            for name, column in self._columns()
        }
        return replace(self, **found)

    def _columns(self) -> Iterator[tuple[str, Any]]:
        """What each of the records has a row of, by name."""
        for name in ("values", "targets", "weights", "keys", "ids", "times"):
            column = getattr(self, name)
            if column is not None:
                yield name, column

    @property
    def known_targets(self) -> list[Any]:
        """n targets, None for each that is not known."""
        return [None] * len(self) if self.targets is None else self.targets

    def one(self, row: int) -> dict[Hashable, float]:
        """The values that one record has, by name."""
        named = zip(self.names, self.values[row].tolist(), strict=True)
        return {name: value for name, value in named if value == value}


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of earlier records, which come on their own; a stream yields `Records` and these.

    Attributes
    ----------
    ids
        The records' IDs.
    targets
        Their labels or numbers; None for one that is not a number, where the target is.
    weights
        How much each record counts; None for the weight that came with the record.
    times
        (n,) when each label was made, in seconds since 1970 by its source; NaN for unknown.
    """

    ids: list[str | int]
    targets: list[Any]
    weights: list[float | None]
    times: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> Labels:
        """The labels from `start` to `stop`."""
        rows = slice(start, stop)
        return Labels(self.ids[rows], self.targets[rows], self.weights[rows], self.times[rows])


class Admitted(NamedTuple):
    """Records that a model has checked, each with a target: what `check` returns and the only thing that `learn` takes.

    Attributes
    ----------
    codes
        (n,) the class's place or the number, as the engine takes them.
    new_names
        Row -> the names that the record is the first to have, in the order of their slots.
    new_labels
        Row -> the label that the record is the first to have.
    """

    records: Records
    codes: Floats
    new_names: dict[int, list[Hashable]]
    new_labels: dict[int, Hashable]

    def part(self, start: int, stop: int) -> Admitted:
        """The records from `start` to `stop`, to be learned after those before them."""
        if start == 0 and stop >= len(self.records):
            return self
        names = {row - start: new for row, new in self.new_names.items() if start <= row < stop}
        labels = {row - start: label for row, label in self.new_labels.items() if start <= row < stop}
        return Admitted(self.records.part(start, stop), self.codes[start:stop], names, labels)

    @property
    def brings_new(self) -> bool:
        """Whether the model has to grow for these records."""
        return bool(self.new_names or self.new_labels)


class Confidence(NamedTuple):
    """How sure predictions were when they were made; later labels are judged by it.

    Attributes
    ----------
    doubts
        (n, 3): see `kernels.doubt`.
    scales
        (n,): for numbers the error that is usual for such a record, the unit of the scores.
    bounds
        (n, levels): the bound on the score at each level; infinite while there were too few records to know.
    """

    doubts: Floats
    scales: Floats
    bounds: Floats

    def part(self, rows: slice) -> Confidence:
        """That of some of the records."""
        return Confidence(*(column[rows] for column in self))


class Predictions(NamedTuple):
    """What a model predicted for records, before it learned them.

    Attributes
    ----------
    values
        Class probabilities, (n, n_classes), with the columns in the order of `classes`; or numbers, (n, 1).
    own
        (n, n_learners): the class place or number that each learner alone would have predicted; before anything was
        learned -1, or 0 for a number.
    decided
        (n,): the place of the class that was decided for, -1 for unknown; None where that is the likeliest class.
    confidence
        How sure the predictions are; None where the model does not say.

    For a data frame, `values` and `own` are frames of its library, with classes and learners for columns; a regressor's
    values are a series.
    """

    values: Any
    own: Any
    decided: NDArray[np.int64] | None = None
    confidence: Confidence | None = None

    def part(self, start: int, stop: int) -> Predictions:
        """The predictions of the records from `start` to `stop`; arrays are views."""
        rows = slice(start, stop)
        return Predictions(
            self.values[rows],
            self.own[rows],
            None if self.decided is None else self.decided[rows],
            None if self.confidence is None else self.confidence.part(rows),
        )

    def answer(self, row: int) -> int | None:
        """The place of the class that was decided for in a row of a classifier's predictions; None where unknown."""
        probabilities = self.values[row]
        if not probabilities.any():
            return None
        return int(probabilities.argmax() if self.decided is None else self.decided[row])


def join(chunks: Sequence[Records]) -> Records:
    """Chunks one after another as one, with a column for every name."""
    if not chunks:
        raise BraidedError("there are no records to join: give at least one chunk")
    names = list(dict.fromkeys(name for chunk in chunks for name in chunk.names))
    place = {name: column for column, name in enumerate(names)}
    values = np.full((sum(map(len, chunks)), len(names)), np.nan)
    start = 0
    for chunk in chunks:
        values[start : start + len(chunk), [place[name] for name in chunk.names]] = chunk.values
        start += len(chunk)
    columns: dict[str, Any] = {
        field: _column(chunks, field, usual)
        for field, usual in (("targets", None), ("weights", 1.0), ("keys", None), ("ids", None), ("times", np.nan))
    }
    categories = {name: meaning for chunk in chunks for name, meaning in chunk.categories.items()}
    return Records(tuple(names), values, **columns, categories=categories, first=chunks[0].first)


def _column(chunks: Sequence[Records], field: str, usual: Any) -> Any:
    """A field of some chunks as one, and what is usual for those without; None where none of them has it."""
    found = [(getattr(chunk, field), len(chunk)) for chunk in chunks]
    if all(part is None for part, _ in found):
        return None
    joined = [item for part, n in found for item in ([usual] * n if part is None else part)]
    return joined if usual is None else np.array(joined)


def join_labels(parts: Sequence[Labels]) -> Labels:
    """Labels one after another; none of none."""
    return Labels(
        [name for part in parts for name in part.ids],
        [target for part in parts for target in part.targets],
        [weight for part in parts for weight in part.weights],
        np.concatenate([np.zeros(0), *(part.times for part in parts)]),
    )


def join_predictions(parts: Sequence[Predictions]) -> Predictions:
    """Predictions of chunks one after another; later ones may know more classes, earlier ones then give them 0."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.values.shape[1] for part in parts)
    values = [np.pad(part.values, ((0, 0), (0, width - part.values.shape[1]))) for part in parts]
    decided = None
    if parts[0].decided is not None:
        decided = np.concatenate([part.decided for part in parts if part.decided is not None])
    sure = [part.confidence for part in parts if part.confidence is not None]
    confidence = None
    if len(sure) == len(parts):
        confidence = Confidence(*(np.concatenate(columns) for columns in zip(*sure, strict=True)))
    return Predictions(np.concatenate(values), np.concatenate([part.own for part in parts]), decided, confidence)
