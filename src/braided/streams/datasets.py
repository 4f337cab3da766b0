"""The paper's data sets by name, read correctly from their official files, and the bundled default."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.presets import PAPER_SETTINGS
from braided.streams import text
from braided.streams.base import BATCH, ArrayStream, Batch, Stream, read_whole
from braided.streams.csv_stream import CSVStream
from braided.streams.libsvm_stream import LibsvmStream


@dataclass(frozen=True)
class WhitespaceStream:
    """Numbers between white space, the label last, no header (the format of `german.data-numeric`)."""

    path: Path
    n_features: int
    n_records: int | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def batches(self) -> Iterator[Batch]:
        """The records, split at any run of white space."""
        names = tuple(str(i) for i in range(self.n_features))
        rows: list[list[float]] = []
        labels: list[Any] = []
        for count, line in enumerate(text.lines(self.path), start=1):
            fields = line.split()
            if not fields:
                continue
            where = f"{self.path}:{count}"
            if len(fields) != self.n_features + 1:
                raise BraidedError(
                    f"{where}: {len(fields)} fields where {self.n_features + 1} are expected: mend the line"
                )
            rows.append([text.number(field, where, name) for field, name in zip(fields[:-1], names, strict=True)])
            labels.append(text.label(fields[-1], where))
            if len(rows) == BATCH:
                yield Batch(names, np.array(rows), labels)
                rows, labels = [], []
        if rows:
            yield Batch(names, np.array(rows), labels)


@dataclass(frozen=True)
class Source:
    """Where a data set's file is looked for and how it is read.

    Attributes
    ----------
    files
        Names under `<data dir>/<data set>/`, the first that exists is taken.
    origin
        Where to get it.
    read
        From the path and the number of features to the stream.
    shuffle
        Whether the paper shuffles it by seed (it then is held in memory) or keeps the file's order.
    """

    files: tuple[str, ...]
    origin: str
    read: Callable[[Path, int], Stream]
    shuffle: bool


def _last_column(path: Path, n_features: int) -> Stream:
    return CSVStream(path, target=str(n_features))


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

    def batches(self) -> Iterator[Batch]:
        """The CSV's records, the first column as label."""
        first, _, _ = CSVStream(self.path).columns()
        yield from CSVStream(self.path, target=first[0], n_features=self.n_features).batches()


_UCI = "the UCI repository, https://archive.ics.uci.edu/dataset/"
_LIBSVM = "the LIBSVM data page, https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"

SOURCES: dict[str, Source] = {
    "german": Source(("german.data-numeric",), f"{_UCI}144 (Statlog German Credit)", WhitespaceStream, True),
    "svmguide3": Source(("svmguide3.txt", "svmguide3"), f"{_LIBSVM} (svmguide3)", LibsvmStream, True),
    "magic04": Source(("magic04.data",), f"{_UCI}159 (MAGIC Gamma Telescope)", _last_column, True),
    "a8a": Source(("a8a.txt", "a8a"), f"{_LIBSVM} (a8a)", LibsvmStream, True),
    "higgs": Source(("HIGGS.csv.gz", "HIGGS.csv", "higgs_10k.csv.gz"), f"{_UCI}280 (HIGGS)", LabelFirstStream, False),
    "susy": Source(("SUSY.csv.gz", "SUSY.csv", "susy_10k.csv.gz"), f"{_UCI}279 (SUSY)", LabelFirstStream, False),
}


def find(name: str, data_dir: Path | None) -> Path:
    """The file of a data set under `data_dir`, else under $BRAIDED_DATA."""
    source = SOURCES[name]
    folder = data_dir or (Path(os.environ["BRAIDED_DATA"]) if os.environ.get("BRAIDED_DATA") else None)
    if folder is None:
        raise BraidedError(
            f"data set {name!r}: no folder to look in. Get {source.files[0]} from {source.origin}, put it into "
            f"DIR/{name}/, and give --data-dir DIR or set BRAIDED_DATA"
        )
    for file in source.files:
        if (folder / name / file).is_file():
            return folder / name / file
    raise BraidedError(
        f"data set {name!r}: {folder / name} holds none of {', '.join(source.files)}. Get {source.files[0]} from "
        f"{source.origin} and put it there"
    )


def load(name: str, data_dir: Path | None) -> Stream:
    """A data set of the paper, with the features that the paper uses."""
    source = SOURCES[name]
    stream = source.read(find(name, data_dir), PAPER_SETTINGS[name].n_features)
    return ArrayStream(name, read_whole(stream).table) if source.shuffle else stream


def shuttle() -> ArrayStream:
    """River's bundled Shuttle data: 9 sensors of a space shuttle, 49,097 records, 7% anomalies."""
    from river.datasets import Shuttle  # half a second to import, and only needed here

    records = list(Shuttle())
    names = tuple(records[0][0])
    values = np.array([[float(x[name]) for name in names] for x, _ in records])
    return ArrayStream("shuttle", Batch(names, values, [int(y) for _, y in records]))


def is_sample(name: str, data_dir: Path | None) -> bool:
    """Whether the file that is found holds only a part of the data set."""
    return "_10k" in find(name, data_dir).name
