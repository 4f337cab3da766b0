"""The metrics that can be asked for, worked out from counts.

Classification, with n records, C[i, j] how many of class i were predicted as class j, and records without an answer
counted as wrong:

    accuracy            sum_i C[i, i] / n
    balanced accuracy   mean over classes i that occurred of C[i, i] / sum_j C[i, j]
    macro F1            mean over classes that occurred or were predicted of 2 C[i, i] / (row sum i + column sum i)
    Cohen's kappa       (accuracy - e) / (1 - e), with e = sum_i (row sum i) (column sum i) / n^2
    log loss            mean of -log p(label), probabilities kept 2.2e-16 away from 0 and 1
    Brier score         mean of sum_k (p_k - [label is k])^2, and half of that for two classes
    ROC AUC             mean over classes of the chance that a record of the class has the larger p than one of another

The last three are over records that had an answer. ROC AUC comes from a histogram of each class's probability, with
1,024 bins of equal width in the log odds. Two records in one bin count as equal, so that it is off by at most

    within = mean over classes of 1/2 sum_bins (share of the class in the bin) (share of the others in the bin).

Regression, with target y: MAE, mean |p - y|; RMSE, sqrt(mean (p - y)^2); R2, 1 - sum (p - y)^2 / sum (y - mean y)^2.
What would be beyond the largest double stays there, so that each is a number whatever the targets are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.kernels import tally

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def quantity(value: float) -> str:
    """A quantity of unknown size, with at least four digits and no exponent where that can be read.

    >>> quantity(0.76612), quantity(34_980.4), quantity(3e15)
    ('0.7661', '34,980', '3e+15')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:,.4g}"


@dataclass(frozen=True)
class Metric:
    """How a metric is shown: the heading of its column, its task, and the format of its value, if not a `quantity`."""

    title: str
    task: str
    form: str = ""

    def shown(self, value: float | None, exact: bool = False) -> str:
        """The value as text, or a dash. `exact` gives counts a decimal, as means over seeds have."""
        if value is None:
            return "-"
        if not self.form:
            return quantity(value)
        return format(value, ",.1f" if exact and self.form == ",.0f" else self.form)


#: Name in `--metric`, `--json` and the report -> how it is shown.
METRICS = {
    "errors": Metric("errors", CLASSIFICATION, ",.0f"),
    "error_rate": Metric("error rate", CLASSIFICATION, ".2%"),
    "accuracy": Metric("accuracy", CLASSIFICATION, ".2%"),
    "balanced_accuracy": Metric("balanced accuracy", CLASSIFICATION, ".2%"),
    "macro_f1": Metric("macro F1", CLASSIFICATION, ".4f"),
    "kappa": Metric("Cohen's kappa", CLASSIFICATION, ".4f"),
    "roc_auc": Metric("ROC AUC", CLASSIFICATION, ".4f"),
    "log_loss": Metric("log loss", CLASSIFICATION, ".4f"),
    "brier": Metric("Brier score", CLASSIFICATION, ".4f"),
    "mae": Metric("MAE", REGRESSION),
    "rmse": Metric("RMSE", REGRESSION),
    "r2": Metric("R2", REGRESSION, ".4f"),
}
#: The columns of the table on the screen unless others are asked for.
MAIN = {CLASSIFICATION: ("errors", "error_rate", "balanced_accuracy", "roc_auc"), REGRESSION: ("mae", "rmse", "r2")}


def chosen(names: Iterable[str], task: str) -> tuple[str, ...]:
    """The metrics asked for, or the main ones; an unknown name, or one of the other task, is refused."""
    asked = tuple(dict.fromkeys(names))
    usable = [name for name, metric in METRICS.items() if metric.task == task]
    for name in asked:
        if name not in usable:
            what = f"not for {task}" if name in METRICS else "not known"
            raise BraidedError(f"`metric` {name!r} is {what}: use one of {', '.join(usable)}")
    return asked or MAIN[task]


