"""The data sets that have a name, read correctly from their official files."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path

from braided.datasets import haphazard_files
from braided.datasets.images import CifarStream, IdxStream
from braided.datasets.imnist import DeformedDigits
from braided.datasets.locate import Located, locate
from braided.datasets.protocol import PAPER_SETTINGS
from braided.encode.cells import Cells
from braided.encode.chunk import BadRecord, Chunk, Piece, in_chunks
from braided.encode.encoder import Encoder
from braided.records import Labels, Records
from braided.streams import text_files
from braided.streams.base import ArrayStream, Stream, read_whole
from braided.streams.readers.base import FileStream
from braided.streams.readers.csv import CSVStream
from braided.streams.readers.libsvm import LibsvmStream


@dataclass(frozen=True)
class WhitespaceStream(FileStream):
    """Numbers between white space, the label last, no header (the format of `german.data-numeric`)."""

    n_features: int

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The records, split at any run of white space."""

        def chunk(places: list[int], rows: list[list[str]]) -> Chunk:
            *columns, labels = zip(*rows, strict=True)
            named: dict[Hashable, Cells] = {str(i): cells for i, cells in enumerate(columns)}
            return Chunk(str(self.path), places, named, labels, spelled=True)

        yield from in_chunks(self._rows(), chunk)

    def _rows(self) -> Iterator[tuple[int, list[str]] | BadRecord]:
        for count, line in enumerate(text_files.lines(self.path), start=1):
            fields = line.split()
            if len(fields) == self.n_features + 1:
                yield count, fields
            elif fields:
                reason = f"{len(fields)} fields where {self.n_features + 1} are expected: mend the line"
                yield BadRecord(f"{self.path}:{count}", reason)


@dataclass(frozen=True)
class LabelFirstStream:
    """The official HIGGS and SUSY files (no header, label first) and samples of them with a header."""

    path: Path
    n_features: int
    n_records: int | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def batches(self) -> Iterator[Records | Labels]:
        """The CSV's records, the first column as label."""
        first = CSVStream(self.path).columns()[0]
        yield from CSVStream(self.path, target=first, n_features=self.n_features).batches()


@dataclass(frozen=True)
class _JoinedStream:
    """Streams one after the other."""

    name: str
    parts: tuple[Stream, ...]
    n_records: int | None = None

    def batches(self) -> Iterator[Records | Labels]:
        """The records of each part in turn."""
        for part in self.parts:
            yield from part.batches()


def _read(located: Located) -> Stream:
    """A data set's records in the file's order, with the features that its publication uses."""
    name, paths = located.dataset.name, located.paths
    if name in haphazard_files.LAYOUTS:
        return haphazard_files.read(name, paths, located.dataset.features)
    n_features = PAPER_SETTINGS[name].n_features
    if name in {"mnist", "imnist"}:
        digits = IdxStream("mnist", *paths)
        return digits if name == "mnist" else DeformedDigits(digits, located.dataset.records)
    if name == "cifar10":
        return CifarStream(paths)
    if name in {"higgs", "susy"}:
        # An unpacked file may have been cut to the part that is wanted.
        n_records = located.form.files[0].records if paths[0].suffix == ".gz" else None
        return LabelFirstStream(paths[0], n_features, n_records)
    if name == "magic04":
        return CSVStream(paths[0], target=str(n_features))
    if name == "german":
        return WhitespaceStream(paths[0], n_features)
    return _JoinedStream(name, tuple(LibsvmStream(path, n_features) for path in paths))


def load(name: str, data_dir: Path | None) -> Stream:
    """A data set that has a name, with the features that its publication uses."""
    located = locate(name, data_dir)
    stream = _read(located)
    return ArrayStream(name, read_whole(stream).table) if located.dataset.shuffle else stream
