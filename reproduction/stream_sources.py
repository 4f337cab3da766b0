"""The streams of the table `streams`: which, in which order, and how many runs each model has on them.

A stream in time is run in its order, and seeds differ in the mask and the model; records that have no time are
shuffled by the seed. Nominal columns are masked as columns and handed on as categories (`Records.categories`), so that
each model gets them as its own users would give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from braided.datasets import river
from braided.datasets.locate import folders
from braided.errors import BraidedError
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.records import Records
from braided.streams import ArrayStream, Limited, Masked, Stream, open_stream, read_whole, shuffled
from braided.streams.base import only_records
from braided.streams.fingerprint import fingerprint

#: Probabilities that a feature is available: nothing missing, and half.
AVAILABILITIES = (1.0, 0.5)
#: Those of `--quick`, one of each task.
QUICK = ("phishing", "chicks")
#: Sub-folder of a data folder with the files.
FOLDER = "streams"
#: Records that are taken of Shuttle, which has 49,097.
_SHUTTLE_RECORDS = 10_000
#: Records of the generated regression, and where its function changes.
_FRIEDMAN_RECORDS = 10_000
_FRIEDMAN_CHANGES = (2_500, 5_000, 7_500)


@dataclass(frozen=True)
class StreamSource:
    """A stream to compare models on, by the name that `--dataset` and the table have."""

    name: str
    records: int
    #: Takes it into memory, given the folder with the data sets.
    load: Callable[[Path | None], ArrayStream]
    task: str = CLASSIFICATION
    #: Whether its order is that of time, and kept; otherwise the seed orders it.
    in_time: bool = True
    #: Runs of each model: one where there are records enough.
    seeds: int = 1
    #: Columns whose numbers are names.
    nominal: tuple[str, ...] = ()

    def stream(self, available: float, seed: int, data_dir: Path | None, limit: int | None = None) -> Stream:
        """The records as every model sees them; the seed decides the mask, and the order where there is no time."""
        stream: Stream = self.load(data_dir)
        if not self.in_time:
            assert isinstance(stream, ArrayStream)
            stream = shuffled(stream, seed)
        if available < 1.0:
            stream = Masked(stream, available, 0, seed)
        if self.nominal:
            stream = OneHot(stream, {name: self._values(name, data_dir) for name in self.nominal})
        return stream if limit is None else Limited(stream, limit)

    def _values(self, name: str, data_dir: Path | None) -> list[float]:
        """What a nominal column holds, over the whole stream."""
        table = self.load(data_dir).table
        return [float(value) for value in np.unique(table.values[:, table.names.index(name)])]


@dataclass(frozen=True)
class OneHot:
    """A stream with some columns as categories: a feature for each value, all missing where the column is.

    Examples
    --------
    >>> stream = ArrayStream("d", Records(("car", "age"), np.array([[7.0, 30.0], [np.nan, 40.0]]), ["a", "b"]))
    >>> batch = next(OneHot(stream, {"car": [5.0, 7.0]}).batches())
    >>> batch.names, batch.values.tolist()
    (('car=5', 'car=7', 'age'), [[0.0, 1.0, 30.0], [nan, nan, 40.0]])
    >>> batch.categories["car=7"]
    ('car', '7')
    """

    stream: Stream
    columns: dict[str, list[float]]

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name

    @property
    def n_records(self) -> int | None:
        """As many as the stream has."""
        return self.stream.n_records

    def batches(self) -> Iterator[Records]:
        """The batches, encoded."""
        for batch in only_records(self.stream):
            names: list[Any] = []
            values, categories = [], {}
            for name, column in zip(batch.names, batch.values.T, strict=True):
                if str(name) not in self.columns:
                    names.append(name)
                    values.append(column)
                    continue
                for value in self.columns[str(name)]:
                    names.append(f"{name}={value:g}")
                    values.append(np.where(np.isnan(column), np.nan, column == value))
                    categories[names[-1]] = (name, f"{value:g}")
            yield replace(batch, names=tuple(names), values=np.column_stack(values), categories=categories)


def _path(name: str, data_dir: Path | None) -> Path:
    """Where the file of a stream is."""
    places = [folder / FOLDER / f"{name}.csv.gz" for folder in folders(data_dir)]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise BraidedError(
            f"stream {name!r} is not at {' nor at '.join(map(str, places))}: get it from {FILES[name]}, write it there "
            f"as CSV with a header and the label last, or leave it out with --dataset"
        )
    return found


@cache
def _file(name: str, data_dir: Path | None) -> ArrayStream:
    return replace(read_whole(open_stream(str(_path(name, data_dir)))), name=name)


@cache
def _made(name: str, data_dir: Path | None) -> ArrayStream:
    """One of those that `braided run` knows."""
    return river.load(name)


@cache
def _shuttle(data_dir: Path | None) -> ArrayStream:
    return read_whole(Limited(river.shuttle(), _SHUTTLE_RECORDS))


@cache
def _numbers(name: str, data_dir: Path | None) -> ArrayStream:
    """One of River's regressions; of a time its hour, weekday and month, of a month its number and year."""
    rows, targets = [], []
    names: tuple[str, ...] = ()
    for x, y in _records(name):
        if "Time" in x:
            x = {"hour": x["Time"].hour, "weekday": x["Time"].weekday(), "month": x["Time"].month}
        elif isinstance(x.get("month"), datetime):
            x = {"month": x["month"].month, "year": x["month"].year}
        names = names or tuple(str(key) for key in x)
        rows.append([float(value) for value in x.values()])
        targets.append(float(y))
    return ArrayStream(name, Records(names, np.array(rows), targets))


