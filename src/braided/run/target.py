"""What the target is: a class or a number; and targets as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from braided.errors import BraidedError
from braided.estimators.tasks import CLASSIFICATION, REGRESSION
from braided.streams import Batch, Stream
from braided.streams.base import records_before
from braided.streams.encode import cells
from braided.streams.encode.rules import ReadingCounts
from braided.values import shown

#: How many records are looked at, from the first on.
LOOKED_AT = 1_000
#: More different whole numbers than this among them are taken for quantities.
MOST_CLASSES = 20
#: As a column of features, a target is one of numbers if at least this share of its values are.
MOST_OF_THEM = 0.9


def number(label: Any) -> float | None:
    """A target as a number; None if it is not one.

    >>> number("1.5"), number(3), number("red"), number(True)
    (1.5, 3.0, None, None)
    """
    value = None if isinstance(label, bool) else cells.as_number(label)
    return value if value is not None and math.isfinite(value) else None


def guessed(labels: Iterable[Any]) -> tuple[str, str]:
    """The task that targets are of, and why.

    >>> guessed([0, 1, 1, 0])
    ('classification', '')
    >>> guessed(["0.5", "2", "2.5"])
    ('regression', 'the target has numbers that are not whole, such as 0.5')
    >>> guessed(range(30))
    ('regression', 'the target has 30 different whole numbers in the first 30 records')
    """
    known = [label for label in labels if label is not None]
    found = [None if isinstance(label, bool) else cells.as_number(label) for label in known]
    values = [value for value in found if value is not None]
    if len(values) < MOST_OF_THEM * len(known):
        return CLASSIFICATION, ""
    broken = next((value for value in values if math.isfinite(value) and not value.is_integer()), None)
    if broken is not None:
        return REGRESSION, f"the target has numbers that are not whole, such as {broken:.10g}"
    if len(set(values)) > MOST_CLASSES:
        many = f"the target has {len(set(values))} different whole numbers in the first {len(values):,} records"
        return REGRESSION, many
    return CLASSIFICATION, ""


class NumericTargets:
    """A stream with its targets as numbers.

    Parameters
    ----------
    stream
        The stream.
    on_error
        What becomes of a record whose target is no number: `stop`, `skip` the record, or take the target as `missing`.
    counts
        Where to count such records.
    """

    def __init__(self, stream: Stream, on_error: str, counts: ReadingCounts) -> None:
        self.name, self.n_records = stream.name, stream.n_records
        self._stream = stream
        self._on_error = on_error
        self._counts = counts

    @property
    def records_before(self) -> int:
        """Records that came before the first that is given."""
        return records_before(self._stream)

    def batches(self) -> Iterator[Batch]:
        """The batches, each label a number, or None where there is none."""
        seen = 0
        for batch in self._stream.batches():
            targets = [None if label is None else number(label) for label in batch.labels]
            wrong = {i for i, target in enumerate(targets) if target is None and batch.labels[i] is not None}
            for i in sorted(wrong):
                what = f"{self.name}: the target of record {seen + i + 1} is {shown(batch.labels[i])}"
                if self._on_error == "stop":
                    raise BraidedError(
                        f"{what}, and a regression needs numbers: give --task classification, or --on-error skip or "
                        "missing"
                    )
                skip = self._on_error == "skip"
                self._counts.add(what, records=int(skip), values=int(not skip))
            seen += len(batch)
            if wrong and self._on_error == "skip":
                kept = [i for i in range(len(batch)) if i not in wrong]
                yield replace(batch, labels=targets).at(kept)
            else:
                yield replace(batch, labels=targets)
