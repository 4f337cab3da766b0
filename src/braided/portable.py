"""What differs between operating systems: each thing once, with what is done where the usual way is not there.

`docs/systems.md` says what a user notices of it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import platform
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from braided.errors import BraidedError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

#: Whether folders can be opened, files replaced while others read them, and processes asked whether they run.
POSIX = os.name == "posix"
#: For `os.open`: without it, Windows writes two bytes for each newline.
BINARY = getattr(os, "O_BINARY", 0)
#: What tells a service to read its settings again; None where there is no such signal.
HANGUP: int | None = getattr(signal, "SIGHUP", None)
#: What ends a service in order; Ctrl-Break is a signal of Windows.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name))
#: The longest field of a CSV file that every system's reader can be told of.
LONGEST_FIELD = 2**31 - 1
_PROCESSOR, _MEMORY = Path("/proc/cpuinfo"), Path("/proc/self/statm")
_REPLACE_TRIES, _REPLACE_PAUSE_S = 20, 0.05
_LOCK = ".lock"
#: Windows takes these for devices, whatever the folder.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def sync(file: int) -> None:
    """Return once everything written to a file is on the disk.

    On macOS `fsync` stops at the drive's own memory, which a power cut empties; another call goes on from there, on
    file systems that have it.
    """
    whole = getattr(fcntl, "F_FULLFSYNC", None)
    if fcntl is not None and whole is not None:
        try:
            fcntl.fcntl(file, whole)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(file)


@contextlib.contextmanager
def opened_folder(folder: Path) -> Iterator[int | None]:
    """A folder to be synced, so that names in it are durable; None on Windows, whose file system logs names itself."""
    if not POSIX:
        yield None
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


def open_to_sync(path: Path) -> int:
    """A file that others have written, to be synced; Windows syncs only what was opened for writing."""
    return os.open(path, os.O_RDONLY if POSIX else os.O_RDWR | BINARY)


def replace(old: Path, new: Path) -> None:
    """Give a file another's name, in its place.

    Windows refuses while anybody has either open, as virus scanners do for a moment: it is tried for a second.
    """
    for _ in range(0 if POSIX else _REPLACE_TRIES - 1):
        try:
            os.replace(old, new)
            return
        except PermissionError:
            time.sleep(_REPLACE_PAUSE_S)
    os.replace(old, new)


def lock_folder(folder: Path) -> int | None:
    """An open file that keeps other processes from the same lock until it is closed; None if one of them has it.

    The folder itself is locked: a file in it could be removed, and another made in its place. On Windows a file in it
    is, which cannot be removed while it is open.
    """
    file = os.open(folder, os.O_RDONLY) if fcntl else os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    try:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            windows = importlib.import_module("msvcrt")
            windows.locking(file, windows.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        os.close(file)
        return None
    except BaseException:
        os.close(file)
        raise
    return file


def is_running(process: int) -> bool:
    """Whether there is a process of this number; where asking would end it, as on Windows, it is taken for running."""
    if not POSIX:
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def others_can_read(path: Path) -> bool:
    """Whether a file's mode lets other users read or write it; on Windows the mode does not say."""
    return POSIX and bool(path.stat().st_mode & 0o077)


def is_device(name: str) -> bool:
    """Whether no file can have this name here.

    >>> is_device("pump")
    False
    """
    return not POSIX and _DEVICES.fullmatch(name) is not None


def call_on_hangup(call: Callable[[], None]) -> None:
    """Let the running loop call this on SIGHUP; nothing where there is no such signal, or loops take none."""
    import asyncio  # only a service needs it: other commands start sooner

    if HANGUP is not None:
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(HANGUP, call)


def take_port_alone(listener: socket.socket) -> None:
    """Let a port be taken that was just given up, and by nobody else at the same time.

    The usual option for the first would let any program of a Windows machine listen there, too.
    """
    alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if alone is None else alone, 1)


def read_input_as_utf8() -> None:
    """Take standard input for UTF-8, whatever the system's own encoding is."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdin.reconfigure(encoding="utf-8")


def write_output_as_it_can() -> None:
    """Show what the encoding of standard output cannot write as an escape, and do not fail of it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def processor() -> str:
    """What the processor is called; at least its kind."""
    try:
        for line in _PROCESSOR.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or sys.platform


def resident_bytes() -> int:
    """Memory of this process in RAM; asked of `ps` where there is no /proc."""
    try:
        return int(_MEMORY.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    import subprocess  # most programs never ask: they start sooner

    try:
        done = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True)
        return int(done.stdout) * 1_024
    except (OSError, ValueError, subprocess.CalledProcessError):
        raise BraidedError(
            f"resident memory is read from {_MEMORY} or by ps, and {platform.system()} has neither: measure it on "
            "Linux or macOS"
        ) from None
