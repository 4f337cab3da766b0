"""The file operations that durability rests on, in one place, so that tests can make each of them fail."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import ClassVar

from braided import files


class Disk:
    """Plain files, each call doing what it says or raising OSError."""

    #: Whether anything may be changed.
    changes: ClassVar[bool] = True

    def create(self, path: Path) -> int:
        """Open a file that must not exist yet, to append to."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def write_some(self, file: int, content: memoryview) -> int:
        """Write the beginning of `content`; returns how much."""
        return os.write(file, content)

    def write(self, file: int, content: bytes) -> None:
        """Write all of `content`, however many calls that takes."""
        rest = memoryview(content)
        while rest:
            rest = rest[self.write_some(file, rest) :]

    def sync(self, file: int) -> None:
        """Return once everything written to `file` is on the disk."""
        files.sync(file)

    def truncate(self, path: Path, length: int) -> None:
        """Cut a file, durably."""
        file = os.open(path, os.O_WRONLY)
        try:
            os.ftruncate(file, length)
            self.sync(file)
        finally:
            os.close(file)

    def close(self, file: int) -> None:
        """Close a file."""
        os.close(file)

    def read(self, path: Path) -> bytes:
        """A whole file."""
        return path.read_bytes()

    def read_start(self, path: Path, length: int) -> bytes:
        """The first bytes of a file."""
        with path.open("rb") as file:
            return file.read(length)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file or folder another name, atomically and durably."""
        os.replace(old, new)
        self.sync_folder(new.parent)

    def sync_folder(self, folder: Path) -> None:
        """Make names that were added to or removed from a folder durable."""
        self._sync_opened(folder)

    def sync_path(self, path: Path) -> None:
        """Return once everything that anybody has written to a file is on the disk."""
        self._sync_opened(path)

    def _sync_opened(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY)
        try:
            self.sync(file)
        finally:
            os.close(file)

    def write_file(self, path: Path, content: bytes) -> None:
        """Write a file so that its name leads to all of it or is not there."""
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.unlink(missing_ok=True)
        file = self.create(temporary)
        try:
            try:
                self.write(file, content)
                self.sync(file)
            finally:
                self.close(file)
            self.rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


class LookingDisk(Disk):
    """Reads what is there, and leaves it as it is: what a reader would mend stays, and nothing can be made."""

    changes = False

    def create(self, path: Path) -> int:
        """Refused."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path.name)

    def rename(self, old: Path, new: Path) -> None:
        """Refused."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), old.name)

    def sync(self, file: int) -> None:
        """Nothing."""

    def truncate(self, path: Path, length: int) -> None:
        """Nothing."""

    def remove(self, path: Path) -> None:
        """Nothing."""
