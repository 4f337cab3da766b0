"""How the record loop calls learners and combiners it was not compiled with.

Every compiled learner has the same two entry points, and every combiner too. Their machine-code addresses go into an
integer array, a row, and the loop, compiled once for all models, calls through them (a few ns per call). The arrays
that a learner owns travel in the same row as (address, length) pairs, so that a call passes a handful of arguments.

The addresses stay valid as long as the learner keeps the arrays: `braided.engine` collects them again whenever an array
has been replaced. A learner in Python has a row, too, with the addresses of two callbacks (`learners.callbacks`).
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.kernels.native import (
    Doubles,
    Entry,
    Flags,
    Ints,
    Signature,
    SingleRows,
    Singles,
    address_of,
    entry,
    kernel,
)

__all__ = ["COMBINE", "FORWARD", "GRADIENTS", "LEARN", "Entry", "entry"]


def array_at(address: int, kind: Any, *shape: int) -> NDArray[Any]:
    """The array of this kind (a NumPy type) and shape at an address; `kernels.jit` compiles it."""
    size = math.prod(map(int, shape)) * np.dtype(kind).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(int(address)), dtype=kind).reshape(shape)


def call_at(address: int, *arguments: Any) -> int:
    """What the entry point at an address returns; `kernels.jit` compiles it."""
    words: list[Any] = []
    for argument in arguments:
        words += [address_of(argument), *argument.shape] if isinstance(argument, np.ndarray) else [argument]
    block = struct.pack("".join("d" if isinstance(word, float) else "q" for word in words), *words)
    returned: int = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(int(address))(block)
    return returned


@kernel()
def ints(row, column):
    """The integer array whose address and length are in `row` at `column` and `column + 1`."""
    return array_at(row[column], np.int64, row[column + 1])


@kernel()
def singles(row, column):
    """The same for float32."""
    return array_at(row[column], np.float32, row[column + 1])


@kernel()
def doubles(row, column):
    """The same for float64."""
    return array_at(row[column], np.float64, row[column + 1])


# Columns of a learner's row in the table; each array takes two, its address and its length.
FORWARD_ADDRESS, LEARN_ADDRESS = 0, 1
SHAPE, HYPER, SINGLE, SECOND, DOUBLE, WORK, WORK64, INDEX = range(2, 18, 2)
COLUMNS = 18


# Columns of a combiner's row.
COMBINE_ADDRESS, GRADIENTS_ADDRESS = 0, 1
COMBINER_SHAPE, COMBINER_HYPER, COMBINER_SINGLE, COMBINER_DOUBLE, COMBINER_WORK = range(2, 12, 2)


@Signature
def FORWARD(kernel):  # noqa: N802
    """forward(shape, hyper, single, double, x, active, step, work, work64, index, scores)."""

    def forward(row: Ints, x: Singles, active: Ints, step: int, scores: Singles) -> None:
        kernel(
            ints(row, SHAPE), doubles(row, HYPER), singles(row, SINGLE), doubles(row, DOUBLE), x, active, step,
            singles(row, WORK), doubles(row, WORK64), ints(row, INDEX), scores,
        )  # fmt: skip

    return forward


@Signature
def LEARN(kernel):  # noqa: N802
    """learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index).

    Returns whether the update is finite; the gradient has been multiplied by the weight.
    """

    def learn(
        row: Ints, x: Singles, active: Ints, step: int, y: float, weight: float, gradient: Singles
    ) -> bool:  # fmt: skip
        return kernel(
            ints(row, SHAPE), doubles(row, HYPER), singles(row, SINGLE), singles(row, SECOND), doubles(row, DOUBLE), x,
            active, step, y, weight, gradient, singles(row, WORK), doubles(row, WORK64), ints(row, INDEX),
        )  # fmt: skip

    return learn


@Signature
def COMBINE(kernel):  # noqa: N802
    """combine(shape, hyper, single, double, x, active, scores, usable, work, prediction)."""

    def combine(
        row: Ints, x: Singles, active: Ints, scores: SingleRows, usable: Flags, prediction: Doubles
    ) -> None:  # fmt: skip
        kernel(
            ints(row, COMBINER_SHAPE), doubles(row, COMBINER_HYPER), singles(row, COMBINER_SINGLE),
            doubles(row, COMBINER_DOUBLE), x, active, scores, usable, singles(row, COMBINER_WORK), prediction,
        )  # fmt: skip

    return combine


@Signature
def GRADIENTS(kernel):  # noqa: N802
    """gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients).

    The weight is for what the combiner itself learns.
    """

    def gradients(
        row: Ints, x: Singles, active: Ints, scores: SingleRows, usable: Flags, y: float, weight: float,
        prediction: Doubles, gradients: SingleRows,
    ) -> None:  # fmt: skip
        kernel(
            ints(row, COMBINER_SHAPE), doubles(row, COMBINER_HYPER), singles(row, COMBINER_SINGLE),
            doubles(row, COMBINER_DOUBLE), x, active, scores, usable, y, weight, prediction,
            singles(row, COMBINER_WORK), gradients,
        )  # fmt: skip

    return gradients


@entry
def call_forward(row: Ints, x: Singles, active: Ints, step: int, scores: Singles) -> None:
    """Let the learner of this row compute its scores; its work arrays then hold what `call_learn` needs."""
    call_at(row[FORWARD_ADDRESS], row, x, active, step, scores)


@entry
def call_learn(
    row: Ints, x: Singles, active: Ints, step: int, y: float, weight: float, gradient: Singles
) -> bool:  # fmt: skip
    """Let the learner of this row learn from the record it has just scored; false if its update was not finite."""
    return call_at(row[LEARN_ADDRESS], row, x, active, step, y, weight, gradient) != 0


@entry
def call_combine(
    row: Ints, x: Singles, active: Ints, scores: SingleRows, usable: Flags, prediction: Doubles
) -> None:  # fmt: skip
    """Let the combiner of this row turn the scores of the usable learners into a prediction."""
    call_at(row[COMBINE_ADDRESS], row, x, active, scores, usable, prediction)


@entry
def call_gradients(
    row: Ints, x: Singles, active: Ints, scores: SingleRows, usable: Flags, y: float, weight: float,
    prediction: Doubles, gradients: SingleRows,
) -> None:  # fmt: skip
    """Let the combiner of this row give each learner its gradient, and learn itself if it has weights."""
    call_at(row[GRADIENTS_ADDRESS], row, x, active, scores, usable, y, weight, prediction, gradients)


def table_row(forward: Entry, learn: Entry, arrays: list[NDArray[Any]]) -> NDArray[np.int64]:
    """The row for one learner; `arrays` in the order of the columns from `SHAPE` on."""
    row = [forward.address, learn.address]
    for array in arrays:
        row += [address_of(array), array.size]
    return np.array(row, dtype=np.int64)
