"""docs/results.md: its tables are those of the kept documents, and its sentences say what these have."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from math import hypot
from pathlib import Path
from typing import Any

import pytest

from braided import BraidedError
from braided.evaluation.metrics import METRICS
from braided.report import published
from command import reproduce
from reproduction.cells import DEFAULT, KALMAN
from reproduction.comparisons import STREAM_METRICS, best_of_river, ranks, won
from reproduction.documents import by_stream, percent
from reproduction.measures import MAIN, TIME
from reproduction.page import load, refreshed
from reproduction.stream_models import GUESSES, LEAN
from reproduction.tables import TABLES
from reproduction.views import ENOUGH_SEEDS, SIGNIFICANT, parts_of_curve, published_rate, sampled_curves, short

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results"
PAGE = (DOCS / "results.md").read_text(encoding="utf-8")
Document = dict[str, Any]
Cells = dict[str, Document]
BLOCK = re.compile(r"<!-- \w+(?:: [\w -]+)? -->.*?<!-- end -->", re.DOTALL)
#: What is no prose: code, where links lead, tags, and names such as `magic04`, `CIFAR-10` and `h_{r-1,L}`.
OTHER = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>|\{[^}]*\}|\b[A-Za-z]+-?\d\w*|https?://\S+")
NUMBER = re.compile(r"(?<![\w,.])(?:\d[\d,]*(?:\.\d+)*|\.\d+)(?!\d)%?")


@cache
def one(what: str) -> Document:
    return load(RESULTS / f"{what}.json")


def listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def streams(what: str, dataset: str = "") -> list[Cells]:
    """Of each stream its cells by method."""
    found = by_stream(one(what), "ours_mean").items()
    return [cells for key, cells in found if dataset in {"", key.dataset}]


def fewer(what: str, method: str, rival: str, whose: str, dataset: str = "") -> str:
    """`n of m`: where a method makes fewer errors than a rival."""
    pairs = [(percent(cells[method], whose), percent(cells[rival], whose)) for cells in streams(what, dataset)]
    return f"{sum(a < b for a, b in pairs)} of {len(pairs)}"


def fewest(what: str, method: str, whose: str = "ours") -> str:
    """`n of m`: where a method makes the fewest errors of all, perhaps with others."""
    found = [{name: c[f"{whose}_mean"] for name, c in cells.items()} for cells in streams(what) if method in cells]
    return f"{sum(means[method] <= min(means.values()) * (1 + 1e-9) for means in found)} of {len(found)}"


def span(values: Iterable[float]) -> str:
    found = list(values)
    return f"{min(found):.1f} to {max(found):.1f}"


def majority(what: str) -> list[str]:
    first = {name: next(iter(streams(what, name)[0].values())) for name in ("higgs", "susy")}
    return [
        f"**{name}** in percent, ours / paper (majority class {100 * cell['majority'] / cell['records']:.1f}):"
        for name, cell in first.items()
    ]


def intro() -> list[str]:
    about = [one(what)["circumstances"] for what in TABLES]
    names = dict.fromkeys(name for each in about for name in each if name not in {"date", "machine"})
    used = (f"{name} {listed(sorted({each[name] for each in about if name in each}))}" for name in names)
    marked = [f"{ENOUGH_SEEDS} seeds or more cannot tell", f"p is at least {SIGNIFICANT:g} in"]
    return [f"Made with {listed(used)};", *marked]


def table1() -> list[str]:
    modl = {cells["modl"]["dataset"]: cells["modl"] for cells in streams("table1")}
    near = [
        n for n, c in modl.items() if abs(c["ours_mean"] - c["paper_mean"]) <= 2 * hypot(c["ours_sd"], c["paper_sd"])
    ]
    far = (f"{short(c['ours_mean'])} errors on {n}, where {short(c['paper_mean'])} are published"
           for n, c in modl.items() if n not in near)  # fmt: skip
    ours = (
        f"{short(cells[DEFAULT]['ours_mean'])} on {name}" for name, cells in zip(modl, streams("table1"), strict=True)
    )
    return [
        f"of its published figure on {listed(near)}; it makes {listed(far)}.",
        f"makes the fewest errors on {fewest('table1', DEFAULT)} sets: {', '.join(ours)}.",
    ]


def samples() -> list[str]:
    first = {name: streams("curves", name)[0]["modl"] for name in ("higgs", "susy")}
    parts = (f"{name} ({cell['records']:,} of {cell['paper_records']:,} records)" for name, cell in first.items())
    found = [f"at hand for {listed(parts)}.", f"would take about {hours():.0f} hours", "at availability 0.5:"]
    for name in first:
        curves = {c["method"]: (c, parts_of_curve(c)) for c in sampled_curves(one("curves")) if c["dataset"] == name}
        # The second half is below the first by more than a tenth of a percent.
        still = [m for m, (c, p) in curves.items() if halfway(c) - p[2] > 0.1]
        curve, (_, whole, second, _) = curves[DEFAULT]
        found.append(
            f"On {name} the error still falls for {listed(still)}; our default is at {whole:.1f}% of "
            f"{curve['records'][-1]:,} records, and at {second:.1f}% of their second half, where the paper's MODL is "
            f"at {published_rate(name, 'modl', 0.5):.1f}% of a million."
        )
    return found


def halfway(curve: Document) -> float:
    half = next(i for i, n in enumerate(curve["records"]) if n >= curve["records"][-1] / 2)
    return 100.0 * float(curve["mean"][half])


def hours() -> float:
    """Of all records and seeds of the samples: a run counts once, at the fastest speed that was measured."""
    seconds: dict[Any, float] = {}
    for what in TABLES:
        cells = {
            (c["dataset"], c["method"], c["p_f"], c.get("setting", "")): c
            for c in one(what)["cells"]
            if c.get("sample")
        }
        for cell in TABLES[what].cells("released"):
            measured = cells.get((cell.job.dataset, cell.method, cell.p_f, cell.setting))
            if measured is not None:
                took = 1e-6 * measured[TIME] * measured["paper_records"]
                seconds |= {job: min(took, seconds.get(job, took)) for job in cell.jobs()}
    return sum(seconds.values()) / 3_600.0


def beside_auxdrop(what: str, along: str) -> list[str]:
    pair = (what, "modl", "auxdrop-odl")
    parts = (
        f"at {fewer(*pair, 'ours', n)} {along} on {n} (paper {fewer(*pair, 'paper', n)})" for n in ("higgs", "susy")
    )
    return [f"MODL makes fewer errors than Aux-Drop {listed(parts)}.", *majority(what)]


def rates() -> list[str]:
    parts = []
    for name in ("higgs", "susy"):
        cells = [each["modl"] for each in streams("lr", name)]
        best = (min(cells, key=lambda c: float(c[f"{whose}_mean"])) for whose in ("ours", "paper"))
        ours, paper = (cell["setting"].partition("=")[2] for cell in best)
        parts.append(f"{ours} on {name} (paper {paper})")
    return [*beside_auxdrop("lr", "learning rates"), f"Its best rate is {listed(parts)}."]


def images() -> list[str]:
    def wrong(cell: Document) -> str:
        paper = f" (paper {cell['paper_mean']:.1f}%)" if "paper_mean" in cell else ""
        return f"{cell['ours_mean']:.1f}%{paper} of {cell['dataset']}"

    called = {DEFAULT: "our default", "modl": "MODL", "auxdrop-odl": "Aux-Drop"}
    return [f"{name} {listed(wrong(cells[method]) for cells in streams('table3'))}" for method, name in called.items()]


def depth() -> list[str]:
    pairs = [(cells["auxdrop-odl"], cells["auxdrop-fodl"]) for cells in streams("depth")]
    ours, paper = (span(a[key] / b[key] for a, b in pairs) for key in (TIME, "paper_seconds"))
    apart = max(100.0 * abs(a["ours_mean"] - b["ours_mean"]) / a["records"] for a, b in pairs)
    said = (
        f"takes {ours} times as long as Fast ODL (paper {paper}); their errors are at most {apart:.2f}% of the records"
    )
    return [said, *majority("depth")]


def logistic() -> list[str]:
    times = span(cells["FOLKLORE"][TIME] / cells[KALMAN][TIME] for cells in streams("logistic"))
    best = {method: fewest("logistic", method) for method in (KALMAN, "FOLKLORE")}
    return [f"errors on {best[KALMAN]} sets and FOLKLORE on {best['FOLKLORE']}, which takes {times} times as long."]


def haphazard() -> list[str]:
    called = {"balanced_accuracy": "balanced accuracy", "auroc": "AUROC", "errors": "errors", "auprc": "AUPRC"}
    found = []
    for metric, name in called.items():
        of, default, *decided = won(one("haphazard"), metric).values()
        line = f"By {name} the default is ahead of the best published method in {default} of {of} cells"
        found.append(line + (f", with the balanced decision in {decided[0]}." if decided else "."))
    return found


def beside_river() -> list[str]:
    return [
        *map(standing, ("error_rate", "log_loss", "mae")),
        *map(beaten_by_guesses, ("error_rate", "mae")),
        *cells_of(),
    ]


CALLED = {"error_rate": "errors", "log_loss": "log loss", "mae": "mean absolute error"}


def place(cell: Document) -> str:
    return str(cell["dataset"]) + (" (half missing)" if cell["p_f"] < 1.0 else "")


def standing(metric: str) -> str:
    found = [cells for cells in by_stream(one("streams"), metric).values() if best_of_river(cells, metric)]
    best = [float(best_of_river(cells, metric)[metric]) for cells in found]  # type: ignore[index]
    ahead = {m: sum(c[m][metric] < b for c, b in zip(found, best, strict=True)) for m in (DEFAULT, LEAN)}
    behind = [place(c[DEFAULT]) for c, b in zip(found, best, strict=True) if c[DEFAULT][metric] > b]
    return (
        f"By {CALLED[metric]} the default is ahead of the best of River's models in {ahead[DEFAULT]} of {len(found)} "
        f"cells, and `lean` in {ahead[LEAN]}" + (f"; the default is behind on {listed(behind)}." if behind else ".")
    )


def beaten_by_guesses(metric: str) -> str:
    worse: dict[str, list[str]] = {}
    for cells in by_stream(one("streams"), metric).values():
        for guess in GUESSES[METRICS[metric].task]:
            if cells[guess][metric] < cells[DEFAULT][metric]:
                worse.setdefault(guess, []).append(place(cells[DEFAULT]))
    text = f"By {CALLED[metric]} a guess that looks at no feature is"
    if not worse:
        return f"{text} never ahead of the default."
    return f"{text} ahead of the default: {listed(f'the {guess} on {listed(some)}' for guess, some in worse.items())}."


def cells_of() -> list[str]:
    counts = (len(ranks(one("streams"), MAIN[task])[DEFAULT]) for task in STREAM_METRICS)
    return [f"where the default is ahead, over {count} cells (*ahead*)" for count in counts]


def toy() -> list[str]:
    cells = [one("toy")["cells"][place] for place in (0, -1)]
    return [
        f"ithin {c['radius']:g} of the true weights the quadratic is off by {c['largest_difference']:.3f} at most, "
        f"where the log-likelihood changes by {c['range_of_exact']:.2f}"
        for c in cells
    ]


def quirks() -> list[str]:
    german = {scale: json.loads((RESULTS / "german" / f"scale_{scale}.json").read_text()) for scale in ("-1,1", "0,1")}
    modl = {scale: next(c for c in d["cells"] if c["method"] == "modl") for scale, d in german.items()}
    figure = {what: {n: f"{published.find(what, n, m)[0].mean:,g}" for n in ("german", "magic04")}
              for what, m in (("table1", "modl"), ("merge", "score-sum"), ("glr", "modl"))}  # fmt: skip
    kept = (f"{figure[what]['german']}" for what in ("table1", "merge", "glr"))
    others = ["5,124.7", *(figure[what]["magic04"] for what in ("merge", "glr"))]
    imnist = streams("table3", "imnist")[0]["modl"]
    at = {p: published.find("table2", "higgs", "modl", p)[0].mean for p in (0.5, 0.6)}
    assert at[0.5] == at[0.6]
    return [
        *(f"`--scale {scale}` ({cell['ours_mean']:.1f})" for scale, cell in modl.items()),
        f"MODL's {figure['table1']['german']} errors are not reached",
        f"Its {published.find('table1', 'svmguide3', 'auxdrop-odl')[0].mean:g} errors are no fewer",
        f"majority class, {streams('table1', 'svmguide3')[0]['modl']['majority']:g}.",
        f"MODL on german makes {listed(kept)} errors in three tables, on magic04 {listed(others)}.",
        f"{at[0.6]:,.0f} errors, as at .5",
        f"gets {imnist['ours_mean']:.1f}% of a million images wrong here, and {imnist['paper_mean']:.1f}% are",
    ]


def best_in(what: str, method: str, text: str) -> list[str]:
    return [text.format(fewest(what, method), fewest(what, method, "paper"))]


#: What a section's sentences say of its results: texts that stand on the page, computed from the documents.
CLAIMS: dict[str, Callable[[], list[str]]] = {
    "Results": intro,
    "Four small sets": table1,
    "What was not run in full": samples,
    "HIGGS and SUSY by availability": lambda: beside_auxdrop("table2", "availabilities"),
    "Images": images,
    "Ways to combine learners": lambda: best_in(
        "merge", "score-sum", "The score sum makes the fewest errors on {} data sets, in the paper on {}."
    ),
    "Which learners": lambda: [
        *best_in("ablation", "modl", "make the fewest errors in {} rows, in the paper in {}."),
        *majority("ablation"),
    ],
    "The fast learner in closed form, and by gradient": lambda: [
        f"than by gradient on {fewer('glr', 'modl', 'modl-glr', 'ours')} data sets, in the paper on "
        f"{fewer('glr', 'modl', 'modl-glr', 'paper')}."
    ],
    "Three learners or five": lambda: [
        f"than three on {fewer('five', 'modl-5', 'modl', 'ours')} data sets, in the paper on "
        f"{fewer('five', 'modl-5', 'modl', 'paper')}."
    ],
    "Learning rates": rates,
    "Depth and width of Aux-Drop, on ODL and Fast ODL": depth,
    "Ways to learn a logistic regression online": logistic,
    "Learning curves": lambda: [f"our default has made the fewest errors on {fewest('curves', DEFAULT)} data sets."],
    "Haphazard inputs": haphazard,
    "Beside River, on streams": beside_river,
    "Log-likelihood and its quadratic approximation": toy,
    "Typos and quirks of what is published": quirks,
}
#: Numbers that are not results: settings, sizes, and what others have published. Each must stand on the page.
FACTS = {
    "Images": "50,000 .00005",
    "Ways to combine learners": ".5 .99",
    "The fast learner in closed form, and by gradient": ".99",
    "Learning rates": ".99",
    "Depth and width of Aux-Drop, on ODL and Fast ODL": ".5",
    "Ways to learn a logistic regression online": ".001 .1 .003 .01",
    "Learning curves": "95% .5",
    "Haphazard inputs": "2024 2404.04903 13 20 .25 .5 .75 0.7 959",
    "Beside River, on streams": ".5 10,000",
    "Log-likelihood and its quadratic approximation": "100 -1.5 1 2",
    "Typos and quirks of what is published": "41 16 684 316 700 300 299.7 322.7 .005 .001 .6 .1 .4 .99 128 250 .00005 "
    "4.0% .002 3.0% 959 1,000 1",
}


@cache
def claims(title: str) -> list[str]:
    return CLAIMS[title]()


def sections(page: str) -> dict[str, str]:
    parts = re.split(r"^#+ ", page, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: " ".join(part.partition("\n")[2].split()) for part in parts}


def problems(page: str) -> list[str]:
    """Claims that do not stand on a page, and figures of its sentences that nothing vouches for."""
    found = []
    for title, text in sections(page).items():
        tables, prose = " ".join(BLOCK.findall(text)), BLOCK.sub(" ", text)
        for claim in claims(title):
            if claim not in prose:
                found.append(f"{title}: not said: {claim}")
            prose = prose.replace(claim, " ")
        known = {*NUMBER.findall(tables.replace("*", " "))}
        facts = {*FACTS.get(title, "").replace("-1.5", "1.5").split()}
        figures = NUMBER.findall(OTHER.sub(" ", prose))
        found += [f"{title}: no table has {figure}" for figure in figures if figure.rstrip(",") not in known | facts]
        found += [f"{title}: {fact} is not said" for fact in facts if fact not in {f.rstrip(",") for f in figures}]
    return found


def test_sentences_say_what_the_tables_have() -> None:
    assert sections(PAGE).keys() == CLAIMS.keys()
    assert problems(PAGE) == []


def test_any_stale_figure_of_a_sentence_is_found() -> None:
    """Each figure of the prose that is a result is changed in turn."""
    prose = BLOCK.sub(lambda found: "\0" * len(found[0]), PAGE)
    prose = OTHER.sub(lambda found: "\0" * len(found[0]), prose)
    changed = 0
    for figure in NUMBER.finditer(prose):
        title = re.findall(r"^#+ (.*)$", PAGE[: figure.start()], flags=re.MULTILINE)[-1]
        if figure[0].rstrip(",") in FACTS.get(title, "").replace("-1.5", "1.5").split():
            continue
        at = figure.start() + re.search(r"\d(?=\D*$)", figure[0]).start()  # type: ignore[union-attr]
        stale = PAGE[:at] + str((int(PAGE[at]) + 1) % 10) + PAGE[at + 1 :]
        assert problems(stale), PAGE[figure.start() - 60 : figure.end() + 20]
        changed += 1
    assert changed > 90


def test_tables_are_those_of_the_kept_documents() -> None:
    """After a change: `python -m reproduction --write docs/results.md`."""
    assert refreshed(PAGE, RESULTS) == PAGE
    shown = set(re.findall(r"<!-- (\w+(?:: [\w -]+)?) -->", PAGE)) - {"end"}
    views = {(what, view) for what, table in TABLES.items() for view in (*table.views, *table.details, "made")}
    assert shown == {f"{what}: {view}" if view else what for what, view in views}
    for what in TABLES:
        assert f"\n## {one(what)['title']}\n" in PAGE
        assert f"(results/{what}.png)" in PAGE


def test_writing_changes_what_is_between_markers_alone(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    page = tmp_path / "results.md"
    page.write_text(PAGE.replace("| *german* |", "| *stale* |").replace("MODL comes", "MODL came"), encoding="utf-8")
    reproduce("--write", str(page))
    assert page.read_text(encoding="utf-8") == PAGE.replace("MODL comes", "MODL came")
    for broken, message in (
        ("<!-- table9 -->\n<!-- end -->", "names no table"),
        ("<!-- table1: auroc -->\n<!-- end -->", "names no view"),
    ):
        page.write_text(broken)
        assert message in reproduce("--write", str(page), code=2).stderr
    (tmp_path / "results" / "toy.json").write_text('{"what": ')
    with pytest.raises(BraidedError, match=r"toy\.json is not a table of results"):
        load(tmp_path / "results" / "toy.json")
    with pytest.raises(BraidedError, match="is not here"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize("scale", ["-1,1", "0,1"])
def test_what_is_said_of_german_scaled_is_in_its_document(scale: str) -> None:
    found = load(RESULTS / "german" / f"scale_{scale}.json")
    assert found["command"] == f"python -m reproduction table1 --dataset german --scale {scale}"
    modl = next(each for each in found["cells"] if each["method"] == "modl")
    assert modl["seeds"] == 20
    figures = f"{modl['ours_mean']:.1f} +- {modl['ours_sd']:.1f}"
    baselines = (DOCS / "baselines.md").read_text()
    assert f"| [`{found['command']}`](results/german/scale_{scale}.json) | {figures} |" in baselines


def test_what_is_said_of_german_read_whole_is_in_its_document() -> None:
    found = load(RESULTS / "german" / "whole.json")
    assert found["command"] == "python -m reproduction haphazard --dataset german --whole-german"
    low, middle, high = (
        f"{each['balanced_accuracy']:.1f}" for each in found["cells"] if each["method"] == "modl (default)"
    )
    assert f"[{low}, {middle} and {high}](results/german/whole.json)" in (DOCS / "evaluation.md").read_text()


def test_open_tables_fit_a_phone() -> None:
    def width(lines: list[str]) -> int:
        bare = [re.sub(r"\*+|</?small>", "", line).strip("| ").split(" | ") for line in lines]
        columns = zip(*(row + [""] * (len(bare[0]) - len(row)) for row in bare), strict=False)
        return sum(max(max(map(len, re.split("<br>", cell))) for cell in column) + 1 for column in columns)

    for what, table in TABLES.items():
        for name, view in table.views.items():
            header, _, *rows = view(one(what)).markdown().split("\n")
            assert (
                width([" | ".join(max(cell.split() or [""], key=len) for cell in header.split(" | ")), *rows]) <= 70
            ), f"{what} {name}"
