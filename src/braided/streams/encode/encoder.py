"""One pass over a stream: kinds of columns seen from the first records, then cells to numbers.

A reader gives chunks of records, column by column, with the line or row of each; the encoder does the rest, so that the
same records give the same numbers in whatever kind of file they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.streams.base import Batch
from braided.streams.encode import cells
from braided.streams.encode.categories import Categories
from braided.streams.encode.cells import BadCell, Kind
from braided.streams.encode.chunk import CHUNK_RECORDS, BadRecord, Chunk, Piece
from braided.streams.encode.flatten import flatten
from braided.streams.encode.rules import DEFAULT_RULES, ReadingCounts, Rules
from braided.values import shown

_SHOWN_NAMES = 5
_LONGEST_NAME = 1_000


class Encoder:
    """One pass over a stream: sees the kinds of its columns from the first records, then turns cells into numbers.

    Parameters
    ----------
    rules
        How.
    counts
        Where to count what does not fit.

    Attributes
    ----------
    target
        What the announcement calls the target; the reader says it.

    Examples
    --------
    >>> encoder = Encoder()
    >>> encoder.encode_one({"size": "1.5", "colour": "red"})
    {'size': 1.5, 'colour=red': 1.0}
    >>> encoder.encode_one({"size": None, "colour": "blue"}, learn=False)
    {'colour=red': 0.0}
    >>> Encoder.from_state(encoder.state()).encode_one({"colour": "blue"})
    {'colour=red': 0.0, 'colour=blue': 1.0}
    """

    def __init__(self, rules: Rules = DEFAULT_RULES, counts: ReadingCounts | None = None) -> None:
        self.rules = rules
        self.counts = ReadingCounts() if counts is None else counts
        self.target: Hashable | None = None
        self.kinds: dict[Hashable, Kind] = {}
        self.kinds_known = False
        self.categories = Categories(rules.categories, rules.hash_buckets, rules.most_categories, self._tell_crowded)

    def declare(self, column: Hashable, kind: Kind) -> None:
        """Take a column's kind from the file, which says it, not from the values."""
        self.kinds[column] = kind

    def all_numbers(self, columns: Sequence[Hashable]) -> bool:
        """Whether the kinds are known and these columns are numeric, or without any value so far."""
        return self.kinds_known and all(self.kinds.get(name, Kind.NUMERIC) is Kind.NUMERIC for name in columns)

    def problem(self, where: str, reason: str) -> None:
        """A record that cannot be read: an error, or counted."""
        message = f"{where}: {reason}"
        if self.rules.on_error == "stop":
            raise BraidedError(message)
        self.counts.add(message, records=1)

    def encode(self, pieces: Iterable[Piece]) -> Iterator[tuple[Batch, Any]]:
        """Batches, and where the reader stood after each; the first records wait until the kinds are seen."""
        held: list[Chunk | Batch | BadRecord] = []
        for piece in pieces:
            if piece is not None:
                held.append(piece.without(self.rules.drop) if isinstance(piece, Chunk) else piece)
            enough = self.kinds_known or piece is None or sum(map(len, held)) >= CHUNK_RECORDS
            enough |= isinstance(piece, BadRecord) and self.rules.on_error == "stop"
            if held and enough:
                yield from self._release(held)
                held = []
        yield from self._release(held)

    def encode_one(self, record: Mapping[Hashable, Any], learn: bool = True) -> dict[Hashable, float]:
        """The features of one raw record, by the rules that the records so far have settled; missing ones are left out.

        Without `learn` the rules stay as they are: a category that was never seen is none of those that are known. What
        does not fit is an error, unless `on_error` is `missing`. The target, if it is among the values, is no feature.
        """
        flat = {name: cell for name, cell in flatten(record).items() if name != self.target}
        chunk = Chunk("the record", (), {name: [cell] for name, cell in flat.items()}, [None])
        batch = self._batch(chunk.without(self.rules.drop), learn, labelled=False)
        values = batch.values[0].tolist()
        return {name: value for name, value in zip(batch.names, values, strict=True) if not math.isnan(value)}

    def _release(self, held: list[Chunk | Batch | BadRecord]) -> Iterator[tuple[Batch, Any]]:
        records = [piece for piece in held if not isinstance(piece, BadRecord)]
        if records and not self.kinds_known:
            self._decide_kinds(records)
        for piece in held:
            if isinstance(piece, BadRecord):
                self.problem(piece.where, piece.reason)
            elif isinstance(piece, Batch):
                for name in piece.names:
                    self.kinds.setdefault(name, Kind.NUMERIC)
                yield piece, None
            elif len(batch := self._batch(piece)):
                yield batch, piece.after

    def _decide_kinds(self, held: list[Chunk | Batch]) -> None:
        """Decide the kinds of the columns from the first records and announce them."""
        sample: list[Chunk] = []
        labels: dict[Any, None] = {}
        numeric: set[Hashable] = set()
        left = CHUNK_RECORDS
        for piece in held:
            if isinstance(piece, Batch):
                numeric |= set(piece.names)
                labels |= dict.fromkeys(piece.labels[:left])
            else:
                sample.append(piece.part(0, left))
                for cell in sample[-1].labels:
                    with suppress(BraidedError):  # what is wrong with it is said when its record is read
                        labels[cells.as_label(cell, piece.spelled)] = None
            left -= min(left, len(piece))
        names = dict.fromkeys(name for chunk in sample for name in chunk.columns)
        for name in names:
            kind = self.kinds.get(name)
            if kind is None:
                parts = [chunk.columns[name] for chunk in sample if name in chunk.columns]
                kind = cells.kind_of_column(parts[0] if len(parts) == 1 else [cell for part in parts for cell in part])
            if kind is not None:
                self._fix_kind(name, kind, sample)
        self.kinds_known = True
        self._announce([*names, *(name for name in numeric if name not in names)], numeric, len(labels))

    def _fix_kind(self, name: Hashable, kind: Kind, chunks: Sequence[Chunk]) -> None:
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
                parts.append(f"{len(groups[word])} {word} ({listed(groups[word])})")
        target = "target" if self.target is None else f"target {self.target}"
        parts.append(f"{target}: {n_classes} different {'value' if n_classes == 1 else 'values'} seen")
        message = ", ".join(parts)
        if self.counts.kinds is None:
            self.rules.say(message)
        self.counts.kinds = message

    def _tell_crowded(self, column: Hashable) -> None:
        """Warn of a column with ever new values, once for all passes over the stream."""
        if column not in self.counts.crowded:
            self.counts.crowded.add(column)
            self.rules.say(
                f"column {column!r} has more than {self.rules.most_categories:,} different values: those that follow "
                f"share {self.rules.hash_buckets} features; leave the column out with --drop {column}, or give more of "
                "them a feature with --most-categories"
            )

    def _batch(self, chunk: Chunk, learn: bool = True, labelled: bool = True) -> Batch:
        """A chunk as numbers."""
        wrong: list[tuple[int, str, bool]] = []
        labels: list[Any] = []
        for row, cell in enumerate(chunk.labels if labelled else ()):
            try:
                labels.append(cells.as_label(cell, chunk.spelled))
            except BraidedError as error:
                labels.append(None)
                if not (self.rules.unlabelled and isinstance(error, cells.MissingLabelError)):
                    wrong.append((row, str(error), True))
        numeric: dict[Hashable, NDArray[np.float64]] = {}
        for name, column in chunk.columns.items():
            if name not in self.kinds:
                kind = next(filter(None, map(cells.kind_of, column)), None)
                if kind is not None and learn:
                    self._fix_kind(name, kind, [chunk])
            if self.kinds.get(name, Kind.NUMERIC) is Kind.NUMERIC:
                numeric[name], misfits = cells.numbers(column)
            else:
                misfits = cells.not_categories(column)
            wrong += [(row, f"column {name!r} {reason}", False) for row, reason in misfits]
        misfits_before = self.counts.misfit_values
        keep = self._apply_policy(chunk, wrong)
        kept = range(len(chunk)) if keep is None else keep
        names: list[Hashable] = []
        parts: list[NDArray[np.float64]] = []
        for name, column in chunk.columns.items():
            if name in numeric:
                names.append(name)
                parts.append(numeric[name][:, None] if keep is None else numeric[name][keep, None])
            else:
                chosen = [None if isinstance(column[i], BadCell | bytes) else column[i] for i in kept]
                found, values = self.categories.encode(name, chosen, self._room_check(chunk, name, kept), learn)
                names += found
                parts.append(values)
        if chunk.table:
            # A category is missing where none of its column's features has a value.
            missing = sum(int(np.isnan(part).all(axis=1).sum()) for part in parts)
            self.counts.empty_cells += missing - (self.counts.misfit_values - misfits_before)
        values = np.concatenate(parts, axis=1) if parts else np.empty((len(kept), 0))
        return Batch(tuple(names), values, labels if keep is None else [labels[i] for i in keep])

    def _apply_policy(self, chunk: Chunk, wrong: list[tuple[int, str, bool]]) -> list[int] | None:
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
            self.counts.add(f"{chunk.where(row)}: {reason}", values=int(row not in lost))
        self.counts.skipped_records += len(lost)
        return [row for row in range(len(chunk)) if row not in lost]

    def _room_check(self, chunk: Chunk, column: Hashable, kept: Sequence[int]) -> Callable[[int, str], None]:
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
        """What `load_state` and `from_state` take, as JSON can hold it; of columns with text names."""
        return {
            "rules": self.rules.state(),
            "target": self.target,
            "kinds": [[name, kind.value] for name, kind in self.kinds.items()],
            "categories": self.categories.state(),
            "found": [*self.counts.state(), self.counts.kinds],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """An encoder that goes on as the one that `state` is of, by its rules."""
        encoder = cls(Rules.from_state(state["rules"]))
        encoder.target = state["target"]
        encoder.load_state(state)
        return encoder

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on as another encoder would have; the rules stay this one's."""
        self.kinds = {name: Kind(kind) for name, kind in state["kinds"]}
        self.categories.load_state(state["categories"])
        *counts, self.counts.kinds = state["found"]
        self.counts.load_state(counts)
        self.kinds_known = True


def no_dates(where: str, column: Hashable, said: str) -> BraidedError:
    """The refusal of a column of dates."""
    return BraidedError(
        f"{where}: column {column!r} {said}: dates and times are not taken; make numbers of them that say what matters "
        f"(age in days, hour, weekday), or leave the column out with --drop {column}"
    )


def listed(names: Sequence[Hashable]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join(map(str, names[:_SHOWN_NAMES])) + (f" and {more} more" if more > 0 else "")
