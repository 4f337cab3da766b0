"""A report as one document: its head, its parts in the order in which they are read, its end."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files

from braided.report.page.classes import recalls
from braided.report.page.errors import errors
from braided.report.page.markup import section
from braided.report.page.model import model
from braided.report.page.result import metrics, result
from braided.report.page.stream import features, keys
from braided.report.page.subject import Subject

#: Models with pictures of their own.
_DETAILED = 6


def report(subject: Subject, top: str, *end: str) -> str:
    """The whole page, between its head and the parts at its end."""
    parts = [top, result(subject), errors(subject), recalls(subject), metrics(subject), keys(subject)]
    parts += [model(subject, name) for name in list(subject.histories)[:_DETAILED]]
    if len(subject.histories) > _DETAILED:
        parts.append(section("More models", f"<p>Pictures of the first {_DETAILED} models are above.</p>"))
    return "".join([*parts, features(subject), *end]) + "</main></body></html>\n"


def head(title: str, about: Iterable[str]) -> str:
    """Everything before the first part: the title, and what was run."""
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
