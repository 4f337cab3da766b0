"""The input stage: what learners may see beside a record's own values. The formulas are in `kernels.inputs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.kernels import inputs
from braided.store import MAX_COUNT, Array, check, counts

Arrays = dict[str, NDArray[Any]]


class InputStage:
    """Fills missing values from the others and from their own past, and ranks values; it knows no labels.

    Examples
    --------
    >>> from braided.kernels.scale import STATISTICS
    >>> rng, statistics = np.random.default_rng(0), np.zeros((2, STATISTICS))  # no unit ever changes
    >>> stage = InputStage()
    >>> stage.grow(2)
    >>> both, nothing_missing = np.arange(2), np.zeros(10, dtype=np.float32)
    >>> for a in rng.normal(size=500):
    ...     nothing_missing[:2] = a, -a
    ...     inputs.fill(stage.row, np.array([a, -a]), both, nothing_missing, both)
    ...     inputs.take_in(stage.row, np.array([a, -a]), both, statistics, nothing_missing, both, False)
    >>> x = np.zeros(10, dtype=np.float32)
    >>> x[0] = 1.0
    >>> inputs.fill(stage.row, np.array([1.0, np.nan]), both, x, both[:1])
    >>> [f"{value:.2f}" for value in x[2:4]]
    ['1.00', '-0.88']
    """

    def __init__(self, carry: bool = True) -> None:
        self.n_features = 0
        self.carry = carry
        self.row = np.zeros(inputs.COLUMNS, dtype=np.int64)
        self.memory = np.zeros(1)
        self.correlations = np.zeros(0, dtype=np.float32)
        self.scratch = np.zeros(0, dtype=np.float32)

    @property
    def planes(self) -> int:
        """How many numbers x holds for each feature."""
        return inputs.PLANES if 0 < self.n_features <= inputs.MAX_FEATURES else 1

    def grow(self, n_features: int) -> None:
        """Make room for more features; what is known of the others stays, unless there are too many by now."""
        old = self._parts() if self.planes > 1 else {}
        self.n_features = n_features
        kept = n_features if self.planes > 1 else 0
        self.memory = np.zeros(inputs.memory_size(kept))
        self.correlations = np.tile(np.eye(kept, dtype=np.float32), (2, 1, 1)).ravel()
        self.scratch = np.zeros(inputs.scratch_size(kept), dtype=np.float32)
        if kept:
            for name, part in self._parts().items():
                if name in old:
                    part[tuple(slice(0, n) for n in old[name].shape)] = old[name]
        arrays: list[NDArray[Any]] = [self.memory, self.correlations, self.scratch]
        addresses = [number for array in arrays for number in (array.ctypes.data, array.size)]
        self.row = np.array([kept, *addresses, self.carry], dtype=np.int64)

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Know nothing of some features, and of what goes with them."""
        if self.planes == 1:
            return
        parts = self._parts()
        parts["kept"][slots] = 0.0
        parts["figures"][slots] = 0.0
        for name in ("pairs", "correlations"):
            parts[name][:, slots, :] = 0.0
            parts[name][:, :, slots] = 0.0
        parts["correlations"][:, slots, slots] = 1.0

    def kept(self, slot: int) -> NDArray[np.float64]:
        """The past values of a feature that are kept, in order; none where there are too many features."""
        if self.planes == 1:
            return np.zeros(0)
        parts = self._parts()
        count: NDArray[np.float64] = np.clip(parts["figures"][slot, inputs.VALUES], 0, inputs.KEPT)
        return parts["kept"][slot, : int(count)]

    def _parts(self) -> Arrays:
        """The memory, in its parts."""
        n, memory = self.n_features, self.memory
        figures_at = 1 + n * inputs.KEPT
        pairs_at = figures_at + n * inputs.FIGURES
        return {
            "records": memory[:1],
            "kept": memory[1:figures_at].reshape(n, inputs.KEPT),
            "figures": memory[figures_at:pairs_at].reshape(n, inputs.FIGURES),
            "pairs": memory[pairs_at:].reshape(3, n, n),
            "correlations": self.correlations.reshape(2, n, n),
        }

    def state(self) -> Arrays:
        """Everything that was learned, as named arrays."""
        return {name: part.copy() for name, part in self._parts().items()} if self.planes > 1 else {}

    def schema(self) -> dict[str, Array]:
        """What the arrays of a `state` of this size must be; of pairs, the first are counts of records."""
        n = self.n_features
        if self.planes == 1:
            return {}
        low, high = np.array([0.0, -np.inf, -np.inf])[:, None, None], np.array([MAX_COUNT, np.inf, np.inf])
        return {
            "records": counts(1, dtype="float64"),
            "kept": Array((n, inputs.KEPT)),
            "figures": Array((n, inputs.FIGURES), "float64", *inputs.FIGURE_BOUNDS),
            "pairs": Array((3, n, n), "float64", low, high[:, None, None]),
            "correlations": Array((2, n, n), "float32"),
        }

    def check_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what is not a `state` of this size; nothing changes."""
        check("state of the input stage", self.schema(), arrays)

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` that was checked; the size must have been set by `grow`."""
        if self.planes > 1:
            for name, part in self._parts().items():
                part[:] = arrays[name]

    def __getstate__(self) -> dict[str, Any]:
        return {"n_features": self.n_features, "carry": self.carry, "arrays": self.state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["carry"])  # type: ignore[misc]
        if state["n_features"]:
            self.grow(state["n_features"])
            self.load_state(state["arrays"])
