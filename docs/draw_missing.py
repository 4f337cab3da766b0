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
from braided.kernels.inputs import FILLED, PLAIN, SCORES

NAMES = ("humidity", "pressure", "rpm", "temperature", "vibration")
SHOWN = 20  # of the functions
CROSS = "\N{MULTIPLICATION SIGN}"
INK, LINE, MOVED, PALE = "#37474f", "#b0bec5", "#ff7043", "#ffccbc"


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
    learners = dict(zip(model.learner_names, model.braid.learners, strict=True))
    before = {name: learner.state() for name, learner in learners.items()}
    model.predict_many(values[-1:], NAMES)
    scored = model.braid.last_scored()
    assert scored is not None
    x = scored.x
    plain, filled, scores = (x[plane * len(NAMES) :][slots].astype(np.float64) for plane in (PLAIN, FILLED, SCORES))
    model.learn_many(values[-1:], labels[-1:], NAMES)
    after = {name: learner.state() for name, learner in learners.items()}
    there = ~np.isnan(values[-1])

    def moved(name: str, array: str, each: int = 1) -> NDArray[np.float64]:
        """How far the weights of each feature moved, as a share of the farthest."""
        old, new = (state[name][array] for state in (before, after))
        if array == "mean":
            old, new = old[0, 1:], new[0, 1:]
        steps = (new - old).reshape(len(slots), each, -1)
        lengths = np.sqrt((steps**2).sum(axis=(1, 2)))[slots]
        return np.asarray(lengths / lengths.max())

    given = {
        "olr": filled[:, None],
        "fourier": scores[:, None] * before["fourier"]["frequencies"][slots, :SHOWN],
        "mlp": encoded(plain, filled, there),
        "forest": plain[:, None],
    }
    moves = {
        "olr": moved("olr", "mean"),
        "fourier": moved("fourier", "frequencies"),
        "mlp": moved("mlp", "weights 1", 10),
    }
    return Seen(values, there, given, moves)


def main(path: Path) -> None:
    """Draw the stream on the left, what the learners are given in the middle, what moves on the right."""
    matplotlib.use("Agg")
    seen = measure()
    about = {
        "olr": "olr: one value per feature",
        "fourier": "fourier: parts of 20 of its angles",
        "mlp": "mlp: the value, and its encoding in 9 inputs",
        "forest": "forest: the values that are there",
    }
    what = {"olr": "weights", "fourier": "frequencies", "mlp": "first layer", "forest": "counts of nodes"}
    figure = plt.figure(figsize=(11, 6.6))
    grid = figure.add_gridspec(4, 3, width_ratios=[1.2, 1.6, 0.9], hspace=0.75, wspace=0.42)
    draw_stream(figure.add_subplot(grid[:, 0]), seen.values)
    for row, (name, parts) in enumerate(seen.given.items()):
        draw_given(figure.add_subplot(grid[row, 1]), parts, seen.there, about[name])
        draw_moved(figure.add_subplot(grid[row, 2]), seen.moves.get(name), seen.there, what[name])
    figure.savefig(path, dpi=130, bbox_inches="tight", facecolor="white")
    plt.close(figure)


def encoded(plain: NDArray[np.float64], filled: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For each feature its value or estimate, and the piecewise-linear encoding; no encoding where it is missing."""
    places = np.array(knots(8))
    rows = np.zeros((plain.size, 1 + places.size))
    rows[:, 0] = filled
    for j in np.flatnonzero(there):
        encode_piecewise(plain[j], places, rows[j, 1:])
    return rows


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
    """What each feature contributes to a learner's input; a missing one's cells are marked."""
    limit = np.abs(parts).max()
    empty = ~there & ~parts.any(axis=1)
    shown = np.where(empty[:, None], np.nan, parts)
    axes.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    for j in np.flatnonzero(~there):
        said = "not there" if empty[j] else "estimated"
        if not empty[j] and parts.shape[1] == 1:
            said = f"estimated: {round(parts[j, 0], 1) + 0.0:.1f} deviations from its mean"
        elif not empty[j] and not parts[j, 1:].any():
            said = "estimated, and not encoded"
        axes.text((parts.shape[1] - 1) / 2, j, said, ha="center", va="center", fontsize=7, color=INK)
    axes.set_yticks(range(5), NAMES, fontsize=7.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_color(LINE)
    axes.set_title(title, fontsize=9, color=INK, loc="left")


def draw_moved(axes: plt.Axes, lengths: NDArray[np.float64] | None, there: NDArray[np.bool_], what: str) -> None:
    """How far learning the record moved each feature's weights; pale where the feature was missing."""
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(LINE)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_ylim(4.6, -0.6)
    axes.set_xlim(0, 1.3)
    axes.set_title(f"learning moves: {what}", fontsize=9, color=INK, loc="left")
    if lengths is None:
        said = "those on the record's way; where\na split is on a missing feature,\nto either side by chance"
        axes.text(0.05, 2, said, va="center", fontsize=8, color=INK)
        return
    axes.barh(range(5), lengths, color=[MOVED if known else PALE for known in there], height=0.7)
    for j, length in enumerate(lengths):
        axes.text(length + 0.03, j, f"{length:.2f}" if length else "0", va="center", fontsize=7.5, color=INK)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
