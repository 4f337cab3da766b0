"""Draw docs/missing.png: one record with missing features, as each learner of the default sees and learns it.

Everything in it is taken from a model: `python docs/draw_missing.py FILE`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from braided import MODLClassifier
from braided.kernels.encoding import encode_piecewise, knots
from braided.kernels.scale import encode

NAMES = ("humidity", "pressure", "rpm", "temperature", "vibration")
SHOWN = 20  # of the functions and of the embedding
CROSS = "\N{MULTIPLICATION SIGN}"
INK, LINE, MOVED = "#37474f", "#b0bec5", "#ff7043"


def stream(n: int, seed: int = 3) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Five sensors of a machine; rpm and vibration go together, and vibration is mounted after half of the records."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, len(NAMES)))
    values[:, 4] = 0.8 * values[:, 2] + 0.6 * values[:, 4]
    labels = np.where(values[:, 2] + values[:, 4] - values[:, 3] > 0, "busy", "idle")
    values[rng.random(values.shape) < 0.3] = np.nan
    values[: n // 2, 4] = np.nan
    return values, labels


@dataclass(frozen=True)
class Seen:
    """What the picture shows.

    Attributes
    ----------
    values
        The stream; its last row is the record that is looked at.
    there
        Which features that record has.
    given
        Learner to what each feature contributes to its input, a row a feature.
    moves
        Learner to how far learning the record moved each feature's own weights, as a share of the farthest.
    """

    values: NDArray[np.float64]
    there: NDArray[np.bool_]
    given: dict[str, NDArray[np.float64]]
    moves: dict[str, NDArray[np.float64]]


def measure() -> Seen:
    """Train a default model, let it learn one more record, and note what it was given and what moved."""
    values, labels = stream(400)
    values[-1] = [0.8, np.nan, 1.3, -0.9, np.nan]
    model = MODLClassifier()
    model.learn_many(values[:-1], labels[:-1], NAMES)
    slots = [model.feature_names.index(name) for name in NAMES]
    before = [learner.state() for learner in model.braid.learners]
    x = standardised(model, values[-1])
    model.learn_many(values[-1:], labels[-1:], NAMES)
    after = [learner.state() for learner in model.braid.learners]
    there = ~np.isnan(values[-1])
    given = {
        "olr": x[:, None],
        "fourier": x[:, None] * before[1]["frequencies"][slots, :SHOWN] / np.sqrt(there.sum()),
        "mlp": encoded(x, there),
        "set": x[:, None] * before[3]["ids"][slots, :SHOWN],
    }
    moves = {
        "olr": moved(before[0]["mean"][0, 1:], after[0]["mean"][0, 1:], slots, 1),
        "mlp": moved(before[2]["weights 1"], after[2]["weights 1"], slots, 10),
        "set": moved(before[3]["ids"], after[3]["ids"], slots, 1),
    }
    return Seen(values, there, given, moves)


def main(path: Path) -> None:
    """Draw the stream on the left, what the learners are given in the middle, what moves on the right."""
    matplotlib.use("Agg")
    seen = measure()
    about = {
        "olr": "olr: one value a feature",
        "fourier": "fourier: parts of the angles, over sqrt(3)",
        "mlp": "mlp: value and its encoding in 9 inputs",
        "set": "set: values times the features' vectors",
    }
    figure = plt.figure(figsize=(11, 6.6))
    grid = figure.add_gridspec(4, 3, width_ratios=[1.2, 1.6, 0.9], hspace=0.75, wspace=0.42)
    draw_stream(figure.add_subplot(grid[:, 0]), seen.values)
    for row, (name, parts) in enumerate(seen.given.items()):
        draw_given(figure.add_subplot(grid[row, 1]), parts, seen.there, about[name])
        draw_moved(figure.add_subplot(grid[row, 2]), seen.moves.get(name), seen.there)
    figure.savefig(path, dpi=130, bbox_inches="tight", facecolor="white")
    plt.close(figure)


def standardised(model: MODLClassifier, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The record as the learners see it, in the order of NAMES; zero where a feature is missing."""
    columns = np.array([NAMES.index(str(name)) for name in model.feature_names])
    x, active = np.zeros(columns.size), np.zeros(columns.size, dtype=np.int64)
    encode(values, columns, model.braid.statistics, True, x, active)
    in_order = np.zeros_like(x)
    in_order[columns] = x
    return in_order


