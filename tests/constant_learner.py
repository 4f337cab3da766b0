"""A learner in plain Python, as a user would write one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Constant:
    """Learns one score per class by gradient: the class frequencies."""

    name = "constant"

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = rate
        self.bias = np.zeros(0, dtype=np.float32)

    def scores(self, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        return self.bias

    def learn(self, x: NDArray[np.float32], mask: NDArray[np.bool_], y: float, gradient: NDArray[np.float32]) -> bool:
        self.bias = self.bias - np.float32(self.rate) * gradient
        return True

    def grow(self, n_features: int, n_outputs: int) -> None:
        self.bias = np.concatenate([self.bias, np.zeros(n_outputs - self.bias.size, dtype=np.float32)])

    def reset(self) -> None:
        self.bias = np.zeros_like(self.bias)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"bias": self.bias}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.bias = arrays["bias"].copy()
