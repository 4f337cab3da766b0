"""One model on one stream of `braided reproduce streams`: predict, then learn; errors, log loss, a guess, time."""

from __future__ import annotations

from typing import Any

from braided.estimators.params import REGRESSION
from braided.evaluation import Evaluation
from braided.kernels.tally import LAST
from braided.reproduce.work_share import WorkShare
from braided.streams import Stream


def run(model: Any, stream: Stream) -> dict[str, Any]:
    """Take a model through a stream; its figures, and what the last label or value would have given.

    `seconds` are those of predicting and learning, times the share of the whole that
    the process was at work.
    """
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
