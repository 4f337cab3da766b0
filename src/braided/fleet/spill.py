"""Where what does not fit into memory lies: a folder of this process alone, which goes when it goes."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from braided import portable
from braided.checkpoint import Checkpoint, read, write
from braided.errors import BraidedError

#: Files are spread over so many folders.
_FOLDERS = 256

#: Of folders that are locked as long as they are used; and of others, which may be in use whatever their lock says.
_LOCKED, _NOT_LOCKED = "braided-keys-", "braided-fleet-"


def _made_in(parent: Path) -> tuple[Path, int | None]:
    """A new folder, and its lock; it has the name of those that are locked only once it is."""
    new = Path(tempfile.mkdtemp(prefix=_NOT_LOCKED, dir=parent))
    try:
        lock = portable.lock_folder(new) if portable.POSIX else None
    except OSError:  # there are file systems without locks
        lock = None
    if lock is None:
        return new, None
    return new.rename(new.with_name(_LOCKED + new.name.removeprefix(_NOT_LOCKED))), lock


def _remove_leftovers(parent: Path) -> None:
    """Remove the folders in it of processes of this user that were killed: what is in them means nothing to others."""
    for folder in parent.glob(f"{_LOCKED}*"):
        with suppress(OSError):
            if portable.POSIX and folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
                lock = portable.lock_folder(folder)
                if lock is not None:
                    _remove(folder, lock)


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _remove_own(folder: Path, lock: int | None, process: int) -> None:
    """Remove a folder at the end of the process that made it: its children by fork have it, too, and may end before."""
    if os.getpid() == process:
        _remove(folder, lock)


class KeysNotWrittenError(BraidedError):
    """Keys that are too many for memory cannot be put on disk; nothing was lost."""


class KeysLostError(BraidedError):
    """What a key had on disk is gone, or cannot be read."""


class SpillFolder:
    """Checkpoint files by number, written atomically; removed with this object, or when the process ends.

    Those of a process that was killed are removed by the next one that makes such a folder in the same place.

    Parameters
    ----------
    parent
        The folder in which to make one; that of temporary files if not given. It is made with the first file.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self._parent = parent
        self._path: Path | None = None
        self._next = 0
        #: The process that has made the folder.
        self._process = os.getpid()

    def _made(self) -> Path:
        if self._path is None:
            parent = Path(self._parent or tempfile.gettempdir())
            try:
                if not parent.name.startswith(_LOCKED):  # one of ours that is gone would come back without its lock
                    parent.mkdir(parents=True, exist_ok=True)
                _remove_leftovers(parent)
                self._path, lock = _made_in(parent)
            except OSError as error:
                raise KeysNotWrittenError(f"folder {parent} cannot be written: {error.strerror or error}") from None
            self._process = os.getpid()
            weakref.finalize(self, _remove_own, self._path, lock, self._process)
        return self._path

    @property
    def path(self) -> Path:
        """The folder."""
        return self._made()

    def _file(self, number: int) -> Path:
        return self._made() / f"{number % _FOLDERS:02x}" / f"{number}.braided"

    def add(self, kind: str, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
        """Write a file; returns its number."""
        number, self._next = self._next, self._next + 1
        file = self._file(number)
        if os.getpid() != self._process:  # its parent writes files of the same numbers
            raise KeysNotWrittenError(
                f"this process was forked from the one that puts keys into {self._made()}: load the fleet's file here"
            )
        if not self._made().is_dir():  # made again, it would have no lock, and others would remove it
            raise KeysLostError(
                f"folder {self._made()}, where keys are put that are too many for memory, is gone: load the fleet's "
                "last file, and name a folder where nobody removes old files"
            )
        try:
            file.parent.mkdir(exist_ok=True)
            write(file, kind, metadata, arrays, durable=False)
        except (OSError, BraidedError) as error:
            raise KeysNotWrittenError(
                f"keys that are too many for memory cannot be put on disk: {error}; make room there, and go on, as "
                "nothing was lost"
            ) from None
        return number

    def check(self, number: int) -> None:
        """Refuse to go on if a file is gone, as from a folder where somebody removes old files."""
        if not self._file(number).is_file():
            raise KeysLostError(
                f"{self._file(number)}, where a key was put that is too many for memory, is gone: load the fleet's "
                "last file, and name a folder where nobody removes old files"
            )

    def read(self, number: int, kind: str) -> Checkpoint:
        """What a file holds."""
        try:
            return read(self._file(number), kind)
        except BraidedError as error:
            raise KeysLostError(str(error)) from None

    def remove(self, number: int) -> None:
        """Remove a file that is needed no more."""
        with suppress(OSError):  # it goes with the folder
            self._file(number).unlink(missing_ok=True)
