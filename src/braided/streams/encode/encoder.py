"""From rows of raw cells to batches of numbers: kinds seen from the first records, and what to do with misfits.

A reader gives chunks of records, column by column, with the line or row of each; the encoder here does the rest, so
that the same records give the same numbers in whatever kind of file they come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.streams import text
from braided.streams.base import Batch
from braided.streams.encode import categories, cells
from braided.streams.encode.cells import Cells, Kind, Wrong
from braided.values import shown

#: Column names that are taken for the target when none is named.
TARGET_NAMES = ("target", "label", "class", "y")
#: Records that the kinds are seen from, and records in a chunk.
SAMPLE = 500
POLICIES = ("stop", "skip", "missing")
_SHOWN_NAMES = 5
_LONGEST_NAME = 1_000


@dataclass(frozen=True)
class Rules:
    """How cells become features.

    Attributes
    ----------
    categories
        Text columns: `onehot`, `hash` or `refuse`.
    hash_buckets
        Features that a hashed column becomes at most.
    on_error
        A value that does not fit its column: `stop` with an error, `skip` the record, or take the value as `missing`.
        A record that cannot be read at all, or has no label, is skipped under both of the latter.
    drop
        Columns that are not read.
    max_features
        How many features there may be; only categories are counted against it here.
    tell
        Hears what the kinds are, once, and whatever else a user should know meanwhile.
    """

    categories: str = "onehot"
    hash_buckets: int = 64
    on_error: str = "stop"
    drop: tuple[str, ...] = ()
    max_features: int = 10_000
    tell: Callable[[str], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        categories.check(self.categories, self.hash_buckets)
        if self.on_error not in POLICIES:
            raise BraidedError(f"--on-error {self.on_error!r} is not known: use one of {', '.join(POLICIES)}")

    def say(self, message: str) -> None:
        """Tell, if anyone listens."""
        if self.tell is not None:
            self.tell(message)


DEFAULT_RULES = Rules()


@dataclass
class Found:
    """What a pass over a stream has come upon so far.

    Attributes
    ----------
    kinds
        The columns in words, once they are known.
    skipped_records, missing_values
        What `on_error` let pass.
    first_problem
        The first of these, with its file and line.
    """

    kinds: str | None = None
    skipped_records: int = 0
    missing_values: int = 0
    first_problem: str | None = None

    def restart(self) -> None:
        """Nothing was skipped yet."""
        self.load_state([0, 0, None])

    def state(self) -> list[Any]:
        """What `load_state` takes."""
        return [self.skipped_records, self.missing_values, self.first_problem]

    def load_state(self, state: Sequence[Any]) -> None:
        """Go on counting from there."""
        self.skipped_records, self.missing_values, self.first_problem = state


@dataclass(frozen=True)
class Chunk:
    """Some consecutive records as they were read.

    Attributes
    ----------
    source
        The file that errors name.
    places
        Line or row of each record.
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
    """

    source: str
    places: Sequence[int]
    columns: dict[Hashable, Cells]
    labels: Sequence[Any]
    by_row: bool = False
    spelled: bool = False
    after: Any = None

    def __len__(self) -> int:
        return len(self.labels)

    def where(self, row: int) -> str:
        """File and line of a record."""
        return at(self.source, self.places[row], self.by_row)

    def rows(self, chosen: slice | list[int]) -> Chunk:
        """Some of the records."""
        if isinstance(chosen, slice):
            chosen = list(range(*chosen.indices(len(self))))
        columns: dict[Hashable, Cells] = {
            name: column[chosen] if isinstance(column, np.ndarray) else [column[i] for i in chosen]
            for name, column in self.columns.items()
        }
        places, labels = [self.places[i] for i in chosen], [self.labels[i] for i in chosen]
        return replace(self, places=places, columns=columns, labels=labels)

    def without(self, drop: Sequence[str]) -> Chunk:
        """All but some columns."""
        if not drop:
            return self
        return replace(self, columns={name: cells for name, cells in self.columns.items() if name not in drop})


def at(source: str, place: int, by_row: bool = False) -> str:
    """File and line, or row, as errors write them."""
    return f"{source}: row {place}" if by_row else f"{source}:{place}"


@dataclass(frozen=True)
class Problem:
    """A record that cannot be read, in its place among the others."""

    where: str
    reason: str

    def __len__(self) -> int:
        return 0


#: What readers give: raw records; records that are numbers already; what is no record; None where a live source pauses.
Piece = Chunk | Batch | Problem | None


class Reader(Protocol):
    """What an encoded stream is made of."""

    rules: Rules
    found: Found

    def chunks(self, encoder: Encoder) -> Iterator[Piece]:
        """The records in order."""


class Encoder:
    """One pass over a stream: sees the kinds of its columns from the first records, then turns cells into numbers.

    Parameters
    ----------
    rules
        How.
    found
        Where what was found is written to.

    Attributes
    ----------
    target
        What the announcement calls the target; the reader says it.
    """

    def __init__(self, rules: Rules, found: Found) -> None:
        self.rules = rules
        self.found = found
        self.target: Hashable | None = None
        self.kinds: dict[Hashable, Kind] = {}
        self.seen = False
        self.categories = categories.Categories(rules.categories, rules.hash_buckets)
        self._text_labels: dict[str, Any] = {}

    def declare(self, column: Hashable, kind: Kind) -> None:
        """Take a column's kind from the file, which says it, not from the values."""
        self.kinds[column] = kind

    def all_numbers(self, columns: Sequence[Hashable]) -> bool:
        """Whether the kinds are known and these columns are numeric, or without any value so far."""
        return self.seen and all(self.kinds.get(name, Kind.NUMERIC) is Kind.NUMERIC for name in columns)

    def problem(self, where: str, reason: str) -> None:
        """A record that cannot be read: an error, or counted."""
        message = f"{where}: {reason}"
        if self.rules.on_error == "stop":
            raise BraidedError(message)
        self.count(message, records=1)

    def count(self, message: str, records: int = 0, values: int = 0) -> None:
        """Something that `on_error` lets pass."""
        self.found.skipped_records += records
        self.found.missing_values += values
        self.found.first_problem = self.found.first_problem or message

    def encode(self, pieces: Iterable[Piece]) -> Iterator[tuple[Batch, Any]]:
        """Batches, and where the reader stood after each; the first records wait until the kinds are seen."""
        held: list[Chunk | Batch | Problem] = []
        for piece in pieces:
            if piece is not None:
                held.append(piece.without(self.rules.drop) if isinstance(piece, Chunk) else piece)
            enough = self.seen or piece is None or sum(map(len, held)) >= SAMPLE
            enough |= isinstance(piece, Problem) and self.rules.on_error == "stop"
            if held and enough:
                yield from self._release(held)
                held = []
        yield from self._release(held)

    def _release(self, held: list[Chunk | Batch | Problem]) -> Iterator[tuple[Batch, Any]]:
        records = [piece for piece in held if not isinstance(piece, Problem)]
        if records and not self.seen:
            self._see(records)
        for piece in held:
            if isinstance(piece, Problem):
                self.problem(piece.where, piece.reason)
            elif isinstance(piece, Batch):
                for name in piece.names:
                    self.kinds.setdefault(name, Kind.NUMERIC)
                yield piece, None
            elif len(batch := self._batch(piece)):
                yield batch, piece.after

    def _see(self, held: list[Chunk | Batch]) -> None:
        """Decide the kinds from the first SAMPLE records and announce them."""
        sample: list[Chunk] = []
        labels: dict[Any, None] = {}
        numeric: set[Hashable] = set()
        left = SAMPLE
        for piece in held:
            if isinstance(piece, Batch):
                numeric |= set(piece.names)
                labels |= dict.fromkeys(piece.labels[:left])
            else:
                sample.append(piece.rows(slice(0, left)))
                labels |= dict.fromkeys(self._quiet_labels(sample[-1]))
            left -= min(left, len(piece))
        names = dict.fromkeys(name for chunk in sample for name in chunk.columns)
        for name in names:
            kind = self.kinds.get(name)
            if kind is None:
                parts = [chunk.columns[name] for chunk in sample if name in chunk.columns]
                kind = cells.kind_of_column(parts[0] if len(parts) == 1 else [cell for part in parts for cell in part])
            if kind is not None:
                self._settle(name, kind, sample)
        self.seen = True
        self._announce([*names, *(name for name in numeric if name not in names)], numeric, len(labels))

    def _quiet_labels(self, chunk: Chunk) -> list[Any]:
        """The labels without those that are none."""
        out = []
        for cell in chunk.labels:
            try:
                out.append(self._label(cell, chunk.spelled))
            except BraidedError:
                continue
        return out

    def _settle(self, name: Hashable, kind: Kind, chunks: Sequence[Chunk]) -> None:
        """Fix a column's kind; refused ones are errors that name the first value of the kind."""
        refuse = kind is Kind.CATEGORICAL and self.rules.categories == "refuse"
        if kind is Kind.DATE or refuse:
            where, cell = next(
                (
                    (chunk.where(row), cell)
                    for chunk in chunks
                    for row, cell in enumerate(chunk.columns.get(name, ()))
                    if cells.kind_of(cell) is kind
                ),
                (chunks[0].where(0) if chunks and len(chunks[0]) else "the stream", None),
            )
            said = shown(cell.strip() if isinstance(cell, str) else cell)
            if refuse:
                raise BraidedError(
                    f"{where}: column {name!r} is {said}: features must be numbers, or empty if missing; encode "
                    "categories as numbers first, or give --categories onehot or hash"
                )
            raise no_dates(where, name, f"is {said}")
        self.kinds[name] = kind

    def _announce(self, names: Sequence[Hashable], numeric: set[Hashable], n_classes: int) -> None:
        groups: dict[str, list[Hashable]] = {"numeric": [], "categorical": [], "empty so far": []}
        for name in names:
            kind = Kind.NUMERIC if name in numeric else self.kinds.get(name)
            groups["empty so far" if kind is None else kind.value].append(name)
        parts = [f"{len(groups['numeric'])} numeric"]
        for word in ("categorical", "empty so far"):
            if groups[word]:
                parts.append(f"{len(groups[word])} {word} ({_listed(groups[word])})")
        target = "target" if self.target is None else f"target {self.target}"
        parts.append(f"{target}: {n_classes} {'class' if n_classes == 1 else 'classes'} seen")
        message = ", ".join(parts)
        if self.found.kinds is None:
            self.rules.say(message)
        self.found.kinds = message

    def _label(self, cell: Any, spelled: bool) -> Any:
        if isinstance(cell, Wrong):
            raise BraidedError(f"the label {cell.reason}")
        if not spelled or not isinstance(cell, str):
            return cells.label(cell)
        known = self._text_labels.get(cell)
        if known is None:
            try:
                known = text.label(cell, "")
            except BraidedError as error:
                raise BraidedError(str(error).removeprefix(": ")) from None
            if len(self._text_labels) < 10_000:
                self._text_labels[cell] = known
        return known

    def _batch(self, chunk: Chunk) -> Batch:
        """A chunk as numbers."""
        wrong: list[tuple[int, str, bool]] = []
        labels: list[Any] = []
        for row, cell in enumerate(chunk.labels):
            try:
                labels.append(self._label(cell, chunk.spelled))
            except BraidedError as error:
                labels.append(None)
                wrong.append((row, str(error), True))
        numeric: dict[Hashable, NDArray[np.float64]] = {}
        for name, column in chunk.columns.items():
            if name not in self.kinds:
                kind = next(filter(None, map(cells.kind_of, column)), None)
                if kind is not None:
                    self._settle(name, kind, [chunk])
            if self.kinds.get(name, Kind.NUMERIC) is Kind.NUMERIC:
                numeric[name], misfits = cells.numbers(column)
            else:
                misfits = _no_categories(column)
            wrong += [(row, f"column {name!r} {reason}", False) for row, reason in misfits]
        keep = self._judge(chunk, wrong)
        kept = range(len(chunk)) if keep is None else keep
        names: list[Hashable] = []
        parts: list[NDArray[np.float64]] = []
        for name, column in chunk.columns.items():
            if name in numeric:
                names.append(name)
                parts.append(numeric[name][:, None] if keep is None else numeric[name][keep, None])
            else:
                chosen = [None if isinstance(column[i], Wrong | bytes) else column[i] for i in kept]
                found, values = self.categories.encode(name, chosen, self._room(chunk, name, kept))
                names += found
                parts.append(values)
        values = np.concatenate(parts, axis=1) if parts else np.empty((len(kept), 0))
        return Batch(tuple(names), values, labels if keep is None else [labels[i] for i in keep])

    def _judge(self, chunk: Chunk, wrong: list[tuple[int, str, bool]]) -> list[int] | None:
        """The rows that stay, None for all, after errors were raised or counted as the rules say."""
        if not wrong:
            return None
        wrong.sort(key=lambda item: item[0])
        if self.rules.on_error == "stop":
            row, reason, whole = wrong[0]
            hint = "" if whole else "; --on-error skip or missing goes on without it"
            raise BraidedError(f"{chunk.where(row)}: {reason}{hint}")
        lost = {row for row, _, whole in wrong if whole or self.rules.on_error == "skip"}
        for row, reason, _ in wrong:
            if row not in lost:
                self.count(f"{chunk.where(row)}: {reason}", values=1)
            else:
                self.count(f"{chunk.where(row)}: {reason}")
        self.count("", records=len(lost))
        return [row for row in range(len(chunk)) if row not in lost]

    def _room(self, chunk: Chunk, column: Hashable, kept: Sequence[int]) -> Callable[[int, str], None]:
        """Refuses a category that would be a feature too many."""
        n_numeric = sum(kind is Kind.NUMERIC for kind in self.kinds.values())

        def on_new(row: int, name: str) -> None:
            if len(name) > _LONGEST_NAME:
                raise BraidedError(
                    f"{chunk.where(kept[row])}: column {column!r} is {shown(name.partition('=')[2])}, too long for a "
                    f"category: give --categories hash, or leave the column out with --drop {column}"
                )
            if n_numeric + len(self.categories) >= self.rules.max_features:
                raise BraidedError(
                    f"{chunk.where(kept[row])}: column {column!r} has a new value, and feature {shown(name)} would be "
                    f"number {self.rules.max_features + 1}, and max_features is {self.rules.max_features}: give "
                    f"--categories hash, leave the column out with --drop {column}, or raise --max-features"
                )

        return on_new

    def state(self) -> dict[str, Any]:
        """What `load_state` takes, as JSON can hold it; of columns with text names."""
        return {
            "kinds": [[name, kind.value] for name, kind in self.kinds.items()],
            "categories": self.categories.state(),
            "found": [*self.found.state(), self.found.kinds],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on as another encoder would have."""
        self.kinds = {name: Kind(kind) for name, kind in state["kinds"]}
        self.categories.load_state(state["categories"])
        *counts, self.found.kinds = state["found"]
        self.found.load_state(counts)
        self.seen = True


def _no_categories(column: Cells) -> list[tuple[int, str]]:
    """(row, reason) of the cells that cannot be a category."""
    if isinstance(column, np.ndarray) or not {Wrong, bytes, bytearray, memoryview} & set(map(type, column)):
        return []
    return [
        (row, cell.reason if isinstance(cell, Wrong) else f"is {shown(cell)}: text or a number only")
        for row, cell in enumerate(column)
        if isinstance(cell, Wrong | bytes | bytearray | memoryview)
    ]


def _listed(names: Sequence[Hashable]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(map(str, names[:_SHOWN_NAMES])) + (f" and {more} more" if more > 0 else "")


class Encoded(ABC):
    """The part of a stream that its reader does not write: batches from chunks."""

    rules: Rules
    found: Found

    @property
    def n_records(self) -> int | None:
        """Not known without reading."""
        return None

    @abstractmethod
    def chunks(self, encoder: Encoder) -> Iterator[Piece]:
        """The records in order."""

    def batches(self) -> Iterator[Batch]:
        """The records as numbers."""
        self.found.restart()
        encoder = Encoder(self.rules, self.found)
        pieces = self.chunks(encoder)
        try:
            for batch, _ in encoder.encode(pieces):
                yield batch
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:  # files and cursors are let go of at once, also after an error
                close()


def no_dates(where: str, column: Hashable, said: str) -> BraidedError:
    """The refusal of a column of dates."""
    return BraidedError(
        f"{where}: column {column!r} {said}: dates and times are not taken; make numbers of them that say what matters "
        f"(age in days, hour, weekday), or leave the column out with --drop {column}"
    )


def target_place(names: Sequence[str], target: str | None, source: str, named: bool = True) -> int:
    """The target among the columns: the one asked for, else one called target, label, class or y, else the last."""
    if target is None:
        usual = [i for i, name in enumerate(names) if named and str(name).lower() in TARGET_NAMES]
        return usual[0] if usual else len(names) - 1
    if target not in names:
        raise BraidedError(f"{source}: there is no column {target!r}: choose --target from {_listed(names)}")
    return list(names).index(target)


def check_columns(names: Sequence[str], source: str, drop: Sequence[str] = ()) -> None:
    """Refuse a table with a repeated column or with too few, and to drop what is not there."""
    if len(set(names)) != len(names):
        repeated = next(name for name in names if list(names).count(name) > 1)
        raise BraidedError(f"{source}: column {repeated!r} appears twice: rename one of them")
    for name in drop:
        if name not in names:
            raise BraidedError(f"{source}: there is no column {name!r}: choose --drop from {_listed(names)}")
