"""The common part of learners with compiled kernels: their configurations, arrays and growth."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from braided.errors import BraidedError
from braided.kernels.calls import COLUMNS, Entry, call_forward, call_learn, table_row
from braided.kernels.random import fill_uniform, key_of
from braided.learners.protocol import Arrays
from braided.store import Array, check, variances

#: The first place in `hyper` of a gradient learner: the rate, which plasticity multiplies.
RATE = 0
#: Layers, or blocks, of a network.
MAX_LAYERS = 1_000
#: Numbers that a learner's arrays have room for, some 64 GiB of them.
_MAX_NUMBERS = 2**34


class LearnerConfig:
    """The settings of a learner: a frozen dataclass, and one of the keys of `braided.learners.LEARNERS`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def for_regression(self) -> LearnerConfig:
        """The settings of the learner that takes this one's place where targets are numbers; here the same."""
        return self


@dataclass(frozen=True)
class ArrayPlan:
    """One named array of a compiled learner.

    Attributes
    ----------
    shape
        One or two dimensions.
    bound
        Entries start uniform in +-bound; 0 means zeros.
    double
        float64 instead of float32.
    low, high, finite
        What a restored one may hold, as of `braided.store.Array`; without them anything. Whatever kernels index or
        divide by must be bounded.
    variance
        Its entries, or those on the diagonal of a matrix, are variances from this on; None if they are not.
    """

    shape: tuple[int, ...]
    bound: float = 0.0
    double: bool = False
    low: ArrayLike = -math.inf
    high: ArrayLike = math.inf
    finite: bool = False
    variance: float | None = None

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def schema(self) -> Array:
        """What a restored one must be."""
        dtype = "float64" if self.double else "float32"
        if self.variance is not None:
            return variances(self.shape, dtype, self.variance)
        return Array(self.shape, dtype, self.low, self.high, self.finite)


def _capacity(n: int) -> int:
    """The next power of two: growth by one feature at a time then copies O(n) in all."""
    return 1 << max(n - 1, 0).bit_length()


