"""One model on one stream of the review of haphazard inputs: predict, then learn; then every metric of the stream."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.estimators.decision import BALANCED, LIKELIEST
from braided.evaluation import Evaluation
from braided.records import Predictions, Records
from braided.reproduce.areas import pr_area, roc_area
from braided.streams import Stream

_POSITIVE = 1


class Answers:
    """What a model said of each record of a stream with labels 0 and 1, before it learned the record.

    The likeliest class and the decided one come from the same probabilities, so that one run gives both. Before a
    label has come, the answer is none, which is wrong, and the score is 0.
    """

    def __init__(self) -> None:
        self.labels: list[int] = []
        self._scores: list[float] = []
        self._said: dict[str, list[int]] = {LIKELIEST: [], BALANCED: []}

    def take(self, first: int, batch: Records, progress: Predictions, classes: Sequence[Hashable]) -> None:
        """Note some records; a `Listener` of `Evaluation`."""
        said = np.asarray(progress.values, dtype=np.float64)
        labels = np.array([*classes, -1], dtype=np.int64)  # the last is what place -1 stands for
        none = ~said.any(axis=1)
        likeliest = np.where(none, -1, said.argmax(axis=1) if said.shape[1] else -1)
        decided = likeliest if progress.decided is None else np.where(none, -1, progress.decided)
        places = [k for k, label in enumerate(classes[: said.shape[1]]) if label == _POSITIVE]
        self.labels += batch.known_targets
        self._scores += (said[:, places[0]] if places else np.zeros(len(said))).tolist()
        self._said[LIKELIEST] += labels[likeliest].tolist()
        self._said[BALANCED] += labels[decided].tolist()

    def metrics(self) -> dict[str, dict[str, float | None]]:
        """The metrics under each decision; accuracies and areas in percent."""
        labels, scores = np.array(self.labels), np.array(self._scores)
        areas = {
            "auroc": _percent(roc_area(labels == _POSITIVE, scores)),
            "auprc": _percent(pr_area(labels == _POSITIVE, scores)),
        }
        return {name: _counted(labels, np.array(said)) | areas for name, said in self._said.items()}


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def _counted(labels: NDArray[np.int64], said: NDArray[np.int64]) -> dict[str, float | None]:
    right = labels == said
    recalls = [float(right[labels == label].mean()) for label in np.unique(labels)]
    return {"errors": float((~right).sum()), "balanced_accuracy": 100.0 * float(np.mean(recalls))}


def run(model: Any, stream: Stream) -> dict[str, Any]:
    """Take a model through a stream; the figures of it."""
    answers = Answers()
    evaluation = Evaluation(model, on_predictions=answers.take)
    for _ in evaluation.run(stream):
        pass
    evaluation.finish()
    labels = answers.labels
    return {
        "records": len(labels),
        "majority_errors": min(labels.count(0), labels.count(1)),
        "metrics": answers.metrics(),
        "seconds": evaluation.seconds,
    }
