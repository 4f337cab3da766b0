"""Deformed digits: deterministic by number, smooth, still digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_images import write_idx

from braided import BraidedError
from braided.datasets.images import SIDE, STRENGTH, DeformedDigits, IdxStream, smooth_fields
from braided.datasets.locate import load
from braided.streams import read_whole
from conftest import real


@pytest.fixture
def digits(tmp_path: Path) -> IdxStream:
    write_idx(tmp_path, 700, gz=False)
    return IdxStream("mnist", tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte")


def test_a_record_depends_on_seed_and_number_alone(digits: IdxStream) -> None:
    table = read_whole(DeformedDigits(digits, 1_500)).table
    numbers = np.array([1_499, 3, 700, 3])
    np.testing.assert_array_equal(DeformedDigits(digits, 10).records(numbers), table.values[numbers])
    assert (DeformedDigits(digits, 10, seed=1).records(numbers) != table.values[numbers]).mean() > 0.5
    assert table.targets[700:1_400] == table.targets[:700]
    assert (table.values[700:1_400] != table.values[:700]).mean() > 0.5
    assert table.values.min() >= 0
    assert table.values.max() <= 1


def test_length(digits: IdxStream) -> None:
    assert DeformedDigits(digits).n_records == 1_000_000
    assert len(read_whole(DeformedDigits(digits, 1_201)).table) == 1_201


def test_fields_are_smooth_and_of_the_stated_strength() -> None:
    fields = smooth_fields(0)
    np.testing.assert_allclose(fields.std(axis=(2, 3)), STRENGTH, rtol=1e-4)
    assert np.abs(np.diff(fields, axis=3)).mean() < 0.3 * STRENGTH
    assert (smooth_fields(1) != fields).any()


def test_blank_images_stay_blank_and_flat_ones_flat(tmp_path: Path, digits: IdxStream) -> None:
    """All changes are along derivatives: where there are none, nothing changes."""
    head = digits.images.read_bytes()[:16]
    digits.images.write_bytes(head + bytes([0]) * 350 * 784 + bytes([102]) * 350 * 784)
    images = DeformedDigits(digits).records(np.array([0, 349, 350, 699])).reshape(4, SIDE, SIDE)
    assert (images[:2] == 0).all()
    np.testing.assert_allclose(images[2:, 1:-1, 1:-1], 0.4, rtol=1e-6)


@pytest.mark.parametrize("official", [True, False], ids=["MNIST", "an excerpt"])
def test_real_digits_change_and_stay_digits(official: bool, excerpts: Path) -> None:
    stream = load("imnist", real("mnist") if official else excerpts)
    assert isinstance(stream, DeformedDigits)
    batch = next(stream.batches())
    originals, labels = next(stream.digits.bytes())
    assert batch.targets == labels
    changes = np.linalg.norm(batch.values - originals / 255, axis=1) / np.linalg.norm(originals / 255, axis=1)
    assert 0.2 < np.median(changes) < 0.5
    assert changes.min() > 0.05
    assert changes.max() < 1.0
    ink = batch.values.sum(axis=1) / (originals / 255).sum(axis=1)
    assert 0.5 < ink.min() < 0.9
    assert 1.1 < ink.max() < 1.8
    # The nearest original is of the same class: deformations do not turn one digit into another.
    distances = ((batch.values[:, None, :] - originals[None, :, :] / 255) ** 2).sum(axis=2)
    assert np.mean(np.array(labels)[distances.argmin(axis=1)] == labels) > 0.98


def test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    write_idx(tmp_path, 5, gz=False, side=14)
    stream = IdxStream("mnist", tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte")
    with pytest.raises(BraidedError, match="no images of 28 by 28 pixels"):
        read_whole(DeformedDigits(stream, 5))
