"""What the columns of a stream are: settled by the first records, or by a later column's first value, and told."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode import cells, first_look
from braided.encode.cells import Cells, Kind
from braided.encode.chunk import CHUNK_RECORDS, Chunk
from braided.encode.dates import form_of
from braided.encode.number_form import recognised
from braided.encode.plan import ColumnPlan, Plan
from braided.encode.settled import Settled
from braided.encode.units import Unit, unit_of, without_unit
from braided.encode.weights import learned, runs
from braided.errors import BraidedError
from braided.records import Records
from braided.values import shown


class ColumnKinds(Settled):
    """Settles what each column is."""

    def _decide_kinds(self, held: list[Chunk | Records]) -> None:
        """Decide the kinds of the columns from the first records and announce them."""
        sample: list[Chunk] = []
        parts: list[Chunk | Records] = []
        numeric: dict[Hashable, list[NDArray[np.float64]]] = {}
        labels: dict[Any, None] = {}
        left = CHUNK_RECORDS
        for piece in held:
            part = piece.part(0, left)
            parts.append(part)
            if isinstance(part, Chunk):
                kept = learned(part, self.rules.weight)
                sample += [part] if kept is None else [part.part(*run) for run in runs(kept) if kept[run[0]]]
            else:
                labels |= dict.fromkeys(part.known_targets)
                for i, name in enumerate(part.names):
                    numeric.setdefault(name, []).append(part.values[:, i])
            left -= min(left, len(piece))
        columns, units = self._bare(sample)
        self._recognise(sample)
        why: dict[Hashable, str] = {}
        unclear: list[BraidedError] = []
        for name, column in columns.items():
            try:
                why[name] = self._settle(name, column, sample)
                if name in units and self.kinds.get(name) is Kind.NUMERIC:
                    self.units[name] = units[name]
                    self._note("unit", name, *units[name])
            except BraidedError as error:  # the plan of the other columns is of use all the same
                why[name] = str(error)
                unclear.append(error)
        self.kinds_known = True
        labels |= dict.fromkeys(self._sample_labels(sample))
        joined = {name: np.concatenate(values) for name, values in numeric.items() if name not in columns}
        self._announce(parts, {**columns, **joined}, set(joined), why, len(labels))
        if unclear:
            raise unclear[0]

    def _recognise(self, sample: list[Chunk]) -> None:
        """See how numbers are spelled."""
        if self.rules.recognise:
            spelled_labels = [cell for chunk in sample if chunk.spelled for cell in chunk.labels]
            bare_labels = without_unit(spelled_labels, unit_of(spelled_labels))
            spelled = first_look.words_of_numbers([*self._bare(sample)[0].values(), bare_labels])
            self.form = recognised(spelled, self.found.get("delimiter"), self.rules.decimal, self.rules.thousands)

    def _bare(self, sample: list[Chunk]) -> tuple[dict[Hashable, Cells], dict[Hashable, Unit]]:
        """The columns of the first records without units, and the units of those that have one."""
        columns: dict[Hashable, Cells] = {}
        units: dict[Hashable, Unit] = {}
        for name in dict.fromkeys(name for chunk in sample for name in chunk.columns):
            column = _joined(sample, name)
            unit = unit_of(column, least=1) if str(name) in self.rules.unit else None
            if unit is not None:
                units[name] = unit
            columns[name] = without_unit(column, unit)
        return columns, units

    def _sample_labels(self, sample: list[Chunk]) -> Iterator[Any]:
        for chunk in sample:
            for cell in chunk.labels:
                with suppress(BraidedError):  # what is wrong with it is said when its record is read
                    yield cells.as_label(cell, chunk.spelled, self.form)

    def _settle(self, name: Hashable, column: Cells, sample: Sequence[Chunk]) -> str:
        """Fix the kind of a column by its first cells; why it is dropped, if it is."""
        kind = self.kinds.get(name)
        why = ""
        said = (*self.rules.text, *self.rules.hashed, *self.rules.category)
        if kind is None or name in said:
            kind = self._kind_of(name, column)
        if kind is Kind.DATE and self.rules.dates == "drop":
            kind, why = Kind.DROPPED, "dates, and `dates='drop'`"
        plain = self.rules.categories == "onehot" and name not in (*said, *self._declared)
        if kind is Kind.CATEGORICAL and plain and self.rules.recognise and first_look.is_identifier(column):
            kind, why = Kind.DROPPED, first_look.why_dropped(name, column, self.form)
        if kind is not None:
            self._fix_kind(name, kind, sample)
        return why

    def _settle_late(self, name: Hashable, chunk: Chunk) -> None:
        """Fix the kind of a column that the first records did not have by its first value, wherever chunks are cut."""
        column = chunk.columns[name]
        row = next((i for i, cell in enumerate(column) if cells.kind_of(cell, self.form) is not None), None)
        if row is not None:
            # Of this column alone: one record may bring thousands, and each would cut all others.
            first = replace(chunk, columns={name: column}).part(row, row + 1)
            self._settle(name, first.columns[name], [first])

    def _kind_of(self, name: Hashable, column: Cells) -> Kind | None:
        """What a column is: as a user says, else as its values look."""
        if name in self.rules.text:
            return Kind.TEXT
        kind = cells.kind_of_column(column, self.form)
        said = name in (*self.rules.hashed, *self.rules.category)
        return Kind.CATEGORICAL if kind is not None and said else kind

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
                    f"categories as numbers first, or give `categories='onehot'` or "
                    f"`categories='hash'`"
                )
            try:
                column = [cell for chunk in chunks for cell in chunk.columns.get(name, ())]
                self.dates[name] = form_of(column, self.rules.day_first)
                self._note("date", name, *astuple(self.dates[name]))
            except BraidedError as error:
                raise BraidedError(
                    f"{where}: column {name!r} {error}; `category={[str(name)]!r}` if these are no dates, "
                    f"`drop={[str(name)]!r}` leaves the column out"
                ) from None
        self.kinds[name] = kind
        self._note("kind", name, kind.value)

    def _announce(
        self,
        parts: Sequence[Chunk | Records],
        columns: Mapping[Hashable, Cells],
        numeric: set[Hashable],
        why: dict[Hashable, str],
        n_classes: int,
    ) -> None:
        """Make the plan of the first records and tell it, once for all passes over the stream."""
        plans = [
            first_look.plan_of(
                name,
                column,
                Kind.NUMERIC if name in numeric else self.kinds.get(name),
                self.form,
                self.dates.get(name),
                self.rules,
                f"in {self.units[name]}" if name in self.units else why.get(name, ""),
                name in self._declared,
            )
            for name, column in columns.items()
        ]
        if "header" in self.found:  # words of the header are among the values, and look odd there
            plans = [replace(plan, hint="") for plan in plans]
        if self.rules.unlabelled and "id" not in self.found:
            plans = first_look.with_id_hint(plans, parts)
        plans += first_look.key_and_id(parts, self.rules.key, self.found.get("id"))
        text = any(not isinstance(column, np.ndarray) for column in columns.values())
        plan = Plan(
            records=sum(map(len, parts)),
            target=None if self.target is None else str(self.target),
            target_values=n_classes,
            encoding=self.found.get("encoding"),
            delimiter=self.found.get("delimiter"),
            decimal=self.form.decimal if text else None,
            thousands=self.form.thousands if text else None,
            notes=tuple(first_look.settings_notes(self.form, self.found, self.rules)),
            columns=(*plans, *(ColumnPlan(name, "dropped", note="`drop`") for name in self.rules.drop)),
        )
        if self.counts.plan is None:
            for line in plan.lines():
                self.rules.say(line)
        self.counts.plan = plan


def _joined(sample: Sequence[Chunk], name: Hashable) -> Cells:
    """The first cells of a column."""
    parts = [chunk.columns[name] for chunk in sample if name in chunk.columns]
    return parts[0] if len(parts) == 1 else [cell for part in parts for cell in part]
