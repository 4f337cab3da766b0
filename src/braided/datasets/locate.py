"""Where a data set's files are on this machine, or what to do to get them, and how they are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from braided.datasets.catalogue import CATALOGUE, Dataset, Form, Layout
from braided.datasets.images import CifarStream, DeformedDigits, IdxStream
from braided.datasets.protocol import PAPER_SETTINGS
from braided.errors import BraidedError
from braided.records import Labels, Records, join
from braided.streams import text_files
from braided.streams.base import ArrayStream, Stream, read_whole
from braided.streams.readers.csv import CSVStream
from braided.streams.readers.libsvm import LibsvmStream


@dataclass(frozen=True)
class Located:
    """A data set on this machine: what it is, in which of its forms, and that form's files."""

    dataset: Dataset
    form: Form
    paths: tuple[Path, ...]

    @property
    def sample(self) -> bool:
        """Whether this is only a part of the data set."""
        return self.form.sample


def cache_folder() -> Path:
    """The folder that `braided datasets fetch` fills and every command looks in last."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "braided"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "braided"


def folders(data_dir: Path | None) -> list[Path]:
    """Where data sets are looked for: `data_dir`, or without it $BRAIDED_DATA, then the cache."""
    given = data_dir or (Path(os.environ["BRAIDED_DATA"]) if os.environ.get("BRAIDED_DATA") else None)
    return [*([given] if given else []), cache_folder()]


def search(name: str, data_dir: Path | None) -> Located | None:
    """A data set on this machine, a full one anywhere before a sample, or None."""
    dataset = CATALOGUE[name]
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
        dataset = CATALOGUE[name]
        files = " and ".join(file.name for file in dataset.download.files)
        places = " nor ".join(str(folder / dataset.folder) for folder in folders(data_dir))
        raise BraidedError(
            f"data set {name!r} is not in {places}: run `braided datasets fetch {name}`, or put {files} "
            f"({dataset.origin}) into DIR/{dataset.folder}/ and give `data_dir='DIR'` or set BRAIDED_DATA"
        )
    return located


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


def _record(line: str, layout: Layout, n_features: int) -> tuple[list[float], str | int]:
    """Values and label of a line of text; whole numbers among the labels are numbers, others words."""
    fields = [field.strip() for field in line.split(layout.separator or None)]
    n_fields = n_features + 1 + layout.identifier
    if len(fields) != n_fields:
        raise ValueError(f"{len(fields)} fields where {n_fields} are expected")
    label = fields.pop(layout.label)
    codes = {letter: float(code) for code, letter in enumerate(layout.letters, start=1)} | {"?": np.nan}
    values = [codes[field] if field in codes else float(field) for field in fields[layout.identifier :]]
    try:
        return values, int(float(label))
    except ValueError:
        return values, label


def _read_text(located: Located, layout: Layout) -> Records:
    """The records of a data set of text, its files one after the other; features are named by their places from 0."""
    n_features, values, labels = located.dataset.features, [], []
    for file, path in zip(located.form.files, located.paths, strict=True):
        for count, line in enumerate(text_files.lines(path), start=1):
            if not line.strip() or (file.header and count == 1):
                continue
            try:
                record, label = _record(line, layout, n_features)
            except ValueError as error:
                raise BraidedError(f"{path}:{count}: {error}: fix the line") from None
            values.append(record)
            labels.append(label)
    names = tuple(str(i) for i in range(n_features))
    return Records(names, np.array(values, dtype=np.float64).reshape(-1, n_features), labels)


def load(name: str, data_dir: Path | None) -> Stream:
    """A data set's records in the file's order, with the features that its publication uses."""
    located = locate(name, data_dir)
    paths, layout = located.paths, located.dataset.layout
    if layout is not None:
        return ArrayStream(name, _read_text(located, layout))
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
    return ArrayStream(name, join([read_whole(LibsvmStream(path, n_features)).table for path in paths]))
