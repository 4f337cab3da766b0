"""Every code block of README and docs runs, and prints what it says."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import test_every_learner
from braided.datasets.catalogue import CATALOGUE
from braided.learners import LEARNERS
from command import braided
from conftest import DATA, real

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Pages whose commands run beside their files.
BESIDE = {"tutorial.md"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
#: Times differ from machine to machine: quantities with these units are not compared, nor is a column of records/s.
TIMES = re.compile(r"[\d.,]+ (us|s|MiB)\b")


def blocks(language: str) -> list[tuple[Path, str, str]]:
    return [
        (page, words.strip(), body) for page in PAGES for found, words, body in BLOCK.findall(page.read_text())
        if found == language
    ]  # fmt: skip


#: A page whose ```python blocks carry one of these words is skipped where the module is not installed.
NEEDS = {"needs-torch": "torch", "needs-capymoa": "capymoa", "needs-spark": "pyspark"}
#: Those that also need Java, which they start: such a page runs in a process of its own.
NEEDS_JAVA = {"needs-capymoa": "CapyMOA", "needs-spark": "Spark"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page share their names, like one session, in the root of the checkout or beside the page."""
    monkeypatch.chdir(ROOT / "docs" if page.name in BESIDE else ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    found_here = [(words.split(), body) for found, words, body in blocks("python") if found == page]
    source = "\n".join(body for _, body in found_here)
    words = {word for listed, _ in found_here for word in listed}
    for word in words & NEEDS.keys():
        if importlib.util.find_spec(NEEDS[word]) is None:
            pytest.skip(f"{NEEDS[word]} is not installed: run make test EXTRAS=all")
    for word in words & NEEDS_JAVA.keys():
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            pytest.skip(f"there is no Java, which {NEEDS_JAVA[word]} needs: install version 17 or later")
        run_apart(source, tmp_path)
        return
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def run_apart(source: str, folder: Path) -> None:
    """Run a session in a process of its own, because it starts Java."""
    (folder / "session.txt").write_text(source)
    environment = {**os.environ, "CAPYMOA_DATASETS_DIR": str(folder), "CAPYMOA_JVM_ARGS": "-Xmx512m -Xss10M"}
    command = [sys.executable, "-m", "doctest", "-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE", "session.txt"]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, cwd=folder)
        if "failed to connect back" not in done.stdout:  # a worker of Spark's that a busy machine let start too late
            break
    assert done.returncode == 0, done.stdout + done.stderr


def without_times(text: str) -> str:
    """Tables without their column of records/s and without borders, and times in words without their numbers."""
    lines, place = [], None
    for line in map(str.strip, text.strip().split("\n")):
        cells = [cell.strip() for cell in re.split("[│┃]", line)]
        if line.startswith("┏"):
            place = None
        elif found := [i for i, cell in enumerate(cells) if cell == "records/s"]:
            place = found[0]
        if place is not None and len(cells) > 1:
            del cells[place]
        if not line.startswith(("┏", "┡", "└")):
            lines.append(TIMES.sub(r"... \1", " │ ".join(cells)).strip())
    return "\n".join(lines)


def same_but_for_rounding(want: str, got: str) -> bool:
    """Whether two outputs agree, numbers within a tenth.

    A seed gives the same bits on the same kind of processor; one with wider vectors adds up in another order, and after
    ten thousand updates of a network a few predictions differ.
    """
    form = (NUMBER.sub("#", text) for text in (want, got))
    if not doctest.OutputChecker().check_output(*form, OPTIONS):
        return False
    for said, seen in zip(want.splitlines(), got.splitlines(), strict=False):
        known = said.partition("...")[0]
        for one, other in zip(NUMBER.findall(known), NUMBER.findall(seen), strict=False):
            a, b = (float(text.replace(",", "")) for text in (one, other))
            if abs(a - b) > max(0.1 * abs(a), 5.0 if a.is_integer() else 0.0):
                return False
    return True


def run_console(body: str, folder: Path) -> None:
    first, *expected = body.rstrip("\n").split("\n")
    command = first.removeprefix("$ ")
    environment = {
        "BRAIDED_DATA": str(DATA.resolve()), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "80",
    }  # fmt: skip
    for table in (ROOT / "docs").glob("*.csv"):
        shutil.copy(table, folder)
    with mock.patch.dict(os.environ, environment), contextlib.chdir(folder):
        name, *arguments = shlex.split(command)
        if name == "braided" and not set(command) & set("|<>;&$*"):
            done = braided(*arguments)
        else:
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=1_500)
    assert done.returncode == 0, done.stderr
    want, got = without_times("\n".join(expected)), without_times(done.stdout)
    assert same_but_for_rounding(want, got), f"{command}\nexpected\n{want}\ngot\n{got}"


