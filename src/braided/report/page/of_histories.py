"""The report of histories that were recorded in Python, without a run of the command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.evaluation import History
from braided.evaluation.evaluation import result_of
from braided.evaluation.summary import summary_of
from braided.report.page.document import head, report
from braided.report.page.stream import how_it_was_made
from braided.report.page.subject import Subject
from braided.report.plot.axes import groups
from braided.report.table import counted


def page_of_histories(histories: Sequence[History], title: str = "") -> str:
    """Their report, as HTML; those of one name are seeds of one model."""
    lengths = list(dict.fromkeys(history.records for history in histories))
    if len(lengths) > 1:
        raise BraidedError(
            f"the histories are of {lengths[0]:,} and {lengths[1]:,} records: a report compares models on one stream, "
            "so write one for each"
        )
    grouped = groups(list(histories))
    subject = Subject(grouped, _document(grouped))
    first = histories[0]
    about = [counted(first.records, "record"), counted(len(first.features), "feature")]
    about.append("regression" if first.tally.regression else counted(subject.document["classes"], "class"))
    about += [f"{subject.seeds} seeds"] if subject.seeds > 1 else []
    top = head(f"braided: {title or ', '.join(grouped)}", about)
    return report(subject, top, how_it_was_made({}))


def _document(grouped: dict[str, list[History]]) -> dict[str, Any]:
    """What the report needs of the document that a run writes."""
    runs = [{"model": name, **_result(history)} for name, seeds in grouped.items() for history in seeds]
    last = next(reversed(grouped.values()))[-1]
    supports = last.tally.confusion.sum(axis=1)
    return {
        "task": REGRESSION if last.tally.regression else CLASSIFICATION,
        "records": last.records,
        "classes": None if last.tally.regression else int((supports > 0).sum()),
        "majority_errors": None if last.tally.regression else int(last.records - supports.max()),
        "unlabelled": 0,
        "skipped_records": 0,
        "misfit_values": 0,
        "runs": runs,
        "summary": {name: summary_of([run for run in runs if run["model"] == name]) for name in grouped},
    }


def _result(history: History) -> dict[str, Any]:
    """The figures of one history; what failed and how long it took is known from block to block."""
    skipped, resets = history.skipped().sum(axis=0).tolist(), history.resets().sum(axis=0).tolist()
    health = {name: {"skipped": skipped[i], "resets": resets[i]} for i, name in enumerate(history.learners)}
    seconds = float(np.nansum(history.blocks()[:, 1] / history.throughput()))
    drifts = int(history.drifts().sum())
    return result_of(history, health, 0, seconds) | ({"drifts": drifts} if drifts else {})
