"""Small files in the formats and under the names of the paper's data sets, for those who do not have them.

The numbers are drawn, but for the digits, which scikit-learn bundles; a label depends on its record, so that there is
something to learn.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from braided.datasets.catalogue import CATALOGUE


def _records(n: int, d: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d))
    return values, (values @ rng.normal(size=d) + rng.normal(size=n) > 0.5).astype(np.int64)


def _write(folder: Path, name: str, lines: Iterable[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def _german(folder: Path) -> None:
    """As many bytes as the official file has: numbers four characters wide, the longest with one space before them."""
    values, labels = _records(1_000, 24, seed=0)
    whole = np.clip(np.rint(values * 2 + 4), 0, 9).astype(int)
    whole[:, 3] = np.clip(np.rint(values[:, 3] * 30 + 60), 2, 184)
    rows = np.column_stack([whole, labels + 1])
    _write(folder, "german.data-numeric", ("".join(f"{cell:4d}" for cell in row) + " " for row in rows))


def _svmguide3(folder: Path) -> None:
    values, labels = _records(1_243, 22, seed=1)
    values[np.abs(values) < 0.1] = 0.0  # zeros are left out, or written
    rows = (
        " ".join([str(2 * label - 1), *(f"{j}:{v:.7G}" for j, v in enumerate(row, start=1) if v or j % 2)])
        for row, label in zip(values, labels, strict=True)
    )
    _write(folder, "svmguide3.txt", rows)


def _magic04(folder: Path) -> None:
    values, labels = _records(5_000, 10, seed=2)
    rows = (",".join([*(f"{30 * v:.4f}" for v in row), "gh"[y]]) for row, y in zip(values, labels, strict=True))
    _write(folder, "magic04.data", rows)


def _a8a(folder: Path) -> None:
    values, labels = _records(1_000, 123, seed=3)
    rows = (
        " ".join([f"{2 * y - 1:+d}", *(f"{j + 1}:1" for j in np.flatnonzero(row > 1.2)), ""])
        for row, y in zip(values, labels, strict=True)
    )
    _write(folder, "a8a.txt", rows)


def _physics(folder: Path, name: str, first: str, d: int, seed: int) -> None:
    """A header, and the label first."""
    values, labels = _records(1_000, d, seed)
    header = ",".join(["label", first, *(f"feature {j}" for j in range(2, d + 1))])
    rows = (",".join([f"{y:.18e}", *(f"{v:.18e}" for v in row)]) for row, y in zip(values, labels, strict=True))
    _write(folder, name, [header, *rows])


def _mnist(folder: Path) -> None:
    """Scikit-learn's digits of 8 by 8 points, drawn as MNIST's are: 20 by 20 in the middle of 28 by 28."""
    reason = "scikit-learn is not installed: run make test"
    bundled = pytest.importorskip("sklearn.datasets", reason=reason).load_digits()
    from scipy.ndimage import zoom

    small = bundled.images[:1_000].astype(np.float64) * (255 / 16)
    images = np.zeros((len(small), 28, 28), dtype=np.uint8)
    images[:, 4:24, 4:24] = np.clip(np.rint(zoom(small, (1, 2.5, 2.5), order=1)), 0, 255)
    head = struct.pack(">4I", 2051, *images.shape)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + images.tobytes()))
    labels = bundled.target[: len(images)].astype(np.uint8)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">2I", 2049, len(labels)) + labels.tobytes())
    )


def _cifar10(folder: Path) -> None:
    """Images in one colour each, which depends on the class, with noise."""
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 10, size=200)
    colours = rng.integers(40, 216, size=(10, 3))
    pixels = np.repeat(colours[labels], 1_024, axis=1) + rng.integers(-40, 40, size=(200, 3_072))
    (folder / "data_batch_1.bin").write_bytes(np.column_stack([labels, pixels]).astype(np.uint8).tobytes())


def _of_review(folder: Path) -> None:
    """The sets of the review of haphazard inputs: their separators, identifiers, letters, question marks and labels."""
    name = folder.name
    file, n, d, (negative, positive) = _REVIEW[name]
    values, labels = _records(n, d, seed=n)
    rows = [[f"{v:.4f}" for v in row] for row in values]
    if name == "krvskp":
        rows = [["bfglntw"[min(int(abs(v) * 3), 6)] for v in row] for row in values]
    if name in {"wpbc", "wbc"}:
        rows[3][-1] = rows[7][-1] = "?"
    spelled = [positive if label else negative for label in labels]
    if name == "ipd":
        lines = ["   " + "   ".join([label, *row]) for row, label in zip(rows, spelled, strict=True)]
        _write(folder, file, lines[:67])
        _write(folder, file.replace("TRAIN", "TEST"), lines[67:])
        return
    if name in {"wpbc", "wdbc"}:
        lines = [",".join([f"84{i}", label, *row]) for i, (row, label) in enumerate(zip(rows, spelled, strict=True))]
    else:
        before = ["1000025"] if name == "wbc" else []
        separator = " " if name == "australian" else ","
        lines = [separator.join([*before, *row, label]) for row, label in zip(rows, spelled, strict=True)]
    header = [",".join([*(f"column {j}" for j in range(d)), "Outcome"])] if name == "diabetes_f" else []
    _write(folder, file, [*header, *lines, *[""] * (name == "krvskp")])


_REVIEW = {
    "wpbc": ("wpbc.data", 198, 33, ("N", "R")),
    "ionosphere": ("ionosphere.data", 351, 34, ("b", "g")),
    "wdbc": ("wdbc.data", 569, 30, ("B", "M")),
    "australian": ("australian.dat", 690, 14, ("0", "1")),
    "wbc": ("wbc.data", 699, 9, ("2", "4")),
    "diabetes_f": ("diabetes_f.csv", 768, 8, ("0", "1")),
    "ipd": ("ItalyPowerDemand_TRAIN.txt", 1_096, 24, ("2.0000000e+00", "1.0000000e+00")),
    "krvskp": ("krvskp.data", 3_196, 36, ("nowin", "won")),
    "spambase": ("spambase.data", 4_601, 57, ("0", "1")),
}

_WRITERS: dict[str, Callable[[Path], None]] = {
    "german": _german,
    "svmguide3": _svmguide3,
    "magic04": _magic04,
    "a8a": _a8a,
    "higgs": lambda folder: _physics(folder, "higgs_10k.csv.gz", "lepton_pT", 28, seed=4),
    "susy": lambda folder: _physics(folder, "susy_10k.csv.gz", "lepton 1 pT", 18, seed=5),
    "mnist": _mnist,
    "cifar10": _cifar10,
    **{f"haphazard/{name}": _of_review for name in _REVIEW},
}


def write(folder: Path) -> None:
    """One sub-folder for each data set."""
    assert {dataset.folder for dataset in CATALOGUE.values()} == _WRITERS.keys()
    for name, writer in _WRITERS.items():
        (folder / name).mkdir(parents=True)
        writer(folder / name)
