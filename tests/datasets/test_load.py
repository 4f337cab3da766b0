"""The paper's data sets, by their official counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from braided import BraidedError
from braided.datasets.locate import load, locate
from braided.datasets.protocol import PAPER_SETTINGS
from braided.datasets.river import shuttle
from braided.streams import read_whole
from conftest import real


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("german", {1: 700, 2: 300}),
        ("svmguide3", {-1: 947, 1: 296}),
        ("magic04", {"g": 12_332, "h": 6_688}),
        ("a8a", {-1: 24_720, 1: 7_841}),
    ],
)
def test_records_features_and_labels(name: str, counts: dict[object, int]) -> None:
    table = read_whole(load(name, real(name))).table
    assert Counter(table.targets) == counts
    assert len(table.names) == PAPER_SETTINGS[name].n_features
    assert np.isfinite(table.values).all()


def test_the_other_formats_are_read_as_they_are_written(excerpts: Path) -> None:
    """Names and one-based places before a colon, signs before labels, letters for classes."""
    table = read_whole(load("magic04", excerpts)).table
    lines = [line.split(",") for line in (excerpts / "magic04" / "magic04.data").read_text().splitlines()]
    assert table.values.tolist() == [[float(cell) for cell in line[:-1]] for line in lines]
    assert table.targets == [line[-1] for line in lines]
    for name, file, n_features in (("svmguide3", "svmguide3.txt", 22), ("a8a", "a8a.txt", 123)):
        used = PAPER_SETTINGS[name].n_features
        table = read_whole(load(name, excerpts)).table
        lines = [line.split() for line in (excerpts / name / file).read_text().splitlines()]
        expected = np.zeros((len(lines), n_features))
        for row, (_, *cells) in zip(expected, lines, strict=True):
            for place, value in (cell.split(":") for cell in cells):
                row[int(place) - 1] = float(value)
        np.testing.assert_array_equal(table.values, expected[:, :used])
        assert table.targets == [int(line[0]) for line in lines]
        assert set(table.targets) == {-1, 1}


def test_german_splits_at_any_white_space(excerpts: Path) -> None:
    """Rows with three-digit amounts have single spaces between fields."""
    table = read_whole(load("german", excerpts)).table
    raw = np.loadtxt(excerpts / "german" / "german.data-numeric")
    assert (raw[:, 3] > 99).any()
    np.testing.assert_array_equal(table.values, raw[:, :24])
    assert table.targets == raw[:, 24].tolist()


@pytest.mark.parametrize(("name", "first"), [("higgs", "lepton_pT"), ("susy", "lepton 1 pT")])
def test_label_first_files(
    name: str, first: str, excerpts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    table = read_whole(load(name, excerpts)).table
    raw = np.loadtxt(next((excerpts / name).iterdir()), delimiter=",", skiprows=1)
    assert table.names[0] == first
    assert table.targets == raw[:, 0].tolist()
    assert set(table.targets) == {0, 1}
    np.testing.assert_array_equal(table.values, raw[:, 1 : 1 + PAPER_SETTINGS[name].n_features])


def test_the_official_format_has_no_header(tmp_path: Path) -> None:
    (tmp_path / "higgs").mkdir()
    row = ",".join(["1.000000000000000000e+00", *(f"{i}.5e-01" for i in range(28))])
    (tmp_path / "higgs" / "HIGGS.csv").write_text(f"{row}\n{row}\n")
    table = read_whole(load("higgs", tmp_path)).table
    assert table.targets == [1, 1]
    assert table.values.shape == (2, 21)
    assert table.values[0, 3] == 0.35


def test_a_data_set_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BraidedError, match=r"is not in .*magic04 nor .*or put magic04\.data \(the UCI"):
        load("magic04", tmp_path)
    monkeypatch.delenv("BRAIDED_DATA", raising=False)
    with pytest.raises(BraidedError, match="give `data_dir='DIR'` or set BRAIDED_DATA"):
        load("magic04", None)


def test_a_sample_is_known_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a8a").mkdir()
    (tmp_path / "a8a" / "a8a").write_text("+1 1:1 123:1\n-1 2:1\n")
    assert locate("a8a", tmp_path).sample
    (tmp_path / "a8a" / "a8a.t").write_text("-1 3:1\n")
    assert not locate("a8a", tmp_path).sample
    table = read_whole(load("a8a", tmp_path)).table
    assert table.targets == [1, -1, -1]
    assert table.values[:, :3].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert table.values.shape == (3, 123)


def test_shuttle_is_bundled() -> None:
    table = shuttle().table
    assert table.values.shape == (49_097, 9)
    assert Counter(table.targets) == {0: 45_586, 1: 3_511}
