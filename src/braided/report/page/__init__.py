"""The report of a run: one HTML file that needs nothing else, with the pictures of `braided.plot` and their numbers."""

from __future__ import annotations

from braided.estimators.params import REGRESSION
from braided.evaluation import History
from braided.report.page.document import head, report
from braided.report.page.stream import columns, how_it_was_made
from braided.report.page.subject import Subject
from braided.report.table import counted
from braided.run import Job


def page(job: Job, command: str | None = None) -> str:
    """The report of a job that is done, as HTML; `command` is the command line that started it."""
    options, document = job.options, job.document()
    histories: dict[str, list[History]] = {}
    for run in job.finished:
        histories.setdefault(run.model, []).append(run.history)
    subject = Subject(histories, document, options.metrics, options.delay, options.drift)
    about = {"seeds": ", ".join(str(options.seed + i) for i in range(options.seeds))}
    digests = [
        f"{run['model']} {run['seed']}: {run['state_sha256'][:16]}"
        for run in document["runs"]
        if run["state_sha256"] is not None
    ]
    if digests:
        about["state after each run (SHA-256)"] = "; ".join(digests)
    return report(subject, _head(job), columns(job.counts.plan), how_it_was_made(about, command))


def _head(job: Job) -> str:
    """The stream, and how it was run."""
    document, options = job.document(), job.options
    about = [counted(document["records"], "record"), counted(document["features"], "feature")]
    about.append("regression" if document["task"] == REGRESSION else counted(document["classes"], "class"))
    about.append(f"preset {options.preset}")
    if options.delay:
        about.append(f"labels {options.delay:,} records late")
    if options.combiner:
        about.append(f"combiner {options.combiner}")
    if options.mask != "iid" or options.available != 1.0:
        share = "" if options.mask == "trapezoidal" else f", {options.available:.0%} available"
        about.append(f"mask {options.mask}{share}")
    about.append(f"{options.seeds} seeds from {options.seed} on" if options.seeds > 1 else f"seed {options.seed}")
    return head(f"braided: {document['stream']}{' (sample)' if document['sample'] else ''}", about)
