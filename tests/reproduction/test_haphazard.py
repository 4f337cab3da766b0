"""The table of haphazard inputs: its figures, what is won, ranks, and the run behind it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import zoo
from braided.datasets.haphazard import AVAILABILITIES, REVIEW_SETTINGS, haphazard_stream, review_length
from braided.evaluation import Evaluation
from braided.records import Predictions, Records
from command import reproduce
from conftest import real
from reproduction import review as published
from reproduction.cells import DEFAULT, DEFAULT_BALANCED, Cell
from reproduction.command import Options, write
from reproduction.comparisons import ranks, won
from reproduction.jobs import HAPHAZARD, HAPHAZARD_WHOLE, JobSpec, perform
from reproduction.runs import Answers, _areas
from reproduction.tables import TABLES

TABLE = TABLES["haphazard"]

SOURCE = Path(__file__).parents[2].parent / "shared" / "paper" / "tables" / "haphazard.csv"
STREAMS = 13 * 3


@pytest.mark.skipif(
    not SOURCE.exists(), reason="the published tables are not here: put them as CSV files into ../shared/paper/tables"
)
def test_the_figures_are_those_published() -> None:
    with SOURCE.open() as file:
        rows = [
            (r["method"], r["dataset"], r["p"], r["metric"], float(r["mean"]), r["sd"], r["source"])
            for r in csv.DictReader(file)
        ]
    found = published.figures()
    assert sorted((*row[:5], float(row[5]) if row[5] else -1.0, row[6]) for row in rows) == sorted(
        (figure.method, *place, figure.mean, -1.0 if figure.sd is None else figure.sd, figure.source)
        for place, figures in found.items()
        for figure in figures
    )


def test_every_stream_has_all_of_the_reviews_methods_and_the_best_come_first() -> None:
    for name in REVIEW_SETTINGS:
        for p in AVAILABILITIES:
            for metric, more_is_better in published.METRICS.items():
                found = published.ranked(name, p, metric)
                means = [figure.mean for figure in found]
                assert means == sorted(means, reverse=more_is_better)
                assert {figure.method for figure in found} >= set(published.REVIEWED)
                assert len({figure.method for figure in found}) == len(found)


def cells() -> list[Cell]:
    return TABLE.cells("released")


def results(better: dict[str, float], **more: Any) -> dict[JobSpec, dict[str, Any]]:
    """Results as far beyond the best published as `better` says, of the review's streams."""
    out = {}
    for cell in cells():
        best = {m: published.ranked(cell.job.dataset, cell.p_f, m)[0].mean for m in published.METRICS}
        values = {metric: mean + better.get(metric, 0.0) for metric, mean in best.items()}
        decided = values | {"balanced_accuracy": values["balanced_accuracy"] + 5.0}
        for job in cell.jobs():
            out[job] = {
                "records": review_length(cell.job.dataset),
                "majority_errors": 40,
                "metrics": {"likeliest": values, "balanced": decided},
                "seconds": 0.5,
                "wall_seconds": 1.0,
                **more,
            }
    return out


def test_cells_are_the_streams_times_ours_and_the_baselines() -> None:
    found = cells()
    assert {(cell.job.dataset, cell.p_f) for cell in found} == {(n, p) for n in REVIEW_SETTINGS for p in AVAILABILITIES}
    assert len(found) == STREAMS * 4
    assert len({job for cell in found for job in cell.jobs()}) == STREAMS * (5 + 1 + 5)


def document(some: list[Cell], done: dict[JobSpec, dict[str, Any]]) -> dict[str, Any]:
    return TABLE.document("haphazard", some, done, None)


def test_cells_won_count_where_ours_is_beyond_the_best_published() -> None:
    once = [replace(cell, seeds=1) for cell in cells()]
    found = document(once, results({"balanced_accuracy": -1.0, "auroc": 1.0, "errors": 1.0}))
    assert won(found, "balanced_accuracy") == {"of": STREAMS, DEFAULT: 0, DEFAULT_BALANCED: STREAMS}
    assert won(found, "auroc") == {"of": STREAMS, DEFAULT: STREAMS}
    assert won(found, "errors")[DEFAULT] == 0
    assert won(found, "auprc")[DEFAULT] == 0, "equal is not ahead"
    fewer = document(once, results({"errors": -1.0}))
    assert won(fewer, "errors")[DEFAULT] == STREAMS


