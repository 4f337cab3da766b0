"""The table of models beside River's on streams: figures, who is ahead where, ranks, and the sentences that say so."""

from __future__ import annotations

import statistics
from typing import Any

from braided.estimators.tasks import CLASSIFICATION, REGRESSION
from braided.evaluation.metrics import METRICS
from braided.reproduce.ranks import ranked
from braided.reproduce.stream_models import DEFAULT, GUESSES, LEARNED, OURS
from braided.reproduce.stream_sources import STREAMS
from braided.reproduce.summary import Results
from braided.reproduce.tables import TABLES, Cell

Document = dict[str, Any]
#: What a stream is judged by first, and everything that is compared; less is better in all of them.
MAIN = {CLASSIFICATION: "error_rate", REGRESSION: "mae"}
_CALLED = {"error_rate": "errors", "log_loss": "log loss", "mae": "mean absolute error"}
_RIVERS = tuple(entry.method for entry in LEARNED if entry.method not in OURS)
_LAST = {guesses[1] for guesses in GUESSES.values()}


def document(cells: list[Cell], results: Results) -> Document:
    """All cells, how each of ours stands to the best of River's, every method's ranks, and what that says."""
    table = TABLES["streams"]
    found: Document = {"what": "streams", "title": table.title, "about": table.about}
    found["cells"] = [_cell(cell, results) for cell in cells]
    found["beside"] = [row for metric in _CALLED for ours in OURS for row in _beside(found, metric, ours)]
    found["ranks"] = {metric: _ranks(found, metric) for metric in _CALLED}
    found["summary"] = _sentences(found)
    return found


def _cell(cell: Cell, results: Results) -> Document:
    """One method on one stream: the mean and deviation over its runs of each metric, and its time per record."""
    done = [results[job] for job in cell.jobs() if job in results]
    fine = [result for result in done if "error" not in result]
    out: Document = {
        "dataset": cell.job.dataset,
        "task": STREAMS[cell.job.dataset].task,
        "method": cell.method,
        "p_f": cell.p_f,
        "seeds": len(fine),
    }
    failed = [result["error"] for result in done if "error" in result]
    if failed:
        # What was last is counted in the runs of the other guess, whose failures are counted once.
        out |= {"error": failed[0]} | ({} if cell.method in _LAST else {"failed": len(failed)})
    if not fine:
        return out
    out["records"] = fine[0]["records"]
    figures = [{MAIN[out["task"]]: result["last"]} if cell.method in _LAST else result["metrics"] for result in fine]
    for metric in figures[0]:
        values = [each[metric] for each in figures]
        if None not in values:
            out[metric] = statistics.fmean(values)
            out[f"{metric}_sd"] = statistics.stdev(values) if len(values) > 1 else 0.0
    if cell.method not in GUESSES[out["task"]]:
        out["us_per_record"] = 1e6 * statistics.fmean(result["seconds"] / result["records"] for result in fine)
    return out


def by_stream(found: Document, metric: str) -> dict[tuple[str, float], dict[str, Document]]:
    """Stream and availability -> method -> its cell, of cells that have the metric."""
    streams: dict[tuple[str, float], dict[str, Document]] = {}
    for cell in found["cells"]:
        if metric in cell:
            streams.setdefault((cell["dataset"], cell["p_f"]), {})[cell["method"]] = cell
    return streams


def _beside(found: Document, metric: str, ours: str) -> list[Document]:
    """One of ours and the best of River's, on each stream that both have been run on."""
    rows = []
    for (dataset, p_f), methods in by_stream(found, metric).items():
        rivals = [methods[name] for name in _RIVERS if name in methods]
        if ours not in methods or not rivals:
            continue
        best = min(rivals, key=lambda cell: float(cell[metric]))
        rows.append(
            {
                "dataset": dataset,
                "p_f": p_f,
                "metric": metric,
                "ours": ours,
                "value": methods[ours][metric],
                "best": best["method"],
                "best_value": best[metric],
            }
        )
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


def where(row: Document) -> str:
    """A stream and what is missing, in words."""
    return f"{row['dataset']}{'' if row['p_f'] == 1.0 else ', half missing'}"


def _sentences(found: Document) -> list[str]:
    """What the table says: where we are ahead, where behind, and what it costs."""
    lines = []
    for metric in _CALLED:
        rows = [row for row in found["beside"] if row["metric"] == metric]
        lines += [_standing(metric, [row for row in rows if row["ours"] == ours]) for ours in OURS]
    lines += [_beaten_by_guesses(found, metric) for metric in MAIN.values() if by_stream(found, metric)]
    times = {name: middle_time(found, name) for name in (entry.method for entry in LEARNED)}
    known = [f"{name} {time:,.0f}" for name, time in times.items() if time is not None]
    lines += [f"Microseconds per record, in the middle of all streams: {', '.join(known)}."] if known else []
    return [line for line in lines if line]


def _standing(metric: str, rows: list[Document]) -> str:
    """In how many cells one of ours is ahead of the best of River's, and every cell in which it is not."""
    if not rows:
        return ""
    ahead = sum(row["value"] < row["best_value"] for row in rows)
    level = [where(row) for row in rows if row["value"] == row["best_value"]]
    behind = [
        f"{where(row)} ({_shown(metric, row['value'])}, {row['best']} {_shown(metric, row['best_value'])})"
        for row in rows
        if row["value"] > row["best_value"]
    ]
    name = "the default" if rows[0]["ours"] == DEFAULT else "lean"
    text = f"By {_CALLED[metric]} {name} is ahead of the best of River's models in {ahead} of {len(rows)} cells"
    text += f", level in {len(level)} ({', '.join(level)})" if level else ""
    return f"{text}, behind in {len(behind)}: {'; '.join(behind)}." if behind else f"{text}, behind in none."


def _beaten_by_guesses(found: Document, metric: str) -> str:
    """Where a guess that looks at no feature is better than the default."""
    worse = []
    for methods in by_stream(found, metric).values():
        if DEFAULT not in methods:
            continue
        ours = methods[DEFAULT]
        for guess in GUESSES[ours["task"]]:
            if guess in methods and methods[guess][metric] < ours[metric]:
                theirs, mine = (_shown(metric, cell[metric]) for cell in (methods[guess], ours))
                worse.append(f"{guess} on {where(ours)} ({theirs}, the default {mine})")
    what = f"By {_CALLED[metric]} a guess that looks at no feature"
    return f"{what} is ahead of the default: {'; '.join(worse)}." if worse else f"{what} is never ahead of the default."


def middle_time(found: Document, method: str, task: str | None = None) -> float | None:
    """The median over cells of a method's microseconds per record, of one task or of both."""
    cells = [cell for cell in found["cells"] if cell["method"] == method and task in {None, cell["task"]}]
    times = [cell["us_per_record"] for cell in cells if "us_per_record" in cell]
    return statistics.median(times) if times else None


def _shown(metric: str, value: float) -> str:
    return METRICS[metric].shown(value)
