"""The site of docs/ builds strictly, and none of its pages asks another machine for anything."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: run make test")

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/braided-ml/braided"
#: Pages that the hooks of mkdocs make of files of the root.
ROOT_PAGES = ("changelog.md", "code_of_conduct.md", "contributing.md", "security.md")
MISSING = [name for name in ("mkdocs", "material", "mkdocstrings") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: run make test")


def site_of_make_check() -> Path | None:
    """The site that `make check` has built, unless something that it is made of has changed since."""
    written_last = ROOT / "site" / "search" / "search_index.json"
    made_of = [ROOT / "mkdocs.yml", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*"), *(ROOT / "src").rglob("*.py")]
    changed = max(path.stat().st_mtime for path in made_of if path.is_file() and "__pycache__" not in path.parts)
    return ROOT / "site" if written_last.exists() and changed < written_last.stat().st_mtime else None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    if (built := site_of_make_check()) is not None:
        return built
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Assets(HTMLParser):
    """Addresses that a browser fetches by itself when it opens a page, where links lead, and the text that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(values.get("href", ""))
        for name in ("src", "srcset", "data", "poster"):
            if name in values and tag != "a":
                self.found.append(values[name])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.places |= {values[name] for name in ("id", "name") if name in values}
        self.found += re.findall(r"url\(['\"]?([^)'\"]+)", values.get("style", ""))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: Path) -> Assets:
    parser = Assets()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def pages(site: Path) -> list[Path]:
    return [page for page in sorted(site.rglob("*.html")) if page != site / "404.html"]


def test_no_link_is_dead(site: Path) -> None:
    """Pages, files and places within pages; what lies elsewhere is not asked for, but its address must be one."""
    known = {page: read(page) for page in pages(site)}
    elsewhere = set()
    checked = 0
    for page, parsed in known.items():
        for link in parsed.links:
            address = urlsplit(link)
            if link == "javascript:void(0)":  # the theme's button that shares a search
                continue
            if address.scheme or address.netloc:
                elsewhere.add(link)
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            assert target.exists(), f"{page.name} links to {link}"
            if address.fragment and target in known:
                assert unquote(address.fragment) in known[target].places, f"{page.name} links to {link}"
            checked += 1
    assert checked > 2_000
    for link in elsewhere:
        address = urlsplit(link)
        assert address.scheme == "https" and "." in address.netloc and " " not in link, link  # noqa: PT018
    ours = f"{REPOSITORY}/(blob|raw)/main/"
    for link in elsewhere:
        if found := re.match(ours, link):
            path = link[found.end() :].partition("#")[0]
            assert (ROOT / path).exists() or path.removeprefix("docs/") in ROOT_PAGES, link


def test_titles_are_those_of_the_menu(site: Path) -> None:
    """But for the first page, whose title is the name of all."""
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    entries = [entry for part in menu for entry in (*part.values(),) if isinstance(entry, list)]
    titles = {page: title for entry in entries for item in entry for title, page in item.items()}
    assert len(titles) > 40
    for page, title in titles.items():
        text = (site / page).with_suffix(".html").read_text(encoding="utf-8")
        heading = re.search(r"<h1[^>]*>(.*?)<a class=\"headerlink\"", text, re.DOTALL)
        assert heading, page
        assert html.unescape(re.sub(r"<[^>]+>", "", heading[1])).strip() == title, page


def test_every_page_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    written = {
        page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in (ROOT / "docs").rglob("*.md")
    }
    assert written <= found


def test_what_a_page_is_made_of_can_be_seen(site: Path) -> None:
    page = (site / "tutorial.html").read_text(encoding="utf-8")
    assert f"{REPOSITORY}/raw/main/docs/tutorial.md" in page
    assert 'data-md-component="source"' not in page, "the theme would ask for the repository's stars"
    reference = (site / "api" / "learners.html").read_text(encoding="utf-8")
    places = re.findall(rf"{REPOSITORY}/blob/main/(src/braided/[\w/]+\.py)#L(\d+)", reference)
    assert len(places) > 20
    for path, line in places:
        assert re.match(r"\s*(@|def |class )", (ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1])


def test_in_a_browser(site: Path, tmp_path: Path) -> None:
    """Pictures follow the dark, a phone scrolls no page sideways, and what is copied has no prompts."""
    import browser

    copied = """
        const code = [...document.querySelectorAll("pre code")].find(e => e.innerText.includes(">>> "));
        code.setAttribute("data-md-copying", "");
        return code.innerText;
    """
    with browser.opened(tmp_path / "profile") as window:
        for scheme in ("light", "dark"):
            browser.scheme(window, scheme)
            window.get((site / "how.html").as_uri())
            window.execute_script("localStorage.clear()")  # the choice of an earlier visit
            window.refresh()
            turned = "return getComputedStyle(document.querySelector('article img')).filter"
            assert ("invert" in window.execute_script(turned)) == (scheme == "dark")
        text = window.execute_script(copied)
        assert "model = MODLClassifier()\n" in text
        assert ">>>" not in text
        assert "['current'" not in text, "what is printed is no code"
        browser.phone(window)
        for name in ("index", "how", "tutorial", "faq", "metrics", "evaluation", "serve", "results", "api/learners"):
            window.get((site / f"{name}.html").as_uri())
            assert window.execute_script("return document.documentElement.scrollWidth") <= 360, name
        asked = [address for address in browser.requested(window) if address.startswith("http")]
        assert not asked


@pytest.mark.slow
def test_versions_stand_beside_each_other(tmp_path: Path) -> None:
    """As the workflow publishes them, but without pushing."""
    pytest.importorskip("mike", reason="mike is not installed: run make test")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")], check=True)
    who = {
        f"GIT_{role}_{what}": "braided@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    for version in (["0.2", "latest"], ["dev"]):
        command = [sys.executable, "-c", "from mike.driver import main; main()", "deploy", "--update-aliases", *version]
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", **who}
        done = subprocess.run(command, cwd=tmp_path / "clone", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    show = ["git", "-C", str(tmp_path / "clone"), "show"]
    listed = json.loads(subprocess.run([*show, "gh-pages:versions.json"], capture_output=True, check=True).stdout)
    assert [(entry["version"], entry["aliases"]) for entry in listed] == [("dev", []), ("0.2", ["latest"])]
    for version in ("0.2", "dev"):
        subprocess.run([*show, f"gh-pages:{version}/tutorial.html"], capture_output=True, check=True)
    alias = subprocess.run([*show, "gh-pages:latest"], capture_output=True, check=True).stdout
    assert alias == b"0.2", "latest is a link"


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
            "evaluation.metrics.METRICS", "report.plot.error", "store.state_digest",
        ),
        "streams": (
            "streams.open.open_stream", "records.Records", "streams.Rules", "streams.readers.csv.CSVStream",
            "streams.readers.jsonl.JSONLinesStream", "streams.readers.arff.ARFFStream",
            "streams.readers.arrow.ArrowStream", "streams.readers.libsvm.LibsvmStream", "streams.SQLStream",
            "streams.IterableStream", "streams.readers.follow.FollowStream", "streams.readers.folder.FolderStream",
        ),
    }.items():  # fmt: skip
        for name in names:
            assert f'id="braided.{name}"' in reference[page], f"{page} lacks {name}"
