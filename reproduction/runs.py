"""One model on one stream: predict, then learn; errors and times as each of the three kinds of tables needs them."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from braided.errors import BraidedError
from braided.estimators.decision import BALANCED, LIKELIEST
from braided.estimators.params import REGRESSION
from braided.evaluation import Evaluation
from braided.kernels.tally import LAST
from braided.records import Predictions, Records
from braided.run import Job, RunOptions
from braided.streams import ArrayStream, Stream

#: Points of the learning curve that are kept.
_POINTS = 200
#: Seconds between two checkpoints of a long run.
_CHECKPOINT_S = 60.0
_POSITIVE = 1


class WorkShare:
    """What share of the time since it was made this process was at work: a busy machine's time is not the model's.

    Examples
    --------
    >>> share = WorkShare()
    >>> time.sleep(0.05)
    >>> share.so_far() < 0.5
    True
    """

    def __init__(self) -> None:
        self._begun, self._worked = time.perf_counter(), time.process_time()

    def so_far(self) -> float:
        """From 0 to 1; threads beside each other count as one."""
        return min((time.process_time() - self._worked) / max(time.perf_counter() - self._begun, 1e-9), 1.0)


def paper(
    options: RunOptions, data_dir: Path | None, source: ArrayStream | None, checkpoint: Path | None
) -> dict[str, Any]:
    """A stream of the paper, as `braided run` takes it; `source` is the data set, if it is in memory.

    A long run keeps how far it has come in `checkpoint`, and goes on from there. `seconds` are those of predicting and
    learning, times the share of the whole that the process was at work.
    """
    job = _begun_or_new(options, data_dir, source, checkpoint)
    share = WorkShare()
    for _ in job.run():
        pass
    document, done = job.document(), job.finished[0]
    whole = done.history.curve().astype(int)
    every = max(len(whole) // _POINTS, 1)
    curve = whole[(len(whole) - 1) % every :: every]
    return {
        "errors": done.result["errors"],
        "records": document["records"],
        "majority_errors": document["majority_errors"],
        "learners": {name: own["errors"] for name, own in done.result["learners"].items()},
        "seconds": done.result["seconds"] * share.so_far(),
        "curve": {"records": curve[:, 0].tolist(), "errors": curve[:, 1].tolist()},
    }


def _begun_or_new(
    options: RunOptions, data_dir: Path | None, source: ArrayStream | None, checkpoint: Path | None
) -> Job:
    """Resume the run from its checkpoint, or start over if the checkpoint is missing or broken."""
    if checkpoint is not None and checkpoint.exists():
        try:
            return Job(options, data_dir, checkpoint, _CHECKPOINT_S, resume=True)
        except BraidedError:
            checkpoint.unlink()
    return Job(options, data_dir, checkpoint, _CHECKPOINT_S, source=source)


def streams(model: Any, stream: Stream) -> dict[str, Any]:
    """A stream beside River's models; `last` is what the last label or value would have given."""
    evaluation = Evaluation(model)
    share = WorkShare()
    for _ in evaluation.run(stream):
        pass
    evaluation.finish()
    seconds = evaluation.seconds * share.so_far()
    history = evaluation.history
    found = history.metrics()
    names = ("mae",) if model.task == REGRESSION else ("error_rate", "log_loss")
    out: dict[str, Any] = {
        "records": history.records,
        "metrics": {name: found[name] for name in names},
        "last": float(history.tally.totals[LAST] / history.records),
        "seconds": seconds,
    }
    if model.task != REGRESSION:
        out["unanswered"] = int(history.tally.confusion[:, -1].sum())
    return out


def haphazard(model: Any, stream: Stream) -> dict[str, Any]:
    """A stream of the review of haphazard inputs, with every metric under both decisions."""
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


class Answers:
    """What a model said of each record of a stream with labels 0 and 1, before it learned the record.

    The likeliest class and the decided one come from the same probabilities, so that one run gives both. Before a
    label has come there is no answer, which is wrong, and the score is 0.
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
        areas = _areas(labels == _POSITIVE, scores)
        return {name: _counted(labels, np.array(said)) | areas for name, said in self._said.items()}


def _areas(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> dict[str, float | None]:
    """The areas under the ROC curve and, by trapezoids, that of precision over recall; None with one class alone."""
    if positive.all() or not positive.any():
        return {"auroc": None, "auprc": None}
    precision, recall, _ = metrics.precision_recall_curve(positive, scores)
    areas = {"auroc": metrics.roc_auc_score(positive, scores), "auprc": metrics.auc(recall, precision)}
    return {name: 100.0 * float(area) for name, area in areas.items()}


def _counted(labels: NDArray[np.int64], said: NDArray[np.int64]) -> dict[str, float | None]:
    right = labels == said
    recalls = [float(right[labels == label].mean()) for label in np.unique(labels)]
    return {"errors": float((~right).sum()), "balanced_accuracy": 100.0 * float(np.mean(recalls))}
