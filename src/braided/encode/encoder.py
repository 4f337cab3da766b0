"""One pass over a stream: kinds of columns seen from the first records, then cells to numbers.

A reader gives chunks of records, column by column, with the line or row of each; the encoder does the rest, so that the
same records give the same numbers in whatever kind of file they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode import cells, first_look, words
from braided.encode.cells import Cells, Kind
from braided.encode.chunk import CHUNK_RECORDS, BadRecord, Chunk, LabelPiece, Misfit, Piece
from braided.encode.flatten import flatten
from braided.encode.keys import check_key, key_misfits, keyed
from braided.encode.kinds import ColumnKinds
from braided.encode.missing_codes import without_missing
from braided.encode.plan import listed
from braided.encode.raw import RawRecord, raw_records
from braided.encode.settled import MAX_DROPPED
from braided.encode.units import without_unit
from braided.encode.weights import check_column, labelled, learned, runs, weight_of, weights_of
from braided.errors import BraidedError
from braided.records import Labels, Records, join, join_labels
from braided.values import shown

_LONGEST_NAME = 1_000


class Encoder(ColumnKinds):
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

    #: Records so far that were numbers when they came.
    _rows = 0
    #: Features that there may still be, counted when a chunk brings its first new category; None before it.
    _room: int | None = None

    def problem(self, where: str, reason: str) -> None:
        """A record that cannot be read: an error, or counted."""
        message = f"{where}: {reason}"
        if self.rules.on_error == "stop":
            raise BraidedError(f"{message}{_without_such_records()}")
        self.counts.add(message, records=1)

    def _prepared(self, piece: Chunk | Records | BadRecord | LabelPiece) -> Any:
        """A piece without dropped columns and the codes of missing values."""
        whole = piece.without(self.rules.drop) if isinstance(piece, Chunk) else piece
        whole = without_missing(whole, self.rules, self.target)
        return whole if self.rules.key is None else keyed(whole, self.rules.key)

    def encode(self, pieces: Iterable[Piece]) -> Iterator[tuple[Records | Labels, Any]]:
        """Batches, and where the reader stood after each; the first records wait until the kinds are seen."""
        held: list[Chunk | Records | BadRecord | LabelPiece] = []
        for piece in pieces:
            if piece is not None:
                held.append(self._prepared(piece))
            enough = self.kinds_known or piece is None or sum(map(len, held)) >= CHUNK_RECORDS
            enough |= isinstance(piece, BadRecord) and self.rules.on_error == "stop"
            if held and enough:
                yield from self._release(held)
                held = []
        yield from self._release(held)

    def raw(self, pieces: Iterable[Piece]) -> Iterator[list[RawRecord]]:
        """Records as they were read, without missing values; of columns nothing is settled.

        A record that cannot be read, or has no label, is an error or skipped, as `on_error` says.
        """
        held: list[Chunk | Records | BadRecord | LabelPiece] = []
        first = True
        for piece in chain(pieces, [None]):
            if piece is not None:
                held.append(self._prepared(piece))
            if first and piece is not None and sum(map(len, held)) < CHUNK_RECORDS:
                continue
            if first:
                self._recognise([part for part in held if isinstance(part, Chunk)])
                self._check_weight([part for part in held if isinstance(part, Chunk)])
            first = False
            for part in held:
                if isinstance(part, BadRecord):
                    self.problem(part.where, part.reason)
                elif isinstance(part, LabelPiece):
                    self._refuse_labels(part)
                else:
                    yield raw_records(part, self.rules, self.form, self.problem)
            held = []

    def _check_weight(self, chunks: Sequence[Chunk]) -> None:
        """Refuse records of which none has the weight that a user names."""
        names = dict.fromkeys(name for chunk in chunks for name in chunk.columns)
        if self.rules.weight is not None and names and self.rules.weight not in names:
            known = listed([str(name) for name in names])
            raise BraidedError(f"`weight` {self.rules.weight!r}: there is no such column: choose it from {known}")

    def look(self, columns: Mapping[Hashable, Cells], n: int) -> None:
        """Settle what columns are by the first of n raw records, as a run does by those of a file."""
        unread = {*self.rules.drop, self.target, self.rules.key}
        read = {name: column for name, column in columns.items() if name not in unread}
        self._decide_kinds([without_missing(Chunk("the table", (), read, [None] * n), self.rules, self.target)])

    def encode_one(self, record: Mapping[Any, Any], learn: bool = True) -> dict[Hashable, float]:
        """The features of one raw record, by the rules that the records so far have settled; missing ones are left out.

        Arguments and errors as of `encode_table`.
        """
        names, values = self.encode_table({name: [cell] for name, cell in flatten(record).items()}, 1, learn)
        found = zip(names, values[0].tolist(), strict=True)
        return {name: value for name, value in found if not math.isnan(value)}

    def encode_table(
        self, columns: Mapping[Hashable, Cells], n: int, learn: bool | NDArray[np.bool_] = True
    ) -> tuple[list[Hashable], NDArray[np.float64]]:
        """The features of n raw records, (n, names), NaN for missing, by the rules that earlier ones have settled.

        `learn` is for all of them, or for each. The first table that is learned is looked at as the beginning of a file
        is, if no record came before it.

        Without `learn` the rules stay as they are: a category that was never seen is none of those that are known, and
        a column that was never seen is a feature only if it holds numbers. What does not fit is an error, unless
        `on_error` is `missing`. Target and weight, if they are among the columns, are no features.
        """
        if n > 1 and np.any(learn) and not self.kinds and not self.kinds_known:
            first = (np.arange(n) if isinstance(learn, bool) else np.flatnonzero(learn))[:CHUNK_RECORDS].tolist()
            sample: dict[Hashable, Cells] = {
                name: column[first] if isinstance(column, np.ndarray) else [column[row] for row in first]
                for name, column in columns.items()
            }
            self.look(sample, len(first))
        if isinstance(learn, bool):
            return self._encode_table(columns, n, learn)
        parts = [
            Records(tuple(names), values, [None] * (stop - start))
            for start, stop in runs(learn)
            for part in [{name: cells_[start:stop] for name, cells_ in columns.items()}]
            for names, values in [self._encode_table(part, stop - start, bool(learn[start]), start)]
        ]
        whole = join(parts)
        return list(whole.names), whole.values

    def _encode_table(
        self, columns: Mapping[Hashable, Cells], n: int, learn: bool, before: int | None = None
    ) -> tuple[list[Hashable], NDArray[np.float64]]:
        """As `encode_table`; `before` rows of the same table came before these, None if they are all of it."""
        left_out = {*self.rules.drop, self.target, self.rules.weight, self.rules.key}
        raw = {name: column for name, column in columns.items() if name not in left_out}
        strange = {name for name in raw if name not in self.kinds}
        if learn and len(self.kinds) + len(strange) > min(self.rules.max_features, MAX_DROPPED):
            self._check_columns([name for name in raw if name in strange])
        chunk = without_missing(
            Chunk("the record" if n == 1 else "the table", (), raw, [None] * n), self.rules, self.target
        )
        assert isinstance(chunk, Chunk)
        known = chunk if learn or not strange else chunk.without(strange)
        read, wrong = self._read_columns(known, learn)
        if wrong and self.rules.on_error != "missing":
            first = min(wrong, key=lambda misfit: misfit.row)
            one = n == 1 and before is None
            where = "the record" if one else f"record {(before or 0) + first.row + 1} of the table"
            raise BraidedError(f"{where}: {first.reason}")
        names, parts = self._features(known, read, range(n), learn)
        for name in () if learn else (name for name in raw if name in strange):
            values, misfits = cells.numbers(chunk.columns[name], self.form)
            if not misfits:
                names.append(name)
                parts.append(values[:, None])
        return names, np.concatenate(parts, axis=1) if parts else np.empty((n, 0))

    def _check_columns(self, new: Sequence[Hashable]) -> None:
        """Refuse more columns than there may be features; those that are dropped are none, but are bounded too."""
        dropped = self.n_dropped()
        room = max(self.rules.max_features - (len(self.kinds) - dropped), 0)
        room = min(room, max(MAX_DROPPED - dropped, 0))
        if len(new) <= room:
            return
        raise BraidedError(
            f"column {shown(new[room])} would be number {self.rules.max_features + 1}, and max_features is "
            f"{self.rules.max_features}: raise `max_features`, or leave columns out with `drop`"
        )

    def _refuse_labels(self, piece: LabelPiece) -> None:
        """Labels of earlier records, where nobody keeps these."""
        for where in piece.where:
            self.problem(where, "a label on its own, and records do not wait for theirs here: give whole records")

    def _labels(self, piece: LabelPiece) -> Labels:
        """Labels that come on their own, as they are learned."""
        found: list[Labels] = []
        if not self.rules.unlabelled:
            self._refuse_labels(piece)
            return join_labels(found)
        for row, where in enumerate(piece.where):
            one = piece.labels.part(row, row + 1)
            try:
                weights = [None if weight is None else weight_of(weight) for weight in one.weights]
                targets = [cells.as_label(target, False, self.form) for target in one.targets]
                found.append(replace(one, targets=targets, weights=weights))
            except BraidedError as error:
                self.problem(where, str(error))
        return join_labels(found)

    def _release(self, held: list[Chunk | Records | BadRecord | LabelPiece]) -> Iterator[tuple[Records | Labels, Any]]:
        records = [piece for piece in held if isinstance(piece, Chunk | Records)]
        if records and not self.kinds_known:
            if self.rules.key is not None:
                check_key(self.rules.key, records)
            self._decide_kinds(records)
        for piece in held:
            if isinstance(piece, BadRecord):
                self.problem(piece.where, piece.reason)
            elif isinstance(piece, LabelPiece):
                yield self._labels(piece), piece.after  # without any it says where the reader stands
            elif isinstance(piece, Records):
                for name in piece.names:
                    self.kinds.setdefault(name, Kind.NUMERIC)
                yield self._with_keys(piece), None
            elif len(batch := self._batch(piece)) or piece.after is not None:
                yield batch, piece.after  # without records it says where the reader stands after those that did not fit

    def _with_keys(self, batch: Records) -> Records:
        """The records of a batch that have a key, where one is asked for."""
        before, self._rows = self._rows, self._rows + len(batch)
        if batch.keys is None or not (wrong := key_misfits(batch.keys, self.rules.key)):
            return batch
        places = range(before + 1, self._rows + 1)
        keep = self._apply_policy(Chunk("the records", places, {}, batch.known_targets, by_row=True), wrong)
        return batch if keep is None else batch.at(keep)

    def _batch(self, chunk: Chunk) -> Records:
        """A chunk as numbers."""
        settling = learned(chunk, self.rules.weight)
        if self.rules.unlabelled and (known := labelled(chunk)) is not None:
            settling = known if settling is None else known & settling
        if settling is None:
            return self._batch_of(chunk)
        if self.rules.weight in chunk.columns:
            self.kinds.setdefault(self.rules.weight, Kind.NUMERIC)  # it is read, whatever the weights are
        parts = [self._batch_of(chunk.part(*run), bool(settling[run[0]])) for run in runs(settling)]
        return join(parts)

    def _batch_of(self, chunk: Chunk, learn: bool = True) -> Records:
        """Records that all settle something, or all nothing, as numbers."""
        if not learn:
            chunk = chunk.without({name for name in chunk.columns if name not in self.kinds})
        labels: list[Any] = []
        read, wrong = self._read_columns(chunk, learn)
        wrong += check_column(read, self.rules.weight)
        weights = weights_of(chunk, wrong)
        for row, cell in enumerate(chunk.labels):
            try:
                labels.append(cells.as_label(cell, chunk.spelled, self.form))
            except BraidedError as error:
                labels.append(None)
                if not (self.rules.unlabelled and isinstance(error, cells.MissingLabelError)):
                    wrong.append(Misfit(row, str(error), whole=True))
        if chunk.keys is not None:
            wrong += key_misfits(chunk.keys, self.rules.key)
        misfits_before = self.counts.misfit_values
        keep = self._apply_policy(chunk, wrong)
        kept = range(len(chunk)) if keep is None else keep
        names, parts = self._features(chunk, read, kept, learn)
        if chunk.table:
            # A category is missing where none of its column's features has a value.
            missing = sum(int(np.isnan(part).all(axis=1).sum()) for part in parts)
            self.counts.empty_cells += missing - (self.counts.misfit_values - misfits_before)
        values = np.concatenate(parts, axis=1) if parts else np.empty((len(kept), 0))
        if keep is not None:
            labels, weights = [labels[i] for i in keep], None if weights is None else weights[keep]
        keys = None if chunk.keys is None else [chunk.keys[i] for i in kept]
        ids = None if chunk.ids is None else [chunk.ids[i] for i in kept]
        times = chunk.times if chunk.times is None or keep is None else chunk.times[keep]
        categories: dict[Hashable, tuple[Hashable, str]] = {}
        for name in chunk.columns:
            if self.kinds.get(name) is Kind.CATEGORICAL:
                categories |= self.categories.meanings(name)
        return Records(tuple(names), values, labels, weights, keys, ids, times, categories)

    def _read_columns(self, chunk: Chunk, learn: bool) -> tuple[dict[Hashable, Any], list[Misfit]]:
        """Numbers, points in time, and text and categories without what does not fit; and that."""
        wrong: list[Misfit] = []
        read: dict[Hashable, Any] = {}
        for name, column in chunk.columns.items():
            if name not in self.kinds:
                self._settle_late(name, chunk)
            kind = self.kinds.get(name, Kind.NUMERIC)
            if kind is Kind.DROPPED:
                continue
            if kind is Kind.NUMERIC:
                read[name], misfits = cells.numbers(without_unit(column, self.units.get(name)), self.form)
            elif kind is Kind.DATE:
                read[name], misfits = cells.moments(column, self.dates[name])
            else:
                misfits = cells.not_categories(column)
                read[name] = _without(column, misfits)
                if kind is Kind.CATEGORICAL and learn:
                    too_long = self._too_long(name, read[name])
                    read[name] = _without(read[name], too_long)
                    misfits += too_long
            wrong += [Misfit(row, f"column {name!r} {reason}", name) for row, reason in misfits]
        return read, wrong

    def _too_long(self, name: Hashable, column: Cells) -> list[tuple[int, str]]:
        """(row, reason) of the values that are too long for a feature's name."""
        rows = self.categories.too_long(name, column, _LONGEST_NAME)
        return [(row, _why_too_long(name, column[row])) for row in rows]

    def _features(
        self, chunk: Chunk, read: dict[Hashable, Any], kept: Sequence[int], learn: bool = True
    ) -> tuple[list[Hashable], list[NDArray[np.float64]]]:
        """Names, and for each column the values, (kept, names), of the rows that stay."""
        names: list[Hashable] = []
        parts: list[NDArray[np.float64]] = []
        whole = len(kept) == len(chunk)
        self._room = None
        for name in chunk.columns:
            kind = self.kinds.get(name, Kind.NUMERIC)
            if kind is Kind.DROPPED:
                continue
            found: Sequence[Hashable] = [name]
            if kind is Kind.NUMERIC:
                values = read[name][:, None] if whole else read[name][list(kept), None]
            elif kind is Kind.DATE:
                moments = [read[name][i] for i in kept]
                form = self.dates[name].since(moments)
                if learn and form is not self.dates[name]:
                    self.dates[name] = form
                    self._note("date", name, *astuple(form))
                found, values = form.names(name, self.rules.dates), form.values(moments, self.rules.dates)
            else:
                chosen = [read[name][i] for i in kept]
                if kind is Kind.TEXT:
                    n = self.rules.text_features
                    found, values = words.names(name, n), words.values(chosen, n)
                else:
                    before = len(self.categories.known.get(name, ()))
                    try:
                        on_new = self._room_check(chunk, name, kept)
                        found, values = self.categories.encode(name, chosen, on_new, learn)
                    finally:
                        if learn and self.growth is not None:
                            for value in islice(self.categories.known[name], before, None):
                                self._note("category", name, value)
            names += found
            parts.append(values)
        return names, parts

    def _apply_policy(self, chunk: Chunk, wrong: list[Misfit]) -> list[int] | None:
        """The rows that stay, None for all, after errors were raised or counted as the rules say."""
        if not wrong:
            return None
        wrong.sort(key=lambda misfit: misfit.row)
        if self.rules.on_error == "stop":
            raise BraidedError(f"{chunk.where(wrong[0].row)}: {wrong[0].reason}{self._remedy(chunk, wrong[0])}")
        lost = {misfit.row for misfit in wrong if misfit.whole or self.rules.on_error == "skip"}
        for misfit in wrong:
            self.counts.add(f"{chunk.where(misfit.row)}: {misfit.reason}", values=int(misfit.row not in lost))
        self.counts.skipped_records += len(lost)
        return [row for row in range(len(chunk)) if row not in lost]

    def _remedy(self, chunk: Chunk, misfit: Misfit) -> str:
        """The settings with which a stream goes on after a value that does not fit."""
        if misfit.whole:
            return _without_such_records()
        without = "`on_error='skip'` or `on_error='missing'` goes on without it"
        cell = None if misfit.column is None else chunk.columns[misfit.column][misfit.row]
        if first_look.may_mean_missing(cell) and "header" not in self.found:
            return f"; {first_look.as_missing(misfit.column, str(cell))} if it means that, {without}"
        return f"; {without}"

    def _room_check(self, chunk: Chunk, column: Hashable, kept: Sequence[int]) -> Callable[[int, str], None]:
        """Refuses a category that would be a feature too many."""

        def on_new(row: int, name: str) -> None:
            if len(name) > _LONGEST_NAME:  # not found before, as records that are skipped filled up the column
                reason = _why_too_long(column, name.partition("=")[2])
                raise BraidedError(f"{chunk.where(kept[row])}: column {column!r} {reason}")
            if self._room is None:
                self._room = self.rules.max_features - self._n_settled() - len(self.categories)
            self._room -= 1
            if self._room < 0:
                raise BraidedError(
                    f"{chunk.where(kept[row])}: column {column!r} has a new value, and feature {shown(name)} would be "
                    f"number {self.rules.max_features + 1}, and max_features is {self.rules.max_features}: give "
                    f"`categories='hash'`, leave the column out with `drop={[str(column)]!r}`, or "
                    f"raise `max_features`"
                )

        return on_new


def _without_such_records() -> str:
    """The setting with which a stream goes on after a record that cannot be read."""
    return "; `on_error='skip'` goes on without such records"


def _without(column: Cells, misfits: Sequence[tuple[int, str]]) -> Cells:
    """A column in which the cells of these rows are missing."""
    rows = {row for row, _ in misfits}
    return [None if row in rows else cell for row, cell in enumerate(column)] if rows else column


def _why_too_long(column: Hashable, value: Any) -> str:
    return (
        f"is {shown(value)}, too long for a category: give `text={[str(column)]!r}` or "
        f"`hashed={[str(column)]!r}`, or leave the column out with `drop={[str(column)]!r}`"
    )
