"""The site of docs/ builds strictly, and none of its pages asks another machine for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MISSING = [name for name in ("mkdocs", "material", "mkdocstrings") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: run make test")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Assets(HTMLParser):
    """Addresses that a browser fetches by itself when it opens a page, and the text that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(values.get("href", ""))
        for name in ("src", "srcset", "data", "poster"):
            if name in values and tag != "a":
                self.found.append(values[name])
        self.found += re.findall(r"url\(['\"]?([^)'\"]+)", values.get("style", ""))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: Path) -> Assets:
    parser = Assets()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def pages(site: Path) -> list[Path]:
    return [page for page in sorted(site.rglob("*.html")) if page != site / "404.html"]


def test_every_page_of_docs_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page
    assert "How to add a learner" in (site / "contributing.html").read_text(encoding="utf-8")


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        for address in read(page).found:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} fetches {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(\w+:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_asset_is_in_the_site(site: Path) -> None:
    for page in pages(site):
        for address in read(page).found:
            if address and not address.startswith(("data:", "#")):
                assert (page.parent / address.partition("?")[0].partition("#")[0]).exists(), f"{page.name}: {address}"


def test_no_markup_is_left_over(site: Path) -> None:
    """A fence, a table or a directive that was not understood is shown as it was written."""
    for page in pages(site):
        shown = "".join(read(page).text)
        for leftover in ("```", "\n:::", "|---|"):
            assert leftover not in shown, f"{page.name} shows {leftover.strip()}"


def test_lists_are_read_alike_here_and_in_the_repository() -> None:
    """The site's reader of Markdown wants an empty line before a list, and four spaces before a table within one."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert not re.search(r"^ {1,3}(- |\|)", text, re.MULTILINE), f"{page.name}: indent by four spaces"
        before = re.findall(r"^(?!- |\d+\. | )(\S.*)\n(?:- |\d+\. )", text, re.MULTILINE)
        assert not before, f"{page.name}: leave an empty line after {before[0]!r}"


def test_the_reference_has_the_public_names(site: Path) -> None:
    reference = {page.stem: page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html")}
    for page, names in {
        "estimators": (
            "MODLClassifier", "MODLClassifier.learn_one", "MODLRegressor.predict_many", "BraidedError",
            "sklearn.MODLClassifier", "sklearn.MODLRegressor", "capymoa.MODL", "capymoa.MODLRegressor",
            "spark.fleet_stream", "spark.read_fleet", "spark.prepare",
            "estimators.drift.DETECTORS", "estimators.drift.build", "estimators.drift.Watch",
        ),
        "learners": (
            "learners.MLPConfig", "learners.SetLearner", "learners.Learner.scores", "learners.TorchLearner",
            "learners.RiverLearner",
        ),
        "combiners": ("combiners.KalmanWeights", "combiners.ScoreSum"),
        "presets": ("presets.get", "presets.Preset", "zoo.build"),
        "evaluation": (
            "evaluation.record", "evaluation.History.metrics", "evaluation.Tally", "evaluation.Evaluation",
            "evaluation.metrics.METRICS", "report.plot.error", "estimators.digest.state_digest",
        ),
        "streams": (
            "streams.open.open_stream", "streams.Batch", "streams.Rules", "streams.readers.csv.CSVStream",
            "streams.readers.jsonl.JSONLinesStream", "streams.readers.arff.ARFFStream",
            "streams.readers.arrow.ArrowStream", "streams.readers.libsvm.LibsvmStream", "streams.SQLStream",
            "streams.IterableStream", "streams.readers.follow.FollowStream", "streams.readers.folder.FolderStream",
        ),
    }.items():  # fmt: skip
        for name in names:
            assert f'id="braided.{name}"' in reference[page], f"{page} lacks {name}"
