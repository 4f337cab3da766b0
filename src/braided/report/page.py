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

from braided.estimators.tasks import REGRESSION
from braided.evaluation import History
from braided.evaluation.metrics import METRICS, chosen, quantity
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import ANSWER, LEARNERS
from braided.report import plot
from braided.report.provenance import provenance
from braided.report.table import (
    MAJORITY_CLASS,
    ages_rows,
    counted,
    drifts,
    keys_rows,
    keys_words,
    misfits,
    of_seeds,
    own_metrics,
    plain_guesses,
    without_label,
)
from braided.run import Job

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
_WITHIN = "roc_auc_within"
escape = html.escape

#: Columns of the stream that are listed.
_MOST_COLUMNS = 200


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
        self.regression = self.document["task"] == REGRESSION
        self.histories: dict[str, list[History]] = {}
        for run in job.finished:
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
        about = [counted(document["records"], "record"), counted(document["features"], "feature")]
        about.append("regression" if self.regression else counted(document["classes"], "class"))
        about.append(f"preset {options.preset}")
        if options.delay:
            about.append(f"labels {options.delay:,} records late")
        if options.combiner:
            about.append(f"combiner {options.combiner}")
        if options.mask != "iid" or options.available != 1.0:
            share = "" if options.mask == "trapezoidal" else f", {options.available:.0%} available"
            about.append(f"mask {options.mask}{share}")
        about.append(f"{self.seeds} seeds from {options.seed} on" if self.seeds > 1 else f"seed {options.seed}")
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

    def result(self) -> str:
        """The figures that matter, and the table of all models and learners."""
        document = self.document
        names = chosen(self.job.options.metrics, document["task"])
        # The majority class is known in hindsight alone.
        hindsight = {MAJORITY_CLASS: f"{MAJORITY_CLASS}, in hindsight"}
        plain = {hindsight.get(name, name): losses for name, losses in plain_guesses(document).items()}
        leading = "mae" if self.regression else "error_rate"
        boxes = [
            (f"{METRICS[leading].title} of {model}", METRICS[leading].shown(figures["metrics"][leading]))
            for model, figures in document["summary"].items()
        ]
        boxes += [(name, METRICS[leading].shown(losses[leading])) for name, losses in plain.items()]
        header = ["", *(METRICS[name].title for name in names), f"sd of {METRICS[names[0]].title}"]
        header += ["records/s", "skipped updates", "resets", "drifts"]
        rows = [row for model in document["summary"] for row in self._result_rows(model, names)]
        rows += [[name, *_cells(names, losses, of_seeds(losses)), *[""] * 5] for name, losses in plain.items()]
        unused = {header[1 + len(names)]} if self.seeds == 1 else set()
        unused |= set() if self.job.options.drift else {"drifts"}
        kept = [place for place, name in enumerate(header) if name not in unused]
        header, rows = [header[place] for place in kept], [[row[place] for place in kept] for row in rows]
        figures = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in boxes[:6])
        notes = [note for note in (misfits(document), without_label(document)) if note]
        notice = "".join(f"<p><b>Of the stream:</b> {escape(note)}</p>" for note in notes)
        body = f'<div class="figures">{figures}</div>{table(header, rows, "main")}{notice}<p>{self._words()}</p>'
        return self.section("Result", body)

    def _result_rows(self, model: str, names: Sequence[str]) -> list[list[Any]]:
        """A model, and each of its learners alone."""
        runs = [run for run in self.document["runs"] if run["model"] == model]
        figures = self.document["summary"][model]
        several = self.seeds > 1
        deviation = METRICS[names[0]].shown(figures["metrics_sd"][names[0]], exact=True)
        speed = float(np.mean([run["records_per_second"] for run in runs]))
        health = [learner for run in runs for learner in run["learners"].values()]
        failed = [sum(one[key] for one in health) for key in ("skipped", "resets")]
        rows = [[model, *_cells(names, figures["metrics"], several), deviation, f"{speed:,.0f}", *failed, drifts(runs)]]
        for learner in runs[0]["learners"] if len(runs[0]["learners"]) > 1 else ():
            own = [run["learners"][learner] for run in runs]
            alone = own_metrics(own, self.document["records"], self.regression)
            failed = [sum(one[key] for one in own) for key in ("skipped", "resets")]
            indented = f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{learner} alone"
            rows.append([indented, *_cells(names, alone, several), "", "", *failed, ""])
        return rows

    def _words(self) -> str:
        """How the figures came about."""
        words = "Each record is predicted first, and then learned"
        delay = self.job.options.delay
        words += f", its label {delay:,} records later. " if delay else ". "
        learners = [one for run in self.document["runs"] for one in run["learners"].values()]
        words += (
            "Skipped are updates that would not have been finite; a learner with ten in a row is reset."
            if any(one["skipped"] or one["resets"] for one in learners)
            else "No learner skipped an update, and none was reset."
        )
        if self.seeds > 1:
            words += f" Figures are means over {self.seeds} seeds; sd is the standard deviation over them."
        if self.job.options.drift:
            words += f" Drifts are those that {self.job.options.drift} found"
            words += ", in all seeds together." if self.seeds > 1 else "."
        return words

    def metrics(self) -> str:
        """Every metric of every model, over the whole stream and over the last records."""
        known = [name for name, metric in METRICS.items() if metric.task == self.document["task"]]
        header, columns = [""], []
        bounds: list[float | None] = []
        for model, figures in self.document["summary"].items():
            runs = [run for run in self.document["runs"] if run["model"] == model]
            header += [model, f"last {runs[0]['window']:,}"]
            last = {name: _mean([run["window_metrics"][name] for run in runs]) for name in known}
            columns += [_cells(known, figures["metrics"], self.seeds > 1), _cells(known, last, self.seeds > 1)]
            bounds += [figures["metrics"].get(_WITHIN), _mean([run["window_metrics"].get(_WITHIN) for run in runs])]
        rows = [[METRICS[name].title, *cells] for name, cells in zip(known, zip(*columns, strict=True), strict=True)]
        if not self.regression:
            rows.insert(1 + known.index("roc_auc"), ["off by at most", *(_bound(one) for one in bounds)])
        body = table(header, rows)
        if not self.regression:
            body += (
                "<p>ROC AUC is each class against the rest, averaged. It comes from a histogram of probabilities, and "
            )
            body += "is off by at most what stands below it.</p>"
        return self.section("Metrics", body)

    @staticmethod
    def section(title: str, body: str) -> str:
        return f"<section><h2>{escape(title)}</h2>{body}</section>"

    def _curves(self, columns: dict[str, tuple[list[History], int]], windowed: bool) -> str:
        """Some rows of error curves."""
        curves = {name: plot.rates(seeds, loss, windowed) for name, (seeds, loss) in columns.items()}
        records = next(iter(curves.values()))[0]
        rows = []
        for place in _places(len(records)):
            cells = [
                self._error(mean[place]) + (f" \N{PLUS-MINUS SIGN} {self._error(sd[place])}" if sd.any() else "")
                for _, mean, sd in curves.values()
            ]
            rows.append([f"{records[place]:,.0f}", *cells])
        return table(["records", *curves], rows)

    def _error(self, value: float) -> str:
        return quantity(value) if self.regression else f"{value:.2%}"

    def errors(self) -> str:
        everything = [history for seeds in self.histories.values() for history in seeds]
        columns = {name: (seeds, ANSWER) for name, seeds in self.histories.items()}
        columns |= {name: (everything[:1], loss) for name, loss in plot.guesses(everything[0]).items()}
        what, share = ("Absolute errors", "Their mean") if self.regression else ("Errors", "Share of errors")
        spread = f" Mean of {self.seeds} seeds; the band is one standard deviation." if self.seeds > 1 else ""
        if any(history.drifts().any() for history in everything):
            spread += " Triangles mark where drift was found."
        window = everything[0].window()
        pictures = self.picture(
            "Running error",
            f"{what} so far, divided by records so far.{spread}",
            lambda ax: plot.error(everything, ax=ax),
            self._curves(columns, windowed=False),
        )
        pictures += self.picture(
            "Windowed error",
            f"{share} among the last {window:,} records.{spread}",
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
            "Records per second, predicting and learning, without reading the stream.",
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
            wrong = "Mean absolute error of each alone" if self.regression else "What each alone would have got wrong"
            columns = {"together": (seeds, ANSWER)}
            columns |= {f"{name} alone": (seeds, LEARNERS + i) for i, name in enumerate(first.learners)}
            parts.append(
                self.picture(
                    "Each learner's own error",
                    f"{wrong} among the last {first.window():,} records.",
                    lambda ax: plot.learners(seeds, ax=ax),
                    self._curves(columns, windowed=True) if len(first.windowed()) else "",
                    about,
                )
            )
            shares, ends = first.shares(), first.blocks()[:, 0]
            of_class = "" if self.regression else " for the predicted class, less its mean over the classes"
            rows = [[f"{ends[place]:,.0f}", *(f"{share:.1%}" for share in shares[place])]
                    for place in _places(len(ends)) if np.isfinite(shares[place]).all()]  # fmt: skip
            habit = "" if self.regression or "recent" not in first.learners else " The share of recent is habit."
            if rows:
                parts.append(
                    self.picture(
                        "Shares of the final score",
                        "The final score is a sum of one term per learner, weighted by the combiner. The share is the "
                        f"size of a learner's term{of_class}, among the sizes of all. Measured on the last record of "
                        f"each block.{habit}",
                        lambda ax: plot.shares(seeds, ax=ax),
                        table(["records", *first.learners], rows),
                        about,
                    )
                )
        parts += self._weights(seeds, about)
        if not self.regression:
            parts += self._calibration(seeds, about)
        parts += self._coverage(seeds, about)
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
        by_class = ("" if self.regression else self._by_class(first)) + self._importance(first)
        if not parts and not by_class:
            return ""
        return self.section(name, f'<div class="pictures">{"".join(parts)}</div>{by_class}')

    def _coverage(self, seeds: list[History], about: str) -> list[str]:
        """Whether intervals, or sets of labels, held what they promised."""
        first = seeds[0]
        shares, ends = first.coverage(), first.blocks()[:, 0]
        if not first.coverage_shares() or not np.isfinite(shares).any():
            return []
        what = "interval" if self.regression else "set of labels"
        rows = [[f"{ends[place]:,.0f}", *("-" if np.isnan(share) else f"{share:.1%}" for share in shares[place])]
                for place in _places(len(ends))]  # fmt: skip
        over_all = first.coverage_shares()
        rows.append(["all", *(f"{over_all[level]:.1%}" if level in over_all else "-" for level in LEVELS)])
        return [
            self.picture(
                "Coverage",
                f"Share of the records of each block whose {what} at level 0.9 held the truth; the numbers have other "
                "levels, too.",
                lambda ax: plot.coverage(seeds, ax=ax),
                table(["records", *(f"{level:g}" for level in LEVELS)], rows),
                about,
            )
        ]

    def _importance(self, history: History) -> str:
        """What features added to answers."""
        found = history.importance()
        if not found:
            return ""
        unit = "in the target's own unit" if self.regression else "as a share of the probability that moves without it"
        rows = [[plot.short(name, 40), quantity(effect), f"{n:,}"] for name, effect, n in found[:_LISTED]]
        of_seed = " Of the first seed." if self.seeds > 1 else ""
        words = (
            f"The mean size of what a feature adds to an answer, {unit}, over some of the records that had it.{of_seed}"
        )
        return f"<h3>Importance</h3><p>{escape(words)}</p>{table(['feature', 'adds', 'records'], rows)}"

    def _by_class(self, history: History) -> str:
        """Precision, recall and support of each class, the most frequent first."""
        entries = sorted(history.per_class().items(), key=lambda entry: -entry[1]["support"])
        rows = [
            [str(label), *("-" if own[key] is None else f"{own[key]:.1%}" for key in ("precision", "recall", "f1")),
             f"{own['support']:,}"]
            for label, own in entries[:_LISTED]
        ]  # fmt: skip
        more = f" Of {len(entries):,} the most frequent." if len(entries) > len(rows) else ""
        seed = " Of the first seed." if self.seeds > 1 else ""
        return f"<h3>By class</h3><p>Support is how many records had the label.{more}{seed}</p>" + table(
            ["class", "precision", "recall", "F1", "support"], rows
        )

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
        all_ = " Of all seeds together." if len(seeds) > 1 else ""
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
                    f"How often predictions of a given probability were right; each bar says of how many.{all_}",
                    lambda ax: plot.calibration(seeds, ax=ax),
                    table(["probability", "records", "mean", "right"], rows),
                    about,
                )
            )
        names, counts, unanswered = plot.confused(seeds)
        words = f"Records of each class (rows) by predicted class (columns); dark is a large share of the row.{all_}"
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

    def columns(self) -> str:
        """How each column was read; nothing of a stream whose columns are known."""
        plan = self.job.counts.plan
        if plan is None:
            return ""
        rows = [(column.name, column.words(), column.hint) for column in plan.columns[:_MOST_COLUMNS]]
        more = len(plan.columns) - len(rows)
        left_out = f"<p>And {more:,} more columns, which metrics.json has.</p>" if more else ""
        notes = "".join(f"<p>{escape(note)}.</p>" for note in plan.notes)
        words = f"<p>As the first {counted(plan.records, 'record')} showed.</p>{notes}"
        return self.section("How it was read", words + table(["column", "read as", "hint"], rows, "words") + left_out)

    def provenance(self) -> str:
        """How it was made."""
        options = self.job.options
        about = provenance()
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

    def keys(self) -> str:
        """What went wrong for the keys of a fleet."""
        found = self.document["runs"][0].get("keys")
        if found is None:
            return ""
        words = (
            f"{keys_words(found)}. By key: the most frequent, and the worst of those with 10 records or more; "
            "'first 20' is of a key's first records. Over time: the more a key has learned, the more it has of its own."
        )
        of_seed = " Of the first seed." if self.seeds > 1 else ""
        tables = table(*keys_rows(found, self.regression)) + table(*ages_rows(found, self.regression))
        return self.section("Keys", f"<p>{escape(words + of_seed)}</p>{tables}")

    def html(self) -> str:
        parts = [self.head(), self.result(), self.metrics(), self.errors(), self.keys()]
        parts += [self.model(name) for name in list(self.histories)[:_DETAILED]]
        if len(self.histories) > _DETAILED:
            parts.append(self.section("More models", f"<p>Pictures of the first {_DETAILED} models are above.</p>"))
        parts.append(self.features())
        parts.append(self.columns())
        parts.append(self.provenance())
        return "".join(parts) + "</main></body></html>\n"


def _cells(names: Sequence[str], values: dict[str, float | None], several: bool = False) -> list[str]:
    """Metrics as text; empty where one is not known of this row."""
    return [METRICS[name].shown(values[name], several) if name in values else "" for name in names]


def _bound(value: float | None) -> str:
    return "-" if value is None else f"{value:.1g}"


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _weight(mean: float, sd: float) -> str:
    """A weight with its deviation; empty while its feature or class was not known."""
    return "" if np.isnan(mean) else f"{mean:+.3g} \N{PLUS-MINUS SIGN} {sd:.2g}"


def _places(n: int) -> list[int]:
    """At most a dozen evenly spaced places among n, the last one with them."""
    return sorted(set(np.linspace(0, n - 1, min(n, _ROWS)).astype(int).tolist())) if n else []


def page(job: Job, command: str | None = None) -> str:
    """The report of a job that is done, as HTML; `command` is the command line that started it."""
    return _Page(job, command).html()
