"""The pages of results: what is bold, what is said and how often, and documents that were made before."""

from __future__ import annotations

import copy
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braided.report import published
from braided.reproduce import findings, html_page, layouts, page_tables, pages, sample
from braided.reproduce.command import WHATS
from braided.reproduce.documents import by_stream
from braided.reproduce.grid import Grid, Section
from braided.reproduce.jobs import SCALES
from braided.reproduce.quirks import QUIRKS
from braided.reproduce.tables import DEFAULT
from command import braided

RESULTS = Path(__file__).parents[2] / "docs" / "results"
#: Characters of a line that a phone shows in the size of the tables.
PHONE = 64


def committed() -> list[dict[str, Any]]:
    return pages.gather(RESULTS, list(WHATS))


def one(what: str) -> dict[str, Any]:
    return next(document for document in committed() if document["what"] == what)


def bare(text: str) -> str:
    return re.sub(r"\*+|</?small>", "", text)


def cell(dataset: str, method: str, ours: float, paper: float | None = None, **more: Any) -> dict[str, Any]:
    found = {
        "dataset": dataset, "method": method, "p_f": 0.5, "seeds": 20, "unit": "errors", "ours_mean": ours,
        "ours_sd": 4.0, "records": 1_000, "sample": False, "file_is_sample": False, "majority": 300.0,
        "us_per_record": 10.0,
    }  # fmt: skip
    return found | ({"paper_mean": paper, "paper_sd": 3.0, "paper_other": []} if paper is not None else {}) | more


def document(what: str, *cells: dict[str, Any]) -> dict[str, Any]:
    return {
        "what": what, "title": "A title", "about": "", "cells": list(cells), "jobs": 2, "seconds": 1.0,
        "preset": "released",
        "command": f"braided reproduce {what}", "circumstances": {"braided": "0", "machine": "one"},
    }  # fmt: skip


@pytest.mark.parametrize("what", ["table1", "table3", "merge", "logistic"])
def test_in_a_grouped_table_the_best_of_each_stream_is_bold_and_nothing_else(what: str) -> None:
    found = one(what)
    rows = layouts.of(what).sections(found)[0].grid.rows
    bold: dict[tuple[str, str], list[str]] = {}
    dataset = ""
    for row in rows:
        if row[0][0].startswith("*"):
            dataset = bare(row[0][0]).partition(",")[0]
            continue
        for column, whose in enumerate(("ours", "paper"), start=1):
            if row[column][0].startswith("**"):
                bold.setdefault((dataset, whose), []).append(row[0][0])
    for (dataset, whose), names in bold.items():
        means = {
            c["method"]: c[f"{whose}_mean"] for c in found["cells"] if c["dataset"] == dataset and f"{whose}_mean" in c
        }
        printed = {method: page_tables.short(mean, found["cells"][0]["unit"]) for method, mean in means.items()}
        best = printed[min(means, key=lambda method: means[method])]
        assert names == [method for method, text in printed.items() if text == best]
    assert {dataset for dataset, whose in bold if whose == "ours"} == {c["dataset"] for c in found["cells"]}


@pytest.mark.parametrize(("what", "rows"), [("table2", 13), ("ablation", 13), ("lr", 8)])
def test_in_a_table_by_availability_or_rate_the_best_of_each_row_is_bold(what: str, rows: int) -> None:
    found = one(what)
    sections = layouts.of(what).sections(found)
    assert [len(section.grid.rows) for section in sections] == [rows, rows]
    streams = iter(by_stream(found).values())
    for section in sections:
        for row in section.grid.rows:
            by_method = next(streams)
            for text, each in zip(row[1:], by_method.values(), strict=True):
                ours = 100.0 * each["ours_mean"] / each["records"]
                assert bare(text[0]).startswith(f"{ours:.1f} / {100.0 * each['paper_mean'] / each['records']:.1f} ")
                printed = [f"{100.0 * c['ours_mean'] / c['records']:.1f}" for c in by_method.values()]
                best = f"{ours:.1f}" == min(printed, key=float)
                assert text[0].startswith("**") == (best and len(set(printed)) > 1)


