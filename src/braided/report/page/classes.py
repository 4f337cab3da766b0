"""The classes of one model: calibration, confusion, and the figures of each class."""

from __future__ import annotations

import numpy as np

from braided.evaluation import History
from braided.report import plot
from braided.report.page.markup import MOST_LISTED, table
from braided.report.page.subject import Subject
from braided.report.plot.classes import confused


def class_pictures(subject: Subject, seeds: list[History], about: str) -> list[str]:
    """Calibration and confusion."""
    bins = np.sum([history.bins for history in seeds], axis=0)
    all_ = " Of all seeds together." if len(seeds) > 1 else ""
    pictures = []
    if bins[:, 0].any():
        rows = [
            [f"{10 * i}% to {10 * i + 10}%", f"{count:,.0f}", f"{confidence / count:.1%}", f"{right / count:.1%}"]
            for i, (count, confidence, right) in enumerate(bins)
            if count
        ]
        pictures.append(
            subject.picture(
                "Calibration",
                f"How often predictions of a given probability were right; each bar says of how many.{all_}",
                lambda ax: plot.calibration(seeds, ax=ax),
                table(["probability", "records", "mean", "right"], rows),
                about,
            )
        )
    names, counts, unanswered = confused(seeds)
    words = f"Records of each class (rows) by predicted class (columns); dark is a large share of the row.{all_}"
    if len(first := seeds[0].classes) > len(names):
        words += f" Of {len(first):,} classes the most frequent."
    if unanswered:
        verb = "is" if unanswered == 1 else "are"
        words += f" {unanswered:,} without a prediction, before any class was known, {verb} left out."
    rows = [[name, *(f"{count:,}" for count in row)] for name, row in zip(names, counts.tolist(), strict=True)]
    pictures.append(
        subject.picture(
            "Confusion",
            words,
            lambda ax: plot.confusion(seeds, ax=ax),
            table(["", *names], rows),
            about,
            2.8 if len(names) <= 8 else 3.8,
        )
    )
    return pictures


def by_class(subject: Subject, history: History) -> str:
    """Precision, recall and support of each class, the most frequent first."""
    entries = sorted(history.per_class().items(), key=lambda entry: -entry[1]["support"])
    rows = [
        [str(label), *("-" if own[key] is None else f"{own[key]:.1%}" for key in ("precision", "recall", "f1")),
         f"{own['support']:,}"]
        for label, own in entries[:MOST_LISTED]
    ]  # fmt: skip
    more = f" Of {len(entries):,} the most frequent." if len(entries) > len(rows) else ""
    seed = " Of the first seed." if subject.seeds > 1 else ""
    return f"<h3>By class</h3><p>Support is how many records had the label.{more}{seed}</p>" + table(
        ["class", "precision", "recall", "F1", "support"], rows
    )
