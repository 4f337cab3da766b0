"""Data sets as facts, from `catalogue.toml`, which says what each field means."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DataFile:
    """One file of a data set."""

    name: str
    url: str | None = None
    sha256: str | None = None
    content_sha256: str | None = None
    text_sha256: str | None = None
    size: int | None = None
    records: int | None = None
    header: bool = False
    member: str | None = None


@dataclass(frozen=True)
class Form:
    """Files that together are a data set, or a sample of one."""

    files: tuple[DataFile, ...]
    sample: bool = False


@dataclass(frozen=True)
class Layout:
    """How a record is written in a line of text; an empty separator is any white space."""

    label: int = -1
    separator: str = ","
    identifier: bool = False
    letters: str = ""


@dataclass(frozen=True)
class Dataset:
    """A data set that has a name; its forms are in the order in which they are looked for."""

    name: str
    folder: str
    records: int
    features: int
    classes: int
    origin: str
    shuffle: bool
    forms: tuple[Form, ...]
    layout: Layout | None = None

    @property
    def download(self) -> Form:
        """The form that is fetched.

        >>> [file.name for file in CATALOGUE["a8a"].download.files]
        ['a8a', 'a8a.t']
        """
        return next(form for form in self.forms if all(file.url for file in form.files))


def _catalogue(document: dict[str, Any]) -> dict[str, Dataset]:
    files = {name: DataFile(name, **facts) for name, facts in document["files"].items()}

    def dataset(name: str, layout: Any = None, samples: Any = (), **facts: Any) -> Dataset:
        forms = [(form, False) for form in facts.pop("forms")] + [(form, True) for form in samples]
        facts["forms"] = tuple(
            Form(tuple(replace(files[Path(path).name], name=path) for path in form), sample) for form, sample in forms
        )
        return Dataset(name, **{"folder": name} | facts, layout=None if layout is None else Layout(**layout))

    return {name: dataset(name, **facts) for name, facts in document["data_sets"].items()}


CATALOGUE = _catalogue(tomllib.loads((Path(__file__).parent / "catalogue.toml").read_text(encoding="utf-8")))