def test_the_better_of_ours_and_the_best_published_is_bold_in_haphazard() -> None:
    found = one("haphazard")
    section = layouts.of("haphazard").sections(found)[0]
    ours = sum(text[0].startswith("**") for row in section.grid.rows for text in row[1:])
    assert ours == found["won"]["balanced_accuracy"][DEFAULT]
    assert len(section.grid.rows) == 13


def test_what_seeds_cannot_tell_apart_is_marked_if_there_are_enough_of_them() -> None:
    cells = [
        cell("german", "a", 300.0, p_value=0.2),
        cell("german", "b", 290.0, p_value=0.2, seeds=5),
        cell("german", "c", 280.0),
    ]
    rows = page_tables.grouped(document("table1", *cells))[0].grid.rows
    assert [row[1][0].replace("\u00a0", " ") for row in rows[1:]] == ["300.0 ± 4.0°", "290.0 ± 4.0", "**280.0** ± 4.0"]


def width(grid: Grid) -> int:
    """Characters of the widest line, where each column is as wide as its widest cell."""
    lines = [[[name] for name in grid.header], *grid.rows]
    # A heading may be broken into its words.
    columns = [[max(len(word) for word in name.split() or [""])] for name in grid.header]
    for row in lines[1:]:
        for column, cell_lines in zip(columns, row, strict=False):
            column += [len(bare(line)) for line in cell_lines]
    return sum(max(column) for column in columns) + len(columns)


@pytest.mark.parametrize("found", committed(), ids=lambda found: found["what"])
def test_open_tables_of_what_was_run_fit_a_phone_and_a_screen(found: dict[str, Any]) -> None:
    for section in layouts.of(found["what"]).sections(found):
        if not section.folded:
            assert width(section.grid) <= PHONE, section.grid.header
            assert len(section.grid.rows) <= 36


def test_documents_that_were_made_before_are_rendered_and_the_page_is_of_them() -> None:
    """After a change of the layout: `braided reproduce --page docs/results.md --out docs/results`."""
    found = committed()
    assert {path.stem for path in RESULTS.glob("*.json")} == {each["what"] for each in found}
    text = pages.markdown(found, "results", docs_at="")
    assert text == (RESULTS.parent / "results.md").read_text()
    for each in found:
        assert f"\n## {each['title']}\n" in text
        assert f"`{each['command']}`" in text


def test_a_sample_is_said_once_and_in_no_cell() -> None:
    parts = pages.markdown(committed(), "results").split("\n## ")
    saying = [part.partition("\n")[0] for part in parts if re.search(r"\bsamples?\b", part.partition("## Typos")[0])]
    assert saying == ["What was not run in full"]
    told = next(part for part in parts if part.startswith("What was not"))
    assert told.count("sample of the file") == 1
    assert "higgs (10,000 of 1,000,000 records)" in told
    assert "![Error so far, and the paper's after all records](results/sample.png)" in told


def test_nothing_is_said_of_samples_where_all_was_run() -> None:
    text = pages.markdown(
        [document("five", cell("german", "modl", 300.0, 286.1), cell("german", "modl-5", 290.0, 290.1))], "r"
    )
    assert "not run in full" not in text
    assert "Five learners make fewer errors than three on 1 of 1 data sets, in the paper on 0 of 1." in text


def test_a_limit_is_named_where_it_was_given() -> None:
    limited = cell("imnist", "modl", 200.0, 100.0, sample=True, paper_records=1_000_000)
    text = pages.markdown([document("merge", limited)], "r")
    assert "Fewer records than the paper's were asked for of imnist (1,000 of 1,000,000 records)." in text
    assert "| *imnist, first 1,000* |" in text


def test_hours_of_all_records_count_a_run_once_at_its_fastest_and_with_the_tables_own_seeds() -> None:
    def sampled(method: str, us_per_record: float, p_f: float = 0.5) -> dict[str, Any]:
        return cell(
            "higgs", method, 460.0, p_f=p_f, us_per_record=us_per_record, seeds=1, sample=True, file_is_sample=True,
            paper_records=1_000_000,
        )  # fmt: skip

    table2 = document("table2", sampled("modl", 1_800.0), sampled("modl", 3_600.0, p_f=0.99))
    # Five seeds of a million records each.
    assert sample.hours_in_full([table2]) == pytest.approx(5 * (0.5 + 1.0))
    shared = [document("curves", sampled("modl", 3_600.0)), document("merge", sampled("score-sum", 3_600.0))]
    assert sample.hours_in_full([table2, *shared]) == pytest.approx(5 * (0.5 + 1.0))
    slow_first = [*shared, table2]
    assert sample.hours_in_full(slow_first) == pytest.approx(5 * (0.5 + 1.0))
    other = document("ablation", sampled("modl-olr+mlp", 3_600.0), cell("susy", "modl", 300.0))
    assert sample.hours_in_full([table2, other]) == pytest.approx(5 * (0.5 + 1.0 + 1.0))