def test_ranks_are_among_ours_and_the_reviews() -> None:
    found = document(cells(), results({"balanced_accuracy": -1_000.0, "auroc": 50.0}))
    assert ranks(found, "balanced_accuracy")[DEFAULT] == [11.0] * STREAMS
    assert ranks(found, "balanced_accuracy")[DEFAULT_BALANCED] == [10.0] * STREAMS
    assert ranks(found, "auroc")[DEFAULT] == [1.0] * STREAMS
    for metric in ("balanced_accuracy", "auroc", "errors"):
        by_method = ranks(found, metric)
        n = 11 if metric != "auroc" else 10
        assert len(by_method) == n
        np.testing.assert_allclose(np.sum([*by_method.values()], axis=0), n * (n + 1) / 2)


def test_what_is_not_the_published_stream_is_not_counted() -> None:
    shorter = document(cells(), results({"auroc": 1.0}, records=100))
    assert won(shorter, "auroc")["of"] == 0
    assert ranks(shorter, "auroc") == {}
    assert TABLE.views["auroc"](shorter).rows[0][0] == ["wpbc (100 records)"]
    whole = Options(("haphazard",), whole_german=True)
    assert whole.command("haphazard") == "python -m reproduction haphazard --whole-german"
    german = [cell for cell in whole.cells("haphazard") if cell.job.dataset == "german"]
    assert {cell.job.protocol for cell in german} == {HAPHAZARD_WHOLE}
    assert {cell.job.protocol for cell in whole.cells("haphazard") if cell not in german} == {HAPHAZARD}
    done = results({"auroc": 1.0})
    done |= {replace(job, protocol=HAPHAZARD_WHOLE): result for job, result in done.items()}
    assert won(document(whole.cells("haphazard"), done), "auroc")["of"] == STREAMS - 3


def test_a_failed_run_is_counted_once_and_shown_for_both_decisions() -> None:
    done = results({})
    done[next(cell.job for cell in cells() if cell.method == DEFAULT)] = {"error": "ValueError: no luck"}
    found = document(cells(), done)
    assert sum(cell.get("failed", 0) for cell in found["cells"]) == 1
    none = results({})
    none |= {job: {"error": "wbc is not here"} for cell in cells() if cell.job.dataset == "wbc" for job in cell.jobs()}
    missing = document(cells(), none)
    assert ["wbc"] in [row[0] for view in TABLE.views.values() for row in view(missing).rows]
    assert [cell["method"] for cell in found["cells"] if "error" in cell] == [DEFAULT, DEFAULT_BALANCED]


def test_views_and_picture_show_it_and_failed_cells_with_their_reason(tmp_path: Path) -> None:
    done = results({"auroc": 1.0})
    for cell in cells():
        if cell.job.dataset == "wpbc" and cell.method == "olvf":
            done[cell.job] = {"error": "ValueError: no luck"}
    found = document(cells(), done)
    assert {path.name for path in write(found, tmp_path)} == {f"haphazard.{kind}" for kind in ("csv", "json", "png")}
    views = {name: view(found).markdown() for name, view in {**TABLE.views, **TABLE.details}.items()}
    assert views["auroc"].count("**") == 2 * STREAMS, "ours is ahead everywhere, and bold"
    assert "| failed: ValueError: no luck / 58 |" in views["olvf errors"]
    assert "OLVF 53.8, ORF3V 52.6, FAE 52.0" in views["every balanced_accuracy"]
    assert len(re.findall(r"\| a8a \([\d,]+\) \|", views["errors"])) == 1, "errors stand beside the majority class's"
    assert sum(view.count("| a8a |") for view in views.values()) == 2 + 4
    assert sum(view.count("| a8a 0.75 |") for view in views.values()) == 3


@pytest.mark.parametrize("positive", [True, False])
def test_with_one_class_alone_there_is_no_area(positive: bool) -> None:
    assert set(_areas(np.array([positive] * 2), np.array([0.2, 0.8])).values()) == {None}


def test_areas_are_by_trapezoids_and_ties_count_half() -> None:
    found = _areas(np.array([True, False, True, False]), np.array([0.9, 0.8, 0.7, 0.7]))
    assert (found["auroc"], found["auprc"]) == (pytest.approx(62.5), pytest.approx(75.0))


