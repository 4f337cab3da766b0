"""What a page of results says, from top to bottom, as blocks that any kind of page can be made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from braided.reproduce import layouts, pictures, sample
from braided.reproduce.documents import Document
from braided.reproduce.findings import listed
from braided.reproduce.grid import Grid
from braided.reproduce.page_tables import ALIKE, ENOUGH_SEEDS, SIGNIFICANT
from braided.reproduce.quirks import QUIRKS
from braided.reproduce.tables import TABLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The picture of the learning curves of samples, without its ending.
SAMPLE = "sample"
#: What of the circumstances is said below each table; the rest are versions.
_OF_EACH_TABLE = ("date", "machine")


@dataclass(frozen=True)
class Heading:
    """The title of a part."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences; `small` if they are about how and not about what."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class Table:
    """A table."""

    grid: Grid


@dataclass(frozen=True)
class Folded:
    """What a reader opens if he wants it."""

    title: str
    blocks: tuple[Paragraph | Table, ...]


@dataclass(frozen=True)
class Picture:
    """The picture of a file's name, without ending, and its title."""

    name: str
    title: str


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: tuple[str, ...]


Block = Heading | Paragraph | Table | Folded | Picture | Items


def blocks(documents: list[Document], files_at: str) -> Iterator[Block]:
    """The whole page; `files_at` is where CSV and JSON are."""
    yield Paragraph(
        "Errors from the first record on: ours, the paper's, and the difference, as mean and standard deviation over "
        "seeds; the best of each data set in bold. Equal figures are both bold; the sentences compare unrounded ones. "
        "Beside the name of a data set are the errors of always answering the majority class, and the share of "
        "features that are there."
    )
    yield Paragraph(
        "Our default was chosen by experiment on german, svmguide3, magic04, a8a, bananas and segments, and parts of "
        "it on phoneme, electricity, trump, chicks and waterflow ([how](docs/default.md)); the other streams confirm. "
        "It has the same settings on all of them."
    )
    yield Paragraph(
        f"{ALIKE} marks a method that {ENOUGH_SEEDS} seeds or more cannot tell from MODL (among combiners from the "
        f"score sum, among logistic learners from the Kalman gain): p is at least {SIGNIFICANT:g} in the paired "
        f"Wilcoxon test. All figures, with p-values and times, are as CSV and JSON in {files_at}.",
        small=True,
    )
    yield Paragraph(_made_with(documents), small=True)
    told = False
    for document in documents:
        if not told and any(cell.get("sample") for cell in document["cells"]):
            told = True
            yield from _of_samples(documents)
        yield from _of_table(document)
    yield Heading("Typos and quirks of what is published")
    yield Items(tuple(f"**{quirk.about}.** {quirk.published} *Here:* {quirk.here}" for quirk in QUIRKS))


def _of_table(document: Document) -> Iterator[Block]:
    what, layout = document["what"], layouts.of(document["what"])
    spec = TABLES.get(what)
    yield Heading(document["title"])
    if found := layout.findings(document):
        yield Paragraph(" ".join(found))
    for folded, sections in groupby(layout.sections(document), key=lambda section: section.folded):
        inside: list[Paragraph | Table] = []
        for section in sections:
            inside += [Paragraph(section.above)] if section.above else []
            inside.append(Table(section.grid))
        if folded:
            yield Folded(folded, tuple(inside))
        else:
            yield from inside
    yield Picture(what, document["title"])
    # The words about a table are the code's and not the run's: they may have been mended since.
    if about := spec.about if spec else document["about"]:
        yield Paragraph(about)
    yield Paragraph(_circumstances(document), small=True)


def _made_with(documents: list[Document]) -> str:
    """The versions of all tables, said once: they rarely differ, and no release need be what a table was made by."""
    about = [document["circumstances"] for document in documents]
    names = dict.fromkeys(name for each in about for name in each if name not in _OF_EACH_TABLE)
    used = {name: dict.fromkeys(each[name] for each in about if name in each) for name in names}
    versions = listed(f"{name} {listed(sorted(values))}" for name, values in used.items())
    return (
        f"Made with {versions}; the version is that of the code on that day, which may lie between releases. Below "
        "each table are its command, its runs and their seconds, the day and the machine."
    )


def _circumstances(document: Document) -> str:
    about = document["circumstances"]
    work = f"{document['jobs']} runs, {document['seconds']:,.0f} s of work; " if document["jobs"] else ""
    return f"`{document['command']}`: {work}{', '.join(about[name] for name in _OF_EACH_TABLE if name in about)}."


def _of_samples(documents: list[Document]) -> Iterator[Block]:
    yield Heading("What was not run in full")
    yield Paragraph(" ".join(sample.missing_sentences(documents)))
    curves = sample.sample_curves(drawn) if (drawn := _with_curves(documents)) else []
    if curves:
        yield Paragraph(
            f"{' '.join(sample.curve_sentences(curves))} Error in percent, at availability {curves[0].p_f:g}:"
        )
        yield Table(sample.curve_grid(curves))
        yield Picture(SAMPLE, "Error so far, and the paper's after all records")


def _with_curves(documents: list[Document]) -> Document | None:
    """The document whose curves of samples are shown, if there is one."""
    found = next((document for document in documents if document["what"] == "curves"), None)
    return found if found and sample.sampled_curves(found) else None


def drawings(documents: list[Document]) -> Iterator[tuple[str, Figure]]:
    """Each picture of the page under its name."""
    for document in documents:
        yield document["what"], layouts.of(document["what"]).picture(document)
    if drawn := _with_curves(documents):
        yield SAMPLE, pictures.towards_paper(sample.sampled_curves(drawn), sample.paper_rate)
