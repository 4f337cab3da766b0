"""Every code block of README and docs runs, and prints what it says."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from braided.datasets.catalogue import CATALOGUE
from conftest import DATA, real

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: Times differ from machine to machine: this column of a table is not compared, nor are quantities with a unit.
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
TIMES = re.compile(r"[\d.,]+ (us|s|MiB)\b")


def blocks(language: str) -> list[tuple[Path, str, str]]:
    return [
        (page, words.strip(), body) for page in PAGES for found, words, body in BLOCK.findall(page.read_text())
        if found == language
    ]  # fmt: skip


#: A page whose ```python blocks carry one of these words is skipped where the module is not installed.
NEEDS = {"needs-torch": "torch", "needs-capymoa": "capymoa"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks(page: Path, tmp_path: Path) -> None:
    """The blocks of a page share their names, like one session."""
    found_here = [(words.split(), body) for found, words, body in blocks("python") if found == page]
    source = "\n".join(body for _, body in found_here)
    words = {word for listed, _ in found_here for word in listed}
    for word in words & NEEDS.keys():
        if importlib.util.find_spec(NEEDS[word]) is None:
            pytest.skip(f"{NEEDS[word]} is not installed: run make test EXTRAS=all")
    if "needs-capymoa" in words:
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            pytest.skip("there is no Java, which CapyMOA needs: install version 17 or later")
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
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def without_times(line: str) -> str:
    """A table's row without its records/s, and times in words without their numbers."""
    cells = line.split("│")
    if len(cells) >= 7:
        del cells[5]
    return TIMES.sub(r"... \1", "│".join(cells))


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
    command, *expected = body.rstrip("\n").split("\n")
    environment = {
        **os.environ, "BRAIDED_DATA": str(DATA.resolve()),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "80",
    }  # fmt: skip
    done = subprocess.run(
        command.removeprefix("$ "), shell=True, capture_output=True, text=True, env=environment, timeout=1_500,
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    want = "\n".join(without_times(line.strip()) for line in expected).strip()
    got = "\n".join(without_times(line.strip()) for line in done.stdout.rstrip("\n").split("\n"))
    assert same_but_for_rounding(want, got), f"{command}\nexpected\n{want}\ngot\n{got}"


def test_an_output_that_differs_is_seen() -> None:
    want = '│ modl │ 526 │ 1.07% │ ... us\n{"records": 2000, ...}'
    assert same_but_for_rounding(want, '│ modl │ 531 │ 1.08% │ ... us\n{"records": 2000, "errors": 3}')
    assert not same_but_for_rounding(want, '│ modl │ 631 │ 1.08% │ ... us\n{"records": 2000, "errors": 3}')
    assert not same_but_for_rounding(want, '│ olr  │ 526 │ 1.07% │ ... us\n{"records": 2000, "errors": 3}')


def console_blocks(slow: bool) -> list[object]:
    return [
        pytest.param(body, id=body.split("\n")[0][2:50])
        for _, words, body in blocks("console")
        if body.startswith(("$ braided", "$ printf"))
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
    assert len(quotes) >= 5
    for page, path, body in quotes:
        lines, quoted = ([line.strip() for line in text.splitlines() if line.strip()] for text in (
            (ROOT / path).read_text(), body
        ))  # fmt: skip
        starts = range(len(lines) - len(quoted) + 1)
        assert any(lines[i : i + len(quoted)] == quoted for i in starts), f"{page.name} quotes {path} wrongly:\n{body}"


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
    for name in ("mlp", "set"):
        assert (seen.moves[name] > 0).tolist() == seen.there.tolist(), f"{name} moves what is there, and nothing else"
    olr = dict(zip(draw_missing.NAMES, seen.moves["olr"], strict=True))
    assert olr["vibration"] > olr["pressure"] > 0, "the exact posterior moves what goes together with what is there"
    for name, parts in seen.given.items():
        assert parts.any(axis=1).tolist() == seen.there.tolist(), f"{name} is given nothing of a missing feature"
    draw_missing.main(tmp_path / "missing.png")
    assert (tmp_path / "missing.png").stat().st_size > 20_000
