"""What a learner is, and the checks of one written in Python: messages say which method returned what.

Whatever such a method raises by itself is left as it is: its author wants to see where.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.values import shown

Arrays = dict[str, NDArray[Any]]
#: How the methods of `Learner` are called, and those that a learner may have.
_CALLS = {
    "scores": ("x", "mask"),
    "learn": ("x", "mask", "y", "gradient"),
    "grow": ("n_features", "n_outputs"),
    "reset": (),
    "state": (),
    "load_state": ("arrays",),
    "forget_features": ("slots",),
    "raise_plasticity": ("factor", "fresh"),
}
_DTYPES = ("float32", "float64", "int64")


@runtime_checkable
class Learner(Protocol):
    """One channel of the braid: it turns a record into scores and learns from dL/dscores. It knows no other learner."""

    def scores(self, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The scores, (n_outputs,), of values x, (n_features,), of which `mask` are available. Changes nothing."""

    def learn(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], y: float, gradient: NDArray[np.float32]
    ) -> bool | None:
        """Learn one record; return False if the update was not finite and was left out, or broken off where it was.

        `y` is the class's place among the classes, or the target in units of its running statistics; `gradient` is
        dL/dscores, (n_outputs,). Closed-form learners use `y`, the others `gradient`.
        """

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Make room: both counts only ever grow, and what is known of the old ones must not change.

        It must not fail half-way: whatever can be refused is refused by an exception before anything has changed, at
        the first call if possible. The record is then refused, and the learner goes on with its old sizes. Of several
        learners in Python those before the one that raises have grown all the same.
        """

    def reset(self) -> None:
        """Forget everything learned, keeping the sizes."""

    # A learner may also have `raise_plasticity(factor, fresh)`, and `forget_features(slots)`, which it needs in a model
    # with an `expire_after`; see `CompiledLearner`. The gradient has been multiplied by the record's weight; one that
    # learns from `y` may have `takes_weight = True`, and `learn` a fifth argument for it. One that cannot take more
    # classes than some number says so by `max_classes`.

    def state(self) -> Arrays:
        """All that was learned, as named arrays."""

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` of a learner of the same sizes."""


def name_of(learner: Any) -> str:
    """What a learner is called in messages."""
    return str(getattr(learner, "name", type(learner).__name__))


def check_methods(learner: Any) -> None:
    """Refuse a method that cannot be called as the engine calls it."""
    for method, arguments in _CALLS.items():
        given = (*arguments, "weight") if method == "learn" and getattr(learner, "takes_weight", False) else arguments
        bound = getattr(learner, method, None)
        if bound is None:
            continue
        try:
            signature = inspect.signature(bound)
        except (TypeError, ValueError):  # what is written in C does not always say
            continue
        try:
            signature.bind(*given)
        except TypeError:
            raise BraidedError(
                f"learner {name_of(learner)!r} has a method {method}{signature}, and it is called as "
                f"{method}({', '.join(given)}): let it take these"
            ) from None


def _described(found: Any) -> str:
    """An answer in a few words: the shape of an array, or the value and its type."""
    if isinstance(found, np.ndarray) or hasattr(found, "shape"):
        return f"{type(found).__name__} of shape {tuple(found.shape)} and type {getattr(found, 'dtype', '?')}"
    if isinstance(found, list | tuple):
        return f"{type(found).__name__} of length {len(found)}"
    return f"{type(found).__name__} {shown(found)}"


def checked_scores(learner: Any, found: Any, n_outputs: int) -> NDArray[np.float32]:
    """The scores of one record, (n_outputs,), as float32."""
    if type(found) is np.ndarray and found.shape == (n_outputs,) and found.dtype == np.float32:
        return found
    try:
        scores = np.asarray(found)
        fits = scores.shape == (n_outputs,) and scores.dtype.kind in "fiub"
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise BraidedError(
            f"learner {name_of(learner)!r}: scores gave {_described(found)}, and it must give {n_outputs} numbers, an "
            f"array of shape ({n_outputs},): one score per output"
        )
    with np.errstate(over="ignore"):  # what is infinite is left out of the sum
        return scores.astype(np.float32)


def checked_learned(learner: Any, found: Any) -> bool:
    """Whether a record was learned."""
    if found is None or isinstance(found, bool | np.bool_):
        return found is None or bool(found)
    raise BraidedError(
        f"learner {name_of(learner)!r}: learn gave {_described(found)}, and it must give True, False (the update was "
        "left out) or None"
    )


def checked_state(learner: Any, found: Any) -> Arrays:
    """The arrays of a learner's state."""
    if not isinstance(found, dict):
        raise BraidedError(
            f"learner {name_of(learner)!r}: state gave {_described(found)}, and it must give a dict of names to arrays"
        )
    for key, array in found.items():
        if not isinstance(key, str) or not isinstance(array, np.ndarray) or array.dtype.name not in _DTYPES:
            raise BraidedError(
                f"learner {name_of(learner)!r}: state gave {_described(array)} under {shown(key)}, and it must give "
                f"arrays of {', '.join(_DTYPES)} under names"
            )
    return found
