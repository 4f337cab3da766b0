"""The classes of one model: calibration, confusion, and the figures of each class."""

from __future__ import annotations

from collections.abc import Hashable, Sized
from typing import Any

import numpy as np

from braided.evaluation import History
from braided.report import plot
from braided.report.page.markup import MAX_LISTED, section, table
from braided.report.page.subject import Subject
from braided.report.plot.axes import short
from braided.report.plot.classes import MAX_LETTERS, confused


def class_pictures(subject: Subject, seeds: list[History], about: str) -> list[str]:
    """Calibration and confusion."""
    bins = np.sum([history.tally.bins for history in seeds], axis=0)
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
    if len(first := seeds[0].tally.classes) > len(names):
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


def recalls(subject: Subject) -> str:
    """How often each model found each class, the most frequent first; nothing where targets are numbers."""
    if subject.regression:
        return ""
    firsts = {name: seeds[0].tally.per_class() for name, seeds in subject.histories.items()}
    entries = _by_support(next(iter(firsts.values())))
    records = subject.document["records"]
    rows = [
        [short(label, MAX_LETTERS), f"{own['support']:,}", f"{own['support'] / records:.1%}",
         *(_share(per_class.get(label, {}).get("recall")) for per_class in firsts.values())]
        for label, own in entries[:MAX_LISTED]
    ]  # fmt: skip
    words = "Recall: the share of a class's records that was predicted as it." + _left_out(subject, entries)
    models = [f"recall of {name}" for name in firsts]
    return section("By class", f"<p>{words}</p>" + table(["class", "records", "share", *models], rows, "main"))


def by_class(subject: Subject, history: History) -> str:
    """Precision, recall, F1 and support of each class, and what it was most often taken for."""
    entries = _by_support(history.tally.per_class())
    rows = [
        [short(label, MAX_LETTERS), *(_share(own[key]) for key in ("precision", "recall", "f1")),
         f"{own['support']:,}", _taken_for(history, label)]
        for label, own in entries[:MAX_LISTED]
    ]  # fmt: skip
    words = "Support is how many records had the label." + _left_out(subject, entries)
    header = ["class", "precision", "recall", "F1", "support", "most often taken for"]
    return f"<h3>By class</h3><p>{words}</p>" + table(header, rows, "main")


def _by_support(per_class: dict[Hashable, dict[str, Any]]) -> list[tuple[Hashable, dict[str, Any]]]:
    """The classes, the most frequent first."""
    return sorted(per_class.items(), key=lambda entry: -entry[1]["support"])


def _left_out(subject: Subject, entries: Sized) -> str:
    """What a table of classes does not have."""
    more = f" Of {len(entries):,} the {MAX_LISTED} most frequent." if len(entries) > MAX_LISTED else ""
    return more + (" Of the first seed." if subject.seeds > 1 else "")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _taken_for(history: History, label: Hashable) -> str:
    """The class that records of another were wrongly predicted as most often, and how often."""
    place = history.tally.classes.index(label)
    counts = history.tally.confusion[place, :-1].copy()
    counts[place] = 0
    if not counts.any():
        return "-"
    other = int(counts.argmax())
    return f"{short(history.tally.classes[other])} ({counts[other]:,})"
