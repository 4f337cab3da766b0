"""What a notebook shows of estimators and histories, progress bars, and what a history draws and writes by itself."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import datasets

import braided
from braided import BraidedError, Fleet, History, MODLClassifier, MODLRegressor, record
from braided.evaluation.recording import records_of
from braided.learners import LinearConfig, LogisticConfig, MLPConfig
from braided.records import Records
from braided.store import state_digest
from braided.streams import ArrayStream
from conftest import made_up

SMALL = (LogisticConfig(), MLPConfig(hidden=(8,)))
ODD = "<script>alert(1)</script>"


class Seen(HTMLParser):
    """Tags, attributes and text; every tag must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "br":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def shown(thing: Any) -> Seen:
    """Small, without scripts, style sheets, links or colours that one of dark and light would swallow."""
    text = thing._repr_html_()
    seen = Seen(text)
    assert len(text) < 12_000
    assert set(seen.tags) <= {"div", "b", "br", "span", "table", "tr", "th", "td", "svg", "polyline", "title"}
    assert not {name for name, _ in seen.attributes} & {"src", "href", "onclick", "onload", "class", "id"}
    styles = " ".join(value or "" for name, value in seen.attributes if name == "style")
    assert "url(" not in styles
    assert "#" not in styles
    return seen


def stream(n: int = 300) -> ArrayStream:
    values, labels = made_up(n, d=4, classes=3)
    return ArrayStream("s", Records((ODD, "b", "c", "d"), values, [f"{ODD}{label}" for label in labels]))


@pytest.fixture(scope="module")
def history() -> History:
    return record(MODLClassifier(learners=SMALL), stream(), name=ODD)


def test_an_estimator_is_shown_and_not_changed() -> None:
    model = MODLClassifier(learners=SMALL, seed=3)
    assert "0 records learned" in " ".join(shown(model).text.split())
    assert model.records_learned == 0
    batch = stream().table
    model.learn_many(batch.values, batch.targets, batch.names)
    before = state_digest(model)
    text = " ".join(shown(model).text.split())
    for words in ("MODLClassifier preset default", "seed 3", "300 records learned", "4 features", "3 classes",
                  "olr LogisticRegression", "mlp MLP"):  # fmt: skip
        assert words in text, text
    assert state_digest(model) == before
    assert "classes" not in shown(MODLRegressor(learners=(LinearConfig(),))).text
    fleet = Fleet(MODLRegressor("lean"), key=ODD)
    assert f"a MODLRegressor for each {ODD}, share braid 0 records learned 0 keys" in " ".join(
        shown(fleet).text.split()
    )
    assert "labels 30 records late" in shown(MODLRegressor(learners=(LinearConfig(),), delay=30)).text


def test_a_history_is_shown(history: History) -> None:
    seen = shown(history)
    text = " ".join(seen.text.split())
    last = history.tally.window_errors()
    assert f"{last[0]:.2%} wrong in the last 300 {history.error:.2%} wrong in all 300 records" in text
    for words in (ODD, f"majority so far {last[1]:.2%}", f"last label {last[2]:.2%}", f"olr alone {last[3]:.2%}"):
        assert words in text, text
    (line, *guesses) = (value for name, value in seen.attributes if name == "points")
    assert line is not None
    heights = [70 - float(point.split(",")[1]) for point in line.split()]
    windowed = history.windowed()[:, 1] / history.window()
    assert heights[0] / heights[-1] == pytest.approx(windowed[0] / windowed[-1], rel=0.05)
    assert len(guesses) == 2
    assert repr(history) == f"<History of {ODD}: 300 records, error {history.error:.2%}>"
    assert "no records yet" in shown(History("empty")).text
    numbers = record(MODLRegressor(learners=(LinearConfig(),)), [({"a": float(t)}, 2.0 * t) for t in range(3)])
    assert f"{numbers.error:,.4g} off by in all" in " ".join(shown(numbers).text.split())
    many = History("many", [f"learner {i}" for i in range(100)])
    many.tally.add(braided.records.Predictions(np.ones((1, 1)), np.zeros((1, 100))), ["a"], ["a"])
    assert "and 79 more" in shown(many).text


def test_progress_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm", reason="tqdm is not installed: pip install tqdm")
    quiet = record(MODLClassifier(learners=SMALL), stream())
    assert capsys.readouterr() == ("", "")
    told = record(MODLClassifier(learners=SMALL), stream(), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "300/300" in err
    assert f"error {told.error:.2%}" in err
    assert told.error == quiet.error
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    pairs = [({"a": float(t)}, t % 2) for t in range(1_200)]
    plain = record(MODLClassifier(learners=SMALL), pairs, progress=True)
    assert capsys.readouterr() == ("", f"1,200 of 1,200 records, error {plain.error:.2%}\n")
    record(MODLClassifier(learners=SMALL), iter(pairs), progress=True)
    assert capsys.readouterr() == ("", "")
    assert [records_of(one) for one in (stream(), pairs, iter(pairs), datasets.Phishing())] == [300, 1_200, None, 1_250]


def test_a_history_draws_itself(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    for kind in braided.plot.__all__:
        ax = Figure().add_subplot()
        assert history.plot(kind, ax=ax) is ax
    assert "in the last" in history.plot(windowed=True, ax=Figure().add_subplot()).get_ylabel()
    with pytest.raises(BraidedError, match="'sum' is not known: use one of availability, calibration"):
        history.plot("sum")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (history.plot, lambda: history.report("never.html")):
        with pytest.raises(BraidedError, match=r"matplotlib is not installed: pip install 'braided\[plot\]'"):
            draw()
    assert not Path("never.html").exists()


def test_a_history_writes_its_report(history: History, tmp_path: Path) -> None:
    prior = record(MODLClassifier(learners=SMALL[:1], seed=1), stream(), name="other")
    path = history.report(tmp_path / "file.html", prior, title="two <of> them")
    text = path.read_text()
    assert path == tmp_path / "file.html"
    assert "<title>braided: two &lt;of&gt; them</title>" in text
    assert "<script" not in text
    for one in (history, prior):
        row = text.index(f"<tr><td>{one.name.replace('<', '&lt;').replace('>', '&gt;')}</td>")
        assert f"{one.tally.totals[0]:,.0f}</td>" in text[row : row + 200]
        assert f"{one.error:.2%}</td>" in text[row : row + 200]
    for words in ("Running error", "Windowed error", "By class", "Confusion", "How it was made", "numpy"):
        assert words in text, words
    again = record(MODLClassifier(learners=SMALL, seed=9), stream(), name=ODD)
    assert "means over 2 seeds" in history.report(tmp_path / "seeds.html", again).read_text()
    shorter = record(MODLClassifier(learners=SMALL, seed=1), stream(50), name="shorter")
    with pytest.raises(BraidedError, match=f"of {history.records} and 50 records: a report compares models on one"):
        history.report(tmp_path / "unequal.html", shorter)
    with pytest.raises(BraidedError, match="cannot be written"):
        history.report(tmp_path / "no folder" / "file.html")
    with pytest.raises(BraidedError, match="no records"):
        History("empty").report(tmp_path / "empty.html")
    numbers = record(MODLRegressor(learners=(LinearConfig(),)), [({"a": float(t)}, 2.0 * t) for t in range(300)])
    assert "mean so far" in numbers.report(str(tmp_path / "numbers.html")).read_text()
