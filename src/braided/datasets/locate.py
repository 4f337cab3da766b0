"""Where a data set's files are on this machine, or what to do to get them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from braided.datasets.catalogue import CATALOGUE, Dataset, Form
from braided.errors import BraidedError


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
