"""The report of a run: one HTML file that needs nothing else, with the pictures of `braided.plot` and their numbers."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from braided.report.page.classes import recalls
from braided.report.page.errors import errors
from braided.report.page.markup import section
from braided.report.page.model import model
from braided.report.page.result import metrics, result
from braided.report.page.stream import columns, features, how_it_was_made, keys
from braided.report.page.subject import Subject
from braided.report.table import counted
from braided.run import Job

#: Models with pictures of their own.
_DETAILED = 6


def page(job: Job, command: str | None = None) -> str:
    """The report of a job that is done, as HTML; `command` is the command line that started it."""
    subject = Subject(job)
    parts = [_head(subject), result(subject), errors(subject), recalls(subject), metrics(subject), keys(subject)]
    parts += [model(subject, name) for name in list(subject.histories)[:_DETAILED]]
    if len(subject.histories) > _DETAILED:
        parts.append(section("More models", f"<p>Pictures of the first {_DETAILED} models are above.</p>"))
    parts += [features(subject), columns(subject), how_it_was_made(subject, command)]
    return "".join(parts) + "</main></body></html>\n"


def _head(subject: Subject) -> str:
    """Everything before the first part: the title, and what was run."""
    document, options = subject.document, subject.job.options
    title = f"braided: {document['stream']}{' (sample)' if document['sample'] else ''}"
    about = [counted(document["records"], "record"), counted(document["features"], "feature")]
    about.append("regression" if subject.regression else counted(document["classes"], "class"))
    about.append(f"preset {options.preset}")
    if options.delay:
        about.append(f"labels {options.delay:,} records late")
    if options.combiner:
        about.append(f"combiner {options.combiner}")
    if options.mask != "iid" or options.available != 1.0:
        share = "" if options.mask == "trapezoidal" else f", {options.available:.0%} available"
        about.append(f"mask {options.mask}{share}")
    about.append(f"{subject.seeds} seeds from {options.seed} on" if subject.seeds > 1 else f"seed {options.seed}")
    style = files("braided.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f'<header><h1>{escape(title)}</h1><p class="soft">{escape(", ".join(about))}</p></header><main>'
    )
