"""The data sets that have a name: the paper's and a review's, each with its protocol, and those of River.

`braided.streams.open_stream` opens them by name: they are entered here among the streams that it knows.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from braided.datasets import river
from braided.datasets.catalogue import CATALOGUE, Dataset
from braided.datasets.locate import load, locate
from braided.datasets.protocol import PAPER_SETTINGS, PaperSettings, settings_for
from braided.streams.base import ArrayStream
from braided.streams.named import NamedStream, entered

__all__ = ["CATALOGUE", "PAPER_SETTINGS", "Dataset", "PaperSettings", "settings_for"]


def _paths(name: str, data_dir: Path | None) -> tuple[Path, ...]:
    return locate(name, data_dir).paths


def _of_river(name: str, data_dir: Path | None) -> ArrayStream:
    return river.load(name)


entered["shuttle"] = NamedStream(lambda data_dir: river.shuttle())
entered |= {name: NamedStream(partial(load, name), partial(_paths, name)) for name in CATALOGUE}
entered |= {name: NamedStream(partial(_of_river, name)) for name in river.RIVER_STREAMS}