def test_answers_before_a_label_are_wrong_and_decisions_are_kept_apart() -> None:
    answers = Answers()
    names, none = ("x",), np.zeros((1, 1))
    answers.take(1, Records(names, none, [1]), Predictions(np.zeros((1, 2)), None, np.array([-1])), [1, 0])
    answers.take(2, Records(names, none, [0]), Predictions(np.ones((1, 1)), None, np.array([0])), [1, 0])
    said = np.array([[0.9, 0.1], [0.6, 0.4]])
    answers.take(3, Records(names, np.zeros((2, 1)), [1, 0]), Predictions(said, None, np.array([0, 1])), [1, 0])
    found = answers.metrics()
    assert (found["likeliest"]["errors"], found["balanced"]["errors"]) == (3.0, 2.0)
    assert found["likeliest"]["balanced_accuracy"] == 25.0
    assert found["balanced"]["balanced_accuracy"] == 50.0
    # Scores of the positives 0 and .9, of the negatives 1 and .6.
    assert found["likeliest"]["auroc"] == found["balanced"]["auroc"] == 25.0


def test_our_olvf_makes_the_reviews_errors_on_the_reviews_stream() -> None:
    """To the last error: the order, the mask, the reading and the formulas are theirs."""
    data = real("krvskp", "svmguide3")
    for name, p, errors in (("krvskp", 0.25, 1_513), ("krvskp", 0.75, 1_090), ("svmguide3", 0.5, 336)):
        job = next(cell.job for cell in cells() if (cell.job.dataset, cell.p_f, cell.method) == (name, p, "olvf"))
        assert perform(job, data)["metrics"]["likeliest"]["errors"] == errors
        theirs = published.find("OLVF", name, p, "errors")
        assert theirs is not None
        assert theirs.mean == errors


def test_the_reviews_auroc_of_olvf_is_that_of_how_sure_it_is() -> None:
    """docs/baselines.md says so of this stream."""
    data = real("a8a")
    job = next(cell.job for cell in cells() if (cell.job.dataset, cell.p_f, cell.method) == ("a8a", 0.75, "olvf"))
    labels: list[int] = []
    sure: list[float] = []

    def take(first: int, batch: Records, progress: Predictions, classes: Sequence[Hashable]) -> None:
        said = np.asarray(progress.values, dtype=np.float64)
        labels.extend(batch.targets)
        sure.extend(np.abs(said[:, 0] - 0.5) if said.shape[1] else np.zeros(len(said)))

    evaluation = Evaluation(zoo.build("olvf", job.run_options().resolved().model_options(0)), on_predictions=take)
    for _ in evaluation.run(haphazard_stream("a8a", 0.75, data, False)):
        pass
    area = _areas(np.array(labels) == 1, np.array(sure))["auroc"]
    theirs = published.find("OLVF", "a8a", 0.75, "auroc")
    assert theirs is not None
    assert area is not None
    assert round(area, 2) == theirs.mean == 72.43


def test_the_command_runs_and_resumes(tmp_path: Path, excerpts: Path) -> None:
    arguments = ["haphazard", "--dataset", "wpbc", "--seeds", "1", "--limit", "60", "--jobs", "1"]
    arguments += ["--out", str(tmp_path / "out"), "--data-dir", str(excerpts)]
    reproduce(*arguments)
    document = json.loads((tmp_path / "out" / "haphazard.json").read_text())
    assert {(cell["method"], cell["records"], cell["compared"]) for cell in document["cells"]} == {
        (method, 60, False) for method in (DEFAULT, DEFAULT_BALANCED, "olvf", "auxdrop-odl")
    }
    labels = haphazard_stream("wpbc", 0.25, excerpts).table.targets[:60]
    assert document["cells"][0]["majority"] == min(labels.count(0), labels.count(1))
    assert "9 runs were done before, 0 are left" in reproduce(*arguments).stderr
    assert json.loads((tmp_path / "out" / "haphazard.json").read_text())["cells"] == document["cells"]


def test_pages_say_what_the_table_has() -> None:
    root = Path(__file__).parents[2]
    kept = json.loads((root / "docs/results/haphazard.json").read_text())
    ahead = {metric: won(kept, metric)[DEFAULT] for metric in published.METRICS}
    of, decided = won(kept, "errors")["of"], won(kept, "balanced_accuracy")[DEFAULT_BALANCED]
    of_both = rf"in {ahead['auroc']} of {of}( streams)? by AUROC(,| and) in {ahead['errors']} by errors"
    for page in ("README.md", "CHANGELOG.md"):
        assert re.search(of_both, " ".join((root / page).read_text().split())), page
    found = " ".join((root / "docs/evaluation.md").read_text().split())
    assert f"in {ahead['balanced_accuracy']} of the {of} by balanced accuracy ({decided} with" in found
    assert f"in {ahead['auroc']} by AUROC and in {ahead['errors']} by errors" in found
