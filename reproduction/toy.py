"""The paper's toy figure: the exact log-likelihood of a logistic regression, and quadratics in its place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from braided.learners import LogisticConfig, LogisticRegression
from reproduction.documents import Document
from reproduction.views import Grid

Floats = NDArray[np.float64]
THETA = np.array([1.0, 2.0])
RECORDS, SEED = 100, 0
_RADII = (0.1, 0.25, 0.5, 1.0)


def records(seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """100 records: u = (x, 1) with x ~ N(-1.5, 1), and y = 1 with probability sigma(u . (1, 2))."""
    rng = np.random.default_rng(seed)
    u = np.column_stack([rng.normal(-1.5, 1.0, RECORDS), np.ones(RECORDS)])
    return u, (rng.random(RECORDS) < 1.0 / (1.0 + np.exp(-u @ THETA))).astype(np.int64)


def log_likelihood(theta: Floats, u: Floats, y: NDArray[np.int64]) -> Floats:
    """sum_t y_t a_t - log(1 + exp(a_t)) with a = u . theta, for each row of theta."""
    a = theta @ u.T
    total: Floats = (y * a - np.logaddexp(0.0, a)).sum(axis=-1)
    return total


def quadratic(theta: Floats, u: Floats, y: NDArray[np.int64]) -> Floats:
    """The second-order expansion of the log-likelihood around (1, 2)."""
    s = 1.0 / (1.0 + np.exp(-u @ THETA))
    gradient = u.T @ (y - s)
    curvature = (u * (s * (1 - s))[:, None]).T @ u
    step = theta - THETA
    value: Floats = log_likelihood(THETA, u, y) + step @ gradient - 0.5 * ((step @ curvature) * step).sum(axis=-1)
    return value


def posterior(u: Floats, y: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Mean and covariance, (x's weight, constant's weight), that the fast learner has after one pass, wide prior."""
    learner = LogisticRegression(LogisticConfig(gain="kalman", prior_variance=100.0, mask_inputs=False))
    learner.grow(1, 2)
    unused = np.zeros(2, dtype=np.float32)
    for row, label in zip(u, y, strict=True):
        learner.learn(row[:1].astype(np.float32), np.ones(1, dtype=bool), int(label), unused)
    state = learner.state()  # the constant comes first there
    return state["mean"][0, ::-1], state["covariance"][::-1, ::-1]


def count(document: Document, cells: object, results: object) -> None:
    """How far the quadratic is from the exact log-likelihood around (1, 2), and the posterior after one pass."""
    u, y = records(SEED)
    mean, covariance = posterior(u, y)
    angles = np.linspace(0, 2 * np.pi, 721)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    for radius in _RADII:
        theta = THETA + np.concatenate([r * circle for r in np.linspace(0, radius, 41)])
        exact = log_likelihood(theta, u, y)
        difference = np.abs(quadratic(theta, u, y) - exact)
        document["cells"].append(
            {
                "dataset": "toy",
                "method": "quadratic around (1, 2)",
                "radius": radius,
                "largest_difference": float(difference.max()),
                "range_of_exact": float(np.ptp(exact)),
                "records": RECORDS,
            }
        )
    document |= {"seed": SEED, "posterior": {"mean": mean.tolist(), "covariance": covariance.tolist()}}


def grid(document: Document) -> Grid:
    """A row for each radius."""
    header = ["within", "largest difference", "range of the exact log-likelihood"]
    figures = ((c["radius"], c["largest_difference"], c["range_of_exact"]) for c in document["cells"])
    return Grid(header, [[[f"{radius}"], [f"{largest:.3f}"], [f"{exact:.2f}"]] for radius, largest, exact in figures])
