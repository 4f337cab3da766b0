"""The review's streams: how its files are read, and what its generator draws."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from braided import BraidedError
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.haphazard import AVAILABILITIES, REVIEW_SETTINGS, draw, haphazard_stream
from braided.datasets.locate import load
from braided.datasets.protocol import PAPER_SETTINGS
from braided.streams import read_whole
from conftest import real


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


#: Of the order as 64-bit numbers and of the mask as bytes; made by pandas and NumPy's global generator.
PINNED = {
    ("wpbc", 0.25): ("c87e0248904a5c01", "f761af4284d278a1"),
    ("wpbc", 0.75): ("c87e0248904a5c01", "1d1d5c8332037820"),
    ("german", 0.5): ("e0188c8ab6c2fed6", "763cd2a3a747f4b2"),
}


@pytest.mark.parametrize(("name", "available"), PINNED)
def test_order_and_mask_of_two_sets_are_pinned(name: str, available: float) -> None:
    data = real(name)
    stream = haphazard_stream(name, available, data).table
    n, d = stream.values.shape
    table = read_whole(load(name, data)).table
    known = ~np.isnan(table.values) if name == "wpbc" else np.ones((n, d), dtype=bool)
    draws = draw(known, available)
    assert (digest(draws.order.astype(np.int64)), digest(draws.available)) == PINNED[name, available]
    np.testing.assert_array_equal(~np.isnan(stream.values), draws.available)
    if name == "wpbc":
        np.testing.assert_array_equal(stream.values, np.where(draws.available, table.values[draws.order], np.nan))
        assert stream.targets == [int(table.targets[i] == "R") for i in draws.order]


@pytest.mark.parametrize("available", AVAILABILITIES)
def test_the_draws_are_those_of_a_data_frame_and_the_global_generator(available: float) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: run make test")
    known = np.random.default_rng(0).random((300, 4)) < 0.9
    before = np.random.get_state()
    try:
        np.random.seed(2023)
        order = pandas.DataFrame({"record": np.arange(300)}).sample(frac=1)["record"].to_numpy()
        mask = np.random.random((300, 4)) < available
        mask[~known[order]] = False
        (empty,) = np.where(mask.sum(axis=1) == 0)
        for record, feature in zip(empty, np.random.randint(4, size=len(empty)), strict=True):
            mask[record, feature] = True
    finally:
        np.random.set_state(before)
    draws = draw(known, available)
    np.testing.assert_array_equal(draws.order, order)
    np.testing.assert_array_equal(draws.available, mask)
    assert len(empty) > 0
    assert draws.available.any(axis=1).all()


@pytest.mark.parametrize(
    ("name", "counts", "missing"),
    [
        ("wpbc", {"N": 151, "R": 47}, 4),
        ("ionosphere", {"g": 225, "b": 126}, 0),
        ("wdbc", {"B": 357, "M": 212}, 0),
        ("australian", {0: 383, 1: 307}, 0),
        ("wbc", {2: 458, 4: 241}, 16),
        ("diabetes_f", {0: 500, 1: 268}, 0),
        ("ipd", {1: 547, 2: 549}, 0),
        ("krvskp", {"won": 1_669, "nowin": 1_527}, 0),
        ("spambase", {0: 2_788, 1: 1_813}, 0),
    ],
)
def test_records_labels_and_missing_values(name: str, counts: dict[object, int], missing: int) -> None:
    table = read_whole(load(name, real(name))).table
    assert Counter(table.targets) == counts
    assert table.values.shape == (CATALOGUE[name].records, CATALOGUE[name].features)
    assert np.isnan(table.values).sum() == missing


def test_layouts_are_read_as_they_are_written(excerpts: Path) -> None:
    for name in REVIEW_SETTINGS.keys() - PAPER_SETTINGS.keys():
        table = read_whole(load(name, excerpts)).table
        assert table.values.shape == (CATALOGUE[name].records, CATALOGUE[name].features)
        assert REVIEW_SETTINGS[name].positive in table.targets
    first = (excerpts / "haphazard" / "wpbc" / "wpbc.data").read_text().splitlines()[3].split(",")
    wpbc = read_whole(load("wpbc", excerpts)).table
    assert wpbc.targets[3] == first[1]
    assert wpbc.values[3, :-1].tolist() == [float(field) for field in first[2:-1]]
    assert np.isnan(wpbc.values[3, -1])
    letters = (excerpts / "haphazard" / "krvskp" / "krvskp.data").read_text().splitlines()[0].split(",")[:-1]
    numbers = [1.0 + "bfglntw".index(letter) for letter in letters]
    assert read_whole(load("krvskp", excerpts)).table.values[0].tolist() == numbers


def test_german_loses_the_records_with_glued_fields_unless_it_is_read_whole(excerpts: Path) -> None:
    """Only an amount of three digits leaves a single space before it."""
    amounts = read_whole(load("german", excerpts)).table.values[:, 3]
    kept = haphazard_stream("german", 0.5, excerpts).table
    assert len(kept) == (amounts < 100).sum() < 1_000
    assert np.nanmax(kept.values[:, 3]) < 100
    assert len(haphazard_stream("german", 0.5, excerpts, whole=True).table) == 1_000


def test_german_as_the_review_has_it() -> None:
    assert Counter(haphazard_stream("german", 0.5, real("german")).table.targets) == {1: 684, 0: 275}


@pytest.mark.parametrize(
    ("line", "message"),
    [("84,R,1,2", r"wpbc\.data:2: 4 fields where 35 are expected"), ("84,R,x" + ",1" * 32, "'x'.*fix the line")],
)
def test_a_line_that_does_not_fit_is_named(line: str, message: str, excerpts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "haphazard" / "wpbc"
    folder.mkdir(parents=True)
    lines = (excerpts / "haphazard" / "wpbc" / "wpbc.data").read_text().splitlines()
    (folder / "wpbc.data").write_text("\n".join([lines[0], line, *lines[2:]]))
    with pytest.raises(BraidedError, match=message):
        load("wpbc", tmp_path)
