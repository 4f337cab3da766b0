"""MNIST and CIFAR-10 from their official files, in batches, pixels scaled to [0, 1]."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.records import Records
from braided.streams.base import BATCH
from braided.streams.text_files import errors_in_one_line, open_binary

_UNSIGNED_BYTES = 8
_CIFAR_PIXELS = 3_072


def _read(file: IO[bytes], n: int, path: Path) -> bytes:
    """Up to n bytes: fewer only at the end."""
    with errors_in_one_line(path, tarfile.TarError):
        return file.read(n)


def _cut(path: Path, remedy: str) -> BraidedError:
    return BraidedError(f"{path}: the file ends in the middle of a record: {remedy}")


def _idx_shape(file: IO[bytes], path: Path, n_dimensions: int) -> tuple[int, ...]:
    """Read an idx file's head: two zero bytes, the type, the number of dimensions, and each of them in four bytes."""
    head = _read(file, 4 + 4 * n_dimensions, path)
    if len(head) < 4 + 4 * n_dimensions or head[:4] != bytes([0, 0, _UNSIGNED_BYTES, n_dimensions]):
        raise BraidedError(
            f"{path}: not an idx file of bytes in {n_dimensions} dimensions: give one of the official MNIST files"
        )
    return tuple(int(n) for n in np.frombuffer(head, dtype=">u4", offset=4))


@dataclass(frozen=True)
class IdxStream:
    """Images and labels from a pair of idx files, plain or gzip-compressed.

    Attributes
    ----------
    name
        What tables call it.
    images, labels
        The files.
    """

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
                raise BraidedError(
                    f"{self.images} has {n} images and {self.labels.name} {n_labels} labels: give files that belong "
                    "together"
                )
            for start in range(0, n, BATCH):
                size = min(BATCH, n - start)
                pixels = _read(images, size * height * width, self.images)
                classes = _read(labels, size, self.labels)
                for path, found, expected in (
                    (self.images, len(pixels), size * height * width),
                    (self.labels, len(classes), size),
                ):
                    if found < expected:
                        raise _cut(path, "get it anew, it is not whole")
                yield np.frombuffer(pixels, dtype=np.uint8).reshape(size, height * width), list(classes)

    def batches(self) -> Iterator[Records]:
        """The images in the file's order, pixels row by row, named by their numbers from 0."""
        names: tuple[str, ...] = ()
        for pixels, labels in self.bytes():
            names = names or tuple(str(i) for i in range(pixels.shape[1]))
            yield Records(names, pixels / 255.0, labels)


@dataclass(frozen=True)
class CifarStream:
    """CIFAR-10's training images from its binary batches, or straight from the archive they come in.

    A record is a byte for the class, then 1,024 bytes each of red, green and blue.

    Attributes
    ----------
    paths
        The batches in order, or the archive alone.
    """

    paths: tuple[Path, ...]

    @property
    def name(self) -> str:
        """As the data set is called."""
        return "cifar10"

    @property
    def n_records(self) -> int | None:
        """By the files' sizes; all 50,000 in the archive."""
        if self.paths[0].suffix == ".gz":
            return 50_000
        return sum(path.stat().st_size // (1 + _CIFAR_PIXELS) for path in self.paths)

    def batches(self) -> Iterator[Records]:
        """The images in the files' order; features are named by their places, red first."""
        names = tuple(str(i) for i in range(_CIFAR_PIXELS))
        record = 1 + _CIFAR_PIXELS
        for path, file in self._files():
            while chunk := _read(file, BATCH * record, path):
                if len(chunk) % record:
                    raise _cut(path, f"CIFAR-10 records have {record} bytes, get it anew")
                rows = np.frombuffer(chunk, dtype=np.uint8).reshape(-1, record)
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
                    raise BraidedError(f"{path}: data_batch_{i}.bin is not in it: get cifar-10-binary.tar.gz anew")
                yield path, batch