@pytest.mark.parametrize(
    ("what", "cells", "sentences"),
    [
        (
            "table1",
            [
                cell("german", "modl", 301.0, 286.1),
                cell("german", DEFAULT, 250.0),
                cell("a8a", "modl", 290.0, 286.0),
                cell("a8a", DEFAULT, 291.0),
            ],
            [
                "MODL comes within two standard deviations (of both together) of its published figure on a8a; it makes "
                "301.0 errors on german, where 286.1 are published.",
                "Our default makes the fewest errors on 1 of 2 sets: 250.0 on german.",
            ],
        ),
        (
            "table2",
            [cell("higgs", "auxdrop-odl", 470.0, 440.0), cell("higgs", "modl", 480.0, 430.0)],
            ["MODL makes fewer errors than Aux-Drop at 0 of 1 availabilities on higgs (paper 1 of 1)."],
        ),
        (
            "table3",
            [cell("cifar10", "modl", 70.0, 66.1, unit="percent"), cell("cifar10", DEFAULT, 62.0, unit="percent")],
            ["Images that are answered wrong: our default 62.0% of cifar10; MODL 70.0% (paper 66.1%) of cifar10."],
        ),
        (
            "merge",
            [cell("german", "score-sum", 300.0, 290.0), cell("german", "greedy", 299.0, 291.0)],
            ["The score sum makes the fewest errors on 0 of 1 data sets, in the paper on 1 of 1."],
        ),
        (
            "ablation",
            [cell("susy", "modl-olr+mlp", 300.0, 290.0), cell("susy", "modl", 300.0, 289.0)],
            ["All three learners together make the fewest errors in 1 of 1 rows, in the paper in 1 of 1."],
        ),
        (
            "glr",
            [cell("german", "modl-glr", 299.0, 325.2), cell("german", "modl", 301.0, 289.4)],
            [
                "With the fast learner in closed form MODL makes fewer errors than by gradient on 0 of 1 data sets, in "
                "the paper on 1 of 1."
            ],
        ),
        (
            "lr",
            [
                cell("higgs", m, ours, paper, setting=f"learning_rate={rate}")
                for m, ours, paper, rate in [
                    ("modl", 460.0, 380.0, "0.001"),
                    ("auxdrop-odl", 470.0, 390.0, "0.001"),
                    ("modl", 450.0, 400.0, "0.01"),
                    ("auxdrop-odl", 440.0, 410.0, "0.01"),
                ]
            ],
            [
                "MODL makes fewer errors than Aux-Drop at 1 of 2 learning rates on higgs (paper 2 of 2).",
                "Its best rate is 0.01 on higgs (paper 0.001).",
            ],
        ),
        (
            "depth",
            [
                cell(
                    "higgs",
                    "auxdrop-odl",
                    470.0,
                    440.0,
                    setting="layers=5 width=25",
                    us_per_record=30.0,
                    paper_seconds=40.0,
                ),
                cell(
                    "higgs",
                    "auxdrop-fodl",
                    472.0,
                    440.0,
                    setting="layers=5 width=25",
                    us_per_record=10.0,
                    paper_seconds=20.0,
                ),
            ],
            [
                "ODL takes 3.0 to 3.0 times as long as Fast ODL (paper 2.0 to 2.0); their errors are at most 0.20% of "
                "the records apart."
            ],
        ),
        (
            "logistic",
            [cell("german", "Kalman gain", 260.0), cell("german", "FOLKLORE", 259.0, us_per_record=25.0)],
            [
                "The Kalman gain makes the fewest errors on 0 of 1 sets and FOLKLORE on 1 of 1, which takes "
                "2.5 to 2.5 times as long."
            ],
        ),
        (
            "curves",
            [cell("german", "modl", 260.0), cell("german", DEFAULT, 250.0)],
            ["At the end of the stream our default has made the fewest errors on 1 of 1 data sets."],
        ),
    ],
)
def test_a_sentence_says_what_its_cells_have(what: str, cells: list[dict[str, Any]], sentences: list[str]) -> None:
    assert layouts.of(what).findings(document(what, *cells)) == sentences


