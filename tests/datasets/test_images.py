"""MNIST and CIFAR-10 from files like the official ones, and from broken ones."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from braided import BraidedError
from braided.datasets.images import CifarStream, IdxStream
from braided.datasets.locate import load, locate
from braided.streams import read_whole
from conftest import real


def write_idx(folder: Path, n: int, gz: bool, side: int = 28) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Random images and labels under MNIST's names."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(n, side * side), dtype=np.uint8)
    labels = rng.integers(0, 10, size=n, dtype=np.uint8)
    contents = {
        "train-images-idx3-ubyte": struct.pack(">4I", 2051, n, side, side) + images.tobytes(),
        "train-labels-idx1-ubyte": struct.pack(">2I", 2049, n) + labels.tobytes(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / (name + ".gz" * gz)).write_bytes(gzip.compress(content) if gz else content)
    return images, labels


def cifar(n: int, seed: int) -> bytes:
    rows = np.random.default_rng(seed).integers(0, 256, size=(n, 3_073), dtype=np.uint8)
    rows[:, 0] %= 10
    return rows.tobytes()


@pytest.mark.parametrize("gz", [True, False])
def test_mnist(tmp_path: Path, gz: bool) -> None:
    images, labels = write_idx(tmp_path / "mnist", 1_203, gz)
    stream = load("mnist", tmp_path)
    assert stream.n_records == 1_203
    table = read_whole(stream).table
    assert table.names == tuple(str(i) for i in range(784))
    np.testing.assert_array_equal(table.values, images / 255)
    assert table.targets == labels.tolist()
    assert type(table.targets[0]) is int


def test_real_mnist() -> None:
    stream = load("mnist", real("mnist"))
    assert isinstance(stream, IdxStream)
    pieces = list(stream.bytes())
    labels = [label for _, some in pieces for label in some]
    assert labels[:10] == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert Counter(labels)[1] == 6_742
    assert np.mean([pixels.mean() for pixels, _ in pieces]) / 255 == pytest.approx(0.1307, abs=1e-4)


def test_broken_idx_files(tmp_path: Path) -> None:
    write_idx(tmp_path, 20, gz=False)
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    whole = images.read_bytes()
    images.write_bytes(whole[:-1])
    with pytest.raises(BraidedError, match="train-images-idx3-ubyte: the file ends in the middle of a record"):
        read_whole(IdxStream("mnist", images, labels))
    images.write_bytes(whole[: -2 * 784])
    with pytest.raises(BraidedError, match="train-images-idx3-ubyte: 18 of 20 images with labels: download both again"):
        read_whole(IdxStream("mnist", images, labels))
    images.write_bytes(whole[:8] + bytes(4) + whole[12:])
    with pytest.raises(BraidedError, match="train-images-idx3-ubyte: not an idx file"):
        read_whole(IdxStream("mnist", images, labels))
    images.write_bytes(whole)
    with pytest.raises(BraidedError, match="train-labels-idx1-ubyte: not an idx file of bytes in 3 dimensions"):
        read_whole(IdxStream("mnist", labels, images))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(whole)[:-500])
    with pytest.raises(BraidedError, match=r"cut\.gz: cannot be read"):
        read_whole(IdxStream("mnist", cut, labels))
    labels.write_bytes(struct.pack(">2I", 2049, 19) + bytes(19))
    with pytest.raises(BraidedError, match="has 20 images and train-labels-idx1-ubyte 19 labels"):
        read_whole(IdxStream("mnist", images, labels))


@pytest.mark.parametrize("folder", ["cifar10", "cifar10/cifar-10-batches-bin"])
@pytest.mark.parametrize("n_batches", [1, 5])
def test_cifar_batches(tmp_path: Path, folder: str, n_batches: int) -> None:
    (tmp_path / folder).mkdir(parents=True)
    content = [cifar(30, i) for i in range(n_batches)]
    for i, batch in enumerate(content):
        (tmp_path / folder / f"data_batch_{i + 1}.bin").write_bytes(batch)
    assert locate("cifar10", tmp_path).sample == (n_batches == 1)
    stream = load("cifar10", tmp_path)
    assert stream.n_records == 30 * n_batches
    table = read_whole(stream).table
    rows = np.frombuffer(b"".join(content), dtype=np.uint8).reshape(-1, 3_073)
    np.testing.assert_array_equal(table.values, rows[:, 1:] / 255)
    assert table.targets == rows[:, 0].tolist()


def archive(path: Path, order: tuple[int, ...]) -> bytes:
    """An archive with the batches in some order; returns them in theirs."""
    with tarfile.open(path, "w:gz") as out:
        for name, content in [(f"data_batch_{i}.bin", cifar(20, i)) for i in order] + [("readme.html", b"hello")]:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return b"".join(cifar(20, i) for i in sorted(order))


def test_cifar_archive(tmp_path: Path) -> None:
    """The official archive holds the batches in another order than that of their numbers."""
    (tmp_path / "cifar10").mkdir()
    path = tmp_path / "cifar10" / "cifar-10-binary.tar.gz"
    rows = np.frombuffer(archive(path, (1, 3, 4, 5, 2)), dtype=np.uint8).reshape(-1, 3_073)
    assert not locate("cifar10", tmp_path).sample
    table = read_whole(load("cifar10", tmp_path)).table
    assert table.targets == rows[:, 0].tolist()
    np.testing.assert_array_equal(table.values, rows[:, 1:] / 255)
    archive(path, (1, 3))
    with pytest.raises(BraidedError, match=r"data_batch_2\.bin is not in it"):
        read_whole(CifarStream((path,)))
    path.write_bytes(path.read_bytes()[:-2_000])
    with pytest.raises(BraidedError, match=r"cifar-10-binary\.tar\.gz: cannot be read"):
        read_whole(CifarStream((path,)))


def test_broken_cifar_batches(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(cifar(30, 0)[:-1])
    with pytest.raises(BraidedError, match=r"data_batch_1\.bin: the file ends in the middle of a record"):
        read_whole(CifarStream((path,)))
    path.write_bytes(bytes([200]) + cifar(30, 0)[1:])
    with pytest.raises(BraidedError, match="class 200 where 0 to 9 are expected"):
        read_whole(CifarStream((path,)))


def test_real_cifar() -> None:
    batch = next(load("cifar10", real("cifar10")).batches())
    assert batch.targets[:5] == [6, 9, 9, 4, 1]  # frog, truck, truck, deer, car
    assert (batch.values.min(), batch.values.max()) == (0.0, 1.0)
