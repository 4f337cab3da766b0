"""The figures that matter: the table of models and learners, and every metric."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from braided.evaluation.metrics import METRICS, chosen
from braided.report.page.markup import cells, section, table
from braided.report.page.subject import Subject
from braided.report.plot.errors import guesses
from braided.report.table import counted_errors, drifts, misfits, of_seeds, own_metrics, without_label

_WITHIN = "roc_auc_within"
_FAILURES = ("skipped updates", "resets")


def result(subject: Subject) -> str:
    """The figures that matter, and the table of all models and learners."""
    document = subject.document
    names = chosen(subject.metrics, document["task"])
    plain = _plain_guesses(subject)
    leading = "mae" if subject.regression else "error_rate"
    boxes = [
        (f"{METRICS[leading].title} of {model}", METRICS[leading].shown(figures["metrics"][leading]))
        for model, figures in document["summary"].items()
    ]
    boxes += [(name, METRICS[leading].shown(losses[leading])) for name, losses in plain.items()]
    header = ["", *(METRICS[name].title for name in names), f"sd of {METRICS[names[0]].title}"]
    header += ["records/s", *_FAILURES, "drifts"]
    rows = [row for model in document["summary"] for row in _result_rows(subject, model, names)]
    rows += [[name, *cells(names, losses, of_seeds(losses)), *[""] * 5] for name, losses in plain.items()]
    unused = {header[1 + len(names)]} if subject.seeds == 1 else set()
    unused |= set() if subject.drift else {"drifts"}
    unused |= set() if _failed(subject) else set(_FAILURES)
    kept = [place for place, name in enumerate(header) if name not in unused]
    header, rows = [header[place] for place in kept], [[row[place] for place in kept] for row in rows]
    figures = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in boxes[:6])
    notes = [note for note in (misfits(document), without_label(document)) if note]
    notice = "".join(f"<p><b>Of the stream:</b> {escape(note)}</p>" for note in notes)
    body = f'<div class="figures">{figures}</div>{table(header, rows, "main")}{notice}<p>{escape(_words(subject))}</p>'
    return section("Result", body)


def _plain_guesses(subject: Subject) -> dict[str, dict[str, float | None]]:
    """What needs no features, with its metrics: what was usual so far, and what came last; means over the histories."""
    records = subject.document["records"]
    found = {}
    for name, loss in guesses(subject.everything).items():
        sums = float(np.mean([history.tally.totals[loss] for history in subject.everything]))
        found[name] = {"mae": sums / records} if subject.regression else counted_errors(sums, records)
    return found


def _failed(subject: Subject) -> bool:
    """Whether some learner skipped an update or was reset."""
    learners = [one for run in subject.document["runs"] for one in run["learners"].values()]
    return any(one["skipped"] or one["resets"] for one in learners)


def _result_rows(subject: Subject, model: str, names: Sequence[str]) -> list[list[Any]]:
    """A model, and each of its learners alone."""
    runs = [run for run in subject.document["runs"] if run["model"] == model]
    figures = subject.document["summary"][model]
    several = subject.seeds > 1
    deviation = METRICS[names[0]].shown(figures["metrics_sd"][names[0]], exact=True)
    speed = float(np.mean([run["records_per_second"] for run in runs]))
    health = [learner for run in runs for learner in run["learners"].values()]
    failed = [sum(one[key] for one in health) for key in ("skipped", "resets")]
    rows = [[model, *cells(names, figures["metrics"], several), deviation, f"{speed:,.0f}", *failed, drifts(runs)]]
    for learner in runs[0]["learners"] if len(runs[0]["learners"]) > 1 else ():
        own = [run["learners"][learner] for run in runs]
        alone = own_metrics(own, subject.document["records"], subject.regression)
        failed = [sum(one[key] for one in own) for key in ("skipped", "resets")]
        indented = f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{learner} alone"
        rows.append([indented, *cells(names, alone, several), "", "", *failed, ""])
    return rows


def _words(subject: Subject) -> str:
    """How the figures came about."""
    words = "Each record is predicted first, and then learned"
    words += f", its label {subject.delay:,} records later. " if subject.delay else ". "
    words += (
        "Skipped are updates that would not have been finite; a learner with ten in a row is reset."
        if _failed(subject)
        else "No learner skipped an update, and none was reset."
    )
    if subject.seeds > 1:
        words += f" Figures are means over {subject.seeds} seeds; sd is the standard deviation over them."
    if subject.drift:
        words += f" Drifts are those that {subject.drift} found"
        words += ", in all seeds together." if subject.seeds > 1 else "."
    hindsight = subject.document["majority_errors"]
    if hindsight is not None:
        share = METRICS["error_rate"].shown(hindsight / subject.document["records"])
        words += f" Who knew the most frequent class in advance, and always said it, would be wrong in {share}."
    return words


def metrics(subject: Subject) -> str:
    """Every metric of every model, over the whole stream and over the last records."""
    known = [name for name, metric in METRICS.items() if metric.task == subject.document["task"]]
    header, columns = [""], []
    bounds: list[float | None] = []
    for model, figures in subject.document["summary"].items():
        runs = [run for run in subject.document["runs"] if run["model"] == model]
        header += [model, f"last {runs[0]['window']:,}"]
        last = {name: _mean([run["window_metrics"][name] for run in runs]) for name in known}
        columns += [cells(known, figures["metrics"], subject.seeds > 1), cells(known, last, subject.seeds > 1)]
        bounds += [figures["metrics"].get(_WITHIN), _mean([run["window_metrics"].get(_WITHIN) for run in runs])]
    rows = [[METRICS[name].title, *cells] for name, cells in zip(known, zip(*columns, strict=True), strict=True)]
    if not subject.regression:
        rows.insert(1 + known.index("roc_auc"), ["off by at most", *(_bound(one) for one in bounds)])
    body = table(header, rows)
    if not subject.regression:
        body += "<p>ROC AUC is each class against the rest, averaged. It comes from a histogram of probabilities, and "
        body += "is off by at most what stands below it.</p>"
    return section("Metrics", body)


def _bound(value: float | None) -> str:
    return "-" if value is None else f"{value:.1g}"


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
