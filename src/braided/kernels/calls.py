"""How the record loop calls learners and combiners it was not compiled with.

Every compiled learner has the same two entry points, with the explicit signatures below. An `Entry` compiles one of
them on first use; its machine-code address goes into an integer array, and the loop, compiled once for all
models, calls through that address (about 8 ns per call). The arrays a learner owns travel as (address, length) pairs in
the same way, so that a call from Python passes a handful of arguments whatever the number of learners.

The addresses stay valid as long as the learner keeps the arrays: `braided.engine` collects them again whenever an array
has been replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from braided.kernels.compile import CACHED, kernel

_INTS = types.int64[::1]
_SINGLES = types.float32[::1]
_DOUBLES = types.float64[::1]
_MATRIX = types.float32[:, ::1]
_FLAGS = types.boolean[::1]

#: forward(shape, hyper, single, double, x, active, step, work, work64, index, scores)
FORWARD = types.void(
    _INTS, _DOUBLES, _SINGLES, _DOUBLES, _SINGLES, _INTS, types.int64, _SINGLES, _DOUBLES, _INTS, _SINGLES
)
#: learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index) -> whether
#: finite; the gradient has been multiplied by the weight
LEARN = types.boolean(
    _INTS, _DOUBLES, _SINGLES, _SINGLES, _DOUBLES, _SINGLES, _INTS, types.int64, types.float64, types.float64, _SINGLES,
    _SINGLES, _DOUBLES, _INTS,
)  # fmt: skip
#: combine(shape, hyper, single, double, x, active, scores, usable, work, prediction)
COMBINE = types.void(_INTS, _DOUBLES, _SINGLES, _DOUBLES, _SINGLES, _INTS, _MATRIX, _FLAGS, _SINGLES, _DOUBLES)
#: gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients), where the
#: weight is for what the combiner itself learns
GRADIENTS = types.void(
    _INTS, _DOUBLES, _SINGLES, _DOUBLES, _SINGLES, _INTS, _MATRIX, _FLAGS, types.float64, types.float64, _DOUBLES,
    _SINGLES, _MATRIX,
)  # fmt: skip


class Entry:
    """A function with one of the signatures above, compiled or read from the disk cache when first needed."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.function = function
        self.signature = signature
        self.__doc__ = function.__doc__
        self._compiled: Any = None

    @property
    def address(self) -> int:
        """Where the machine code is."""
        if self._compiled is None:
            self._compiled = cfunc(self.signature, cache=CACHED)(self.function)
        return int(self._compiled.address)


def entry(signature: Any) -> Callable[[Callable[..., Any]], Entry]:
    """Mark a kernel as an entry point with `signature`."""
    return lambda function: Entry(function, signature)


def _caller(signature: Any) -> Any:
    """An intrinsic that turns an address into a callable of `signature`."""
    kind = types.FunctionType(signature)

    @intrinsic
    def as_function(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            function = cgutils.create_struct_proxy(kind)(context, builder)
            function.c_addr = builder.inttoptr(arguments[0], cgutils.voidptr_t)
            return function._getvalue()

        return kind(types.int64), generate

    return as_function


def pointer(element: Any) -> Any:
    """An intrinsic that turns an address into a pointer to `element`."""
    kind = types.CPointer(element)

    @intrinsic
    def as_pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(kind))

        return kind(types.int64), generate

    return as_pointer


forward_at = _caller(FORWARD)
learn_at = _caller(LEARN)
combine_at = _caller(COMBINE)
gradients_at = _caller(GRADIENTS)
_ints_at = pointer(types.int64)
_singles_at = pointer(types.float32)
_doubles_at = pointer(types.float64)


@kernel()
def ints(row, column):
    """The integer array whose address and length are in `row` at `column` and `column + 1`."""
    return carray(_ints_at(row[column]), (row[column + 1],))


@kernel()
def singles(row, column):
    """The same for float32."""
    return carray(_singles_at(row[column]), (row[column + 1],))


@kernel()
def doubles(row, column):
    """The same for float64."""
    return carray(_doubles_at(row[column]), (row[column + 1],))


# Columns of a learner's row in the table; each array takes two, its address and its length.
FORWARD_ADDRESS, LEARN_ADDRESS = 0, 1
SHAPE, HYPER, SINGLE, SECOND, DOUBLE, WORK, WORK64, INDEX = range(2, 18, 2)
COLUMNS = 18


@kernel()
def call_forward(row, x, active, step, scores):
    """Let the learner of this row compute its scores; its work arrays then hold what `call_learn` needs."""
    forward_at(row[FORWARD_ADDRESS])(
        ints(row, SHAPE), doubles(row, HYPER), singles(row, SINGLE), doubles(row, DOUBLE), x, active, step,
        singles(row, WORK), doubles(row, WORK64), ints(row, INDEX), scores,
    )  # fmt: skip


@kernel()
def call_learn(row, x, active, step, y, weight, gradient):
    """Let the learner of this row learn from the record it has just scored; false if its update was not finite."""
    return learn_at(row[LEARN_ADDRESS])(
        ints(row, SHAPE), doubles(row, HYPER), singles(row, SINGLE), singles(row, SECOND), doubles(row, DOUBLE), x,
        active, step, y, weight, gradient, singles(row, WORK), doubles(row, WORK64), ints(row, INDEX),
    )  # fmt: skip


def table_row(forward: Entry, learn: Entry, arrays: list[NDArray[Any]]) -> NDArray[np.int64]:
    """The row for one learner; `arrays` in the order of the columns from `SHAPE` on."""
    row = [forward.address, learn.address]
    for array in arrays:
        row += [array.ctypes.data, array.size]
    return np.array(row, dtype=np.int64)
