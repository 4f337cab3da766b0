"""The paper's data sets by name, read correctly from their official files, and the bundled default."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.presets import PAPER_SETTINGS
from braided.streams import text
from braided.streams.base import BATCH, ArrayStream, Batch, Stream, read_whole
from braided.streams.catalogue import CATALOGUE, Dataset, Form
from braided.streams.images import CifarStream, IdxStream
from braided.streams.imnist import DeformedDigits
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


@dataclass(frozen=True)
class Located:
    """A data set on this machine.

    Attributes
    ----------
    dataset, form
        What it is, and in which of its forms.
    paths
        The form's files.
    """

    dataset: Dataset
    form: Form
    paths: tuple[Path, ...]

    @property
    def sample(self) -> bool:
        """Whether this is only a part of the data set."""
        return self.form.sample


#: The data sets by name.
SOURCES: dict[str, Dataset] = CATALOGUE


def cache_folder() -> Path:
    """The folder that `braided datasets fetch` fills and every command looks in last."""
    import pooch

    return Path(pooch.os_cache("braided"))


def folders(data_dir: Path | None) -> list[Path]:
    """Where data sets are looked for: `data_dir`, or without it $BRAIDED_DATA, then the cache."""
    given = data_dir or (Path(os.environ["BRAIDED_DATA"]) if os.environ.get("BRAIDED_DATA") else None)
    return [*([given] if given else []), cache_folder()]


def search(name: str, data_dir: Path | None) -> Located | None:
    """A data set on this machine, a full one anywhere before a sample, or None."""
    dataset = SOURCES[name]
    for sample in (False, True):
        for folder in folders(data_dir):
            for form in dataset.forms:
                paths = tuple(folder / dataset.folder / file.name for file in form.files)
                if form.sample == sample and all(path.is_file() for path in paths):
                    return Located(dataset, form, paths)
    return None


def locate(name: str, data_dir: Path | None) -> Located:
    """A data set on this machine; one that is not here is an error that says how to get it."""
    located = search(name, data_dir)
    if located is None:
        dataset = SOURCES[name]
        files = " and ".join(file.name for file in dataset.download.files)
        places = " nor ".join(str(folder / dataset.folder) for folder in folders(data_dir))
        raise BraidedError(
            f"data set {name!r} is not in {places}: run `braided datasets fetch {name}`. Or: Get {files} from "
            f"{dataset.origin}, put it into DIR/{dataset.folder}/, and give --data-dir DIR or set BRAIDED_DATA"
        )
    return located


def find(name: str, data_dir: Path | None) -> Path:
    """The first file of a data set."""
    return locate(name, data_dir).paths[0]


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


def shuttle() -> ArrayStream:
    """River's bundled Shuttle data: 9 sensors of a space shuttle, 49,097 records, 7% anomalies."""
    from river.datasets import Shuttle  # half a second to import, and only needed here

    records = list(Shuttle())
    names = tuple(records[0][0])
    values = np.array([[float(x[name]) for name in names] for x, _ in records])
    return ArrayStream("shuttle", Batch(names, values, [int(y) for _, y in records]))
