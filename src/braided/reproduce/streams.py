"""The table of models beside River's on streams: figures, who is ahead where, ranks, and the sentences that say so."""

from __future__ import annotations

import statistics

from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.evaluation.metrics import METRICS
from braided.reproduce.documents import CellDocument, Document, by_stream
from braided.reproduce.findings import listed
from braided.reproduce.ranks import ranked
from braided.reproduce.stream_models import DEFAULT, GUESSES, LEAN, LEARNED, OURS
from braided.reproduce.stream_sources import STREAMS
from braided.reproduce.summary import Results, fine_and_failed
from braided.reproduce.tables import TABLES, Cell

#: What streams are compared by, the main metric first; less is better in all.
COMPARED = {CLASSIFICATION: ("error_rate", "log_loss"), REGRESSION: ("mae",)}
MAIN = {task: metrics[0] for task, metrics in COMPARED.items()}
TIME = "us_per_record"
_METRICS = tuple(metric for metrics in COMPARED.values() for metric in metrics)
_RIVERS = tuple(entry.method for entry in LEARNED if entry.method not in OURS)
_LAST = {guesses[1] for guesses in GUESSES.values()}


def document(cells: list[Cell], results: Results) -> Document:
    """All cells, how each of ours stands to the best of River's, every method's ranks, and what that says."""
    table = TABLES["streams"]
    found: Document = {"what": "streams", "title": table.title, "about": table.about}
    found["cells"] = [_cell(cell, results) for cell in cells]
    found["beside"] = [row for metric in _METRICS for ours in OURS for row in _beside(found, metric, ours)]
    found["ranks"] = {metric: _ranks(found, metric) for metric in _METRICS}
    found["summary"] = _sentences(found)
    return found


def _cell(cell: Cell, results: Results) -> CellDocument:
    """One method on one stream: the mean and deviation over its runs of each metric, and its time per record."""
    fine, failed = fine_and_failed(cell, results)
    task = STREAMS[cell.job.dataset].task
    out: CellDocument = {"dataset": cell.job.dataset, "task": task, "method": cell.method, "p_f": cell.p_f}
    out["seeds"] = len(fine)
    if failed:
        # What was last is counted in the runs of the other guess, whose failures are counted once.
        out |= {"error": failed[0]} | ({} if cell.method in _LAST else {"failed": len(failed)})
    if not fine:
        return out
    out["records"] = fine[0]["records"]
    figures = [{MAIN[task]: result["last"]} if cell.method in _LAST else result["metrics"] for result in fine]
    for metric in figures[0]:
        values = [each[metric] for each in figures]
        if None not in values:
            # Rounded, so that means over a different number of equal values are equal.
            out[metric] = round(statistics.fmean(values), 12)
            out[f"{metric}_sd"] = statistics.stdev(values) if len(values) > 1 else 0.0
    if cell.method not in GUESSES[task]:
        out[TIME] = 1e6 * statistics.fmean(result["seconds"] / result["records"] for result in fine)
    return out


def relative(methods: dict[str, CellDocument], method: str) -> float | None:
    """A method's error on a stream over that of the majority class or the mean; None if that is not known, or 0."""
    task = methods[method]["task"]
    usual = methods.get(GUESSES[task][0], {}).get(MAIN[task])
    # A model without any error must leave something to take a logarithm of.
    return max(float(methods[method][MAIN[task]] / usual), 1e-6) if usual else None


def middle_time(found: Document, method: str, task: str | None = None) -> float | None:
    """The median over cells of a method's microseconds per record, of one task or of both."""
    cells = [cell for cell in found["cells"] if cell["method"] == method and task in {None, cell["task"]}]
    times = [cell[TIME] for cell in cells if TIME in cell]
    return statistics.median(times) if times else None


def called(metric: str) -> str:
    """A metric in a sentence."""
    return {"error_rate": "errors", "mae": "mean absolute error"}.get(metric, METRICS[metric].title)


def where(row: Document) -> str:
    """A stream and what is missing, in words."""
    return row["dataset"] if row["p_f"] == 1.0 else f"{row['dataset']}, {missing(row['p_f'])}"


def missing(p_f: float) -> str:
    """How much of the values, in words."""
    return {1.0: "nothing missing", 0.5: "half missing"}[p_f]


def _in_list(row: Document) -> str:
    """As `where`, among others."""
    return row["dataset"] if row["p_f"] == 1.0 else f"{row['dataset']} ({missing(row['p_f'])})"


def _beside(found: Document, metric: str, ours: str) -> list[Document]:
    """One of ours and the best of River's, on each stream that both have been run on."""
    rows = []
    for (dataset, p_f, _), methods in by_stream(found, metric).items():
        rivals = [methods[name] for name in _RIVERS if name in methods]
        if ours not in methods or not rivals:
            continue
        best = min(rivals, key=lambda cell: float(cell[metric]))
        figures = {"ours": ours, "value": methods[ours][metric], "best": best["method"], "best_value": best[metric]}
        rows.append({"dataset": dataset, "p_f": p_f, "metric": metric, **figures})
    return rows


def _ranks(found: Document, metric: str) -> dict[str, list[float]]:
    """The rank of each method on each stream that all of them have been run on; equal ones share theirs."""
    ranks: dict[str, list[float]] = {}
    streams = by_stream(found, metric)
    everyone = {name for methods in streams.values() for name in methods}
    for methods in streams.values():
        if methods.keys() == everyone:
            values = [float(cell[metric]) for cell in methods.values()]
            for name, rank in zip(methods, ranked(values), strict=True):
                ranks.setdefault(name, []).append(rank)
    return ranks


def _sentences(found: Document) -> list[str]:
    """What the table says: where we are ahead, and where behind."""
    lines = []
    for metric in _METRICS:
        rows = [row for row in found["beside"] if row["metric"] == metric]
        if any(row["ours"] == DEFAULT for row in rows):
            lines.append(_standing(metric, rows))
    return lines + [_beaten_by_guesses(found, metric) for metric in MAIN.values() if by_stream(found, metric)]


def _standing(metric: str, rows: list[Document]) -> str:
    """In how many cells ours are ahead of the best of River's, and every cell in which the default is not."""
    ours = [row for row in rows if row["ours"] == DEFAULT]
    level = [_in_list(row) for row in ours if row["value"] == row["best_value"]]
    behind = [_in_list(row) for row in ours if row["value"] > row["best_value"]]
    ahead = f"ahead of the best of River's models in {_ahead(ours)} of {len(ours)} cells"
    text = f"By {called(metric)} the default is {ahead}"
    lean = [row for row in rows if row["ours"] == LEAN]
    text += f", and `lean` in {_ahead(lean)}" if lean else ""
    text += f"; the default is level on {listed(level)}" if level else ""
    return f"{text}; the default is behind on {listed(behind)}." if behind else f"{text}."


def _ahead(rows: list[Document]) -> int:
    return sum(row["value"] < row["best_value"] for row in rows)


def _beaten_by_guesses(found: Document, metric: str) -> str:
    """Where a guess that looks at no feature is better than the default."""
    worse: dict[str, list[str]] = {}
    for methods in by_stream(found, metric).values():
        ours = methods.get(DEFAULT)
        for guess in GUESSES[METRICS[metric].task]:
            if ours is not None and guess in methods and methods[guess][metric] < ours[metric]:
                worse.setdefault(guess, []).append(_in_list(ours))
    what = f"By {called(metric)} a guess that looks at no feature"
    if not worse:
        return f"{what} is never ahead of the default."
    places = listed([f"the {guess} on {listed(some)}" for guess, some in worse.items()])
    return f"{what} is ahead of the default: {places}."
