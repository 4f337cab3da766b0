"""The report of a run: one HTML file that needs nothing else, with the pictures of `braided.plot` and their numbers."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from braided.evaluation.history import History
from braided.report import plot
from braided.report.provenance import circumstances
from braided.report.table import drifts, misfits
from braided.run.job import Job

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _LINE = "#17202b", "#dfe4ea"
#: Colours of the pictures -> those of the page, which follow dark and light.
_VARIABLES = {
    _INK: "--ink",
    _LINE: "--line",
    plot.PLAIN: "--soft",
    **{colour: f"--c{i}" for i, colour in enumerate(plot.COLOURS, start=1)},
}
_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "braided", "font.size": 8.5, "axes.labelsize": 8.5, "axes.titlesize": 8.5,
    "legend.fontsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8, "text.color": _INK, "axes.labelcolor": plot.PLAIN,
    "axes.edgecolor": plot.PLAIN, "axes.titlecolor": plot.PLAIN, "xtick.color": plot.PLAIN, "ytick.color": plot.PLAIN,
    "grid.color": plot.PLAIN, "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "text.parse_math": False, "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip
_WIDTH = 4.7  # inches: text is then readable on a phone
#: Models with pictures of their own; features and classes in a table.
_DETAILED, _LISTED = 6, 60
_ROWS = 12
escape = html.escape


def svg(draw: Callable[[Axes], Any], title: str, prefix: str, height: float = 2.8) -> str:
    """A picture as inline SVG that takes its colours from the page; `prefix` keeps its ids apart from others'."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = io.StringIO()
    with rc_context(_STYLE), warnings.catch_warnings():
        # The browser has the letters that the font used for measuring lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], kind: str = "") -> str:
    """An HTML table; everything is escaped."""
    head = "".join(f'<th scope="col">{escape(str(cell))}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    return f'<div class="wide"><table class="{kind}">{top}<tbody>{body}</tbody></table></div>'


class _Page:
    """The parts of one report, in the order in which they are read."""

    def __init__(self, job: Job, command: str | None) -> None:
        self.job = job
        self.document = job.document()
        self.command = command
        self.seeds = job.options.seeds
        self.histories: dict[str, list[History]] = {}
        for run in job.finished:
            if run.history is not None:
                self.histories.setdefault(run.model, []).append(run.history)
        self.pictures = 0

    def picture(
        self, title: str, words: str, draw: Callable[[Axes], Any], numbers: str, about: str = "", height: float = 2.8
    ) -> str:
        """A picture with its title, what it shows, and the table behind it."""
        self.pictures += 1
        drawing = svg(draw, f"{title}{about}. {words}", f"p{self.pictures}", height)
        details = f"<details><summary>Numbers</summary>{numbers}</details>" if numbers else ""
        return f"<figure><figcaption>{escape(title)}</figcaption><p>{escape(words)}</p>{drawing}{details}</figure>"

    def head(self) -> str:
        document, options = self.document, self.job.options
        title = f"braided: {document['stream']}{' (sample)' if document['sample'] else ''}"
        about = [f"{document['records']:,} records", f"{document['features']:,} features"]
        about += [f"{document['classes']:,} classes", f"preset {options.preset}"]
        if options.combiner:
            about.append(f"combiner {options.combiner}")
        if options.mask != "iid" or options.available != 1.0:
            share = "" if options.mask == "trapezoidal" else f", {options.available:.0%} available"
            about.append(f"mask {options.mask}{share}")
        about.append(f"{self.seeds} seeds from {options.seed} on" if self.seeds > 1 else f"seed {options.seed}")
        style = files("braided.report").joinpath("page.css").read_text()
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            'img-src data:">'
            f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head><body>'
            f'<header><h1>{escape(title)}</h1><p class="soft">{escape(", ".join(about))}</p></header><main>'
        )

    def result(self) -> str:
        """The figures that matter, and the table of all models and learners."""
        document = self.document
        records, majority = document["records"], document["majority_errors"]
        boxes = [("majority class, in hindsight", f"{majority / records:.2%}")]
        rows = []
        for model, figures in document["summary"].items():
            runs = [run for run in document["runs"] if run["model"] == model]
            boxes.insert(len(boxes) - 1, (f"errors of {model}", f"{figures['errors_mean'] / records:.2%}"))
            speed = float(np.mean([run["records_per_second"] for run in runs]))
            health = [learner for run in runs for learner in run["learners"].values()]
            rows.append(
                [
                    model, f"{figures['errors_mean']:,.{1 if self.seeds > 1 else 0}f}", f"{figures['errors_sd']:,.1f}",
                    f"{figures['errors_mean'] / records:.2%}", f"{speed:,.0f}", sum(one["skipped"] for one in health),
                    sum(one["resets"] for one in health), drifts(runs),
                ]
            )  # fmt: skip
            for learner in runs[0]["learners"] if len(runs[0]["learners"]) > 1 else ():
                own = [run["learners"][learner] for run in runs]
                errors = float(np.mean([one["errors"] for one in own]))
                sd = float(np.std([one["errors"] for one in own], ddof=1)) if self.seeds > 1 else 0.0
                rows.append(
                    [
                        f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{learner} alone",
                        f"{errors:,.{1 if self.seeds > 1 else 0}f}",
                        f"{sd:,.1f}", f"{errors / records:.2%}", "", sum(one["skipped"] for one in own),
                        sum(one["resets"] for one in own), "",
                    ]
                )  # fmt: skip
        rows.append(["majority class, in hindsight", f"{majority:,}", "", f"{majority / records:.2%}", *[""] * 4])
        header = ["", "errors", "sd", "error rate", "records/s", "skipped updates", "resets", "drifts"]
        unused = {"sd"} if self.seeds == 1 else set()
        unused |= set() if self.job.options.drift else {"drifts"}
        kept = [place for place, name in enumerate(header) if name not in unused]
        header, rows = [header[place] for place in kept], [[row[place] for place in kept] for row in rows]
        figures = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in boxes[:6])
        failed = any(one["skipped"] or one["resets"] for run in document["runs"] for one in run["learners"].values())
        words = "Each record is predicted first, and then learned. " + (
            "Skipped are updates that would not have been finite; a learner with ten in a row is reset."
            if failed
            else "No learner skipped an update, and none was reset."
        )
        if self.seeds > 1:
            words += f" Errors are means over {self.seeds} seeds; sd is the standard deviation over them."
        if self.job.options.drift:
            words += f" Drifts are those that {self.job.options.drift} found"
            words += ", in all seeds together." if self.seeds > 1 else "."
        passed = misfits(document)
        notice = f"<p><b>Of the stream:</b> {escape(passed)}</p>" if passed else ""
        return self.section(
            "Result", f'<div class="figures">{figures}</div>{table(header, rows, "main")}{notice}<p>{words}</p>'
        )

    @staticmethod
    def section(title: str, body: str) -> str:
        return f"<section><h2>{escape(title)}</h2>{body}</section>"

    def _curves(self, columns: dict[str, tuple[list[History], int]], windowed: bool) -> str:
        """Some rows of error curves."""
        curves = {name: plot.rates(seeds, column, windowed) for name, (seeds, column) in columns.items()}
        records = next(iter(curves.values()))[0]
        rows = []
        for place in _places(len(records)):
            cells = [f"{mean[place]:.2%}" + (f" \N{PLUS-MINUS SIGN} {sd[place]:.2%}" if sd.any() else "")
                     for _, mean, sd in curves.values()]  # fmt: skip
            rows.append([f"{records[place]:,.0f}", *cells])
        return table(["records", *curves], rows)

    def errors(self) -> str:
        everything = [history for seeds in self.histories.values() for history in seeds]
        columns = {name: (seeds, 1) for name, seeds in self.histories.items()}
        columns["majority so far"] = (everything[:1], 2)
        spread = f" Mean of {self.seeds} seeds; the band is one standard deviation." if self.seeds > 1 else ""
        if any(history.drifts().any() for history in everything):
            spread += " Triangles mark where drift was found."
        window = everything[0].window()
        pictures = self.picture(
            "Running error",
            f"Errors so far, divided by records so far.{spread}",
            lambda ax: plot.error(everything, ax=ax),
            self._curves(columns, windowed=False),
        )
        pictures += self.picture(
            "Windowed error",
            f"Share of errors among the last {window:,} records.{spread}",
            lambda ax: plot.error(everything, windowed=True, ax=ax),
            self._curves(columns, windowed=True) if len(everything[0].windowed()) else "",
        )
        return self.section("Errors", f'<div class="pictures">{pictures}</div>')

    def throughput(self) -> str:
        everything = [history for seeds in self.histories.values() for history in seeds]
        speeds = {name: plot.mean_throughput(seeds) for name, seeds in self.histories.items()}
        ends = everything[0].blocks()[:, 0]
        rows = [[f"{ends[place]:,.0f}", *(f"{speed[place]:,.0f}" for speed in speeds.values())]
                for place in _places(len(ends))]  # fmt: skip
        return self.picture(
            "Throughput",
            "Records a second, predicting and learning, without reading the stream.",
            lambda ax: plot.throughput(everything, ax=ax),
            table(["records", *speeds], rows),
        )

    def model(self, name: str) -> str:
        """Pictures of one model."""
        seeds = self.histories[name]
        first = seeds[0]
        about = f" of {name}"
        parts = []
        if len(first.learners) > 1:
            columns = {"together": (seeds, 1)} | {f"{n} alone": (seeds, 3 + i) for i, n in enumerate(first.learners)}
            parts.append(
                self.picture(
                    "Each learner's own error",
                    f"What each learner alone would have got wrong among the last {first.window():,} records.",
                    lambda ax: plot.learners(seeds, ax=ax),
                    self._curves(columns, windowed=True) if len(first.windowed()) else "",
                    about,
                )
            )
            shares, ends = first.shares(), first.blocks()[:, 0]
            rows = [[f"{ends[place]:,.0f}", *(f"{share:.1%}" for share in shares[place])]
                    for place in _places(len(ends)) if np.isfinite(shares[place]).all()]  # fmt: skip
            if rows:
                parts.append(
                    self.picture(
                        "Shares of the final score",
                        "The final score is a sum of one term a learner, as the combiner weights it. The share is the "
                        "size of a learner's term for the predicted class, less its mean over the classes, among the "
                        "sizes of all. Measured on records picked at even distances.",
                        lambda ax: plot.shares(seeds, ax=ax),
                        table(["records", *first.learners], rows),
                        about,
                    )
                )
        parts += self._weights(seeds, about)
        parts += self._calibration(seeds, about)
        if first.resets().any() or first.skipped().any():
            totals = [(n, int(first.skipped()[:, i].sum()), int(first.resets()[:, i].sum()))
                      for i, n in enumerate(first.learners)]  # fmt: skip
            parts.append(
                self.picture(
                    "Resets and skipped updates",
                    "So far; of the first seed." if self.seeds > 1 else "So far.",
                    lambda ax: plot.failures(first, ax=ax),
                    table(["learner", "skipped", "resets"], totals),
                    about,
                )
            )
        return self.section(name, f'<div class="pictures">{"".join(parts)}</div>')

    def _weights(self, seeds: list[History], about: str) -> list[str]:
        first = seeds[0]
        if not first.weight_mean.size:
            return []
        top = plot.top_weights(seeds, 15)
        rows = [[str(name), whose, f"{mean:+.4g}", f"{sd:.3g}"] for _, _, name, whose, mean, sd in top]
        hidden = len(first.weight_names) - len(top)
        words = "Posterior mean and standard deviation of the fast learner's largest weights"
        words += f"; {hidden:,} smaller ones are not shown" if hidden else ""
        words += ", of the first seed." if self.seeds > 1 else "."
        pictures = [
            self.picture(
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
            shown = [entry for entry in plot.top_weights(seeds, 6) if entry[1] < followed.shape[2]]
            rows = [
                [f"{ends[at]:,.0f}"]
                + [_weight(followed[at, row, place], deviations[at, place]) for row, place, *_ in shown]
                for at in _places(len(ends))
            ]  # fmt: skip
            pictures.append(
                self.picture(
                    "Weights over time",
                    "The six largest at the end, each with a band of one standard deviation.",
                    lambda ax: plot.weights(seeds, most=6, over_time=True, ax=ax),
                    table(["records", *(str(entry[2]) for entry in shown)], rows),
                    about,
                    3.2,
                )
            )
        return pictures

    def _calibration(self, seeds: list[History], about: str) -> list[str]:
        bins = np.sum([history.bins for history in seeds], axis=0)
        pictures = []
        if bins[:, 0].any():
            rows = [
                [f"{10 * i}% to {10 * i + 10}%", f"{count:,.0f}", f"{confidence / count:.1%}", f"{right / count:.1%}"]
                for i, (count, confidence, right) in enumerate(bins)
                if count
            ]
            pictures.append(
                self.picture(
                    "Calibration",
                    "How often predictions of a given probability were right, with the number of records in each bar.",
                    lambda ax: plot.calibration(seeds, ax=ax),
                    table(["probability", "records", "mean", "right"], rows),
                    about,
                )
            )
        names, counts, unanswered = plot.confused(seeds)
        words = "Records of each class (rows) by predicted class (columns); dark is a large share of the row."
        if len(first := seeds[0].classes) > len(names):
            words += f" Of {len(first):,} classes the most frequent."
        if unanswered:
            verb = "is" if unanswered == 1 else "are"
            words += f" {unanswered:,} without a prediction, before any class was known, {verb} left out."
        rows = [[name, *(f"{count:,}" for count in row)] for name, row in zip(names, counts.tolist(), strict=True)]
        pictures.append(
            self.picture(
                "Confusion",
                words,
                lambda ax: plot.confusion(seeds, ax=ax),
                table(["", *names], rows),
                about,
                2.8 if len(names) <= 8 else 3.8,
            )
        )
        return pictures

    def features(self) -> str:
        """Availability, of the first run, and speed."""
        history = next(iter(self.histories.values()))[0]
        pictures = (self._availability(history) if history.features else "") + self.throughput()
        return self.section("Features and speed", f'<div class="pictures">{pictures}</div>')

    def _availability(self, history: History) -> str:
        rows, left_out = plot.rows_of_strip(history)
        order = np.argsort(-history.present, kind="stable").tolist()
        listed = order if len(order) <= _LISTED else order[: _LISTED // 2] + order[-_LISTED // 2 :]
        numbers = [[str(history.features[i]), f"{history.present[i]:,}", f"{history.present[i] / history.records:.1%}"]
                   for i in listed]  # fmt: skip
        words = "Share of records that had each feature, over time: the fuller the colour, the larger the share."
        if left_out:
            words += (
                f" Shown are the {len(rows) // 2} most and the {len(rows) // 2} least available; "
                f"{left_out:,} in between are left out."
            )
        words += " Of the first seed." if self.seeds > 1 else ""
        return self.picture(
            "Availability of features",
            words,
            lambda ax: plot.availability(history, ax=ax),
            table(["feature", "records", "share"], numbers),
            height=max(0.8 + 0.15 * len(rows), 1.4),
        )

    def circumstances(self) -> str:
        """How it was made."""
        options = self.job.options
        about = circumstances()
        about["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        about["seeds"] = ", ".join(str(options.seed + i) for i in range(self.seeds))
        digests = [
            f"{run['model']} {run['seed']}: {run['state_sha256'][:16]}"
            for run in self.document["runs"]
            if run["state_sha256"] is not None
        ]
        if digests:
            about["state after each run (SHA-256)"] = "; ".join(digests)
        command = f"<pre><code>{escape(self.command)}</code></pre>" if self.command else ""
        return self.section("How it was made", command + table(["", ""], about.items(), "words"))

    def html(self) -> str:
        parts = [self.head(), self.result()]
        if self.histories:
            parts.append(self.errors())
            parts += [self.model(name) for name in list(self.histories)[:_DETAILED]]
            if len(self.histories) > _DETAILED:
                parts.append(self.section("More models", f"<p>Pictures of the first {_DETAILED} models are above.</p>"))
            parts.append(self.features())
        missing = len(self.job.finished) - sum(len(seeds) for seeds in self.histories.values())
        if missing:
            parts.append(
                self.section(
                    "Not shown",
                    f"<p>{missing} of the runs went on from a checkpoint of an older braided, which kept no history: "
                    "there are no pictures of them.</p>",
                )
            )
        parts.append(self.circumstances())
        return "".join(parts) + "</main></body></html>\n"


def _weight(mean: float, sd: float) -> str:
    """A weight with its deviation; empty while its feature or class was not known."""
    return "" if np.isnan(mean) else f"{mean:+.3g} \N{PLUS-MINUS SIGN} {sd:.2g}"


def _places(n: int) -> list[int]:
    """At most a dozen evenly spaced places among n, the last one with them."""
    return sorted(set(np.linspace(0, n - 1, min(n, _ROWS)).astype(int).tolist())) if n else []


def page(job: Job, command: str | None = None) -> str:
    """The report of a job that is done, as HTML; `command` is the command line that started it."""
    return _Page(job, command).html()