class CompiledLearner(ABC):
    """A learner whose two entry points are compiled kernels over flat buffers.

    A subclass says which named arrays it has (`plan`), which integers and floats its kernels need (`shape_numbers`,
    `hyper_numbers`), how much scratch (`work_sizes`), and names its two kernels. Everything that grows with features
    or classes is laid out with room to spare; the kernels never read the spare part, so capacity does not
    change a bit of any result.
    """

    #: Name in reports and on the command line.
    name: str
    #: `classification` or `regression` if the learner is for one of them alone.
    task: ClassVar[str | None] = None
    #: Whether `learn` is told the record's weight.
    takes_weight: ClassVar[bool] = True
    forward: ClassVar[Entry]
    update: ClassVar[Entry]

    def __init__(self, config: Any, seed: int = 0, place: int = 0) -> None:
        self.config = config
        self.seed = seed
        self.place = place
        self.adaptive = getattr(config, "optimiser", "sgd") != "sgd"
        self.n_features = 0
        self.n_outputs = 0
        self.steps = 0
        self.plasticity = 1.0
        self.views: Arrays = {}
        self._capacities = (0, 0)
        self._scratch: list[NDArray[Any]] = []
        self._allocate(1, 1)

    @abstractmethod
    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """The named arrays for these sizes. Asked for capacities to lay out memory, and for sizes in use."""

    @abstractmethod
    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """The integers that the kernels read: sizes in use, then where each array starts."""

    @abstractmethod
    def hyper_numbers(self) -> list[float]:
        """The floats that the kernels read."""

    @abstractmethod
    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """Scratch needed: float32, float64, int64."""

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Set the entries of an array outside its old corner of shape `old`."""
        matrix = view.reshape(view.shape[0], -1) if view.ndim < 2 else view
        first_row, first_column = old if len(old) == 2 else (old[0], 1)
        if bound == 0.0:
            matrix[first_row:] = 0.0
            matrix[:first_row, first_column:] = 0.0
        else:
            fill_uniform(matrix, key_of(self.seed, self.name, self.place, name), first_row, first_column, bound)

    def take_over(self, name: str, old: NDArray[Any]) -> None:
        """Copy an array into the larger one that takes its place."""
        self.views[name][tuple(slice(0, n) for n in old.shape)] = old

    def _allocate(self, capacity_features: int, capacity_outputs: int) -> None:
        """Lay out the buffers for these capacities, keeping what is in use."""
        old_views, self.views = self.views, {}
        plans = self.plan(capacity_features, capacity_outputs)
        total = sum(plan.size for plan in plans.values())
        if total > _MAX_NUMBERS:
            raise BraidedError(
                f"learner {self.name!r} would hold {total:,} numbers, and at most {_MAX_NUMBERS:,} are taken: make it "
                "smaller"
            )
        sizes = {False: 0, True: 0}
        self._offsets: dict[str, int] = {}
        for name, plan in plans.items():
            self._offsets[name] = sizes[plan.double]
            # Arrays start on cache lines.
            sizes[plan.double] += -(-plan.size // 16) * 16
        try:
            self.single = np.zeros(max(sizes[False], 1), dtype=np.float32)
            self.second = np.zeros_like(self.single) if self.adaptive else self.single
            self.double = np.zeros(max(sizes[True], 1), dtype=np.float64)
            work, work64, index = self.work_sizes(capacity_features, capacity_outputs)
            self.work = np.zeros(max(work, 1), dtype=np.float32)
            self.work64 = np.zeros(max(work64, 1), dtype=np.float64)
            self.index = np.zeros(max(index, 1), dtype=np.int64)
        except MemoryError:
            raise BraidedError(
                f"learner {self.name!r} would hold {total:,} numbers, and there is no memory for them: make it smaller"
            ) from None
        for name, plan in plans.items():
            start, size = self._offsets[name], plan.size
            buffers: Arrays = {name: self.double if plan.double else self.single}
            if self.adaptive and not plan.double:
                buffers[f"{name} second moment"] = self.second
            for key, buffer in buffers.items():
                self.views[key] = buffer[start : start + size].reshape(plan.shape)
                if key in old_views:
                    self.take_over(key, old_views[key])
        self._capacities = (capacity_features, capacity_outputs)

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Make room for more features or outputs; what was there is untouched."""
        if (n_features, n_outputs) == (self.n_features, self.n_outputs):
            return
        old = {name: plan.shape for name, plan in self.plan(self.n_features, self.n_outputs).items()}
        plans = self.plan(n_features, n_outputs)
        if n_features > self._capacities[0] or n_outputs > self._capacities[1]:
            self._allocate(_capacity(n_features), _capacity(n_outputs))
        first = self.n_outputs == 0
        self.n_features, self.n_outputs = n_features, n_outputs
        for name, plan in plans.items():
            corner = tuple(slice(0, n) for n in plan.shape)
            nothing = tuple(0 for _ in plan.shape)
            self.initialise(name, self.views[name][corner], nothing if first else old[name], plan.bound)
        self.describe()

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Make what belongs to some features as it is for features never seen: they may be others from now on.

        Features must lie one after another along the axes that grow with them. What lies elsewhere, or says something
        of a feature in another way, is for a subclass.
        """
        fewer = self.plan(self.n_features - 1, self.n_outputs)
        for name, plan in self.plan(self.n_features, self.n_outputs).items():
            steps = [n - before for n, before in zip(plan.shape, fewer[name].shape, strict=True)]
            for slot in slots.tolist() if max(steps) > 0 else ():
                # Where an axis does not grow with features, all of it is old.
                starts = [n - (self.n_features - slot) * step for n, step in zip(plan.shape, steps, strict=True)]
                if min(starts) >= 0:
                    self._forget_part(name, plan, starts, steps)

    def _forget_part(self, name: str, plan: ArrayPlan, starts: list[int], steps: list[int]) -> None:
        """Reset what one feature has of an array: along each axis `steps` entries from `starts` on."""
        whole = tuple(slice(0, n) for n in plan.shape)
        for key in (name, f"{name} second moment"):
            for axis, (start, step) in enumerate(zip(starts, steps, strict=True)):
                if key in self.views and step:
                    self.views[key][(*whole[:axis], slice(start, start + step), *whole[axis + 1 :])] = 0.0
        corner = tuple(slice(0, start + step) for start, step in zip(starts, steps, strict=True))
        self.initialise(name, self.views[name][corner], tuple(starts), plan.bound)

    def describe(self) -> None:
        """Write the numbers that the kernels read."""
        self.shape = np.array(self.shape_numbers(self._offsets), dtype=np.int64)
        self.hyper = np.array(self.plastic_numbers(), dtype=np.float64)

    def plastic_numbers(self) -> list[float]:
        """`hyper_numbers` as the plasticity of the moment changes them: the first is the rate of a gradient learner."""
        numbers = self.hyper_numbers()
        if self.plasticity != 1.0 and numbers:
            numbers[RATE] *= self.plasticity
        return numbers

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Learn faster, because the stream has changed.

        Called after a record while the model is more plastic than usual: take steps `factor` times as long as
        usual, until it is called with 1. `fresh` says that the drift was found just now.
        """
        self.plasticity = factor
        if self.n_outputs:
            self.hyper[:] = self.plastic_numbers()  # in place: the record loop holds its address

    def reset(self) -> None:
        """Return to the initial weights of the sizes in use."""
        n_features, n_outputs = self.n_features, self.n_outputs
        self.n_features = self.n_outputs = 0
        self.single[:] = 0.0
        self.second[:] = 0.0
        self.double[:] = 0.0
        self.grow(n_features, n_outputs)

    def table_row(self, own_scratch: bool = False) -> NDArray[np.int64]:
        """What is needed to call this learner's kernels.

        The record loop's calls leave a forward pass in the work arrays, to be learned from; calls by the Python
        protocol must not disturb it and have scratch of their own.
        """
        scratch: list[NDArray[Any]] = [self.work, self.work64, self.index]
        if own_scratch:
            if not self._scratch or any(a.size != b.size for a, b in zip(self._scratch, scratch, strict=True)):
                self._scratch = [np.zeros_like(array) for array in scratch]
            scratch = self._scratch
        row = table_row(
            self.forward, self.update, [self.shape, self.hyper, self.single, self.second, self.double, *scratch]
        )
        assert row.size == COLUMNS
        return row

    def scores(self, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The scores of one record, (n_outputs,)."""
        out = np.zeros(self.n_outputs, dtype=np.float32)
        call_forward(self.table_row(own_scratch=True), x, np.flatnonzero(mask), self.steps, out)
        return out

    def learn(
        self,
        x: NDArray[np.float32],
        mask: NDArray[np.bool_],
        y: float,
        gradient: NDArray[np.float32],
        weight: float = 1.0,
    ) -> bool:
        """Learn one record; the forward pass is done again, so no earlier call of `scores` is assumed.

        `weight` is within the bounds of `kernels.record_weight`, and in the gradient already.
        """
        self.scores(x, mask)
        step, self.steps = self.steps, self.steps + 1
        row, active = self.table_row(own_scratch=True), np.flatnonzero(mask)
        return bool(call_learn(row, x, active, step, float(y), float(weight), gradient))

    def _in_use(self) -> dict[str, tuple[slice, ...]]:
        """The part of each array that is in use."""
        parts = {}
        for name, plan in self.plan(self.n_features, self.n_outputs).items():
            corner = tuple(slice(0, n) for n in plan.shape)
            parts[name] = corner
            if f"{name} second moment" in self.views:
                parts[f"{name} second moment"] = corner
        return parts

    def state(self) -> Arrays:
        """Copies of all arrays, trimmed to what is in use."""
        return {name: self.views[name][corner].copy() for name, corner in self._in_use().items()}

    def numbers(self, n_features: int, n_outputs: int) -> int:
        """How many numbers the arrays hold for these sizes."""
        return sum(plan.size for plan in self.plan(n_features, n_outputs).values()) * (2 if self.adaptive else 1)

    def schema(self) -> dict[str, Array]:
        """What the arrays of a `state` of these sizes must be: the plan, and second moments."""
        schema = {}
        for name, plan in self.plan(self.n_features, self.n_outputs).items():
            schema[name] = plan.schema
            if f"{name} second moment" in self.views:
                schema[f"{name} second moment"] = Array(plan.shape, "float32", low=0.0, finite=False)
        return schema

    def check_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what is not a `state` of these sizes; nothing changes."""
        check(f"state of learner {self.name!r}", self.schema(), arrays)

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over arrays made by `state`; the sizes must have been set by `grow`."""
        self.check_state(arrays)
        for name, corner in self._in_use().items():
            self.views[name][corner] = arrays[name]

    def __getstate__(self) -> dict[str, Any]:
        kept = ("config", "seed", "place", "n_features", "n_outputs", "steps")
        return {**{name: getattr(self, name) for name in kept}, "arrays": self.state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["config"], state["seed"], state["place"])  # type: ignore[misc]
        if state["n_outputs"]:
            self.grow(state["n_features"], state["n_outputs"])
            self.load_state(state["arrays"])
        self.steps = state["steps"]
