"""What the target is: a class or a number; and targets as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from braided.encode import cells
from braided.encode.number_form import PLAIN, NumberForm
from braided.encode.rules import ReadingCounts
from braided.encode.units import Unit, unit_of, without_unit
from braided.errors import BraidedError
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.records import Labels, Records
from braided.streams import Stream
from braided.streams.base import labels_before, records_before
from braided.values import shown

#: How many records are looked at, from the first on.
LOOKED_AT = 1_000
#: More different whole numbers than this among them are taken for quantities.
MAX_CLASSES = 20
#: As a column of features, a target is one of numbers if at least this share of its values are.
MAJORITY = 0.9


def spelling(counts: ReadingCounts | None) -> NumberForm:
    """How numbers are spelled in what a reader with these counts has read."""
    encoder = None if counts is None else counts.encoder
    return PLAIN if encoder is None else encoder.form


def _number(label: Any, unit: Unit | None, form: NumberForm) -> float | None:
    """A target as a number, NaN for missing; None if it is not one. Only behind a unit is its spelling the file's."""
    if isinstance(label, bool):
        return None
    bare = without_unit([label], unit)[0]
    return cells.as_number(label) if bare is label else cells.as_number(bare, form)


def labels_of(batches: Iterable[Records | Labels]) -> list[Any]:
    """All labels of some batches, those that come later on their own among them."""
    return [target for batch in batches for target in (batch.targets or ())]


def guessed(labels: Iterable[Any], form: NumberForm = PLAIN) -> tuple[str, str]:
    """The task that targets are of, and why, if it may surprise; `form` is how numbers are spelled in text.

    >>> guessed([0, 1, 1, 0])
    ('classification', '')
    >>> guessed([0, 1, 2, 0])
    ('classification', 'all labels are whole numbers: 3 classes; --task regression for numbers')
    >>> guessed(["0.5", "2", "2.5"])
    ('regression', 'the target has numbers that are not whole, such as 0.5')
    >>> guessed(range(30))
    ('regression', 'the target has 30 different whole numbers in the first 30 records')
    >>> guessed(["$0.50", "$2.00"] * 5)
    ('regression', 'the target has numbers that are not whole, such as 0.5, in $')
    """
    known = [label for label in labels if label is not None]
    unit = unit_of(known)
    found = [_number(label, unit, form) for label in known]
    values = [value for value in found if value is not None]
    if len(values) < MAJORITY * len(known):
        return CLASSIFICATION, ""
    in_unit = "" if unit is None else f", in {unit}"
    broken = next((value for value in values if math.isfinite(value) and not value.is_integer()), None)
    if broken is not None:
        return REGRESSION, f"the target has numbers that are not whole, such as {broken:.10g}{in_unit}"
    if len(set(values)) > MAX_CLASSES:
        many = (
            f"the target has {len(set(values))} different whole numbers in the first {len(values):,} records{in_unit}"
        )
        return REGRESSION, many
    if len(set(values)) > 2 and len(values) == len(known) and unit is None:
        why = f"all labels are whole numbers: {len(set(values))} classes; --task regression for numbers"
        return CLASSIFICATION, why
    return CLASSIFICATION, ""


class TargetNumbers:
    """Reads targets as numbers; the unit that those of the first batch share is taken off, as in columns.

    Parameters
    ----------
    counts
        Of the stream's reader, whose encoder knows how the file spells numbers.
    """

    def __init__(self, counts: ReadingCounts) -> None:
        self._counts = counts
        self._unit: Unit | None = None
        self._looked = False

    def __call__(self, labels: Sequence[Any]) -> list[float | None]:
        """The targets of a batch, None for what is no finite number."""
        if not self._looked and any(label is not None for label in labels):
            # A stream that is followed may come one by one: its first batch settles it, however short.
            self._unit, self._looked = unit_of(labels, least=1), True
        form = spelling(self._counts)
        found = [_number(label, self._unit, form) for label in labels]
        return [value if value is not None and math.isfinite(value) else None for value in found]


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

    @property
    def labels_before(self) -> int:
        """Labels on their own that came before it."""
        return labels_before(self._stream)

    def batches(self) -> Iterator[Records | Labels]:
        """The batches, each label a number, or None where there is none."""
        seen = 0
        read = TargetNumbers(self._counts)
        for batch in self._stream.batches():
            if isinstance(batch, Labels):
                yield self._numeric(batch, read)
                continue
            given = batch.known_targets
            targets = read(given)
            wrong = {i for i, target in enumerate(targets) if target is None and given[i] is not None}
            for i in sorted(wrong):
                what = f"{self.name}: the target of record {seen + i + 1} is {shown(given[i])}"
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
                yield replace(batch, targets=targets).at(kept)
            else:
                yield replace(batch, targets=targets)

    def _numeric(self, labels: Labels, read: TargetNumbers) -> Labels:
        """Targets that come later on their own, as numbers; one that is none is an error, or None and counted.

        It stays in its place: by how many labels have come, a resumed run knows which of them it has heard.
        """
        numbers: list[Any] = []
        for name, target in zip(labels.ids, labels.targets, strict=True):
            numbers += read([target])
            if numbers[-1] is not None:
                continue
            what = f"{self.name}: the target of the record with the ID {shown(name)} is {shown(target)}"
            if self._on_error == "stop":
                raise BraidedError(f"{what}, and a regression needs numbers: give --on-error missing, or send a number")
            self._counts.add(what, values=1)
        return replace(labels, targets=numbers)
