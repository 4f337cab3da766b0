"""report.html: what is in it, whatever the stream, and that a resumed run reports what one never stopped would."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from braided import MODLClassifier, record
from braided.report.folder import write_folder
from braided.report.page import page, page_of_histories
from braided.report.table import summary_table
from braided.run import Job, RunOptions
from conftest import made_up

escape = pytest.importorskip("markupsafe", reason="the extra plot is not installed: run make test").escape

TAG = re.compile(r"<(\w+)")


def jsonl(path: Path, rows: list[tuple[dict[str, float], Any]]) -> str:
    path.write_text("".join(json.dumps({"x": x, "y": y}) + "\n" for x, y in rows))
    return str(path)


def made(n: int, names: list[str], labels: list[Any]) -> list[tuple[dict[str, float], Any]]:
    rng = np.random.default_rng(0)
    return [({name: float(rng.normal()) for name in names if rng.random() < 0.8}, labels[t % len(labels)])
            for t in range(n)]  # fmt: skip


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "stream.csv"
    values, labels = made_up(1_300, d=4)
    lines = ["a,b,c,d,label"]
    for row, label in zip(values.tolist(), labels.tolist(), strict=True):
        lines.append(",".join("" if value != value else repr(value) for value in row) + f",{label}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def finished(job: Job) -> Job:
    for _ in job.run():
        pass
    return job


def shown(document: dict[str, Any], width: int = 120) -> str:
    """The table on the screen."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(summary_table(document))
    return capture.get()


def test_a_resumed_run_reports_what_one_never_stopped_does(csv_file: str, tmp_path: Path) -> None:
    options = RunOptions(csv_file, models=("modl-olr+mlp", "majority"), seeds=2)
    straight = finished(Job(options))
    for stop_after in (1, 5):
        checkpoint = tmp_path / f"c{stop_after}"
        broken = Job(options, checkpoint=checkpoint, every=0.0)
        for number, _ in enumerate(broken.run()):
            if number == stop_after:
                break
        resumed = finished(Job(options, checkpoint=checkpoint, resume=True))
        again = Job(options, checkpoint=checkpoint, resume=True)
        for job in (resumed, again):
            for one, other in zip(straight.finished, job.finished, strict=True):
                (metadata, arrays), (metadata_2, arrays_2) = one.history.state(), other.history.state()
                assert json.dumps(metadata) == json.dumps(metadata_2)
                del arrays["blocks/seconds"]
                for name, array in arrays.items():
                    np.testing.assert_array_equal(array, arrays_2[name], err_msg=name)


def test_no_heading_is_cut_on_a_narrow_screen(csv_file: str) -> None:
    options = RunOptions(csv_file, models=("modl-olr+mlp",), seeds=2, drift="ddm", limit=600)
    document = finished(Job(options)).document()
    wide, narrow = (shown(document, width) for width in (120, 80))
    assert "balanced accuracy" in wide
    assert len(wide.split("\n")[1]) > 80
    assert max(map(len, narrow.split("\n"))) <= 80
    words = [word for line in narrow.split("\n") if "┃" in line for word in line.replace("┃", " ").split()]
    assert " ".join(sorted(words)) == "AUC ROC accuracy balanced drifts error errors rate records/s sd"
    figures = [[cell.strip() for cell in line.split("│")] for line in wide.split("\n") if "│" in line]
    assert [[cell.strip() for cell in line.split("│")] for line in narrow.split("\n") if "│" in line] == figures
    assert [row[1] for row in figures[:3]] == ["majority class", "last label", "modl-olr+mlp"]


