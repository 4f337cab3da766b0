"""One model: its learners, their shares, what it covered, what failed, what features added."""

from __future__ import annotations

from html import escape

import numpy as np

from braided.evaluation import History
from braided.evaluation.metrics import quantity
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import ANSWER, LEARNERS
from braided.report import plot
from braided.report.page.classes import by_class, class_pictures
from braided.report.page.errors import curves
from braided.report.page.hover import Reading
from braided.report.page.markup import MAX_LISTED, places, section, table
from braided.report.page.subject import Subject
from braided.report.page.weights import weight_pictures
from braided.report.plot.axes import COLOURS, legend_names, short, stairs


def model(subject: Subject, name: str) -> str:
    """Pictures of one model."""
    seeds = subject.histories[name]
    first = seeds[0]
    about = f" of {name}"
    parts = []
    if len(first.learners) > 1:
        wrong = "Mean absolute error of each alone" if subject.regression else "What each alone would have got wrong"
        columns = {"together": (seeds, ANSWER)}
        columns |= {f"{name} alone": (seeds, LEARNERS + i) for i, name in enumerate(first.learners)}
        parts.append(
            subject.picture(
                "Each learner's own error",
                f"{wrong} among the last {first.window():,} records.",
                lambda ax: plot.learners(seeds, ax=ax),
                curves(subject, columns, windowed=True) if len(first.windowed()) else "",
                about,
                2.8 if len(first.learners) < 6 else 3.2,
            )
        )
        shares, ends = first.shares(), first.blocks()[:, 0]
        of_class = "" if subject.regression else " for the predicted class, less its mean over the classes"
        rows = [[f"{ends[place]:,.0f}", *(f"{share:.1%}" for share in shares[place])]
                for place in places(len(ends)) if np.isfinite(shares[place]).all()]  # fmt: skip
        by_habit = not subject.regression and "recent" in first.learners
        habit = " The share of recent comes from earlier labels, not from the record." if by_habit else ""
        if rows:
            parts.append(
                subject.picture(
                    "Shares of the final score",
                    "The final score is a sum of one term per learner, weighted by the combiner. The share is the "
                    f"size of a learner's term{of_class}, among the sizes of all. Measured on the last record of "
                    f"each block.{habit}",
                    lambda ax: plot.shares(seeds, ax=ax),
                    table(["records", *first.learners], rows),
                    about,
                    readings=_readings(first),
                )
            )
    parts += weight_pictures(subject, seeds, about)
    if not subject.regression:
        parts += class_pictures(subject, seeds, about)
    parts += _coverage(subject, seeds, about)
    if first.resets().any() or first.skipped().any():
        totals = [(n, int(first.skipped()[:, i].sum()), int(first.resets()[:, i].sum()))
                  for i, n in enumerate(first.learners)]  # fmt: skip
        parts.append(
            subject.picture(
                "Resets and skipped updates",
                "So far; of the first seed." if subject.seeds > 1 else "So far.",
                lambda ax: plot.failures(first, ax=ax),
                table(["learner", "skipped", "resets"], totals),
                about,
            )
        )
    below = ("" if subject.regression else by_class(subject, first)) + _importance(subject, first)
    if not parts and not below:
        return ""
    return section(name, f'<div class="pictures">{"".join(parts)}</div>{below}')


def _readings(history: History) -> list[Reading]:
    """The shares of the learners, block by block, as the pointer reads them."""
    x, shares = stairs(history, history.shares())
    return [Reading(name, COLOURS[i % len(COLOURS)], x, shares[:, i], drawn=False)
            for i, name in enumerate(legend_names(history.learners))]  # fmt: skip


def _coverage(subject: Subject, seeds: list[History], about: str) -> list[str]:
    """Whether intervals, or sets of labels, held what they promised."""
    first = seeds[0]
    shares, ends = first.coverage(), first.blocks()[:, 0]
    if not first.coverage_shares() or not np.isfinite(shares).any():
        return []
    what = "interval" if subject.regression else "set of labels"
    rows = [[f"{ends[place]:,.0f}", *("-" if np.isnan(share) else f"{share:.1%}" for share in shares[place])]
            for place in places(len(ends))]  # fmt: skip
    over_all = first.coverage_shares()
    rows.append(["all", *(f"{over_all[level]:.1%}" if level in over_all else "-" for level in LEVELS)])
    return [
        subject.picture(
            "Coverage",
            f"Share of the records of each block whose {what} at level 0.9 held the truth; the numbers have other "
            "levels, too.",
            lambda ax: plot.coverage(seeds, ax=ax),
            table(["records", *(f"{level:g}" for level in LEVELS)], rows),
            about,
        )
    ]


def _importance(subject: Subject, history: History) -> str:
    """What features are worth."""
    found = history.importance()
    if not found:
        return ""
    loss = "squared error" if subject.regression else "log loss"
    rows = [[short(one.feature, 40), quantity(one.rise), quantity(one.standard_error), f"{one.records:,}"]
            for one in found[:MAX_LISTED]]  # fmt: skip
    of_seed = " Of the first seed." if subject.seeds > 1 else ""
    words = (
        f"Mean rise of the {loss} when the feature has a value drawn from its own distribution, over sampled records, "
        f"each before it was learned. Within two standard errors of 0, the feature may be worth nothing.{of_seed}"
    )
    header = ["feature", f"rise of the {loss}", "standard error", "records"]
    return f"<h3>Importance</h3><p>{escape(words)}</p>{table(header, rows)}"
