"""Online learning from varying features (OLVF)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.activations import sigmoid
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.native import kernel
from braided.kernels.record_weight import of_gradient
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig


@dataclass(frozen=True)
class OLVFConfig(LearnerConfig):
    """Settings of OLVF; the formulas are in `OLVF`.

    Attributes
    ----------
    aggressiveness
        C, the largest step of the instance classifier.
    feature_rate
        C-bar, the step of the feature-space classifier.
    share_kept
        B, the share of weights (the largest) that survive each step; 1 keeps all.
    radius
        lambda, the radius of the L1 ball that w is projected onto; 0 means no projection.
    """

    aggressiveness: float = 0.01
    feature_rate: float = 0.0001
    share_kept: float = 1.0
    radius: float = 30.0

    def __post_init__(self) -> None:
        checks.above(self, 0.0, "aggressiveness", "share_kept")
        checks.at_least(self, 0.0, "feature_rate", "radius")


# Places in `shape`: features in use, and the distance of the arrays. `double` holds w, w-bar and whether a feature has
# been learned, one after another. In `hyper`: C, Cbar, B, lambda. In `work64`: the margin, then the sizes of w.
_SIZE, _STRIDE = 0, 1
_LARGEST_STEP, _FEATURE_RATE, _SHARE_KEPT, _RADIUS = range(4)
_MARGIN, _SIZES = 0, 1


@kernel()
def _in_place(values, place):
    """The number that has this place among some in order; reorders them (Hoare's quickselect)."""
    low, high = 0, values.shape[0] - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    margin = 0.0
    for slot in active:
        margin += double[slot] * x[slot]
    work64[_MARGIN] = margin
    scores[0], scores[1] = -margin / 2.0, margin / 2.0


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    size, stride = shape[_SIZE], shape[_STRIDE]
    largest_step, feature_rate = weight * hyper[_LARGEST_STEP], of_gradient(weight) * hyper[_FEATURE_RATE]
    share_kept, radius = hyper[_SHARE_KEPT], hyper[_RADIUS]
    w, feature_w, known = double[:stride], double[stride : 2 * stride], double[2 * stride : 3 * stride]
    margin = work64[_MARGIN]
    sign = 1.0 if y == 1.0 else -1.0
    square, in_record, in_old = 0.0, 0.0, 0.0
    for slot in active:
        square += np.float64(x[slot]) * np.float64(x[slot])
        in_record += feature_w[slot]
    for slot in range(size):
        in_old += known[slot] * feature_w[slot]
    if not (np.isfinite(margin) and np.isfinite(square) and np.isfinite(in_old)):
        return False
    sure_of_old, sure_of_record = sigmoid(in_old), sigmoid(in_record)
    loss = max(0.0, 1.0 - sign * margin)
    tau = min(largest_step, loss / square) if square > 0 else 0.0
    right = 1.0 if (margin > 0) == (sign > 0) else 0.0
    for slot in active:
        if known[slot] > 0:
            w[slot] += sure_of_old * tau * sign * x[slot]
        else:
            w[slot] = sure_of_record * tau * sign * x[slot]
            known[slot] = 1.0
        feature_w[slot] += feature_rate * (right - sure_of_record)
    norm = 0.0
    for slot in range(size):
        norm += abs(w[slot])
    if radius > 0 and norm > radius:
        for slot in range(size):
            w[slot] *= radius / norm
    kept = int(np.ceil(share_kept * size))
    if kept < size:
        sizes = work64[_SIZES : _SIZES + size]
        for slot in range(size):
            sizes[slot] = abs(w[slot])
        smallest_kept = _in_place(sizes, size - kept)
        for slot in range(size):
            if abs(w[slot]) < smallest_kept:
                w[slot] = 0.0
    return True


class OLVF(CompiledLearner):
    """A linear classifier whose steps are scaled by how far its feature space can be trusted (Beyazit et al. 2019).

    With y in {-1, +1} and w zero for features never seen, predict sign(w . x). Then, over the available features:

        l = max(0, 1 - y w . x),   tau = min(C, l / |x|^2)
        P_w = sigma(wbar . [feature was known]),   P_x = sigma(wbar . [feature is in this record])
        w_j += P_w tau y x_j for known features,   w_j = P_x tau y x_j for new ones
        wbar_j += Cbar ([prediction was right] - P_x)      for the features of this record
        w <- w min(1, lambda / |w|_1), and all but the B share of largest |w_j| are set to 0

    A record of weight c (within 1e-6 and 100) has c C in place of C, and min(c, 10) Cbar in place of Cbar.

    The scores are (-w . x / 2, w . x / 2). The method is binary: a third class is refused.

    Examples
    --------
    >>> import numpy as np
    >>> learner = OLVF(OLVFConfig(aggressiveness=1.0))
    >>> learner.grow(1, 2)
    >>> x, mask, unused = np.array([2.0], dtype=np.float32), np.array([True]), np.zeros(2, dtype=np.float32)
    >>> learner.learn(x, mask, 1, unused)  # w = P_x tau x = 1/2 * 1/4 * 2
    True
    >>> learner.state()["weights"].tolist()
    [0.25]
    """

    name = "olvf"
    task = "classification"
    #: The model reads this before it admits a class.
    max_classes = 2
    config: OLVFConfig
    forward = _forward
    update = _learn

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Two weights per feature, and whether it is known."""
        weights = ArrayPlan((n_features,), double=True, finite=True)
        known = ArrayPlan((n_features,), double=True, low=0.0, high=1.0, finite=True)
        return {"weights": weights, "feature weights": weights, "known": known}

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Take in features; there are two classes."""
        if n_outputs != self.max_classes:
            raise BraidedError(f"olvf is a binary method and cannot have {n_outputs} outputs: use another model")
        super().grow(n_features, n_outputs)

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Features in use, and the distance of the arrays."""
        return [self.n_features, offsets["feature weights"]]

    def hyper_numbers(self) -> list[float]:
        """C, Cbar, B, lambda."""
        config = self.config
        return [config.aggressiveness, config.feature_rate, config.share_kept, config.radius]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """The margin, and the sizes of the weights."""
        return 0, 1 + n_features, 0

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """All zero."""
        view[old[0] :] = 0.0
