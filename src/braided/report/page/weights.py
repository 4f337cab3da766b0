"""The fast learner's weights of one model."""

from __future__ import annotations

import numpy as np

from braided.evaluation import History
from braided.report import plot
from braided.report.page.markup import places, table
from braided.report.page.subject import Subject
from braided.report.plot.posterior import top_weights


def weight_pictures(subject: Subject, seeds: list[History], about: str) -> list[str]:
    """The largest weights at the end, and over time."""
    first = seeds[0]
    if not first.weight_mean.size:
        return []
    top = top_weights(seeds, 15)
    rows = [[str(name), whose, f"{mean:+.4g}", f"{sd:.3g}"] for _, _, name, whose, mean, sd in top]
    hidden = len(first.weight_names) - len(top)
    words = "Posterior mean and standard deviation of the fast learner's largest weights"
    words += f"; {hidden:,} smaller ones are not shown" if hidden else ""
    words += ", of the first seed." if subject.seeds > 1 else "."
    pictures = [
        subject.picture(
            "Weights at the end",
            words,
            lambda ax: plot.weights(seeds, ax=ax),
            table(["feature", "score of", "mean", "sd"], rows),
            about,
            max(1.2 + 0.17 * len(top), 2.0),
        )
    ]
    if len(first.blocks()) > 1:
        followed, deviations = first.weights()
        ends = first.blocks()[:, 0]
        shown = [entry for entry in top_weights(seeds, 6) if entry[1] < followed.shape[2]]
        rows = [
            [f"{ends[at]:,.0f}"]
            + [_weight(followed[at, row, place], deviations[at, place]) for row, place, *_ in shown]
            for at in places(len(ends))
        ]  # fmt: skip
        pictures.append(
            subject.picture(
                "Weights over time",
                "The six largest at the end, each with a band of one standard deviation.",
                lambda ax: plot.weights(seeds, most=6, over_time=True, ax=ax),
                table(["records", *(str(entry[2]) for entry in shown)], rows),
                about,
                3.2,
            )
        )
    return pictures


def _weight(mean: float, sd: float) -> str:
    """A weight with its deviation; empty while its feature or class was not known."""
    return "" if np.isnan(mean) else f"{mean:+.3g} \N{PLUS-MINUS SIGN} {sd:.2g}"
