"""Streams that `open_stream` knows by a name of their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braided.streams.base import Stream


@dataclass(frozen=True)
class NamedStream:
    """How a stream with a name is opened.

    Attributes
    ----------
    load
        Opens it, given the folder with the data sets, if a user has said which.
    paths
        The files that are then read; none for a stream that is made, or part of a library.
    """

    load: Callable[[Path | None], Stream]
    paths: Callable[[Path | None], tuple[Path, ...]] = lambda data_dir: ()


#: Each fills `entered` when it is imported: packages above this one, which nothing here depends on.
CATALOGUES = ("braided.datasets",)
entered: dict[str, NamedStream] = {}


def named_streams() -> Mapping[str, NamedStream]:
    """All streams with a name; the first call imports the packages that have them."""
    for catalogue in CATALOGUES:
        importlib.import_module(catalogue)
    return entered
