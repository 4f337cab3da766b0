"""Files that are whole or not there: written atomically, forced to disk, locked; what a killed process left goes.

For Linux and macOS: `docs/systems.md` says what differs between them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path


def sync(file: int) -> None:
    """Return once everything written to a file is on the disk.

    On macOS `fsync` stops at the drive's own memory, which a power cut empties; another call goes on from there, on
    file systems that have it.
    """
    whole = getattr(fcntl, "F_FULLFSYNC", None)
    if whole is not None:
        try:
            fcntl.fcntl(file, whole)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(file)


def sync_path(path: Path) -> None:
    """Return once a file that others have written is on the disk; of a folder, the names in it."""
    file = os.open(path, os.O_RDONLY)
    try:
        sync(file)
    finally:
        os.close(file)


def temporary_beside(target: Path) -> Path:
    """The file of this process that is renamed to `target` once it is whole."""
    return target.with_name(f".{target.name}.{os.getpid()}.tmp")


def remove_leftovers(target: Path) -> None:
    """Remove the temporary files beside `target` of processes that were killed while they wrote it.

    That of a process that runs stays, but for this one's own, which is not writing when it calls this: in a container
    every process may have the same number.
    """
    if not target.parent.is_dir():
        return
    pattern = re.compile(rf"\.{re.escape(target.name)}\.([0-9]{{1,9}})\.tmp")
    for entry in os.listdir(target.parent):
        found = pattern.fullmatch(entry)
        if found and (int(found[1]) == os.getpid() or not _is_running(int(found[1]))):
            (target.parent / entry).unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # it may be another user's
    return True


def write_atomically(path: str | os.PathLike[str], content: bytes | Iterable[bytes | memoryview]) -> None:
    """Write to a temporary file beside `path`, force it to disk, and rename it into place."""
    target = Path(path)
    temporary = temporary_beside(target)
    try:
        with temporary.open("wb") as file:
            for piece in (content,) if isinstance(content, bytes) else content:
                file.write(piece)
            file.flush()
            sync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_path(target.resolve().parent)  # the rename itself must survive a power cut


def lock_folder(folder: Path) -> int | None:
    """An open file that keeps other processes from the same lock until it is closed; None if one of them has it.

    The folder itself is locked: a file in it could be removed, and another made in its place.
    """
    file = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if isinstance(error, BlockingIOError | PermissionError):
            return None
        raise
    return file