def test_an_output_that_differs_is_seen() -> None:
    want = '│ modl │ 526 │ 1.07% │ ... us\n{"records": 2000, ...}'
    assert same_but_for_rounding(want, '│ modl │ 531 │ 1.08% │ ... us\n{"records": 2000, "errors": 3}')
    assert not same_but_for_rounding(want, '│ modl │ 631 │ 1.08% │ ... us\n{"records": 2000, "errors": 3}')
    assert not same_but_for_rounding(want, '│ olr  │ 526 │ 1.07% │ ... us\n{"records": 2000, "errors": 3}')


def test_records_per_second_are_found_by_their_heading() -> None:
    table = """
        ┏━━━━━━┳━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━┓
        ┃      ┃        ┃ balanced ┃           ┃        ┃
        ┃      ┃ errors ┃ accuracy ┃ records/s ┃ drifts ┃
        ┡━━━━━━╇━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━┩
        │ modl │    118 │   90.22% │     5,339 │      3 │
        └──────┴────────┴──────────┴───────────┴────────┘
        took 12.5 s
    """
    assert without_times(table).split("\n")[1:] == [
        "│  │ errors │ accuracy │ drifts │", "│ modl │ 118 │ 90.22% │ 3 │", "took ... s"
    ]  # fmt: skip
    without = table.replace("records/s", "r/s").replace("5,339", "5,400")
    assert without_times(without) != without_times(without.replace("5,400", "5,339"))


def console_blocks(slow: bool) -> list[object]:
    return [
        pytest.param(body, id=body.split("\n")[0][2:50])
        for _, words, body in blocks("console")
        if body.startswith(("$ braided", "$ printf", "$ python", "$ for"))
        if ("slow" in words) == slow
    ]


