"""What an earlier braided wrote into checkpoints of runs and of the service, brought up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import prefixed
from braided.evaluation.history import History
from braided.evaluation.tally import MOST_CLASSES_FOLLOWED, Tally
from braided.kernels.tally import COUNT, LAST, USUAL, VALUE_SUMS
from braided.state import holding_together

_LEARNER_COLUMNS, _FIXED_COLUMNS = 3, 3


# Where an earlier regression had the sum of its targets among its sums.
_TOTAL = 3


@holding_together("state of an earlier version")
def upgraded_tally(
    metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A tally's state as it is today.

    An earlier one did not guess the last label: what that guess lost until then is not known, and NaN. Its other guess
    had heard every label at once; under a delay those that wait come to it once more.
    """
    about, own = dict(metadata), dict(arrays)
    if "guesses/said" in own:
        if about["regression"]:
            own["_sums"] = _with_huge(own["_sums"])
        return about, own
    best = own.pop("_best")
    if about["regression"]:
        sums = own["_sums"]
        count, total = sums[COUNT], sums[_TOTAL]
        seen, said = np.array([count, total]), np.array([total / count if count else 0.0, 0.0])
        own["_sums"] = _with_huge(np.delete(sums, _TOTAL))
    else:
        seen, said = own["confusion"].sum(axis=1), np.array([best[0], -1])
    own |= {"guesses/seen": seen, "guesses/said": said}
    for name, place in (("curve/points", 1 + LAST), ("curve/totals", LAST), ("_last_losses", LAST)):
        own[name] = _not_known(own[name], place)
    return about, own


def _with_curve(own: dict[str, NDArray[Any]], curve: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A state with this curve in the place of its own."""
    return {name: array for name, array in own.items() if not name.startswith("curve/")} | prefixed("curve", curve)


def _with_huge(sums: NDArray[Any]) -> NDArray[Any]:
    """A regression's sums with those of huge products, which an earlier version left out."""
    return np.pad(sums, (0, VALUE_SUMS - sums.size))


def _not_known(losses: NDArray[Any], *places: int) -> NDArray[Any]:
    """Losses with columns more, before these places, of what was not counted."""
    return np.insert(losses, places, np.nan, axis=-1)


@holding_together("state of an earlier version")
def upgraded_history(
    metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A history's state as it is today.

    An earlier one has no log loss, Brier score, ROC AUC, window and coverage. Window and coverage are counted from
    there on; the others are left out.
    """
    if "counted_from" in metadata:
        return upgraded_tally(metadata, arrays)
    about, own = History(metadata["name"], metadata["learners"], metadata["regression"]).state()
    records, interval = metadata["records"], metadata["interval"]
    about |= {name: metadata[name] for name in ("block", "features", "classes", "weight_names")}
    about["counted_from"] = records
    del own["_covered"]  # a history begins it with a row for each block
    kept = (
        "present", "_present", "confusion", "bins", "_before", "_blocks", "_weights", "_deviations",
        "weight_mean", "weight_sd",
    )  # fmt: skip
    own |= {name: arrays[name] for name in kept}
    if own["_blocks"].shape[1] == _FIXED_COLUMNS + _LEARNER_COLUMNS * len(metadata["learners"]):  # without drifts
        own["_blocks"] = np.pad(own["_blocks"], ((0, 0), (0, 1)))
        own["_before"] = np.pad(own["_before"], (0, 1))
    curve = {
        "points": _not_known(arrays["_points"], 1 + LAST),
        "totals": _not_known(arrays["totals"], LAST),
        "numbers": np.array([records, interval], dtype=np.int64),
    }
    own = _with_curve(own, curve)
    classes = len(metadata["classes"])
    followed = classes if classes <= MOST_CLASSES_FOLLOWED else 0
    own["_odds"] = np.zeros((followed, *own["_odds"].shape[1:]), dtype=np.int64)
    own["_last_said"] = np.zeros((0, 1 if metadata["regression"] else followed))
    if not metadata["regression"]:
        own |= {"guesses/seen": own["confusion"].sum(axis=1), "guesses/said": np.array([metadata["_best"], -1])}
    return about, own


@holding_together("state of an earlier version")
def upgraded_service_figures(
    fresh: Tally, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state of a tally from what an earlier service kept in its snapshots; `fresh` is one without records.

    It had the errors of the sum and of each learner, and no plain guesses: their errors until then are NaN.
    """
    about, own = fresh.state()
    about["counted_from"] = metadata["records"]
    curve = {
        "points": _not_known(arrays["points"], 1 + USUAL, 1 + USUAL),
        "totals": _not_known(arrays["totals"], USUAL, USUAL),
        "numbers": np.array([metadata["records"], metadata["interval"]], dtype=np.int64),
    }
    return about, _with_curve(own, curve)