def test_the_folder_has_a_report_of_every_model(csv_file: str, tmp_path: Path) -> None:
    job = finished(Job(RunOptions(csv_file, models=("modl-olr+mlp", "river-logistic", "majority"), seeds=2)))
    command = shlex.join(["braided", "run", "a file <b>.csv", "--out", str(tmp_path)])
    paths = write_folder(job, tmp_path, command)
    assert [path.name for path in paths] == ["curve.csv", "metrics.json", "curve.png", "report.html"]
    text = paths[-1].read_text()
    assert json.loads(paths[1].read_text())["runs"][0]["errors"] == job.finished[0].result["errors"]
    assert "braided run &#39;a file &lt;b&gt;.csv&#39;" in text
    for words in ("Running error", "Windowed error", "Each learner&#39;s own error", "Shares of the final score",
                  "Weights at the end", "Weights over time", "Calibration", "Confusion", "Availability of features",
                  "last label", "Throughput", "By class",
                  "among the last 100 records", "Mean of 2 seeds", "numpy", "river"):  # fmt: skip
        assert words in text, words
    summary = job.document()["summary"]
    for model in ("modl-olr+mlp", "river-logistic", "majority"):
        assert f"<section><h2>{model}</h2>" in text or model == "majority"
        assert f"{summary[model]['errors_mean']:,.1f}" in text
    # The model is the majority's line: there is no other.
    assert "majority so far" not in text
    # Ids are unique, and nothing is fetched from anywhere.
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'(?:src|href)="([^"]*)"', text):
        assert target.startswith(("#", "data:")), target
    for target in re.findall(r"url\(#([^)]+)\)", text) + re.findall(r'href="#([^"]+)"', text):
        assert target in ids
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"|http-equiv', "", text)
    assert "Triangles" not in text
    assert len(text) < 2_000_000
    # Every picture can be read without being seen.
    assert text.count("<svg ") == text.count('<svg role="img" aria-label="') == text.count("<figure>") > 8
    assert text.count("<details>") >= text.count("<figure>") - 1