def share(part: float, whole: float) -> float | None:
    """The quotient; None where there is nothing to share."""
    return float(part / whole) if whole > 0 else None


def class_metrics(confusion: Counts, odds: Counts, sums: Floats) -> dict[str, float | None]:
    """Every metric of a classification; None where it is not defined.

    `odds`, (classes, 2, bins), and `sums` are of `kernels.tally.tally_classes`. ROC AUC needs the odds of all classes.
    """
    rows, columns = confusion.sum(axis=1), confusion[:, :-1].sum(axis=0)
    right = np.diagonal(confusion)
    n, answered = float(rows.sum()), float(sums[tally.ANSWERED])
    accuracy = share(right.sum(), n)
    occurred, concerned = rows > 0, rows + columns > 0
    expected = share(float(rows.astype(float) @ columns.astype(float)), n * n)
    kappa = None
    if accuracy is not None and expected is not None and expected < 1:
        kappa = (accuracy - expected) / (1 - expected)
    brier = share(sums[tally.BRIER], answered)
    auc, within = roc_auc(odds) if len(odds) == len(rows) else (None, None)
    return {
        "errors": float(n - right.sum()),
        "error_rate": share(n - right.sum(), n),
        "accuracy": accuracy,
        "balanced_accuracy": float(np.mean(right[occurred] / rows[occurred])) if occurred.any() else None,
        "macro_f1": float(np.mean(2 * right[concerned] / (rows + columns)[concerned])) if concerned.any() else None,
        "kappa": kappa,
        "roc_auc": auc,
        "roc_auc_within": within,
        "log_loss": share(sums[tally.LOG_LOSS], answered),
        "brier": brier / 2 if brier is not None and len(rows) == 2 else brier,
    }


def roc_auc(odds: Counts) -> tuple[float | None, float | None]:
    """ROC AUC, one class against the rest, averaged, and by how much it may be off; from counts as in the module.

    >>> odds = np.zeros((1, 2, 1024), dtype=np.int64)
    >>> odds[0, 1, [700, 900]], odds[0, 0, [700, 100]] = 1, 1  # of the class two records, of the others two
    >>> roc_auc(odds)
    (0.875, 0.125)
    """
    values, bounds = [], []
    for others, own in odds.astype(np.float64):
        pairs = others.sum() * own.sum()
        if pairs > 0:
            below = np.cumsum(others) - others
            same = float(own @ others)
            values.append((float(own @ below) + same / 2) / pairs)
            bounds.append(same / 2 / pairs)
    return (float(np.mean(values)), float(np.mean(bounds))) if values else (None, None)


def value_metrics(absolute_errors: float, sums: Floats) -> dict[str, float | None]:
    """Every metric of a regression, from the sums of absolute errors and of `kernels.tally`; None where undefined."""
    n, squares, deviations = sums[tally.COUNT], sums[tally.SQUARED_ERRORS], sums[tally.DEVIATIONS]
    huge_squares, huge_deviations = sums[tally.HUGE_ERRORS], sums[tally.HUGE_DEVIATIONS]
    rmse = None
    if n > 0:
        rmse = float(np.sqrt(squares / n))
        if huge_squares:
            rmse = math.hypot(rmse, tally.HUGE_UNIT * math.sqrt(huge_squares / n))
    if huge_squares or huge_deviations:
        squares = huge_squares + squares / tally.HUGE_UNIT / tally.HUGE_UNIT
        deviations = huge_deviations + deviations / tally.HUGE_UNIT / tally.HUGE_UNIT
    with np.errstate(over="ignore"):
        r2 = 1 - squares / deviations if n > 1 and deviations > 0 else None
    metrics = {"mae": share(absolute_errors, n), "rmse": rmse, "r2": r2}
    return {
        name: None if value is None or math.isnan(value) else float(np.clip(value, -tally.LARGEST, tally.LARGEST))
        for name, value in metrics.items()
    }
