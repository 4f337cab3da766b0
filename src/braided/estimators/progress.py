"""What a model said of records before it learned them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.estimators.coverage import Sure


class Progress(NamedTuple):
    """What `predict_learn_many` saw before it learned each record.

    Attributes
    ----------
    predictions
        Class probabilities, (n, n_classes), with the columns in the order of `classes`; or values, (n, 1).
    own
        (n, n_learners): the class place or value that each learner alone would have said; before anything was learned
        -1, or for regression 0.
    decided
        (n,): the place of the class that was answered, -1 for none; None where that is the likeliest class.
    sure
        From `progress_many`, how sure the answers are, for `learn_many` to judge them by when their labels come.

    For a data frame both are frames of its library, with classes and learners for columns; a regressor's predictions
    are a series.
    """

    predictions: Any
    own: Any
    decided: NDArray[np.int64] | None = None
    sure: Sure | None = None


def answered(progress: Progress, row: int) -> int | None:
    """The place of the class that was answered in a row of a classifier's progress; None where none was known."""
    probabilities = progress.predictions[row]
    if not probabilities.any():
        return None
    return int(probabilities.argmax() if progress.decided is None else progress.decided[row])