@pytest.mark.parametrize("what", findings.FINDINGS)
def test_a_table_of_failed_cells_still_has_a_page(what: str) -> None:
    failed = {
        "dataset": "german",
        "method": "modl",
        "p_f": 0.5,
        "seeds": 0,
        "unit": "errors",
        "failed": 1,
        "error": "no | luck",
    }
    setting = {"depth": {"setting": "layers=5 width=25"}, "lr": {"setting": "learning_rate=0.1"}}.get(what, {})
    found = document(what, failed | setting) | ({"curves": []} if what == "curves" else {})
    assert r"failed: no \| luck" in pages.markdown([found], "r")
    assert pages.picture(found)


def curves(means: list[float]) -> dict[str, Any]:
    sampled = {"sample": True, "file_is_sample": True, "paper_records": 1_000_000}
    found = document("curves", cell("higgs", DEFAULT, 430.0, **sampled), cell("german", DEFAULT, 250.0))
    records = [100 * i for i in range(1, 11)]
    curve = {"method": DEFAULT, "records": records, "mean": means, "low": means, "high": means}
    found["curves"] = [{"dataset": name, **curve} for name in ("higgs", "german")]
    return found


def test_the_curve_of_a_sample_is_put_beside_the_papers_rate() -> None:
    half = [0.5] * 5
    found = sample.sample_curves(curves([*half, 0.48, 0.46, 0.45, 0.44, 0.43]))
    assert [(each.dataset, each.records) for each in found] == [("higgs", 1_000)]
    assert found[0].second_half == pytest.approx(100 * (430 - 250) / 500)
    paper = 100 * published.find("table2", "higgs", "modl", 0.5)[0].mean / 1_000_000
    assert sample.curve_sentences(found) == [
        f"On higgs the error still falls for {DEFAULT}; our default is at 43.0% of 1,000 records, and at 36.0% of "
        f"their second half, where the paper's MODL is at {paper:.1f}% of a million."
    ]
    level = sample.sample_curves(curves([0.5] * 10))
    assert sample.curve_sentences(level)[0].startswith("On higgs the error falls no more; our default is at 50.0%")


def test_the_page_has_the_picture_of_the_sample() -> None:
    text = pages.page([curves([0.5] * 10)])
    assert text.count("data:image/png;base64,") == 2
    assert "alt='Error so far" in text


def test_quirks_quote_what_is_published() -> None:
    said = " ".join(quirk.published for quirk in QUIRKS)
    for table, name, method in (
        ("table1", "german", "modl"),
        ("merge", "german", "score-sum"),
        ("glr", "magic04", "modl"),
    ):
        assert f"{published.find(table, name, method)[0].mean:,g}"[:5] in said
    at = {p: published.find("table2", "higgs", "modl", p)[0].mean for p in (0.5, 0.6)}
    assert at[0.5] == at[0.6] == 422_800
    assert len({quirk.about for quirk in QUIRKS}) == len(QUIRKS)
    text = pages.markdown([one("toy")], "r")
    assert text.index("## Typos and quirks") > text.index(f"## {one('toy')['title']}")


@pytest.mark.parametrize("scale", SCALES)
def test_what_is_said_of_german_scaled_is_in_its_document(scale: str) -> None:
    found = json.loads((RESULTS / "german" / f"scale_{scale}.json").read_text())
    assert found["command"] == f"braided reproduce table1 --dataset german --scale {scale}"
    modl = next(each for each in found["cells"] if each["method"] == "modl")
    assert modl["seeds"] == 20
    figures = f"{modl['ours_mean']:.1f} +- {modl['ours_sd']:.1f}"
    baselines = (RESULTS.parent / "baselines.md").read_text()
    assert f"| [`{found['command']}`](results/german/scale_{scale}.json) | {figures} |" in baselines
    quirk = next(quirk for quirk in QUIRKS if quirk.about == "german's scale")
    assert f"`--scale {scale}` ({modl['ours_mean']:.1f})" in quirk.here


