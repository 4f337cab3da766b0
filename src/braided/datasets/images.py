"""MNIST and CIFAR-10 from their official files, in batches, pixels scaled to [0, 1]; and I-MNIST.

I-MNIST is an endless stream of deformed MNIST digits, after Loosli, Canu and Bottou (2007).

To first order, moving each pixel of an image x(u, v) by a small displacement (a, b) changes it along its tangents:

    x' = x + a dx/du + b dx/dv + t |grad x|

(a, b) is a smooth random field plus a random combination of the displacements that leave a digit what it is:
translation, rotation, scaling and the two hyperbolic ones (stretching along the axes and along the diagonals). The
last term makes strokes thicker (t > 0) or thinner, along their normals. x' is clipped to [0, 1].
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.kernels.native import ByteRows, DoubleRows, Ints, SingleFields, SingleRows, entry, kernel
from braided.kernels.random import key_of, mix, unit_interval
from braided.records import Records
from braided.streams.base import BATCH
from braided.streams.text_files import errors_in_one_line, open_binary

_UNSIGNED_BYTES = 8
_CIFAR_PIXELS = 3_072
SIDE = 28
#: Smooth fields to draw from; a digit gets a weighted sum of two of them, so 64 give thousands of shapes.
N_FIELDS = 64
#: Standard deviations in pixels: of the noise's smoothing, and of the displacements that come out.
SMOOTHING, STRENGTH = 4.0, 0.9
#: Of the uniform draws, each in (-size, size): pixels for translation and thickness, else pixels per pixel.
TRANSLATION, ROTATION, SCALING, HYPERBOLIC, THICKNESS = 1.0, 0.15, 0.1, 0.1, 0.5


def _rows(file: IO[bytes], n: int, size: int, path: Path) -> NDArray[np.uint8]:
    """Up to n rows of `size` bytes: fewer only at the end, and none that is cut."""
    with errors_in_one_line(path, tarfile.TarError):
        content = file.read(n * size)
    if len(content) % size:
        raise BraidedError(f"{path}: the file ends in the middle of a record of {size:,} bytes: download it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, size)


def _idx_shape(file: IO[bytes], path: Path, n_dimensions: int) -> tuple[int, ...]:
    """Read an idx file's head: two zero bytes, the type, the number of dimensions, and each of them in four bytes."""
    with errors_in_one_line(path):
        head = file.read(4 + 4 * n_dimensions)
    start, empty = bytes([0, 0, _UNSIGNED_BYTES, n_dimensions]), bytes(4) in (head[8:12], head[12:])
    if len(head) < 4 + 4 * n_dimensions or head[:4] != start or empty:
        raise BraidedError(
            f"{path}: not an idx file of bytes in {n_dimensions} dimensions: give one of the official MNIST files"
        )
    return tuple(int(n) for n in np.frombuffer(head, dtype=">u4", offset=4))


@dataclass(frozen=True)
class IdxStream:
    """Images and labels from a pair of idx files, plain or gzip-compressed; `name` is what tables call them."""

    name: str
    images: Path
    labels: Path

    @property
    def n_records(self) -> int | None:
        """What the images' file says of itself."""
        with open_binary(self.images) as file:
            return _idx_shape(file, self.images, 3)[0]

    def bytes(self) -> Iterator[tuple[NDArray[np.uint8], list[int]]]:
        """Pixels, (n, pixels), and labels, BATCH at a time."""
        with open_binary(self.images) as images, open_binary(self.labels) as labels:
            n, height, width = _idx_shape(images, self.images, 3)
            (n_labels,) = _idx_shape(labels, self.labels, 1)
            if n != n_labels:
                both = f"{self.images} has {n} images and {self.labels.name} {n_labels} labels"
                raise BraidedError(f"{both}: give files that belong together")
            for start in range(0, n, BATCH):
                size = min(BATCH, n - start)
                pixels = _rows(images, size, height * width, self.images)
                classes = _rows(labels, size, 1, self.labels)
                if (found := start + min(len(pixels), len(classes))) < start + size:
                    raise BraidedError(f"{self.images}: {found:,} of {n:,} images with labels: download both again")
                yield pixels, classes[:, 0].tolist()

    def batches(self) -> Iterator[Records]:
        """The images in the file's order, pixels row by row, named by their numbers from 0."""
        names: tuple[str, ...] = ()
        for pixels, labels in self.bytes():
            names = names or tuple(str(i) for i in range(pixels.shape[1]))
            yield Records(names, pixels / 255.0, labels)