def encoded(x: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For each feature its value and the piecewise-linear encoding; zeros where it is missing."""
    places = np.array(knots(8))
    rows = np.zeros((x.size, 1 + places.size))
    for j in np.flatnonzero(there):
        rows[j, 0] = x[j]
        encode_piecewise(x[j], places, rows[j, 1:])
    return rows


def moved(old: NDArray[np.float64], new: NDArray[np.float64], slots: list[int], each: int) -> NDArray[np.float64]:
    """How far the weights of each feature moved, as a share of the farthest."""
    steps = (new - old).reshape(len(slots), each, -1)
    lengths = np.sqrt((steps**2).sum(axis=(1, 2)))[slots]
    return lengths / lengths.max()


def draw_stream(axes: plt.Axes, values: NDArray[np.float64]) -> None:
    """The records around the one where a feature appears, and the last one."""
    first = int(np.flatnonzero(~np.isnan(values[:, 4]))[0])
    rows = [*range(first - 4, first + 5), len(values) - 1]
    for at, row in enumerate(rows):
        y = at + (0.8 if at == len(rows) - 1 else 0)
        for j, value in enumerate(values[row]):
            known = row >= first or j != 4
            shade = "white" if np.isnan(value) else plt.cm.RdBu_r(0.5 + 0.18 * value)
            hatch = None if known else "////"
            axes.add_patch(plt.Rectangle((j, y), 0.92, 0.88, facecolor=shade, edgecolor=LINE, lw=0.8, hatch=hatch))
            if np.isnan(value) and known:
                axes.text(j + 0.46, y + 0.46, CROSS, ha="center", va="center", color=LINE, fontsize=12)
        axes.text(-0.2, y + 0.45, f"{row + 1}", ha="right", va="center", fontsize=8, color=INK)
    axes.text(-0.2, len(rows) - 0.63, "⋮", ha="right", va="center", color=INK)
    axes.set_xlim(-0.9, 5)
    axes.set_ylim(len(rows) + 1, -0.3)
    axes.set_xticks([j + 0.46 for j in range(5)], NAMES, rotation=40, ha="left", rotation_mode="anchor", fontsize=8)
    axes.xaxis.tick_top()
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(
        f"records of a stream; {CROSS} is missing, hatched not yet known.\n"
        "The last one, on the right, as the learners see it",
        fontsize=8.5,
        color=INK,
    )


def draw_given(axes: plt.Axes, parts: NDArray[np.float64], there: NDArray[np.bool_], title: str) -> None:
    """What each feature contributes to a learner's input; nothing where it is missing."""
    limit = np.abs(parts).max()
    axes.imshow(np.where(there[:, None], parts, np.nan), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    for j in np.flatnonzero(~there):
        axes.text((parts.shape[1] - 1) / 2, j, "not there", ha="center", va="center", fontsize=7, color="#78909c")
    axes.set_yticks(range(5), NAMES, fontsize=7.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_color(LINE)
    axes.set_title(title, fontsize=9, color=INK, loc="left")


def draw_moved(axes: plt.Axes, lengths: NDArray[np.float64] | None, there: NDArray[np.bool_]) -> None:
    """How far learning the record moved each feature's weights."""
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(LINE)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_ylim(4.6, -0.6)
    axes.set_xlim(0, 1.3)
    axes.set_title("what learning it moves", fontsize=9, color=INK, loc="left")
    if lengths is None:
        axes.text(0.05, 2, "weights of the cosines,\nwhich belong to no\nfeature", va="center", fontsize=8, color=INK)
        return
    axes.barh(range(5), lengths, color=[MOVED if known else "#ffccbc" for known in there], height=0.7)
    for j, length in enumerate(lengths):
        axes.text(length + 0.03, j, f"{length:.2f}" if length else "0", va="center", fontsize=7.5, color=INK)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
