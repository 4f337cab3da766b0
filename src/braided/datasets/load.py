"""The paper's data sets by name, read correctly from their official files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from braided.datasets.images import CifarStream, IdxStream
from braided.datasets.imnist import DeformedDigits
from braided.datasets.locate import Located, locate
from braided.datasets.protocol import PAPER_SETTINGS
from braided.errors import BraidedError
from braided.streams import text
from braided.streams.base import BATCH, ArrayStream, Batch, Stream, read_whole
from braided.streams.readers.csv import CSVStream
from braided.streams.readers.libsvm import LibsvmStream


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


@dataclass(frozen=True)
class Joined:
    """Streams one after the other."""

    name: str
    parts: tuple[Stream, ...]
    n_records: int | None = None

    def batches(self) -> Iterator[Batch]:
        """The records of each part in turn."""
        for part in self.parts:
            yield from part.batches()


def _read(located: Located) -> Stream:
    """A data set's records in the file's order, with the features that the paper uses."""
    name, paths = located.dataset.name, located.paths
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
    return Joined(name, tuple(LibsvmStream(path, n_features) for path in paths))


def load(name: str, data_dir: Path | None) -> Stream:
    """A data set of the paper, with the features that the paper uses."""
    located = locate(name, data_dir)
    stream = _read(located)
    return ArrayStream(name, read_whole(stream).table) if located.dataset.shuffle else stream