def test_what_is_said_of_german_read_whole_is_in_its_document() -> None:
    found = json.loads((RESULTS / "german" / "whole.json").read_text())
    assert found["command"] == "braided reproduce haphazard --dataset german --whole-german"
    low, middle, high = (
        f"{each['balanced_accuracy']:.1f}" for each in found["cells"] if each["method"] == "modl (default)"
    )
    evaluation = (RESULTS.parent / "evaluation.md").read_text()
    assert f"[{low}, {middle} and {high}](results/german/whole.json)" in evaluation


def test_markup_is_the_pages_own_and_figures_are_escaped() -> None:
    assert html_page.inline("**1** / 2 <small>+1</small> <script>") == "<b>1</b> / 2 <small>+1</small> &lt;script&gt;"
    folded = [Section("above", Grid(["", "a|b"], [[["x"], ["**1**", "2"]]]), "open me")]
    layout = replace(layouts.of("toy"), sections=lambda document: folded, findings=lambda document: [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "of", lambda what: layout)
        found = one("toy")
        assert '<details markdown="1"><summary>open me</summary>\n\nabove\n\n' in pages.markdown([found], "r")
        assert "<details><summary>open me</summary>\n<p>above</p>" in pages.page([found])


def test_a_page_is_rendered_of_what_stands_and_nothing_is_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for what in ("toy", "table1"):
        shutil.copy(RESULTS / f"{what}.json", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    done = braided("reproduce", "--page", str(tmp_path / "page.md"), "--out", str(out))
    assert done.stdout == ""
    assert {name: (out / name).read_bytes() for name in before} == before
    assert (tmp_path / "page.md").read_text() == pages.markdown([one("table1"), one("toy")], "out")
    assert {path.name for path in out.iterdir()} == {*before, "table1.png", "toy.png", "index.html"}


def test_without_a_table_there_must_be_a_page_and_results(tmp_path: Path) -> None:
    assert "name a table such as table1" in braided("reproduce", "--out", str(tmp_path / "o"), code=2).stderr
    page = str(tmp_path / "page.md")
    assert (
        "there are no results in" in braided("reproduce", "--page", page, "--out", str(tmp_path / "o"), code=2).stderr
    )
    assert not (tmp_path / "o").exists()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "toy.json").write_text('{"what": ')
    assert (
        "toy.json is not a table of results"
        in braided("reproduce", "--page", page, "--out", str(tmp_path / "bad"), code=2).stderr
    )


def test_versions_are_said_once_and_the_rest_below_each_table() -> None:
    about = {"braided": "1.1", "numpy": "2.4", "date": "2026-01-02", "machine": "one"}
    tables = [document("five", cell("german", "modl", 300.0)), document("merge", cell("german", "score-sum", 300.0))]
    tables[0]["circumstances"] = about
    tables[1]["circumstances"] = about | {"braided": "1.0", "date": "2026-01-01"}
    text = pages.markdown(tables, "r")
    assert text.count("2.4") == text.count("numpy") == 1
    assert "Made with braided 1.0 and 1.1 and numpy 2.4; the version is that of the code" in text
    assert "<small>`braided reproduce five`: 2 runs, 1 s of work; 2026-01-02, one.</small>" in text
    assert "<small>`braided reproduce merge`: 2 runs, 1 s of work; 2026-01-01, one.</small>" in text


def test_links_lead_into_the_docs_from_wherever_the_page_is(tmp_path: Path) -> None:
    tables = [one("toy")]
    assert "([how](default.md))" in pages.markdown(tables, "r", docs_at="")
    (tmp_path / "out").mkdir()
    pages.write_pages(tables, tmp_path / "out", tmp_path / "page.md")
    address = "https://github.com/braided-ml/braided/blob/main/docs/default.md"
    assert f"([how]({address}))" in (tmp_path / "page.md").read_text()
    assert "(how: docs/default.md)" in (tmp_path / "out" / "index.html").read_text()
    (tmp_path / "baselines.md").write_text("")
    pages.write_pages(tables, tmp_path / "out", tmp_path / "page.md")
    assert "([how](default.md))" in (tmp_path / "page.md").read_text()


def test_a_document_is_not_changed_by_rendering() -> None:
    found = committed()
    kept = copy.deepcopy(found)
    pages.markdown(found, "results")
    assert json.dumps(found) == json.dumps(kept)
