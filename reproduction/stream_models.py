"""The models of the table `streams`: our two presets, River's, and plain guesses."""

from __future__ import annotations

from dataclasses import dataclass

from braided.estimators.params import CLASSIFICATION, REGRESSION
from reproduction.stream_sources import StreamSource

DEFAULT, LEAN = "modl (default)", "modl (lean)"
OURS = (DEFAULT, LEAN)
#: What looks at no feature: the running prior or mean, and what was last; of a task, in this order.
GUESSES = {CLASSIFICATION: ("majority", "last label"), REGRESSION: ("mean", "last value")}


@dataclass(frozen=True)
class StreamModel:
    """A model to compare: its name in the table, and what `braided run` calls it."""

    method: str
    model: str
    tasks: tuple[str, ...] = (CLASSIFICATION, REGRESSION)
    preset: str = "default"
    #: Whether a seed makes a difference to it where the records stay the same.
    random: bool = True


#: The guesses that have no model of their own: their figures are counted in the run of the other.
LAST = {guesses[1] for guesses in GUESSES.values()}
#: Those that look at features, in the order of the table.
LEARNED = (
    StreamModel(DEFAULT, "modl"),
    StreamModel(LEAN, "modl", preset="lean"),
    StreamModel("river-logistic", "river-logistic", (CLASSIFICATION,), random=False),
    StreamModel("river-linear", "river-linear", (REGRESSION,), random=False),
    StreamModel("river-nb", "river-nb", (CLASSIFICATION,), random=False),
    StreamModel("river-knn", "river-knn", random=False),
    *(StreamModel(name, name) for name in ("river-tree", "river-arf", "river-srp", "river-amf")),
)
MODELS = (
    *LEARNED,
    *(StreamModel(name, names[0], (task,), random=False) for task, names in GUESSES.items() for name in names),
)


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
