"""What an earlier braided wrote into checkpoints of runs and of the service, brought up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import prefixed
from braided.evaluation.history import History
from braided.evaluation.tally import Tally

_LEARNER_COLUMNS, _FIXED_COLUMNS = 3, 3


def upgraded_history(
    metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A history's state as it is today.

    An earlier one has no log loss, Brier score, ROC AUC and window. The window is counted from there on; the others are
    left out.
    """
    if "counted_from" in metadata:
        return dict(metadata), dict(arrays)
    about, own = History(metadata["name"], metadata["learners"], metadata["regression"]).state()
    records, interval = metadata["records"], metadata["interval"]
    about |= {name: metadata[name] for name in ("block", "features", "classes", "weight_names")}
    about["counted_from"] = records
    kept = (
        "present", "_present", "confusion", "bins", "_before", "_blocks", "_weights", "_deviations",
        "weight_mean", "weight_sd",
    )  # fmt: skip
    own |= {name: arrays[name] for name in kept}
    if own["_blocks"].shape[1] == _FIXED_COLUMNS + _LEARNER_COLUMNS * len(metadata["learners"]):  # without drifts
        own["_blocks"] = np.pad(own["_blocks"], ((0, 0), (0, 1)))
        own["_before"] = np.pad(own["_before"], (0, 1))
    curve = {
        "points": arrays["_points"],
        "totals": arrays["totals"],
        "numbers": np.array([records, interval], dtype=np.int64),
    }
    own |= prefixed("curve", curve)
    classes = len(metadata["classes"])
    own["_odds"] = np.zeros((classes, *own["_odds"].shape[1:]), dtype=np.int64)
    own["_last_said"] = np.zeros((0, classes))
    own["_best"] = np.array([metadata["_best"]], dtype=np.int64)
    return about, own


def upgraded_service_figures(
    fresh: Tally, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state of a tally from what an earlier service kept in its snapshots; `fresh` is one without records.

    It had the errors of the sum and of each learner, and no plain guess: that of these records counts as never wrong.
    """
    about, own = fresh.state()
    about["counted_from"] = metadata["records"]
    curve = {
        "points": np.insert(arrays["points"], 2, 0.0, axis=1),
        "totals": np.insert(arrays["totals"], 1, 0.0),
        "numbers": np.array([metadata["records"], metadata["interval"]], dtype=np.int64),
    }
    return about, own | prefixed("curve", curve)