@pytest.mark.parametrize("body", console_blocks(slow=False))
def test_console_blocks(body: str, tmp_path: Path) -> None:
    run_console(body, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("body", console_blocks(slow=True))
def test_slow_console_blocks(body: str, tmp_path: Path) -> None:
    words = body.split("\n")[0].split()
    real(*(CATALOGUE if "verify" in words else CATALOGUE.keys() & words))
    run_console(body, tmp_path)


def test_quoted_code_is_what_stands_in_the_file() -> None:
    """A block with a title quotes that file; indentation and empty lines may differ."""
    quotes = [(page, found[1], body) for page, words, body in blocks("py") if (found := words.split('"'))[1:]]
    assert len(quotes) >= 4
    for page, path, body in quotes:
        lines, quoted = ([line.strip() for line in text.splitlines() if line.strip()] for text in (
            (ROOT / path).read_text(), body
        ))  # fmt: skip
        starts = range(len(lines) - len(quoted) + 1)
        assert any(lines[i : i + len(quoted)] == quoted for i in starts), f"{page.name} quotes {path} wrongly:\n{body}"


@pytest.fixture
def linear_layer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The compiled learner of docs/learner.md, registered."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    import linear_layer

    monkeypatch.setitem(LEARNERS, linear_layer.LinearLayerConfig, linear_layer.LinearLayer)
    return linear_layer


CHECKS = {name: check for name, check in vars(test_every_learner).items() if name.startswith("test_")}


@pytest.mark.parametrize("name", CHECKS)
def test_the_compiled_learner_that_is_explained_meets_the_checks(name: str, linear_layer: Any, tmp_path: Path) -> None:
    more = {"tmp_path": tmp_path} if "tmp_path" in inspect.signature(CHECKS[name]).parameters else {}
    CHECKS[name](linear_layer.LinearLayerConfig(), **more)


def test_the_compiled_learner_that_is_explained_does_what_its_docstring_says(linear_layer: Any) -> None:
    assert doctest.testmod(linear_layer, optionflags=OPTIONS).failed == 0


def test_the_compiled_learner_that_is_explained_is_quoted_whole() -> None:
    quoted = [body for _, words, body in blocks("py") if 'title="docs/linear_layer.py"' in words]
    code = (ROOT / "docs" / "linear_layer.py").read_text().partition("\n\n")[2]
    written, shown = ([line.strip() for line in text.splitlines() if line.strip()] for text in (code, "".join(quoted)))
    assert shown == written


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_picture_of_missing_features_shows_what_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import draw_missing

    seen = draw_missing.measure()
    estimate = dict(zip(draw_missing.NAMES, seen.given["olr"][:, 0], strict=True))
    assert estimate["vibration"] > 0.3 > 0.1 > abs(estimate["pressure"]), "only what goes together is estimated"
    for name in ("olr", "fourier", "mlp"):
        moved = dict(zip(draw_missing.NAMES, seen.moves[name], strict=True))
        assert min(moved[feature] for feature in ("humidity", "rpm", "temperature")) > moved["vibration"]
        assert moved["vibration"] > 0.3 > 0.1 > moved["pressure"], f"{name} moves what it was given an estimate of"
    assert not seen.given["mlp"][~seen.there, 1:].any(), "an estimate is not encoded"
    assert not seen.given["forest"][~seen.there].any(), "the forest is given nothing of a missing feature"
    draw_missing.main(tmp_path / "missing.png")
    assert (tmp_path / "missing.png").stat().st_size > 20_000


def test_the_file_of_the_tutorial_is_what_its_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import pumps

    pumps.main(tmp_path / "pumps.csv")
    assert (tmp_path / "pumps.csv").read_bytes() == (ROOT / "docs" / "pumps.csv").read_bytes()


#: What a page has measured, and the words in which the first page says it.
CLAIMS = {
    "results.md": [
        (r"By errors the default is ahead of the best published method in (\d+) of (\d+) cells",
         "On {1} streams with missing values, the default makes fewer errors than the best published method in {0},"),
        (r"By AUROC the default is ahead of the best published method in (\d+) of", "has a higher AUROC in {0},"),
        (r"By balanced accuracy the default is ahead of the best published method in (\d+) of",
         "and a higher balanced accuracy in {0};"),
        (r"By errors the default is ahead of the best of River's models in (\d+) of (\d+) cells",
         "fewer errors than the best of seven models of River in {0} of {1} cases,"),
        (r"By log loss the default is ahead of the best of River's models in (\d+) of", "a lower log loss in {0}."),
    ],
    "deep-river.md": [
        (r"deep-river takes ([\d.]+) times as long", "An MLP of deep-river takes {0} times as long per record"),
    ],
    "benchmarks.md": [
        (r"\| 128 \|.*\| ([\d.]+) \|\n\| 250 \|.*\| ([\d.]+) \|",
         "paper's network runs {1} to {0} times as fast as in eager PyTorch"),
    ],
    "serve.md": [
        (r"(\d+) kills, (\d+) more while starting: (\d{3})(\d{3}) records, all acknowledged ones there",
         "was killed {0} times, and {1} times more while starting. Of {2},{3} records, all acknowledged ones were"),
    ],
}  # fmt: skip


def test_the_first_page_claims_what_other_pages_have_measured() -> None:
    page = " ".join((ROOT / "docs" / "index.md").read_text(encoding="utf-8").split())
    claims = re.findall(r"- \*\*.*?\)\)?\. ?(?=- |<)", page)
    assert len(claims) == 3
    for name, measured in CLAIMS.items():
        assert any(f"]({name}" in claim for claim in claims), f"no claim links to {name}"
        for pattern, words in measured:
            found = re.search(pattern, (ROOT / "docs" / name).read_text(encoding="utf-8"))
            assert found, f"{name} has no {pattern}"
            assert words.format(*found.groups()) in page, words.format(*found.groups())


def test_the_braid_is_what_its_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import draw_braid

    lead = draw_braid.measure()
    ranks = lead.ranks()
    learners = {name: places for name, places in ranks.items() if name != "all together"}
    assert min(learners, key=lambda name: sum(learners[name][:3])) == "mlp"
    assert min(learners.keys() - {"mlp"}, key=lambda name: sum(learners[name][:3])) == "forest"
    assert {max(learners, key=lambda name, at=at: learners[name][at]) for at in range(5)} <= {"olr", "olr 2", "olr 3"}
    assert all(min(learners, key=lambda name, at=at: learners[name][at]) == "olr 3" for at in range(5, 10))
    assert max(ranks["all together"]) <= 1
    draw_braid.main(tmp_path)
    for name in ("braid.svg", "flow.svg", "favicon.svg", "logo.svg"):
        drawn, kept = ((folder / name).read_text(encoding="utf-8") for folder in (tmp_path, ROOT / "docs"))
        assert drawn.count("<path") == kept.count("<path") > 0
        if name != "braid.svg":
            assert drawn == kept, f"{name} is not what docs/draw_braid.py draws"
