"""Names, labels and files with escape sequences, turned writing direction or half of a surrogate pair."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import braided as library
from braided.streams import open_stream
from command import braided

ODD = "\x1b[2J\u202e\ud800\u0085"


@pytest.fixture(scope="module")
def odd_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Column, category, label and file name are all odd."""
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("odd") / "x\x1b[31m\udcff[b].jsonl"
    with path.open("w") as file:
        for _ in range(300):
            label = draw.choice([f"a{ODD}", "b"])
            x = {f"n{ODD}": draw.random() + (label == "b"), f"c{ODD}": draw.choice([f"u{ODD}", "v"])}
            file.write(json.dumps({"x": x, "y": label}) + "\n")
    return path


def _check_shown(text: str) -> None:
    assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--json"],
        ["--categories", "hash"],
        ["--mask", "burst", "--available", "0.5"],
        ["--out", "out\x1b[1m"],
        ["--predictions", "p\x1b[1m.csv"],
        ["--predictions", "p.parquet"],
        ["--checkpoint", "c\x1b[1m", "--resume"],
    ],
    ids=" ".join,
)
def test_they_cost_neither_the_run_nor_the_terminal(
    options: list[str], odd_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = braided("run", str(odd_file), *options)
    _check_shown(done.stdout + done.stderr)
    assert "c\\x1b[2J\\u202e\\ud800\\x85" in done.stderr.replace("\n", "")  # the column is told, as text
    if options[:1] == ["--checkpoint"]:
        assert braided("run", str(odd_file), *options).stdout.split("records/s")[0] == done.stdout.split("records/s")[0]


@pytest.mark.parametrize(
    "options",
    [["--categories", "refuse"], ["--max-features", "2"], ["--target", "z\x1b[1m"], ["--task", "regression"]],
    ids=" ".join,
)
def test_errors_are_one_line_a_terminal_can_show(options: list[str], odd_file: Path) -> None:
    done = braided("run", str(odd_file), *options, code=2)
    _check_shown(done.stdout + done.stderr)
    assert done.stderr.splitlines()[-1].startswith("braided: ")


def test_what_was_skipped_is_told_below_the_table(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [{"x": {f"n{ODD}": 1.0}, "y": i % 2} for i in range(100)] + [{"x": {f"n{ODD}": "red"}, "y": 1}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = braided("run", str(path), "--on-error", "skip")
    _check_shown(done.stdout)
    assert "1 record skipped" in done.stdout


def test_the_folder_of_the_data_sets(tmp_path: Path) -> None:
    folder = tmp_path / "d\x1b[1m"
    (folder / "magic04").mkdir(parents=True)
    (folder / "magic04" / "magic04.data").write_text("1," * 10 + "g\n")
    done = braided("datasets", "list", "--data-dir", str(folder))
    assert "d\\x1b[1m" in done.stdout
    _check_shown(done.stdout)


def test_a_model_is_saved_with_them_and_the_service_refuses_it(odd_file: Path, tmp_path: Path) -> None:
    model = library.MODLClassifier()
    library.record(model, open_stream(str(odd_file)))
    model.save(tmp_path / "m")
    assert library.MODLClassifier.load(tmp_path / "m").classes == model.classes
    serve = pytest.importorskip("braided.serve.spec", reason="the extra serve is not installed: run make test")
    settings = pytest.importorskip("braided.serve.settings", reason="the extra serve is not installed: run make test")
    with pytest.raises(Exception, match="printable characters only"):
        serve.state_from_checkpoint("m", (tmp_path / "m").read_bytes(), settings.Limits())
