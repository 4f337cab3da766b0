"""What a reader hands to the encoder: chunks of raw records, column by column, and bad records between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.encode.cells import Cells
from braided.records import Labels, Records

#: Records in a chunk at most, and records from which the kinds of columns are seen.
CHUNK_RECORDS = 500


@dataclass(frozen=True)
class Chunk:
    """Some consecutive records as they were read.

    Attributes
    ----------
    source
        The file that errors name.
    places
        Line or row of each record, or in words where it stands; none for a record that is of no file.
    columns
        Cells of each feature column; None is missing.
    labels
        Cells of the target.
    by_row
        Whether places are rows, not lines.
    spelled
        Whether labels are words of a text file, where only the spelling says whether they are numbers.
    after
        Where the reader stood after these records, for those that can go on from there.
    table
        Whether each record has a cell in every column, so that one without a value is an empty one.
    weights
        Cells of the records' weights, None for one without; None if no record has any.
    keys
        The records' keys, None for one without; None where nobody asked for them.
    ids, times
        As of `Records`.
    """

    source: str
    places: Sequence[int | str]
    columns: dict[Hashable, Cells]
    labels: Sequence[Any]
    by_row: bool = False
    spelled: bool = False
    after: Any = None
    table: bool = False
    weights: Sequence[Any] | None = None
    keys: Sequence[str | None] | None = None
    ids: list[str | int | None] | None = None
    times: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def where(self, row: int) -> str:
        """File and line of a record."""
        return at(self.source, self.places[row], self.by_row) if self.places else self.source

    def part(self, start: int, stop: int) -> Chunk:
        """The records from `start` to `stop`."""
        columns: dict[Hashable, Cells] = {name: cells[start:stop] for name, cells in self.columns.items()}
        weights = None if self.weights is None else self.weights[start:stop]
        keys = None if self.keys is None else self.keys[start:stop]
        ids = None if self.ids is None else self.ids[start:stop]
        times = None if self.times is None else self.times[start:stop]
        places, labels = self.places[start:stop], self.labels[start:stop]
        return replace(
            self, places=places, columns=columns, labels=labels, weights=weights, keys=keys, ids=ids, times=times
        )

    def without(self, drop: Collection[Hashable]) -> Chunk:
        """All but some columns."""
        if not drop:
            return self
        return replace(self, columns={name: cells for name, cells in self.columns.items() if name not in drop})

    @classmethod
    def of_numbers(cls, batch: Records, source: str, before: int, after: Any) -> Chunk:
        """Numbers as cells again, so that they carry where the reader stood; `before` rows came before them."""
        columns: dict[Hashable, Cells] = {
            name: np.ascontiguousarray(batch.values[:, i]) for i, name in enumerate(batch.names)
        }
        places = range(before + 1, before + 1 + len(batch))
        return cls(source, places, columns, batch.known_targets, by_row=True, after=after)


def at(source: str, place: int | str, by_row: bool = False) -> str:
    """File and line, or row, as errors write them."""
    if isinstance(place, str):
        return f"{source}: {place}"
    return f"{source}: row {place}" if by_row else f"{source}:{place}"


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be read, in its place among the others."""

    where: str
    reason: str

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class LabelPiece:
    """Labels that come on their own, as they were read, each with where it stands; `after` as of `Chunk`.

    Without any it says where the reader stands after what was no record.
    """

    where: Sequence[str]
    labels: Labels
    after: Any = None

    def __len__(self) -> int:
        return 0


class Misfit(NamedTuple):
    """A value in the row of a chunk that does not fit its column, or, if it is the label, the whole record."""

    row: int
    reason: str
    column: Hashable = None
    whole: bool = False


#: What readers give: raw records; records that are numbers already; a bad record; labels of earlier records; None where
#: a live source pauses.
Piece = Chunk | Records | BadRecord | LabelPiece | None


def in_chunks(
    records: Iterable[tuple[int, Any] | BadRecord | LabelPiece], make: Callable[[list[int], list[Any]], Chunk]
) -> Iterator[Chunk | BadRecord | LabelPiece]:
    """Chunks of records that come one by one, each with its line or row; `make` makes one of places and records.

    Before a bad record, or labels of earlier ones, the records read so far go first, in a chunk of their own.
    """
    places: list[int] = []
    taken: list[Any] = []
    for item in records:
        if not isinstance(item, BadRecord | LabelPiece):
            places.append(item[0])
            taken.append(item[1])
            if len(taken) < CHUNK_RECORDS:
                continue
        if taken:
            yield make(places, taken)
            places, taken = [], []
        if isinstance(item, BadRecord | LabelPiece):
            yield item
    if taken:
        yield make(places, taken)
