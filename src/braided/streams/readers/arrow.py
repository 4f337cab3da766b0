"""Parquet, Arrow and Feather files, read in batches by pyarrow; nulls are missing."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from braided.encode.cells import Cells, Kind
from braided.encode.chunk import CHUNK_RECORDS, Chunk, Piece
from braided.encode.encoder import Encoder
from braided.errors import BraidedError
from braided.extras import require
from braided.streams import text_files
from braided.streams.readers.base import FileStream, target_place
from braided.streams.readers.mappings import unnested

#: What files begin with that are read here, and the first version of Feather.
MAGIC = (b"PAR1", b"ARROW1", b"FEA1")
#: Rows that pyarrow decodes at a time.
_ROWS = 20 * CHUNK_RECORDS


@dataclass(frozen=True)
class ArrowStream(FileStream):
    """Records from a Parquet file, or from an Arrow one (Feather, or the stream format).

    Attributes
    ----------
    path
        The file.
    target
        Name of the label's column. None: a column called target, label, class or y, else the last one.
    """

    target: str | None = None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any]]]:
        """The file's schema and its record batches."""
        arrow = require("pyarrow", "files")
        try:
            magic = text_files.beginning(self.path, 6)
            if magic[:4] == b"PAR1":
                parquet = require("pyarrow.parquet", "files")
                with parquet.ParquetFile(self.path, pre_buffer=False) as table:
                    yield table.schema_arrow, table.iter_batches(_ROWS, use_threads=False)
            elif magic == b"ARROW1":
                with arrow.memory_map(str(self.path)) as source, arrow.ipc.open_file(source) as table:
                    yield table.schema, (table.get_batch(i) for i in range(table.num_record_batches))
            elif magic[:4] == b"FEA1":
                raise BraidedError(f"{self.path}: is Feather version 1: write it again as version 2")
            else:
                with self.path.open("rb") as source, arrow.ipc.open_stream(source) as table:
                    yield table.schema, iter(table)
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
            raise BraidedError(f"{self.path}: cannot be read as Parquet or Arrow: {reason}") from None

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The records."""
        arrow = require("pyarrow", "files")
        with self._opened() as (schema, batches):
            if len(schema.names) < 2:
                raise BraidedError(f"{self.path}: {len(schema.names)} columns: give a target and a feature at least")
            place = target_place(schema.names, self.target, str(self.path), self.rules)
            encoder.target = schema.names[place]
            for name, kind in zip(schema.names, schema.types, strict=True):
                if arrow.types.is_dictionary(kind):
                    encoder.declare(name, Kind.CATEGORICAL)
                if arrow.types.is_interval(kind) and name not in {*self.rules.drop, schema.names[place]}:
                    raise BraidedError(
                        f"{self.path}: column {name!r} is of type {kind}: leave it out with `drop={[name]!r}`"
                    )
                if arrow.types.is_temporal(kind):
                    encoder.declare(name, Kind.DATE)
            before = 0
            for batch in batches:
                batch.validate(full=True)  # a damaged file can hold lengths that lead out of it
                for start in range(0, batch.num_rows, CHUNK_RECORDS):
                    part = batch.slice(start, CHUNK_RECORDS)
                    labels = part.column(place).to_pylist()
                    columns: dict[Hashable, Cells] = {
                        name: _cells(part.column(i), arrow)
                        for i, name in enumerate(schema.names)
                        if i != place and name not in self.rules.drop
                    }
                    rows = range(before + 1, before + 1 + part.num_rows)
                    yield Chunk(str(self.path), rows, unnested(columns), labels, by_row=True, table=True)
                    before += part.num_rows


def _cells(column: Any, arrow: Any) -> Cells:
    """A column's cells: numbers as an array with NaN for null, anything else as Python has it."""
    kind, types = column.type, arrow.types
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        values: Cells = column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        return values
    if types.is_timestamp(kind) or types.is_duration(kind):  # what is finer, Python's dates cannot hold
        make = arrow.timestamp if types.is_timestamp(kind) else arrow.duration
        column = column.cast(make("us", kind.tz) if types.is_timestamp(kind) else make("us"), safe=False)
    elif types.is_time64(kind):
        column = column.cast(arrow.time64("us"), safe=False)
    cells: list[Any] = column.to_pylist()
    return cells