def _records(name: str) -> Iterable[tuple[dict[Any, Any], Any]]:
    from river.datasets import AirlinePassengers, ChickWeights, SP500Stocks, TrumpApproval, WaterFlow, synth

    if name == "friedman-drift":
        drifting = synth.FriedmanDrift(drift_type="lea", position=_FRIEDMAN_CHANGES, seed=1)
        return islice(drifting, _FRIEDMAN_RECORDS)
    bundled: dict[str, Callable[[], Any]] = {
        "trump": TrumpApproval,
        "chicks": ChickWeights,
        "waterflow": WaterFlow,
        "stocks": SP500Stocks,
        "airline": AirlinePassengers,
    }
    records: Iterable[tuple[dict[Any, Any], Any]] = bundled[name]()
    return records


#: Streams that are files -> where they come from.
FILES = {
    "electricity": "https://www.openml.org/d/151 (the electricity market of New South Wales)",
    "weather": "https://github.com/scikit-multiflow/streaming-datasets (NOAA's weather at Bellevue)",
    "phoneme": "https://www.openml.org/d/1489 (phoneme, of ELENA)",
}
_AGRAWAL = ("elevel", "car", "zipcode")
_classes = partial(StreamSource, in_time=False, seeds=5)
_values = partial(StreamSource, task=REGRESSION, seeds=5)

_ALL = (
    _classes("phishing", 1_250, partial(_made, "phishing")),
    _classes("segments", 2_310, partial(_made, "segments")),
    _classes("bananas", 5_300, partial(_made, "bananas")),
    _classes("phoneme", 5_404, partial(_file, "phoneme")),
    StreamSource("electricity", 45_312, partial(_file, "electricity")),
    StreamSource("weather", 18_159, partial(_file, "weather")),
    StreamSource("shuttle", _SHUTTLE_RECORDS, _shuttle, in_time=False),
    StreamSource("sea-drift", 10_000, partial(_made, "sea-drift")),
    StreamSource("hyperplane", 10_000, partial(_made, "hyperplane")),
    StreamSource("rbf-drift", 10_000, partial(_made, "rbf-drift")),
    StreamSource("agrawal-drift", 10_000, partial(_made, "agrawal-drift"), nominal=_AGRAWAL),
    _values("trump", 1_001, partial(_numbers, "trump")),
    _values("chicks", 578, partial(_numbers, "chicks"), nominal=("chick", "diet")),
    _values("waterflow", 1_268, partial(_numbers, "waterflow")),
    _values("stocks", 1_257, partial(_numbers, "stocks")),
    _values("airline", 144, partial(_numbers, "airline")),
    _values("friedman-drift", _FRIEDMAN_RECORDS, partial(_numbers, "friedman-drift"), seeds=1),
)
STREAMS: dict[str, StreamSource] = {source.name: source for source in _ALL}


@cache
def data_digest(name: str, data_dir: Path | None) -> str:
    """What the records of a stream are made of: a file, or a part of River, whose release is in the code's digest."""
    if name not in FILES:
        return f"river: {name}"
    path = _path(name, data_dir)
    return f"{path.name}: {fingerprint(str(path))}"
