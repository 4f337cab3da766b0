"""How methods stand to each other over the cells of a document: cells won, ranks, errors over those of a guess."""

from __future__ import annotations

from collections.abc import Sequence

from braided.estimators.params import CLASSIFICATION, REGRESSION
from reproduction import review
from reproduction.cells import DEFAULT, DEFAULT_BALANCED
from reproduction.documents import CellDocument, Document, by_stream
from reproduction.measures import MAIN
from reproduction.stream_models import GUESSES, LEARNED, OURS

#: The metrics of the review that a page shows, and those that a decision changes.
REVIEW_METRICS = ("balanced_accuracy", "auroc", "errors")
_BY_DECISION = ("balanced_accuracy", "errors")
#: The metrics of streams that a page shows.
STREAM_METRICS = {CLASSIFICATION: ("error_rate", "log_loss"), REGRESSION: ("mae",)}


def ranked(values: Sequence[float], more_is_better: bool = False) -> list[float]:
    """1 for the best; the mean of their places for equal ones.

    >>> ranked([3.0, 5.0, 3.0], more_is_better=True), ranked([3.0, 5.0, 3.0])
    ([2.5, 1.0, 2.5], [1.5, 3.0, 1.5])
    """
    signed = [-value if more_is_better else value for value in values]
    return [sum(other < value for other in signed) + (signed.count(value) + 1) / 2 for value in signed]


def ours_of(metric: str) -> list[str]:
    """Our columns beside the review's: the balanced decision has no areas of its own."""
    return [DEFAULT, DEFAULT_BALANCED] if metric in _BY_DECISION else [DEFAULT]


def compared(methods: dict[str, CellDocument], metric: str) -> bool:
    """Whether ours is of the stream that the published figures are about."""
    ours = [methods.get(name, {}) for name in ours_of(metric)]
    return all(cell.get("compared") and metric in cell for cell in ours)


def ahead(ours: float, theirs: float, metric: str) -> bool:
    """Whether ours is better, in a metric of the review."""
    return ours > theirs if review.METRICS[metric] else ours < theirs


def won(document: Document, metric: str) -> dict[str, int]:
    """Of how many cells each of ours is ahead of the best that is published."""
    found = {"of": 0, **dict.fromkeys(ours_of(metric), 0)}
    for (dataset, p_f, _), methods in by_stream(document).items():
        if compared(methods, metric):
            best = review.ranked(dataset, p_f, metric)[0].mean
            found["of"] += 1
            for name in ours_of(metric):
                found[name] += ahead(methods[name][metric], best, metric)
    return found


def ranks(document: Document, metric: str) -> dict[str, list[float]]:
    """The rank of each method on each stream that all have been run on; on the review's, of ours among its nine."""
    streams = []
    for (dataset, p_f, _), methods in by_stream(document, metric).items():
        if document["what"] != "haphazard":
            streams.append({name: float(cell[metric]) for name, cell in methods.items()})
        elif compared(methods, metric):
            published = (figure for figure in review.ranked(dataset, p_f, metric) if figure.method in review.REVIEWED)
            ours = {name: float(methods[name][metric]) for name in ours_of(metric)}
            streams.append(ours | {figure.method: figure.mean for figure in published})
    found: dict[str, list[float]] = {name: [] for values in streams for name in values}
    for values in streams:
        if values.keys() == found.keys():
            places = ranked([*values.values()], review.METRICS.get(metric, False))
            for name, rank in zip(values, places, strict=True):
                found[name].append(rank)
    return {name: of_streams for name, of_streams in found.items() if of_streams}


def best_of_river(methods: dict[str, CellDocument], metric: str) -> CellDocument | None:
    """The best of River's models on a stream, in hindsight."""
    rivals = [methods[entry.method] for entry in LEARNED if entry.method not in OURS and entry.method in methods]
    return min(rivals, key=lambda cell: float(cell[metric]), default=None)


def relative(methods: dict[str, CellDocument], method: str) -> float | None:
    """A method's error on a stream over that of the majority class or the mean; None if that is not known, or 0."""
    task = methods[method]["task"]
    usual = methods.get(GUESSES[task][0], {}).get(MAIN[task])
    # A model without any error must leave something to take a logarithm of.
    return max(float(methods[method][MAIN[task]] / usual), 1e-6) if usual else None
