"""What is released: the wheel holds everything, PyPI's page leads somewhere, and what names the version agrees."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import braided
from braided.kernels import native

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "braided"
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"(?<![\w.,`/-])\d+(?:,\d{3})*(?:\.\d+)?%?(?![\w`])")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built in this process."""
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed: run make test")
    pytest.importorskip("hatch_fancy_pypi_readme", reason="hatch-fancy-pypi-readme is not installed: run make test")
    return Path(next(builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))))


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if name.startswith("braided/")}
    there = {f"braided/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*") if path.is_file()}
    libraries = {name for name in packed if name.startswith("braided/kernels/lib/")}
    assert {f"braided/kernels/lib/braided-{level}.so" for level in native.levels()} == libraries
    assert packed - libraries == {name for name in there if "__pycache__" not in name}
    assert "-py3-none-" in wheel.name
    assert {
        "braided/datasets/catalogue.toml", "braided/py.typed", "braided/report/templates/report.html",
        "braided/report/templates/page.css",
        "braided/report/published.csv", "braided/serve/page/page.html",
    } <= packed  # fmt: skip


def test_the_wheel_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path)
    code = """
import braided, sys
from braided.datasets import CATALOGUE
from braided.report.published import figures
from importlib.metadata import version
from importlib.resources import files
assert files("braided.report").joinpath("templates", "page.css").read_text(encoding="utf-8")
print(braided.__file__, version("braided"), len(figures()) * len(CATALOGUE))
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    file, version, published = done.stdout.split()
    assert Path(file).is_relative_to(tmp_path)
    assert version == braided.__version__
    assert int(published) > 0


def test_the_page_on_pypi_leads_somewhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        name = next(name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(opened.read(name).decode())
    assert metadata["Version"] == braided.__version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert len(metadata.get_all("Project-URL")) == 4
    page = re.sub(r"^```.*?^```$", "", metadata.get_payload(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) > 20
    ours = re.compile(r"https://(raw\.githubusercontent\.com/braided-ml/braided|github\.com/braided-ml/braided/blob)/v")
    for link in links:
        assert link.startswith("https://"), link
        if found := ours.match(link):
            version, _, path = link[found.end() :].partition("#")[0].partition("/")
            assert version == braided.__version__
            assert (ROOT / path).exists(), link
    assert re.search(r"!\[[^\]]+\]\(https://raw", page), "a picture is shown by the address of its bytes"


def test_everything_that_names_the_version_agrees() -> None:
    newest, date = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", CHANGES, re.MULTILINE).groups()  # type: ignore[union-attr]
    assert newest == braided.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {braided.__version__}\n" in citation
    assert f'\ndate-released: "{date}"\n' in citation
    assert f"| {braided.__version__.rpartition('.')[0]} | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_figures_of_the_changes_stand_where_their_link_leads() -> None:
    """A figure is one of the linked page, word for word, so that it is measured once."""
    newest = "\n## ".join(re.split(r"\n## (?=\d)", CHANGES)[:2])  # the newest version, and what is not released yet
    parts = re.split(r"\n(?=- )|\n\n(?!\|)", newest)
    checked = 0
    for part in parts:
        pages = re.findall(r"\]\((docs/[\w-]+\.md)", part)
        text = re.sub(r"\]\([^)]*\)|`[^`]*`|\b0\.[12]\.0\b", "", part)
        known = " ".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
        for figure in NUMBER.findall(text) if pages else []:
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d])", known), f"{figure} is not on {pages}: {part}"
            checked += 1
    assert checked > 40


@pytest.mark.slow
def test_the_wheel_runs_in_an_environment_of_its_own() -> None:
    """Fetches what the package depends on."""
    command = ["make", "package", f"PYTHON={sys.executable}"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1_500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "first answer after" in done.stdout
