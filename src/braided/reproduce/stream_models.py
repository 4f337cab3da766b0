"""The models of `braided reproduce streams`: our two presets, River's, and plain guesses."""

from __future__ import annotations

from dataclasses import dataclass

from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.reproduce.stream_sources import STREAMS, StreamSource

DEFAULT, LEAN = "modl (default)", "modl (lean)"
OURS = (DEFAULT, LEAN)
#: What looks at no feature: the running prior or mean, and what was last; of a task, in this order.
GUESSES = {CLASSIFICATION: ("majority", "last label"), REGRESSION: ("mean", "last value")}


@dataclass(frozen=True)
class StreamModel:
    """A model to compare.

    Attributes
    ----------
    method
        Its name in the table.
    model, preset
        As `braided run` knows them.
    us_per_record
        Roughly, to weigh the time left.
    tasks
        What it is run on.
    random
        Whether a seed makes a difference to it where the records stay the same.
    """

    method: str
    model: str
    us_per_record: float
    tasks: tuple[str, ...] = (CLASSIFICATION, REGRESSION)
    preset: str = "default"
    random: bool = True


def _river(name: str, us_per_record: float, *tasks: str, random: bool = True) -> StreamModel:
    return StreamModel(name, name, us_per_record, tasks or (CLASSIFICATION, REGRESSION), random=random)


#: Those that look at features, in the order of the table.
LEARNED = (
    StreamModel(DEFAULT, "modl", 130.0),
    StreamModel(LEAN, "modl", 32.0, preset="lean"),
    _river("river-logistic", 60.0, CLASSIFICATION, random=False),
    _river("river-linear", 30.0, REGRESSION, random=False),
    _river("river-nb", 200.0, CLASSIFICATION, random=False),
    _river("river-knn", 500.0, random=False),
    _river("river-tree", 200.0),
    _river("river-arf", 1_600.0),
    _river("river-srp", 4_500.0),
    _river("river-amf", 1_000.0),
)
#: The guesses: what was last has no model of its own, its figures are counted in the run of the other.
GUESSED = tuple(
    StreamModel(method, guesses[0], 12.0, (task,), random=False)
    for task, guesses in GUESSES.items()
    for method in guesses
)
MODELS = (*LEARNED, *GUESSED)


def short_name(method: str) -> str:
    """A method where there is little room.

    >>> short_name("modl (default)"), short_name("river-arf")
    ('default', 'arf')
    """
    return {DEFAULT: "default", LEAN: "lean"}.get(method, method.removeprefix("river-"))


def runs(entry: StreamModel, source: StreamSource, available: float) -> int:
    """How many runs a model has on a stream: one where each would be the same."""
    if source.in_time and available == 1.0 and not entry.random:
        return 1
    return source.seeds


def seconds(model: str, preset: str, dataset: str, limit: int | None) -> float:
    """How long one run takes, roughly."""
    records = min(STREAMS[dataset].records, limit or STREAMS[dataset].records)
    return records * 1e-6 * next(e.us_per_record for e in MODELS if (e.model, e.preset) == (model, preset))