@dataclass(frozen=True)
class CifarStream:
    """CIFAR-10's training images from its binary batches in order, or straight from the archive they come in.

    A record is a byte for the class, then 1,024 bytes each of red, green and blue.
    """

    paths: tuple[Path, ...]
    name: str = "cifar10"

    @property
    def n_records(self) -> int | None:
        """By the files' sizes; all 50,000 in the archive."""
        if self.paths[0].suffix == ".gz":
            return 50_000
        return sum(path.stat().st_size // (1 + _CIFAR_PIXELS) for path in self.paths)

    def batches(self) -> Iterator[Records]:
        """The images in the files' order; features are named by their places, red first."""
        names = tuple(str(i) for i in range(_CIFAR_PIXELS))
        for path, file in self._files():
            while len(rows := _rows(file, BATCH, 1 + _CIFAR_PIXELS, path)):
                if rows[:, 0].max() > 9:
                    raise BraidedError(f"{path}: class {rows[:, 0].max()} where 0 to 9 are expected: not CIFAR-10")
                yield Records(names, rows[:, 1:] / 255.0, rows[:, 0].tolist())

    def _files(self) -> Iterator[tuple[Path, IO[bytes]]]:
        """The batches, open one after the other."""
        if self.paths[0].suffix != ".gz":
            for path in self.paths:
                with path.open("rb") as file:
                    yield path, file
            return
        path = self.paths[0]
        # The archive is unpacked as it is read: at no time is one of its files in memory.
        with errors_in_one_line(path, tarfile.TarError), tarfile.open(path, "r:gz") as archive:
            members = {Path(member.name).name: member for member in archive}
            for i in range(1, 6):
                # The archive holds them in another order; its own records are read in that of their numbers.
                member = members.get(f"data_batch_{i}.bin")
                batch = None if member is None else archive.extractfile(member)
                if batch is None:
                    raise BraidedError(f"{path}: data_batch_{i}.bin is not in it: download it again")
                yield path, batch


@lru_cache(maxsize=4)
def smooth_fields(seed: int) -> NDArray[np.float32]:
    """Random fields, (N_FIELDS, 2, SIDE, SIDE): white noise smoothed by a Gaussian, of deviation STRENGTH."""
    noise = np.random.default_rng(key_of(seed, "imnist fields")).normal(size=(N_FIELDS, 2, SIDE, SIDE))
    distance = np.subtract.outer(np.arange(SIDE), np.arange(SIDE))
    blur = np.exp(-0.5 * (distance / SMOOTHING) ** 2)
    smooth = blur @ noise @ blur
    fields: NDArray[np.float32] = (smooth * (STRENGTH / smooth.std(axis=(2, 3), keepdims=True))).astype(np.float32)
    return fields


@kernel()
def _between(key, draw, size):
    """Uniform in (-size, size)."""
    return np.float32(size * (2.0 * unit_interval(mix(key, draw)) - 1.0))


@entry
def deform(
    images: ByteRows, numbers: Ints, key: np.uint64, fields: SingleFields, padded: SingleRows, out: DoubleRows
) -> None:
    """Deform images, (n, SIDE * SIDE) bytes, into `out`, each by what its number draws; `padded` has an empty edge."""
    centre = np.float32((SIDE - 1) / 2)
    for i in range(images.shape[0]):
        own = mix(key, numbers[i])
        one = fields[mix(own, 0) % np.uint64(N_FIELDS)]
        two = fields[mix(own, 1) % np.uint64(N_FIELDS)]
        first, second = _between(own, 2, 1.0), _between(own, 3, 1.0)
        right, down = _between(own, 4, TRANSLATION), _between(own, 5, TRANSLATION)
        turn, scale = _between(own, 6, ROTATION), _between(own, 7, SCALING)
        stretch, diagonal = _between(own, 8, HYPERBOLIC), _between(own, 9, HYPERBOLIC)
        thickness = _between(own, 10, THICKNESS)
        for row in range(SIDE):
            for column in range(SIDE):
                padded[row + 1, column + 1] = np.float32(images[i, row * SIDE + column]) / np.float32(255.0)
        for row in range(SIDE):
            v = np.float32(row) - centre
            for column in range(SIDE):
                u = np.float32(column) - centre
                # Derivatives over two pixels, smoothed across (Sobel's): a digit's edge is about that wide.
                left = padded[row, column] + 2 * padded[row + 1, column] + padded[row + 2, column]
                beyond = padded[row, column + 2] + 2 * padded[row + 1, column + 2] + padded[row + 2, column + 2]
                above = padded[row, column] + 2 * padded[row, column + 1] + padded[row, column + 2]
                below = padded[row + 2, column] + 2 * padded[row + 2, column + 1] + padded[row + 2, column + 2]
                along_u, along_v = (beyond - left) / np.float32(8.0), (below - above) / np.float32(8.0)
                a = first * one[0, row, column] + second * two[0, row, column]
                b = first * one[1, row, column] + second * two[1, row, column]
                a += right - turn * v + (scale + stretch) * u + diagonal * v
                b += down + turn * u + (scale - stretch) * v + diagonal * u
                steepness = np.sqrt(along_u * along_u + along_v * along_v)
                value = padded[row + 1, column + 1] + a * along_u + b * along_v + thickness * steepness
                out[i, row * SIDE + column] = min(max(value, np.float32(0.0)), np.float32(1.0))


@dataclass(frozen=True)
class DeformedDigits:
    """Record i is training image i mod 60,000, deformed by draws that depend on the seed and i alone.

    Every record is deformed, the first 60,000 too, and no record needs those before it. The digits of MNIST, 47 MB,
    are in memory while it runs.

    Attributes
    ----------
    seed
        Of the deformations. A run's seed does not change it: all models and seeds see the same stream.
    """

    digits: IdxStream
    n_records: int = 1_000_000
    seed: int = 0
    name: str = "imnist"

    def _digits(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        pieces = list(self.digits.bytes())
        images = np.concatenate([pixels for pixels, _ in pieces]) if pieces else np.zeros((0, 0), dtype=np.uint8)
        if len(images) == 0 or images.shape[1] != SIDE * SIDE:
            raise BraidedError(
                f"{self.digits.images}: no images of {SIDE} by {SIDE} pixels: give MNIST's training file"
            )
        return images, np.array([label for _, some in pieces for label in some])

    def _deform(self, images: NDArray[np.uint8], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        values = np.empty((len(numbers), SIDE * SIDE))
        deform(
            images[numbers % len(images)],
            numbers,
            np.uint64(key_of(self.seed, "imnist")),
            smooth_fields(self.seed),
            np.zeros((SIDE + 2, SIDE + 2), np.float32),
            values,
        )
        return values

    def records(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The pixels of the records with these numbers."""
        return self._deform(self._digits()[0], numbers)

    def batches(self) -> Iterator[Records]:
        """The records, made as they are asked for."""
        images, labels = self._digits()
        names = tuple(str(i) for i in range(SIDE * SIDE))
        for first in range(0, self.n_records, BATCH):
            numbers = np.arange(first, min(first + BATCH, self.n_records), dtype=np.int64)
            yield Records(names, self._deform(images, numbers), labels[numbers % len(images)].tolist())
