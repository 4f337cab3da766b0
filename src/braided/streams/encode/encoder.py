"""One pass over a stream: kinds of columns seen from the first records, then cells to numbers.

A reader gives chunks of records, column by column, with the line or row of each; the encoder does the rest, so that the
same records give the same numbers in whatever kind of file they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, replace
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.option_names import option
from braided.streams.base import Batch, joined
from braided.streams.encode import cells, first_look, words
from braided.streams.encode.categories import Categories
from braided.streams.encode.cells import BadCell, Cells, Kind
from braided.streams.encode.chunk import CHUNK_RECORDS, BadRecord, Chunk, Piece
from braided.streams.encode.dates import DateForm, form_of
from braided.streams.encode.flatten import flatten
from braided.streams.encode.number_form import PLAIN, number_form, recognised
from braided.streams.encode.plan import ColumnPlan, Plan
from braided.streams.encode.rules import DEFAULT_RULES, ReadingCounts, Rules
from braided.values import is_missing, shown

_LONGEST_NAME = 1_000


class RawRecord(NamedTuple):
    """A record as it was read; the weight is None where it has none."""

    x: dict[Hashable, Any]
    label: Any
    weight: float | None


#: One thing that is settled: `["kind", column, kind]`, `["date", column, *form]` or `["category", column, value]`.
Step = list[Any]


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
        self.dates: dict[Hashable, DateForm] = {}
        self.form = recognised([], None, rules.decimal, rules.thousands)
        #: What the reader found of the file, for the plan: `delimiter`, `encoding`.
        self.found: dict[str, str] = {}
        self.categories = Categories(
            rules.categories, rules.hash_buckets, rules.most_categories, self._tell_crowded, rules.hashed
        )
        #: Where to note each thing that is settled from now on; None: nowhere.
        self.growth: list[Step] | None = None
        self._declared: set[Hashable] = set()

    def copy(self) -> Encoder:
        """An independent copy of what is settled; it counts nothing, and tells nobody."""
        other = Encoder(replace(self.rules, tell=None))
        other.target, other.kinds, other.kinds_known = self.target, dict(self.kinds), self.kinds_known
        other.dates, other.form = dict(self.dates), self.form
        other.categories.known = {column: dict(places) for column, places in self.categories.known.items()}
        return other

    def declare(self, column: Hashable, kind: Kind) -> None:
        """Take a column's kind from the file, which says it, not from the values."""
        self._declared.add(column)
        self.kinds[column] = kind

    def all_numbers(self, columns: Sequence[Hashable]) -> bool:
        """Whether these columns are known to be plain numbers, or without any value so far."""
        plain = self.kinds_known and self.form is PLAIN and not self.rules.na
        return plain and all(self.kinds.get(name, Kind.NUMERIC) is Kind.NUMERIC for name in columns)

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
                held.append(self._without_codes(piece.without(self.rules.drop) if isinstance(piece, Chunk) else piece))
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
        held: list[Chunk | Batch | BadRecord] = []
        first = True
        for piece in chain(pieces, [None]):
            if piece is not None:
                held.append(self._without_codes(piece.without(self.rules.drop) if isinstance(piece, Chunk) else piece))
            if first and piece is not None and sum(map(len, held)) < CHUNK_RECORDS:
                continue
            if first:
                self._recognise([part for part in held if isinstance(part, Chunk)])
            first = False
            for part in held:
                if isinstance(part, BadRecord):
                    self.problem(part.where, part.reason)
                else:
                    yield self._raw(part)
            held = []

    def _raw(self, piece: Chunk | Batch) -> list[RawRecord]:
        if isinstance(piece, Batch):
            columns: dict[Hashable, Cells] = {name: piece.values[:, i] for i, name in enumerate(piece.names)}
            piece = Chunk("the stream", (), columns, piece.labels)
        records: list[RawRecord] = []
        features = piece.without({self.rules.weight}).columns
        for row, cell in enumerate(piece.labels):
            try:
                label = cells.as_label(cell, piece.spelled, self.form)
                weight = self._raw_weight(piece, row)
            except BraidedError as error:
                self.problem(piece.where(row), str(error))
                continue
            values = ((name, _plain(column[row])) for name, column in features.items())
            x = {name: value for name, value in values if cells.as_category(value) is not None}
            records.append(RawRecord(x, label, weight))
        return records

    def _raw_weight(self, chunk: Chunk, row: int) -> float | None:
        """The weight of a record, None where it has none."""
        column = chunk.columns.get(self.rules.weight)
        if column is None:
            return None if chunk.weights is None else _weight(_plain(chunk.weights[row]))
        if chunk.weights is not None:
            raise BraidedError(f'the record has "w" beside column {self.rules.weight!r}: leave out one of them')
        try:
            return _weight(cells.as_feature(column[row], self.form))
        except BraidedError as error:
            raise BraidedError(f"column {self.rules.weight!r}: {error}") from None

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

        `learn` is for all of them, or for each.

        Without `learn` the rules stay as they are: a category that was never seen is none of those that are known, and
        a column that was never seen is a feature only if it holds numbers. What does not fit is an error, unless
        `on_error` is `missing`. Target and weight, if they are among the columns, are no features.
        """
        if isinstance(learn, bool):
            return self._encode_table(columns, n, learn)
        parts = [
            Batch(tuple(names), values, [None] * (stop - start))
            for start, stop in _runs(learn)
            for part in [{name: cells_[start:stop] for name, cells_ in columns.items()}]
            for names, values in [self._encode_table(part, stop - start, bool(learn[start]), start)]
        ]
        whole = joined(parts)
        return list(whole.names), whole.values

    def _encode_table(
        self, columns: Mapping[Hashable, Cells], n: int, learn: bool, before: int | None = None
    ) -> tuple[list[Hashable], NDArray[np.float64]]:
        """As `encode_table`; `before` rows of the same table came before these, None if they are all of it."""
        left_out = {*self.rules.drop, self.target, self.rules.weight}
        raw = {name: column for name, column in columns.items() if name not in left_out}
        strange = {name for name in raw if name not in self.kinds}
        if learn and len(self.kinds) + len(strange) > self.rules.max_features:
            self._check_columns([name for name in raw if name in strange])
        chunk = self._without_codes(Chunk("the record" if n == 1 else "the table", (), raw, [None] * n))
        assert isinstance(chunk, Chunk)
        known = chunk if learn or not strange else chunk.without(strange)
        read, wrong = self._read_columns(known)
        if wrong and self.rules.on_error != "missing":
            row, reason, _ = min(wrong, key=lambda misfit: misfit[0])
            one = n == 1 and before is None
            raise BraidedError(f"{'the record' if one else f'record {(before or 0) + row + 1} of the table'}: {reason}")
        names, parts = self._features(known, read, range(n), learn)
        for name in () if learn else (name for name in raw if name in strange):
            values, misfits = cells.numbers(chunk.columns[name], self.form)
            if not misfits:
                names.append(name)
                parts.append(values[:, None])
        return names, np.concatenate(parts, axis=1) if parts else np.empty((n, 0))

    def _check_columns(self, new: Sequence[Hashable]) -> None:
        """Refuse more columns than there may be features."""
        room = max(self.rules.max_features - len(self.kinds), 0)
        raise BraidedError(
            f"column {shown(new[room])} would be number {self.rules.max_features + 1}, and max_features is "
            f"{self.rules.max_features}: raise {option('max_features')}, or leave columns out with {option('drop')}"
        )

    @contextmanager
    def trial(self) -> Iterator[list[Step]]:
        """Note what is settled within this, and take it back if it ends with an error."""
        noted: list[Step] = []
        self.growth = noted
        try:
            yield noted
        except BaseException:
            self.undo(noted)
            raise
        finally:
            self.growth = None

    def grow(self, step: Step) -> None:
        """Settle what another encoder with the same rules has noted."""
        what, column, *more = step
        if what == "kind":
            self.kinds[column] = Kind(more[0])
        elif what == "date":
            self.dates[column] = DateForm(*more)
        else:
            places = self.categories.known.setdefault(column, {})
            places.setdefault(more[0], len(places))

    def undo(self, steps: Sequence[Step]) -> None:
        """Take back the last things that were settled."""
        for what, column, *more in reversed(steps):
            if what == "kind":
                del self.kinds[column]
            elif what == "category":
                del self.categories.known[column][more[0]]
            elif self.dates[column].first_us is None:
                del self.dates[column]
            else:
                self.dates[column] = replace(self.dates[column], first_us=None)

    def _note(self, *step: Any) -> None:
        if self.growth is not None:
            self.growth.append(list(step))

    def _without_codes(self, piece: Piece) -> Any:
        """A piece without the values that stand for missing ones, as `na` says."""
        if not self.rules.na or piece is None or isinstance(piece, BadRecord):
            return piece
        if isinstance(piece, Batch):
            values = piece.values.copy()
            for i, name in enumerate(piece.names):
                values[:, i] = without_codes(values[:, i], self.rules.missing_words(name))
            return replace(piece, values=values)
        columns: dict[Hashable, Cells] = {
            name: without_codes(column, self.rules.missing_words(name)) for name, column in piece.columns.items()
        }
        labels = without_codes(piece.labels, self.rules.missing_words("" if self.target is None else self.target))
        return replace(piece, columns=columns, labels=labels)

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
        numeric: dict[Hashable, list[NDArray[np.float64]]] = {}
        labels: dict[Any, None] = {}
        left = CHUNK_RECORDS
        for piece in held:
            part = piece.part(0, left)
            if isinstance(part, Chunk):
                learned = self._learned(part)
                sample += [part] if learned is None else [part.part(*run) for run in _runs(learned) if learned[run[0]]]
            else:
                labels |= dict.fromkeys(part.labels)
                for i, name in enumerate(part.names):
                    numeric.setdefault(name, []).append(part.values[:, i])
            left -= min(left, len(piece))
        columns = {name: _joined(sample, name) for name in dict.fromkeys(n for chunk in sample for n in chunk.columns)}
        self._recognise(sample)
        why = {name: self._settle(name, column, sample) for name, column in columns.items()}
        self.kinds_known = True
        labels |= dict.fromkeys(self._sample_labels(sample))
        joined = {name: np.concatenate(parts) for name, parts in numeric.items() if name not in columns}
        self._announce(CHUNK_RECORDS - left, {**columns, **joined}, set(joined), why, len(labels))

    def _recognise(self, sample: list[Chunk]) -> None:
        """See how numbers are spelled."""
        if self.rules.recognise:
            names = dict.fromkeys(name for chunk in sample for name in chunk.columns)
            spelled_labels = [cell for chunk in sample if chunk.spelled for cell in chunk.labels]
            spelled = first_look.words_of_numbers([*(_joined(sample, name) for name in names), spelled_labels])
            self.form = recognised(spelled, self.found.get("delimiter"), self.rules.decimal, self.rules.thousands)

    def _sample_labels(self, sample: list[Chunk]) -> Iterator[Any]:
        for chunk in sample:
            for cell in chunk.labels:
                with suppress(BraidedError):  # what is wrong with it is said when its record is read
                    yield cells.as_label(cell, chunk.spelled, self.form)

    def _settle(self, name: Hashable, column: Cells, sample: Sequence[Chunk]) -> str:
        """Fix the kind of a column by its first cells; why it is dropped, if it is."""
        kind = self.kinds.get(name)
        why = ""
        if kind is None or name in self.rules.text or name in self.rules.hashed:
            kind = self._kind_of(name, column)
        if kind is Kind.DATE and self.rules.dates == "drop":
            kind, why = Kind.DROPPED, f"dates, and {option('dates', 'drop')}"
        plain = self.rules.categories == "onehot" and name not in (*self.rules.hashed, *self._declared)
        if kind is Kind.CATEGORICAL and plain and self.rules.recognise and first_look.is_identifier(column):
            kind, why = Kind.DROPPED, first_look.why_dropped(name, column)
        if kind is not None:
            self._fix_kind(name, kind, sample)
        return why

    def _kind_of(self, name: Hashable, column: Cells) -> Kind | None:
        """What a column is: as a user says, else as its values look."""
        if name in self.rules.text:
            return Kind.TEXT
        kind = cells.kind_of_column(column, self.form)
        return Kind.CATEGORICAL if kind is not None and name in self.rules.hashed else kind

    def _fix_kind(self, name: Hashable, kind: Kind, chunks: Sequence[Chunk]) -> None:
        """Fix a column's kind; refused ones are errors that name the first value of the kind."""
        refuse = kind is Kind.CATEGORICAL and self.rules.categories == "refuse" and name not in self.rules.hashed
        if kind is Kind.DATE or refuse:
            where, cell = next(
                (
                    (chunk.where(row), cell)
                    for chunk in chunks
                    for row, cell in enumerate(chunk.columns.get(name, ()))
                    if cells.kind_of(cell, self.form) is kind
                ),
                (chunks[0].where(0) if chunks and len(chunks[0]) else "the stream", None),
            )
            if refuse:
                said = shown(cell.strip() if isinstance(cell, str) else cell)
                raise BraidedError(
                    f"{where}: column {name!r} is {said}: features must be numbers, or empty if missing; encode "
                    f"categories as numbers first, or give {option('categories', 'onehot')} or "
                    f"{option('categories', 'hash')}"
                )
            try:
                column = [cell for chunk in chunks for cell in chunk.columns.get(name, ())]
                self.dates[name] = form_of(column, self.rules.day_first)
                self._note("date", name, *astuple(self.dates[name]))
            except BraidedError as error:
                raise BraidedError(
                    f"{where}: column {name!r} {error}; {option('drop', [str(name)])} leaves the column out"
                ) from None
        self.kinds[name] = kind
        self._note("kind", name, kind.value)

    def _announce(
        self,
        n: int,
        columns: Mapping[Hashable, Cells],
        numeric: set[Hashable],
        why: dict[Hashable, str],
        n_classes: int,
    ) -> None:
        """Make the plan and tell it, once for all passes over the stream."""
        plans = tuple(
            first_look.plan_of(
                name,
                column,
                Kind.NUMERIC if name in numeric else self.kinds.get(name),
                self.form,
                self.dates.get(name),
                self.rules,
                why.get(name, ""),
            )
            for name, column in columns.items()
        )
        text = any(not isinstance(column, np.ndarray) for column in columns.values())
        plan = Plan(
            records=n,
            target=None if self.target is None else str(self.target),
            target_values=n_classes,
            encoding=self.found.get("encoding"),
            delimiter=self.found.get("delimiter"),
            decimal=self.form.decimal if text else None,
            thousands=self.form.thousands if text else None,
            notes=tuple(first_look.settings_notes(self.form, self.found, self.rules)),
            columns=(*plans, *(ColumnPlan(name, "dropped", note=option("drop")) for name in self.rules.drop)),
        )
        if self.counts.plan is None:
            for line in plan.lines():
                self.rules.say(line)
        self.counts.plan = plan

    def _tell_crowded(self, column: Hashable) -> None:
        """Warn of a column with ever new values, once for all passes over the stream."""
        if column not in self.counts.crowded:
            self.counts.crowded.add(column)
            self.rules.say(
                f"column {column!r} has more than {self.rules.most_categories:,} different values: those that follow "
                f"share {self.rules.hash_buckets} features; leave the column out with {option('drop', [str(column)])}, "
                f"or give more of them a feature with {option('most_categories')}"
            )

    def _learned(self, chunk: Chunk) -> NDArray[np.bool_] | None:
        """Which records of a chunk have a weight other than 0, by which nothing is settled; None for all."""
        column: Any = chunk.weights
        if column is None and self.rules.weight is not None:
            column = chunk.columns.get(self.rules.weight)
        if column is None:
            return None
        weights = column if isinstance(column, np.ndarray) else [_number(cell) for cell in column]
        learned = np.array([weight != 0.0 for weight in weights], dtype=np.bool_)
        return None if learned.all() else learned

    def _batch(self, chunk: Chunk) -> Batch:
        """A chunk as numbers."""
        learned = self._learned(chunk)
        if learned is None:
            return self._batch_of(chunk)
        parts = [self._batch_of(chunk.part(*run), bool(learned[run[0]])) for run in _runs(learned)]
        return joined(parts)

    def _batch_of(self, chunk: Chunk, learn: bool = True) -> Batch:
        """Records that all settle something, or all nothing, as numbers."""
        if not learn:
            chunk = chunk.without({name for name in chunk.columns if name not in self.kinds})
        labels: list[Any] = []
        read, wrong = self._read_columns(chunk)
        weights = _weights(chunk, wrong)
        for row, cell in enumerate(chunk.labels):
            try:
                labels.append(cells.as_label(cell, chunk.spelled, self.form))
            except BraidedError as error:
                labels.append(None)
                if not (self.rules.unlabelled and isinstance(error, cells.MissingLabelError)):
                    wrong.append((row, str(error), True))
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
        return Batch(tuple(names), values, labels, weights)

    def _read_columns(self, chunk: Chunk) -> tuple[dict[Hashable, Any], list[tuple[int, str, bool]]]:
        """Numbers and points in time of the columns that hold such, and (row, reason, False) of what does not fit."""
        wrong: list[tuple[int, str, bool]] = []
        read: dict[Hashable, Any] = {}
        for name, column in chunk.columns.items():
            if name not in self.kinds:
                self._settle_late(name, chunk)
            kind = self.kinds.get(name, Kind.NUMERIC)
            if kind is Kind.DROPPED:
                continue
            if kind is Kind.NUMERIC:
                read[name], misfits = cells.numbers(column, self.form)
            elif kind is Kind.DATE:
                read[name], misfits = cells.moments(column, self.dates[name])
            else:
                misfits = cells.not_categories(column)
            wrong += [(row, f"column {name!r} {reason}", False) for row, reason in misfits]
        return read, wrong

    def _settle_late(self, name: Hashable, chunk: Chunk) -> None:
        """Fix the kind of a column that the first records did not have by its first value, wherever chunks are cut."""
        row = next(
            (i for i, cell in enumerate(chunk.columns[name]) if cells.kind_of(cell, self.form) is not None), None
        )
        if row is not None:
            first = chunk.part(row, row + 1)
            self._settle(name, first.columns[name], [first])

    def _features(
        self, chunk: Chunk, read: dict[Hashable, Any], kept: Sequence[int], learn: bool = True
    ) -> tuple[list[Hashable], list[NDArray[np.float64]]]:
        """Names, and for each column the values, (kept, names), of the rows that stay."""
        names: list[Hashable] = []
        parts: list[NDArray[np.float64]] = []
        whole = len(kept) == len(chunk)
        for name, column in chunk.columns.items():
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
                chosen = [None if isinstance(column[i], BadCell | bytes) else column[i] for i in kept]
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

    def _apply_policy(self, chunk: Chunk, wrong: list[tuple[int, str, bool]]) -> list[int] | None:
        """The rows that stay, None for all, after errors were raised or counted as the rules say."""
        if not wrong:
            return None
        wrong.sort(key=lambda item: item[0])
        if self.rules.on_error == "stop":
            row, reason, whole = wrong[0]
            hint = (
                "" if whole else f"; {option('on_error', 'skip')} or {option('on_error', 'missing')} goes on without it"
            )
            raise BraidedError(f"{chunk.where(row)}: {reason}{hint}")
        lost = {row for row, _, whole in wrong if whole or self.rules.on_error == "skip"}
        for row, reason, _ in wrong:
            self.counts.add(f"{chunk.where(row)}: {reason}", values=int(row not in lost))
        self.counts.skipped_records += len(lost)
        return [row for row in range(len(chunk)) if row not in lost]

    def _room_check(self, chunk: Chunk, column: Hashable, kept: Sequence[int]) -> Callable[[int, str], None]:
        """Refuses a category that would be a feature too many."""

        def on_new(row: int, name: str) -> None:
            if len(name) > _LONGEST_NAME:
                raise BraidedError(
                    f"{chunk.where(kept[row])}: column {column!r} is {shown(name.partition('=')[2])}, too long for a "
                    f"category: give {option('text', [str(column)])} or {option('hashed', [str(column)])}, or leave "
                    f"the column out with {option('drop', [str(column)])}"
                )
            if self._n_settled() + len(self.categories) >= self.rules.max_features:
                raise BraidedError(
                    f"{chunk.where(kept[row])}: column {column!r} has a new value, and feature {shown(name)} would be "
                    f"number {self.rules.max_features + 1}, and max_features is {self.rules.max_features}: give "
                    f"{option('categories', 'hash')}, leave the column out with {option('drop', [str(column)])}, or "
                    f"raise {option('max_features')}"
                )

        return on_new

    def _n_settled(self) -> int:
        """Features of the columns whose number does not grow with the values."""
        widths = {Kind.NUMERIC: 1, Kind.TEXT: self.rules.text_features}
        n = sum(widths.get(kind, 0) for kind in self.kinds.values())
        return n + sum(len(form.names(name, self.rules.dates)) for name, form in self.dates.items())

    def state(self) -> dict[str, Any]:
        """What `load_state` and `from_state` take, as JSON can hold it; of columns with text names."""
        return {
            "rules": self.rules.state(),
            "target": self.target,
            "kinds": [[name, kind.value] for name, kind in self.kinds.items()],
            "categories": self.categories.state(),
            "dates": [[name, *astuple(form)] for name, form in self.dates.items()],
            "numbers": astuple(self.form),
            "found": [*self.counts.state(), None],
            "plan": None if self.counts.plan is None else self.counts.plan.document(),
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
        self.dates = {name: DateForm(*form) for name, *form in state.get("dates", ())}
        self.form = number_form(*state.get("numbers", ()))
        plan = state.get("plan")  # an earlier version had a line in words in its place
        self.counts.plan = None if plan is None else Plan.from_document(plan)
        *counts, _ = state["found"]
        self.counts.load_state(counts)
        self.kinds_known = True


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where flags are the same one after another: the first place and the one behind the last.

    >>> _runs(np.array([True, True, False, True]))
    [(0, 2), (2, 3), (3, 4)]
    """
    cuts = [0, *(np.flatnonzero(flags[1:] != flags[:-1]) + 1).tolist(), len(flags)]
    return [(start, stop) for start, stop in pairwise(cuts) if start < stop]


def _weight(cell: Any) -> float:
    """A weight that was read, 1 where there is none."""
    if is_missing(cell):
        return 1.0
    if isinstance(cell, bool) or not isinstance(cell, int | float) or not 0.0 <= cell < math.inf:
        raise BraidedError(f"the weight is {shown(cell)}: give a number from 0 on")
    return float(cell)


def _weights(chunk: Chunk, wrong: list[tuple[int, str, bool]]) -> NDArray[np.float64] | None:
    """The weights of a chunk's records; 1 for what is none, which is put to what does not fit."""
    if chunk.weights is None:
        return None
    weights = np.ones(len(chunk))
    for row, cell in enumerate(chunk.weights):
        try:
            weights[row] = _weight(_plain(cell))
        except BraidedError as error:
            wrong.append((row, str(error), False))
    return weights


def _joined(sample: Sequence[Chunk], name: Hashable) -> Cells:
    """The first cells of a column."""
    parts = [chunk.columns[name] for chunk in sample if name in chunk.columns]
    return parts[0] if len(parts) == 1 else [cell for part in parts for cell in part]


def _number(cell: Any) -> float | None:
    """A cell as a number whether it has a decimal point or comma: codes are taken away before the form is known."""
    return cells.as_number(cell.replace(",", ".", 1) if isinstance(cell, str) else cell)


def _plain(cell: Any) -> Any:
    """A cell without NumPy's types; None for one that its reader could not make sense of."""
    if isinstance(cell, BadCell):
        return None
    return cell.item() if isinstance(cell, np.generic) else cell


def without_codes(column: Any, codes: frozenset[str]) -> Any:
    """A column without the values that stand for missing ones, whether as they are spelled or as numbers."""
    known = {number for code in codes if (number := _number(code)) is not None and not math.isnan(number)}
    if not codes:
        return column
    if isinstance(column, np.ndarray):
        return np.where(np.isin(column, sorted(known)), np.nan, column)

    def is_code(cell: Any) -> bool:
        return (isinstance(cell, str) and cell.strip() in codes) or (bool(known) and _number(cell) in known)

    return [None if is_code(cell) else cell for cell in column]
