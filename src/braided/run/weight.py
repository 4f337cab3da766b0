"""Records with their weights in a column of the stream, which is then no feature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from braided.encode.plan import listed
from braided.encode.rules import ReadingCounts
from braided.errors import BraidedError
from braided.records import Labels, Records
from braided.streams import Stream
from braided.streams.base import labels_before, records_before
from braided.values import shown


class WeightColumn:
    """A stream whose records have the weights that stand in one of its columns; an empty cell is the weight 1.

    Parameters
    ----------
    stream
        The stream.
    column
        The name of the column, which the first records must have.
    on_error
        What becomes of a record whose weight is negative: `stop`, `skip` the record, or take the weight as `missing`.
    counts
        Where to count such records.

    Examples
    --------
    >>> from braided.streams import ArrayStream
    >>> stream = ArrayStream("two", Records(("a", "cost"), np.array([[1.0, 5.0], [2.0, np.nan]]), [0, 1]))
    >>> batch = next(WeightColumn(stream, "cost").batches())
    >>> batch.names, batch.weights.tolist()
    (('a',), [5.0, 1.0])
    """

    def __init__(
        self, stream: Stream, column: str, on_error: str = "stop", counts: ReadingCounts | None = None
    ) -> None:
        self.name, self.n_records = stream.name, stream.n_records
        self._stream = stream
        self._column = column
        self._on_error = on_error
        self._counts = counts or ReadingCounts()

    @property
    def records_before(self) -> int:
        """Records that came before the first that is given."""
        return records_before(self._stream)

    @property
    def labels_before(self) -> int:
        """Labels on their own that came before it."""
        return labels_before(self._stream)

    def batches(self) -> Iterator[Records | Labels]:
        """The batches, with weights and without their column."""
        seen, found = self.records_before, False
        for batch in self._stream.batches():
            if isinstance(batch, Labels) or not len(batch):
                yield batch
                continue
            if batch.weights is not None:
                raise BraidedError(
                    f'--weight {self._column!r}: the records of {self.name} have "w" as well: leave out one of them'
                )
            place = next((i for i, name in enumerate(batch.names) if str(name) == self._column), None)
            if place is None and not found:
                raise self._no_weight(batch)
            found = True
            yield self._weighted(batch, place, seen)
            seen += len(batch)

    def _no_weight(self, batch: Records) -> BraidedError:
        """The refusal of a column that is not there or holds no numbers, with columns that do."""
        plan = self._counts.plan
        names = [str(name) for name in batch.names]
        if plan is not None:  # what is made of dates and categories is no column
            names = [column.name for column in plan.columns if column.read_as == "number"]
        has = f"it has {listed(names, self._column)}" if names else "it has none"
        return BraidedError(
            f"--weight {self._column!r}: {self.name} has no such column of numbers ({has}): give the name of one"
        )

    def _weighted(self, batch: Records, place: int | None, seen: int) -> Records:
        """A batch with the weights of the column in that place, None where none of its records has one."""
        if place is None:
            return replace(batch, weights=np.ones(len(batch)))
        weights = np.nan_to_num(batch.values[:, place], nan=1.0, posinf=np.inf, neginf=-np.inf)
        names = batch.names[:place] + batch.names[place + 1 :]
        without = replace(batch, names=names, values=np.delete(batch.values, place, axis=1), weights=weights)
        wrong = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
        for row in wrong.tolist():
            what = f"{self.name}: the weight of record {seen + row + 1} is {shown(weights[row].item())}"
            if self._on_error == "stop":
                raise BraidedError(f"{what}: give numbers from 0 on, or --on-error skip or missing")
            skip = self._on_error == "skip"
            self._counts.add(what, records=int(skip), values=int(not skip))
        weights[wrong] = 1.0
        if not wrong.size or self._on_error != "skip":
            return without
        return without.at([row for row in range(len(batch)) if row not in set(wrong.tolist())])
