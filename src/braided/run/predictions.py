"""`--predictions FILE`: every prediction as a row of a CSV, JSON lines or Parquet file, written as it goes.

The columns are the record's number, its label if it has one, the prediction, and for each class its probability; where
a command runs several models or seeds, the model and the seed come first. A probability is left out where it is 0,
as that of a class that was not known yet.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from braided import extras
from braided.errors import BraidedError
from braided.estimators.base import Progress
from braided.streams import Batch

FORMATS = (".csv", ".jsonl", ".parquet")
_FIRST = ("record", "label", "prediction")
_RUN = ("model", "seed")


def column_of(label: Hashable) -> str:
    """The column of a class's probability."""
    return f"p_{label}"


class PredictionFile:
    """A file of predictions that can be cut back to where a checkpoint stands.

    Rows are kept in the file itself; those of a Parquet file, which can be read only when it is whole, in a file of
    JSON lines beside it until the end.

    Parameters
    ----------
    path
        The file; its ending says what it is.
    several
        Whether rows are of several runs.
    """

    def __init__(self, path: Path, several: bool) -> None:
        if path.suffix not in FORMATS:
            raise BraidedError(f"--predictions {path}: give a file that ends in {', '.join(FORMATS)}")
        self.path = path
        self.rows = 0
        self._parquet = path.suffix == ".parquet"
        if self._parquet:
            extras.require("pyarrow", "files")
        self._csv = path.suffix == ".csv"
        self._kept = path.with_name(f"{path.name}.part") if self._parquet else path
        self._first = [*(_RUN if several else ()), *_FIRST]
        self._columns: list[str] = []
        self._file: IO[str] | None = None
        self._run: list[Any] = []

    def begin(self, rows: int = 0) -> None:
        """Open the file, with its first `rows` rows as they were; whatever came after them goes."""
        try:
            if rows:
                self._cut(rows)
            self._file = self._kept.open("a" if rows else "w", encoding="utf-8", newline="")
        except OSError as error:
            raise BraidedError(f"--predictions {self.path}: {error.strerror or error}") from None
        self.rows = rows
        if self._csv and not rows:
            csv.writer(self._file, lineterminator="\n").writerow(self._first)

    def of_run(self, model: str, seed: int) -> None:
        """The rows that follow are of this run."""
        self._run = [model, seed] if len(self._first) > len(_FIRST) else []

    def write(self, first: int, batch: Batch, progress: Progress, classes: Sequence[Hashable]) -> None:
        """Add the predictions of some records, from the number of the first one on."""
        assert self._file is not None
        regression = not classes and progress.predictions.shape[1] == 1
        names = [] if regression else [column_of(label) for label in classes[: progress.predictions.shape[1]]]
        if any(name not in self._columns for name in names):
            self._widen([*self._columns, *(name for name in names if name not in self._columns)])
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for t, (label, row) in enumerate(zip(batch.labels, progress.predictions.tolist(), strict=True)):
            if regression:
                said: Any = row[0]
            else:
                best = max(range(len(row)), key=row.__getitem__, default=None)
                said = None if best is None or row[best] == 0.0 else classes[best]
            fixed = [*self._run, first + t, label, said]
            shares = {name: share for name, share in zip(names, row, strict=True) if share} if names else {}
            if self._csv:
                writer.writerow([*fixed, *(repr(shares[name]) if name in shares else "" for name in self._columns)])
            else:
                document = {**dict(zip(self._first, map(_plain, fixed), strict=True)), **shares}
                out.write(json.dumps(document) + "\n")
        self._file.write(out.getvalue())
        self.rows += len(batch)

    def _widen(self, columns: list[str]) -> None:
        """Give a CSV file columns for new classes: its rows so far are written anew, with empty fields at their end."""
        added = len(columns) - len(self._columns)
        self._columns = columns
        if not self._csv or self._file is None:
            return
        self._file.close()
        fresh = self.path.with_name(f".{self.path.name}.tmp")
        with self.path.open(encoding="utf-8", newline="") as old, fresh.open("w", encoding="utf-8", newline="") as new:
            writer = csv.writer(new, lineterminator="\n")
            rows = csv.reader(old)
            next(rows)
            writer.writerow([*self._first, *columns])
            for row in rows:
                writer.writerow([*row, *[""] * added])
            new.flush()
            os.fsync(new.fileno())
        os.replace(fresh, self.path)
        self._file = self.path.open("a", encoding="utf-8", newline="")

    def _cut(self, rows: int) -> None:
        """Keep the first rows, remove the others. A checkpoint is written after the rows it counts are on disk."""
        with self._kept.open(encoding="utf-8", newline="") as old:
            places = _ends_of_csv(old) if self._csv else _ends_of_lines(old)
            header = next(places) if self._csv else ([], 0)
            self._columns = [name for name in header[0] if name not in self._first]
            end = None
            for number, (fields, place) in enumerate(places, start=1):
                if not self._csv:
                    known = json.loads(fields[0])
                    self._columns += [name for name in known if name not in (*self._first, *self._columns)]
                if number == rows:
                    end = place
                    break
        if end is None:
            raise BraidedError(
                f"--predictions {self.path} has fewer rows than the checkpoint counts, {rows}: give the file that the "
                "run was writing, or start without --resume"
            )
        os.truncate(self._kept, end)

    def sync(self) -> None:
        """Force what was written to disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """End the file; a Parquet file is made now."""
        if self._file is None:
            return
        self.sync()
        self._file.close()
        self._file = None
        if self._parquet:
            self._make_parquet()
            self._kept.unlink()

    def _make_parquet(self) -> None:
        arrow, parquet = extras.require("pyarrow", "files"), extras.require("pyarrow.parquet", "files")
        with self._kept.open(encoding="utf-8") as lines:
            rows = (json.loads(line) for line in lines)
            types = {type(row[name]) for row in rows for name in ("label", "prediction")} - {type(None)}
        labels = arrow.int64() if types == {int} else arrow.float64() if types <= {int, float} else arrow.string()
        kinds = {"model": arrow.string(), "seed": arrow.int64(), "record": arrow.int64()}
        kinds |= {"label": labels, "prediction": labels}
        schema = arrow.schema(
            [(name, kinds[name]) for name in self._first] + [(name, arrow.float64()) for name in self._columns]
        )
        fresh = self.path.with_name(f".{self.path.name}.tmp")
        with self._kept.open(encoding="utf-8") as lines, parquet.ParquetWriter(fresh, schema) as writer:
            while chunk := [json.loads(line) for line, _ in zip(lines, range(10_000), strict=False)]:
                columns = {
                    name: [_fitted(row.get(name), schema.field(name).type, arrow) for row in chunk]
                    for name in schema.names
                }
                writer.write_table(arrow.table(columns, schema=schema))
        os.replace(fresh, self.path)


def _plain(value: Any) -> Any:
    """A label as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _fitted(value: Any, kind: Any, arrow: Any) -> Any:
    return str(value) if value is not None and kind == arrow.string() else value


def _ends_of_lines(file: IO[str]) -> Iterator[tuple[list[str], int]]:
    """Each whole line, and where it ends in the file, in bytes."""
    place = 0
    for line in file:
        if not line.endswith("\n"):
            return
        place += len(line.encode())
        yield [line], place


def _ends_of_csv(file: IO[str]) -> Iterator[tuple[list[str], int]]:
    """Each whole row of a CSV file, which may be of several lines, and where it ends, in bytes."""
    place = 0

    def counted() -> Iterator[str]:
        nonlocal place
        for line in file:
            if not line.endswith("\n"):
                return
            place += len(line.encode())
            yield line

    for row in csv.reader(counted()):
        yield row, place
