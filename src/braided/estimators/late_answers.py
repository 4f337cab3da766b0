"""What was said of records whose labels are still to come: until they do, and as a checkpoint holds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.kernels.coverage import LEVELS
from braided.kernels.doubt import DOUBTS
from braided.records import Confidence, Predictions
from braided.state import ArrayRule, check_arrays

#: In place of the number of classes: nothing could be said yet. And of a decision: it is the likeliest class.
_NOTHING, _LIKELIEST = -1, -2


class _Answer(NamedTuple):
    """What was said of a record, its key, and how many records the model had learned by then."""

    key: frozenset[tuple[Hashable, float]]
    learned: int
    said: Predictions


class LateAnswers:
    """Answers to single records, found again by the record when its label comes.

    Of one that was asked for several times before the next record was learned, one is kept. Those that are older than
    two delays are dropped, and there are no more than four for each record of the delay.
    """

    def __init__(self) -> None:
        self._order: deque[_Answer] = deque()
        self._by_key: dict[frozenset[tuple[Hashable, float]], deque[_Answer]] = {}

    def keep(self, x: Mapping[Hashable, Any], learned: int, delay: int, said: Predictions) -> None:
        """Keep what was said of a record."""
        answer = _Answer(_key(x), learned, said)
        alike = self._by_key.setdefault(answer.key, deque())
        if alike and alike[-1].learned == learned:
            return
        alike.append(answer)
        self._order.append(answer)
        while self._order[0].learned < learned - 2 * delay or len(self._order) > 4 * delay:
            oldest = self._order.popleft()
            if self._by_key.get(oldest.key, (None,))[0] is oldest:
                self._remove_first(oldest.key)

    def take(self, x: Mapping[Hashable, Any]) -> Predictions | None:
        """What was said of a record first; None where that is not known."""
        key = _key(x) if self._by_key else frozenset()
        return self._remove_first(key).said if key in self._by_key else None

    def _remove_first(self, key: frozenset[tuple[Hashable, float]]) -> _Answer:
        answer = self._by_key[key].popleft()
        if not self._by_key[key]:
            del self._by_key[key]
        return answer


def _key(x: Mapping[Hashable, Any]) -> frozenset[tuple[Hashable, float]]:
    return frozenset((name, value) for name, value in x.items() if value is not None and value == value)


def pack_said(said: Sequence[Predictions | None]) -> dict[str, NDArray[Any]]:
    """What was said of each of some records, as named arrays."""
    sure = [one if one is not None and one.confidence is not None else None for one in said]
    width = max([one.values.shape[1] for one in sure if one is not None], default=0)
    n = len(said)
    arrays: dict[str, NDArray[Any]] = {
        "known": np.full(n, _NOTHING, dtype=np.int64),
        "decided": np.full(n, _LIKELIEST, dtype=np.int64),
        "predictions": np.zeros((n, width)),
        "doubts": np.zeros((n, DOUBTS)),
        "scales": np.zeros(n),
        "bounds": np.zeros((n, len(LEVELS))),
    }
    for t, one in enumerate(sure):
        if one is None or one.confidence is None:
            continue
        arrays["known"][t] = one.values.shape[1]
        arrays["predictions"][t, : one.values.shape[1]] = one.values[0]
        if one.decided is not None:
            arrays["decided"][t] = one.decided[0]
        arrays["doubts"][t], arrays["scales"][t], arrays["bounds"][t] = (part[0] for part in one.confidence)
    return arrays


def unpack_said(arrays: Mapping[str, NDArray[Any]], n: int, n_learners: int, what: str) -> list[Predictions | None]:
    """The inverse of `pack_said` for n records; earlier versions kept nothing of it."""
    if "known" not in arrays:
        return [None] * n
    width = arrays["predictions"].shape[-1] if arrays.get("predictions", np.zeros(0)).ndim == 2 else 0
    rules = {
        "known": ArrayRule((n,), "int64", low=_NOTHING, high=width),
        "decided": ArrayRule((n,), "int64", low=_LIKELIEST, high=width),
        "predictions": ArrayRule((n, width), finite=False),
        "doubts": ArrayRule((n, DOUBTS), low=0.0),
        "scales": ArrayRule((n,), low=0.0, finite=False),
        "bounds": ArrayRule((n, len(LEVELS)), low=0.0, finite=False),
    }
    check_arrays(what, rules, arrays)
    said: list[Predictions | None] = []
    for t, known in enumerate(arrays["known"].tolist()):
        rows = slice(t, t + 1)
        sure = (
            None if known == _NOTHING else Confidence(*(arrays[name][rows] for name in ("doubts", "scales", "bounds")))
        )
        decided = None if arrays["decided"][t] == _LIKELIEST else arrays["decided"][rows]
        predictions = arrays["predictions"][rows, : max(known, 0)]
        said.append(Predictions(predictions, np.zeros((1, n_learners)), decided, sure))
    return said
