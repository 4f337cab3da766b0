"""`--predictions FILE`: every prediction as a row of a CSV, JSON lines or Parquet file, written as it goes."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from braided import extras, files
from braided.errors import BraidedError
from braided.files import remove_leftovers, temporary_beside
from braided.records import Predictions, Records
from braided.run.prediction_rows import ID, PredictionRows

_FORMATS = (".csv", ".jsonl", ".parquet")
#: Rows of a Parquet file that are made at a time.
_ROW_GROUP = 10_000
#: The longest field that may be read back: of what a C long holds on every system.
_MAX_FIELD = 2**31 - 1
#: Labels may hold what UTF-8 cannot: it is written as an escape.
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}


@dataclass(frozen=True)
class Written:
    """What a file of predictions holds: its rows, and the columns that not every row has, in their order.

    A CSV file that is not ended has no names for its columns: they are known from here alone.
    """

    rows: int = 0
    columns: tuple[str, ...] = ()


_NOTHING = Written()


class PredictionFile:
    """A file of predictions that can be cut back to where a checkpoint stands.

    Rows are kept in the file itself; those of a Parquet file, which can be read only when it is whole, in a file of
    JSON lines beside it until the end. A CSV file whose classes were not all known from its first row on gets its whole
    header, and empty fields in its first rows, at the end: to write it anew at every new class would take long.

    Parameters
    ----------
    path
        The file; its ending says what it is.
    several
        Whether rows are of several runs.

    """

    def __init__(self, path: Path, several: bool) -> None:
        if path.suffix not in _FORMATS:
            raise BraidedError(f"--predictions {path}: give a file that ends in {', '.join(_FORMATS)}")
        self.path = path
        #: Whether a prediction could not be written; a file says so by an error of the system.
        self.broken = False
        self._rows = 0
        self._parquet = path.suffix == ".parquet"
        if self._parquet:
            extras.require("pyarrow", "files")
        self._csv = path.suffix == ".csv"
        self._kept = path.with_name(f"{path.name}.part") if self._parquet else path
        self._made = PredictionRows(several)
        self._first = self._made.first
        self._in_header = 0
        self._file: IO[str] | None = None

    @property
    def written(self) -> Written:
        """What the file holds now."""
        return Written(self._rows, tuple(self._columns))

    def begin(self, kept: Written = _NOTHING) -> None:
        """Open the file with the first rows as they were; whatever came after them goes."""
        rows = kept.rows
        try:
            remove_leftovers(self.path)
            if rows:
                if self._parquet and not self._kept.exists():
                    self._unmake_parquet()
                self._cut(rows)
                self._columns = [*kept.columns, *self._columns[len(kept.columns) :]]
            self._file = self._kept.open("a" if rows else "w", **_TEXT)
        except OSError as error:
            raise BraidedError(f"--predictions {self.path}: {error.strerror or error}") from None
        self._rows = rows
        if self._csv and not rows:
            _csv_writer(self._file).writerow(self._first)

    @property
    def _columns(self) -> list[str]:
        return self._made.columns

    @_columns.setter
    def _columns(self, names: list[str]) -> None:
        self._made.columns = names

    def of_run(self, model: str, seed: int) -> None:
        """The rows that follow are of this run."""
        self._made.of_run(model, seed)

    def write(self, first: int, batch: Records, progress: Predictions, classes: Sequence[Hashable]) -> None:
        """Add the predictions of some records, from the number of the first one on."""
        assert self._file is not None
        out = io.StringIO()
        writer = _csv_writer(out)
        for fixed, more in self._made.of(first, batch, progress, classes):
            if self._csv:
                writer.writerow([*fixed, *(more.get(name, "") for name in self._columns)])
            else:
                out.write(json.dumps(self._made.document(fixed, more)) + "\n")
        self._file.write(out.getvalue())
        self._rows += len(batch)

    def give_up(self) -> None:
        """A disk is not waited for."""

    def sync(self) -> None:
        """Force what was written to disk."""
        if self._file is not None:
            self._file.flush()
            files.sync(self._file.fileno())

    def close(self, whole: bool = True) -> None:
        """Close the file; if it is to be `whole`, a CSV file gets its last columns, and a Parquet file is made."""
        if self._file is None:
            return
        self.sync()
        self._file.close()
        self._file = None
        if not whole:
            return
        if self._parquet:
            self._make_parquet()
            self._kept.unlink()
        elif self._csv and len(self._columns) > self._in_header:
            self._fill_csv()

    def _fill_csv(self) -> None:
        """Write the whole header, and empty fields at the end of rows from before a class was known."""
        fresh = temporary_beside(self.path)
        with self.path.open(**_TEXT) as old, fresh.open("w", **_TEXT) as new:
            writer = _csv_writer(new)
            writer.writerow([*self._first, *self._columns])
            width = len(self._first) + len(self._columns)
            rows = _csv_rows(old)
            next(rows)
            for row, _ in rows:
                writer.writerow([*row, *[""] * (width - len(row))])
            new.flush()
            files.sync(new.fileno())
        os.replace(fresh, self.path)
        self._in_header = len(self._columns)

    def _cut(self, rows: int) -> None:
        """Leave the first rows alone. A checkpoint is written after the rows it counts are on disk."""
        try:
            end = self._end_of(rows)
        except (ValueError, StopIteration):
            end = None
        if end is None:
            raise BraidedError(
                f"--predictions {self.path} is not the file that the run was writing, or has fewer than the {rows} "
                "rows that the checkpoint counts: give that file, or start without --resume"
            )
        os.truncate(self._kept, end)

    def _end_of(self, rows: int) -> int | None:
        """Where row number `rows` ends, in bytes; None if there are not so many. Finds the columns on the way."""
        with self._kept.open(**{**_TEXT, "errors": "strict"}) as old:
            if not self._csv:
                place = 0
                for number, line in enumerate(old, start=1):
                    known = json.loads(line)
                    if list(known)[: len(self._first)] != self._first:
                        return None
                    self._columns += [name for name in known if name not in (*self._first, *self._columns)]
                    place += len(line.encode())
                    if number == rows:
                        return place
                return None
            places = _csv_rows(old)
            header, _ = next(places)
            if header[: len(self._first)] != self._first:
                return None
            self._columns = header[len(self._first) :]
            self._in_header = len(self._columns)
            for number, (_, place) in enumerate(places, start=1):
                if number == rows:
                    return place
        return None

    def _unmake_parquet(self) -> None:
        """Give back the JSON lines of a file that was ended: a followed stream may go on."""
        table = extras.require("pyarrow.parquet", "files").read_table(self.path)
        with self._kept.open("w", **_TEXT) as lines:
            for row in table.to_pylist():
                there = {name: value for name, value in row.items() if name in self._first or value is not None}
                lines.write(json.dumps(there) + "\n")

    def _make_parquet(self) -> None:
        arrow, parquet = extras.require("pyarrow", "files"), extras.require("pyarrow.parquet", "files")
        labels: set[str] = {"none"}
        ids: set[str] = {"none"}
        with self._kept.open(**_TEXT) as lines:
            for row in map(json.loads, lines):
                labels |= {_kind(row["label"]), _kind(row["prediction"])}
                ids.add(_kind(row.get(ID)))
        kinds = {"model": arrow.string(), "seed": arrow.int64(), "record": arrow.int64()}
        kinds |= {"label": _column_type(arrow, labels), "prediction": _column_type(arrow, labels)}
        kinds |= {ID: _column_type(arrow, ids)}
        schema = arrow.schema(
            [(name, kinds[name]) for name in self._first]
            + [(_encodable(name), kinds.get(name, arrow.float64())) for name in self._columns]
        )
        fresh = temporary_beside(self.path)
        with self._kept.open(**_TEXT) as lines, parquet.ParquetWriter(fresh, schema) as writer:
            while chunk := [json.loads(line) for line in islice(lines, _ROW_GROUP)]:
                columns = [
                    [_encodable(row.get(name)) if kind == arrow.string() else row.get(name) for row in chunk]
                    for name, kind in zip([*self._first, *self._columns], schema.types, strict=True)
                ]
                arrays = [arrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
        os.replace(fresh, self.path)


def _csv_writer(file: IO[str]) -> Any:
    # With this line end, and not with a bare \n, a lone \r in a label is quoted.
    return csv.writer(file, lineterminator="\r\n")


def _kind(value: Any) -> str:
    """What a column of Parquet needs to hold a label; an integer beyond 64 bits has to be text."""
    if value is None:
        return "none"
    if isinstance(value, bool) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return "text"
    return type(value).__name__


def _column_type(arrow: Any, kinds: set[str]) -> Any:
    """The type of a column of Parquet with values of these kinds."""
    found = kinds - {"none"}
    return arrow.int64() if found == {"int"} else arrow.float64() if found <= {"int", "float"} else arrow.string()


def _encodable(value: Any) -> Any:
    """Text that UTF-8 can hold, of any value that is there."""
    return None if value is None else str(value).encode(errors="backslashreplace").decode()


def _csv_rows(file: IO[str]) -> Iterator[tuple[list[str], int]]:
    """Each whole row of a CSV file, which may be of several lines, and where it ends, in bytes."""
    place = 0

    def counted() -> Iterator[str]:
        nonlocal place
        for line in file:
            place += len(line.encode())
            yield line

    limit = csv.field_size_limit(_MAX_FIELD)  # a label may be long
    try:
        for row in csv.reader(counted()):
            yield row, place
    finally:
        csv.field_size_limit(limit)
