"""The data sets that have a name: the paper's and a review's, each with its protocol, and those of River.

`braided.streams.open_stream` opens them by name: they are entered here among the streams that it knows. This is
imported for each stream that is opened, so what is slow to import is imported when a data set is opened.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from braided.datasets import river
from braided.datasets.catalogue import CATALOGUE, Dataset
from braided.datasets.protocol import PAPER_SETTINGS, PaperSettings, settings_for
from braided.streams.named import NamedStream, entered

if TYPE_CHECKING:
    from braided.streams.base import Stream

__all__ = ["CATALOGUE", "PAPER_SETTINGS", "Dataset", "PaperSettings", "settings_for"]


def _load(name: str, data_dir: Path | None) -> Stream:
    from braided.datasets.load import load

    return load(name, data_dir)


def _made(name: str, data_dir: Path | None) -> Stream:
    return river.load(name)


def _paths(name: str, data_dir: Path | None) -> tuple[Path, ...]:
    from braided.datasets.locate import locate

    return locate(name, data_dir).paths


entered["shuttle"] = NamedStream(lambda data_dir: river.shuttle())
entered |= {name: NamedStream(partial(_load, name), partial(_paths, name)) for name in CATALOGUE}
entered |= {name: NamedStream(partial(_made, name)) for name in river.RIVER_STREAMS}
