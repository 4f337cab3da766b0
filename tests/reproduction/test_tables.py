"""What the tables consist of, and how figures are put beside the published ones."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from braided import BraidedError, zoo
from braided.report import published
from command import reproduce
from reproduction import toy
from reproduction.__main__ import shown
from reproduction.cells import DEFAULT
from reproduction.command import Options, checked, write
from reproduction.documents import as_csv
from reproduction.jobs import JobSpec, Store
from reproduction.measures import band
from reproduction.tables import TABLES
from reproduction.views import name

UNPUBLISHED = {DEFAULT}
TABLES_OF_THE_PAPER = Path(__file__).parents[2].parent / "shared" / "paper" / "tables"


@pytest.mark.parametrize(
    "what", [what for what in TABLES if what not in {"curves", "haphazard", "logistic", "streams", "toy"}]
)
def test_every_published_figure_has_its_cell_and_every_cell_its_figure(what: str) -> None:
    cells = TABLES[what].cells("released")
    matched = [figure for cell in cells for figure in cell.paper(what)]
    assert {figure for figure in published.figures() if figure.table == what} == set(matched)
    assert all(cell.paper(what) or cell.method in UNPUBLISHED for cell in cells)
    assert len({(cell.job, cell.seeds) for cell in cells}) == len(cells)


@pytest.mark.skipif(
    not TABLES_OF_THE_PAPER.exists(),
    reason="the paper's tables are not here: put them as CSV files into ../shared/paper/tables",
)
def test_the_figures_are_those_of_the_paper() -> None:
    checked_figures = 0
    for file_name, what, scale in (("table1_uci", "table1", 1), ("table2_missingness", "table2", 1_000)):
        with (TABLES_OF_THE_PAPER / f"{file_name}.csv").open() as file:
            for row in csv.DictReader(file):
                p_f = float(row["p_f"]) if "p_f" in row else None
                figure = published.find(what, row["dataset"], row["method"], p_f)[0]
                mean = float(row.get("errors_mean") or row["errors_k_mean"])
                assert figure.mean == pytest.approx(mean * scale, rel=1e-9)
                checked_figures += 1
    assert checked_figures == 16 + 52


def fake(errors: dict[str, list[int]], records: int) -> tuple[list[Any], dict[JobSpec, dict[str, Any]]]:
    """Cells of table1 on german and results with these errors."""
    cells = [cell for cell in TABLES["table1"].cells("released") if cell.job.dataset == "german"]
    cells = [replace(cell, seeds=len(errors[cell.method])) for cell in cells if cell.method in errors]
    results = {
        job: {
            "errors": errors[cell.method][i],
            "records": records,
            "majority_errors": 300,
            "seconds": 0.5,
            "wall_seconds": 1.0,
            "curve": {"records": [1, 2], "errors": [1, 1]},
        }
        for cell in cells
        for i, job in enumerate(cell.jobs())
    }
    return cells, results


def test_means_deviations_and_the_paired_test(excerpts: Path) -> None:
    errors = {"modl": [280, 290, 300, 285, 292, 288], "olvf": [330, 341, 350, 335, 340, 339]}
    cells, results = fake(errors, 1_000)
    by_method = {c["method"]: c for c in TABLES["table1"].document("table1", cells, results, excerpts)["cells"]}
    assert by_method["olvf"]["ours_mean"] == np.mean(errors["olvf"])
    assert by_method["olvf"]["ours_sd"] == pytest.approx(np.std(errors["olvf"], ddof=1))
    assert (by_method["olvf"]["paper_mean"], by_method["olvf"]["paper_sd"]) == (333.4, 9.7)
    assert by_method["olvf"]["p_value"] == pytest.approx(2 / 2**6)  # all six differences have one sign
    assert "p_value" not in by_method["modl"]
    assert not by_method["modl"]["sample"]
    assert by_method["modl"]["us_per_record"] == pytest.approx(500.0)


def test_a_shorter_stream_scales_the_published_figure_and_is_named(excerpts: Path) -> None:
    cells, results = fake({"modl": [140, 150], "auxdrop-odl": [150, 150]}, 500)
    document = TABLES["table1"].document("table1", cells, results, excerpts)
    by_method = {c["method"]: c for c in document["cells"]}
    modl = by_method["modl"]
    assert modl["sample"]
    assert modl["paper_mean"] == pytest.approx(286.1 / 2)
    assert by_method["auxdrop-odl"]["paper_other"] == [pytest.approx(150.2)]
    assert name(modl) == "german, first 500"
    assert name(modl | {"file_is_sample": True}) == "german"


def test_a_failed_cell_is_shown_with_its_reason_and_the_others_stay(excerpts: Path) -> None:
    cells, results = fake({"modl": [280, 290], "olvf": [330, 341]}, 1_000)
    for job in cells[0].jobs():
        results[job] = {"error": "ValueError: no luck"}
    document = TABLES["table1"].document("table1", cells, results, excerpts)
    assert (document["cells"][0]["failed"], document["cells"][0]["seeds"]) == (2, 0)
    assert document["cells"][1]["ours_mean"] == 285
    text = TABLES["table1"].views[""](document).markdown()
    assert "failed: ValueError: no luck" in text
    assert "| modl | 285.0 ± 7.1 | 286.1 ± 5.3 | -1.1 |" in text.replace("\u00a0", " ")


def test_a_reason_with_a_bar_stays_in_its_cell(excerpts: Path) -> None:
    cells, results = fake({"modl": [280]}, 1_000)
    results[cells[0].job] = {"error": "no | luck"}
    document = TABLES["table1"].document("table1", cells, results, excerpts)
    assert r"| failed: no \| luck |" in TABLES["table1"].views[""](document).markdown()


def test_bands_are_confidence_intervals_of_the_mean_rate() -> None:
    curves = [{"records": [10, 20], "errors": [5, 8]}, {"records": [10, 20], "errors": [3, 8]}]
    found = band(curves)
    assert found["mean"] == pytest.approx([0.4, 0.4])
    half = 12.706204736 * math.sqrt(0.02) / math.sqrt(2)  # Student's t, one degree of freedom
    assert found["high"] == pytest.approx([0.4 + half, 0.4])


def test_the_quadratic_is_exact_at_its_centre_and_leaves_it_with_the_third_power() -> None:
    differences = [cell["largest_difference"] for cell in made("toy")["cells"]]
    near, far = differences[0], differences[2]  # radii 0.1 and 0.5
    assert far / near == pytest.approx(5**3, rel=0.4)


def test_one_pass_of_the_fast_learner_comes_near_the_most_likely_weights() -> None:
    u, y = toy.records(toy.SEED)
    theta = np.zeros(2)
    for _ in range(50):  # Newton's method, for the exact maximum
        s = 1 / (1 + np.exp(-u @ theta))
        theta += np.linalg.solve((u * (s * (1 - s))[:, None]).T @ u, u.T @ (y - s))
    mean, covariance = toy.posterior(u, y)
    assert np.abs(mean - theta).max() < np.sqrt(np.diag(covariance)).max()


def made(what: str) -> dict[str, Any]:
    return TABLES[what].document(what, [], {}, None)


@pytest.mark.parametrize("what", [what for what in TABLES if what not in {"haphazard", "streams", "toy"}])
@pytest.mark.parametrize("fails", [False, True])
def test_every_table_can_be_drawn_and_written(what: str, fails: bool, excerpts: Path, tmp_path: Path) -> None:
    cells = [replace(cell, seeds=2) for cell in TABLES[what].cells("released") if TABLES[what].quick(cell)]
    result = {"errors": 300, "records": 1_000, "majority_errors": 400, "seconds": 0.5, "wall_seconds": 1.0,
              "curve": {"records": [1, 2, 3], "errors": [1, 1, 2]}}  # fmt: skip
    results = {job: {"error": "no luck"} if fails else result for cell in cells for job in cell.jobs()}
    document = TABLES[what].document(what, cells, results, excerpts)
    paths = write(document, tmp_path)
    assert {f"{what}.csv", f"{what}.json"} <= {path.name for path in paths}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths if path.suffix == ".png")
    assert fails or tmp_path / f"{what}.png" in paths
    texts = [view(document).markdown() for view in TABLES[what].views.values()]
    assert ("failed: no luck" in "".join(texts)) == fails
    assert len(as_csv(document).splitlines()) == 1 + len(cells)
    assert json.loads((tmp_path / f"{what}.json").read_text()) == document


@pytest.mark.parametrize("change", [{}, {"sample": False, "seeds": 2, "ours_sd": 3.0}])
def test_a_terminal_says_that_figures_are_scaled_and_shows_deviations_of_several_seeds(change: dict[str, Any]) -> None:
    cell = {
        "dataset": "higgs", "method": "modl", "p_f": 0.5, "unit": "errors", "ours_mean": 470.0, "ours_sd": 0.0,
        "seeds": 1, "records": 1_000, "paper_records": 1_000_000, "sample": True, "file_is_sample": False,
        "majority": 480.0, "paper_mean": 440.0, "paper_other": [],
    }  # fmt: skip
    console = Console(record=True, file=io.StringIO(), width=100)
    console.print(shown({"what": "table1", "title": "t", "cells": [cell | change]}))
    text = console.export_text()
    assert ("scaled" in text) == ("sample" not in change)
    assert ("470.0\u00a0± 3.0".replace(" ", "\u00a0") in text) == ("seeds" in change)


def test_what_seeds_cannot_tell_apart_is_marked_if_there_are_enough_of_them(excerpts: Path) -> None:
    errors = {"modl": [280, 290, 300, 285, 292, 288], "olvf": [281, 289, 301, 284, 293, 287]}
    cells, results = fake(errors, 1_000)
    document = TABLES["table1"].document("table1", cells, results, excerpts)
    rows = {row[0][0]: row[1][0] for row in TABLES["table1"].views[""](document).rows}
    assert rows["olvf"].endswith("°")
    assert not rows["modl"].endswith("°")
    few = TABLES["table1"].document("table1", [replace(cell, seeds=5) for cell in cells], results, excerpts)
    assert "°" not in TABLES["table1"].views[""](few).markdown()


def test_what_is_wanted() -> None:
    assert checked(["table1", "toy", "table1"]) == ("table1", "toy")
    assert checked(["all"]) == tuple(TABLES)
    with pytest.raises(BraidedError, match="'table9' cannot be reproduced: use one of table1"):
        checked(["table9"])
    options = Options(("merge",), seeds=3, limit=100, datasets=("german",))
    assert options.command("merge") == "python -m reproduction merge --seeds 3 --limit 100 --dataset german"
    assert {(cell.job.dataset, cell.seeds, cell.job.limit) for cell in options.cells("merge")} == {("german", 3, 100)}
    assert len(options.cells("merge")) == 5
    with pytest.raises(BraidedError, match="table1 has no cell on higgs"):
        Options(("table1",), datasets=("higgs",)).planned()


@pytest.mark.parametrize(
    ("what", "given", "command"),
    [
        ("toy", {"preset": "paper", "seeds": 3, "quick": True, "scale": "0,1", "datasets": ("german",)}, "toy"),
        ("table1", {"seeds": 20, "preset": "released"}, "table1"),
        ("table1", {"seeds": 2, "limit": 1_000, "quick": True}, "table1 --quick"),
        ("table1", {"preset": "paper", "scale": "-1,1", "whole_german": True}, "table1 --preset paper --scale -1,1"),
        ("logistic", {"preset": "paper", "datasets": ("a8a",)}, "logistic --dataset a8a"),
        ("haphazard", {"whole_german": True, "scale": "0,1"}, "haphazard --whole-german"),
        ("haphazard", {"whole_german": True, "datasets": ("wpbc",)}, "haphazard --dataset wpbc"),
        ("streams", {"preset": "paper", "scale": "0,1"}, "streams"),
    ],
)
def test_the_command_has_the_options_that_make_a_difference(what: str, given: dict[str, Any], command: str) -> None:
    assert Options((what,), **given).command(what) == f"python -m reproduction {command}"


def test_the_store_keeps_whole_results_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "cells")
    store.put("one", {"errors": 1})
    (tmp_path / "cells" / "two.json").write_text('{"errors": ')
    assert store.get("one") == {"errors": 1}
    assert store.get("two") is None


def test_scale_reaches_the_jobs_of_the_paper_alone() -> None:
    cells = Options(("table1",), scale="-1,1").cells("table1")
    assert {cell.job.scale for cell in cells} == {"-1,1"}
    assert {cell.job.scale for cell in Options(("haphazard",), scale="0,1").cells("haphazard")} == {None}
    assert "--scale -1,1" in Options(("table1",), scale="-1,1").command("table1")
    with pytest.raises(BraidedError, match="--scale '2,3' is not known: use one of"):
        Options(("table1",), scale="2,3")


@pytest.mark.parametrize("preset", ["released", "paper"])
def test_merge_has_the_runs_of_other_tables_where_the_combiner_is_the_presets_own(preset: str) -> None:
    def runs(what: str, method: str) -> set[JobSpec]:
        return {job for cell in TABLES[what].cells(preset) if cell.method == method for job in cell.jobs()}

    shared = runs("merge", "score-sum")
    assert shared == runs("merge", "score-sum") & (
        runs("table1", "modl") | runs("curves", "modl") | runs("glr", "modl")
    )
    assert not runs("merge", "moe") & runs("table1", "modl")
    for job in shared:
        assert not zoo.preset_for(preset, job.dataset).first_weights


def test_help_is_whole() -> None:
    assert "braided[ray]" in " ".join(reproduce("--help").stdout.split())
