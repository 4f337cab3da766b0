"""Streams that `open_stream` knows by a name of their own; `braided.datasets` enters its data sets here."""

from __future__ import annotations

from collections.abc import Callable
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


NAMED_STREAMS: dict[str, NamedStream] = {}