LONG = "a very long name " * 20
STREAMS: dict[str, list[tuple[dict[str, float], Any]]] = {
    "one record": made(1, ["a"], ["x"]),
    "one class": made(40, ["a", "b"], ["x"]),
    "no features": [({}, t % 2) for t in range(20)],
    "300 features": made(60, [f"f{i}" for i in range(300)], [0, 1]),
    "100 classes": made(300, ["a", "b"], [f"class {i}" for i in range(100)]),
    "markup": made(60, ["<script>alert(1)</script>", "&amp;", "'\"", LONG, "$x^2$", "_a", "特徴", "a\tb"],
                   ["<img src=x>", "\"'&", LONG]),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_any_stream_comes_out_right(name: str, tmp_path: Path) -> None:
    job = finished(Job(RunOptions(jsonl(tmp_path / "s.jsonl", STREAMS[name]), ("modl-olr+mlp",))))
    text = page(job)
    assert {tag.lower() for tag in TAG.findall(text)}.isdisjoint({"script", "img", "b ", "object", "iframe"})
    assert len(text) < 2_000_000
    if name == "300 features":
        assert "270 in between are left out" in text
        assert "285 smaller ones are not shown" in text
    if name == "100 classes":
        assert "Of 100 classes the most frequent." in text
        assert "81 others" in text
    if name == "markup":
        assert LONG.strip() in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "特徴" in text
        assert "mathdefault" not in text
    if name == "one record":
        assert "1 without a prediction, before any class was known, is left out." in text


class Elements(HTMLParser):
    """The tags of a page, and the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_names_make_no_elements(tmp_path: Path) -> None:
    """What comes from data, a file or a user is text: the page has the elements and attributes of a harmless one."""
    pages = []
    for hostile in ("", "'\"><img src=x onerror=alert(1)><script>alert(1)</script></svg></style>{{ 7 * 7 }}"):
        name = f"machine{hostile}"
        (tmp_path / name.replace("/", "")).write_text(
            "".join(
                json.dumps({f"a{hostile}": t % 7, f"b{hostile}": f"{hostile}{t % 3}", "k": f"{hostile}{t % 2}",
                            "y": f"label {t % 2}{hostile}"}) + "\n"
                for t in range(120)
            )
        )  # fmt: skip
        path = str(tmp_path / name.replace("/", ""))
        job = finished(Job(RunOptions(path, ("modl-olr+mlp",), target="y", key="k")))
        histories = [record(MODLClassifier("lean"), made(80, [name, "b"], [hostile, 1]), name=name) for _ in range(2)]
        pages += [page(job, f"braided run {hostile}"), page_of_histories(histories, hostile)]
    for harmless, hostile in zip(map(Elements, pages[:2]), pages[2:], strict=True):
        found = Elements(hostile)
        assert found.tags <= harmless.tags
        assert found.attributes <= harmless.attributes
        assert "&lt;img src=x onerror=alert(1)&gt;" in hostile
        assert "{{ 7 * 7 }}" in hostile


def test_a_level_that_could_not_be_judged_has_its_column(tmp_path: Path) -> None:
    made_of = made(60, ["a", "b"], [i % 2 for i in range(60)])
    text = page(finished(Job(RunOptions(jsonl(tmp_path / "short.jsonl", made_of), preset="lean"))))
    at = text.index(">level 0.99<")
    table = text[text.rindex("<table", 0, at) : text.index("</table>", at)]
    rows = [row.count("<th") - row.count("<thead") + row.count("<td") for row in table.split("<tr")[1:]]
    assert len(set(rows)) == 1, "headings and cells are not as many"
    assert ">-<" in table


def test_resets_are_shown(tmp_path: Path) -> None:
    rows = [({"a": x["a"] * 1e6, "b": 1e6}, y) for x, y in made(120, ["a", "b"], [0, 1]) if "a" in x]
    options = RunOptions(
        jsonl(tmp_path / "s.jsonl", rows),
        ("modl-olr+mlp",),
        "paper",
        options=("learning_rate=1e20",),
        combiner="ensemble",
    )
    job = finished(Job(options))
    resets = job.finished[0].result["learners"]["mlp"]["resets"]
    assert resets > 0
    history = job.finished[0].history
    assert history.resets().sum(axis=0).tolist() == [0, resets]
    assert history.skipped().sum() == sum(one["skipped"] for one in job.finished[0].result["learners"].values())
    text = page(job)
    assert "Resets and skipped updates" in text
    (row,) = re.findall(r"<tr><td>\s*mlp alone</td>.*?</tr>", text)
    assert f'<td data-name="resets">{resets}</td>' in row


def test_what_on_error_let_pass_is_shown(tmp_path: Path) -> None:
    rows = [f"{t % 7},{t % 3},{'ab'[t % 7 > 3]}" for t in range(60)]
    rows[20] = "wrong <b>,1,a"
    rows[30] = "3,1,"
    rows[40] = "3"
    (tmp_path / "d.csv").write_text("\n".join(["u,v,label", *rows]) + "\n")
    told = {}
    for policy in ("skip", "missing"):
        job = finished(Job(RunOptions(str(tmp_path / "d.csv"), ("olr",), on_error=policy)))
        told[policy] = page(job)
        assert "No learner skipped an update" in told[policy]
        assert f"; first: {escape(str(job.counts.first_problem))}" in told[policy]
        assert "wrong &lt;b&gt;" in told[policy]
        assert "Of the stream:</b> 1 record had no label: predicted, not learned" in told[policy]
    assert "Of the stream:</b> 2 records skipped; first" in told["skip"]
    assert "Of the stream:</b> 1 record skipped, 1 value taken as missing; first" in told["missing"]
    (tmp_path / "d.csv").write_text("\n".join(["u,v,label", *rows[:20]]) + "\n")
    assert "Of the stream" not in page(finished(Job(RunOptions(str(tmp_path / "d.csv"), ("olr",)))))


@pytest.fixture(scope="module")
def turned_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The label is the sign of a feature, and from record 1,500 on its reverse."""
    path = tmp_path_factory.mktemp("turned") / "turned.csv"
    values = np.random.default_rng(0).normal(size=3_000)
    path.write_text("a,label\n" + "".join(f"{a!r},{(a > 0) != (t >= 1_500)}\n" for t, a in enumerate(values.tolist())))
    return str(path)


def test_drifts_are_shown(turned_file: str) -> None:
    options = RunOptions(turned_file, ("olr",), preset="classic", drift="ddm", seeds=2)
    job = finished(Job(options))
    document = job.document()
    assert [run.get("drifts") for run in document["runs"]] == [1, 1]
    for run in job.finished:
        drifts, ends = run.history.drifts(), run.history.blocks()[:, 0]
        assert drifts.sum() == 1
        assert 1_500 < ends[drifts > 0][0] < 1_500 + 3 * run.history.block
    text = page(job)
    assert '<th scope="col">drifts</th>' in text
    assert "Drifts are those that ddm found, in all seeds together." in text
    assert "Triangles mark where drift was found." in text
    (row,) = re.findall(r"<tr><td>olr</td>.*?</tr>", text)
    assert row.endswith('<td data-name="drifts">2</td></tr>')
    assert "skipped updates" not in text
    assert shown(document).count("drifts") == 1
    assert re.search(r"│ olr .*│ +2 │", shown(document))
    plain = finished(Job(replace(options, drift=None, seeds=1)))
    assert "drifts" not in shown(plain.document()) + page(plain)


def test_a_resumed_run_has_its_drifts_once(turned_file: str, tmp_path: Path) -> None:
    options = RunOptions(turned_file, ("olr",), preset="classic", drift="ddm")
    broken = Job(options, checkpoint=tmp_path / "c", every=0.0)
    for number, progress in enumerate(broken.run()):
        if progress.evaluation.records >= 2_000:
            assert number > 0
            break
    history = finished(Job(options, checkpoint=tmp_path / "c", resume=True)).finished[0].history
    assert history.drifts().sum() == 1


def strips(picture: str) -> list[list[str]]:
    """What a picture says at each place: how many records, and then each line's value there."""
    return [re.findall(r"(?:class=\"soft\">|</tspan> )([^<]*)</text>", tip) for tip in picture.split('class="at"')[1:]]


def numbers(picture: str) -> list[list[str]]:
    """The table behind a picture."""
    rows = re.findall(r"<tr>(.*?)</tr>", picture[picture.index("<details>") : picture.index("</details>")])
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_the_pointer_reads_the_lines(turned_file: str) -> None:
    job = finished(Job(RunOptions(turned_file, ("olr",), preset="classic")))
    history = job.finished[0].history
    pictures = page(job).split("<figure>")[1:3]
    of_each = ((history.curve(), None), (history.windowed(), history.window()))
    for picture, (rows, divided) in zip(pictures, of_each, strict=True):
        found, names = strips(picture), ["olr", "majority so far", "last label"]
        assert len(found) == 40
        rates = rows[:, 1:4] / (rows[:, :1] if divided is None else divided)
        exact = {f"{at:,.0f}": [f"{rate:.2%}" for rate in line] for at, line in zip(rows[:, 0], rates, strict=True)}
        for place, (title, *values) in enumerate(found):
            records = title.removesuffix(" records")
            even = rows[0, 0] + (rows[-1, 0] - rows[0, 0]) * place / 39
            assert float(records.replace(",", "")) == pytest.approx(even, abs=8)
            assert values == [f"{name} {rate}" for name, rate in zip(names, exact[records], strict=True)]
        header, *told = numbers(picture)
        assert header == ["records", *names]
        assert [row[0] for row in told[-1:]] == ["3,000"]
        assert 10 < len(told) < 15
        assert told == [[row[0], *exact[row[0]]] for row in told]


def test_figures_of_the_majority_and_of_each_class(turned_file: str) -> None:
    job = finished(Job(RunOptions(turned_file, ("olr",), preset="classic")))
    text, history = page(job), job.finished[0].history
    (row,) = re.findall(r"<tr><td>majority so far</td>.*?</tr>", text)
    wrong = int(history.tally.totals[1])
    assert f'<td data-name="errors">{wrong:,}</td><td data-name="error rate">{wrong / 3_000:.2%}</td>' in row
    assert "hindsight" not in text
    hindsight = 1 - history.tally.confusion.sum(axis=1).max() / 3_000
    assert f"Always predicting the most frequent class would be wrong on {hindsight:.2%} of the records." in text
    for place, label in enumerate(history.tally.classes):
        support, right = history.tally.confusion[place].sum(), history.tally.confusion[place, place]
        overview, details = (row for row in re.findall(r"<tr>.*?</tr>", text) if f">{label}</td><td data-name" in row)
        assert f'<td data-name="recall of olr">{right / support:.1%}</td>' in overview
        assert f'<td data-name="records">{support:,}</td>' in overview
        other = history.tally.confusion[place, 1 - place]
        assert f"{history.tally.classes[1 - place]} ({other:,})" in details


def test_the_share_of_what_came_last_is_called_habit(turned_file: str) -> None:
    job = finished(Job(RunOptions(turned_file, limit=300)))
    assert "The share of recent comes from earlier labels, not from the record." in page(job)
    assert "habit" not in page(finished(Job(RunOptions(turned_file, preset="classic", limit=300))))
