"""Learners written in Python, behind addresses that the record loop calls like those of compiled ones."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.kernels.calls import COLUMNS, FORWARD_ADDRESS, LEARN_ADDRESS
from braided.kernels.loop import Scratch
from braided.learners.protocol import Learner, checked_learned, checked_scores

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
#: Words of a block of `kernels.calls.LEARN` up to label and weight: three arrays and the step come first.
_LEARN_WORDS = 9


class Callbacks:
    """The rows of learners in Python: they see a record's own values, and a mask.

    An error cannot pass through compiled code. It is kept, the loop is told to end, and `raise_error` raises it.
    """

    def __init__(self, scratch: Scratch, n_features: int) -> None:
        self._scratch = scratch
        self._n_features = n_features
        self._kept: list[Any] = []
        self._error: BaseException | None = None

    def row(self, learner: Learner, place: int) -> NDArray[np.int64]:
        """The row of the learner in this place."""
        scores, gradients = self._scratch.scores[place], self._scratch.gradients[place]

        def forward(block: int) -> int:
            try:
                scores[:] = checked_scores(learner, learner.scores(*self._record()), scores.size)
            except BaseException as error:
                self._fail(error)
            return 0

        def learn(block: int) -> int:
            *_, y, weight = (ctypes.c_double * _LEARN_WORDS).from_address(block)
            try:
                told = (weight,) if getattr(learner, "takes_weight", False) else ()
                return int(checked_learned(learner, learner.learn(*self._record(), y, gradients.copy(), *told)))
            except BaseException as error:
                self._fail(error)
                return 0

        kept = [_CALLBACK(forward), _CALLBACK(learn)]
        self._kept += kept
        row = np.zeros(COLUMNS, dtype=np.int64)
        for column, callback in zip((FORWARD_ADDRESS, LEARN_ADDRESS), kept, strict=True):
            row[column] = ctypes.cast(callback, ctypes.c_void_p).value or 0
        return row

    def _record(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        active = self._scratch.active
        mask = np.zeros(self._n_features, dtype=np.bool_)
        mask[active[: active[-1]]] = True
        return self._scratch.x[: self._n_features].copy(), mask

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._scratch.failed[0] = 1

    def raise_error(self) -> None:
        """Raise what a learner has raised."""
        if self._error is not None:
            error, self._error = self._error, None
            self._scratch.failed[0] = 0
            raise error
