"""`braided serve` on a disk that kills the process at the Nth operation of a kind on a kind of file.

Usage: killed_server.py OPERATION NAME N [options of braided serve]
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: run make test")

from braided.cli import app
from braided.serve import command
from braided.serve.disk import Disk
from braided.serve.settings import Settings

operation, name, left = "", "", 0
serve = command.serve


def hit(found: str, path: str) -> None:
    """Count, and at the end of the count die, in the middle of the operation where it has one."""
    global left
    if found == operation and name in path:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingDisk(Disk):
    """Knows the path of each open file."""

    def __init__(self) -> None:
        self.paths: dict[int, str] = {}

    def create(self, path: Path) -> int:
        file = super().create(path)
        self.paths[file] = path.name
        hit("create", path.name)
        return file

    def write_some(self, file: int, content: memoryview) -> int:
        if operation == "write" and name in self.paths[file] and left == 1:
            super().write_some(file, content[: len(content) // 2])
        hit("write", self.paths[file])
        return super().write_some(file, content)

    def sync(self, file: int) -> None:
        hit("sync", self.paths.get(file, "folder"))
        super().sync(file)

    def close(self, file: int) -> None:
        del self.paths[file]
        super().close(file)

    def rename(self, old: Path, new: Path) -> None:
        hit("rename", new.name)
        super().rename(old, new)

    def truncate(self, path: Path, length: int) -> None:
        hit("truncate", path.name)
        super().truncate(path, length)

    def remove(self, path: Path) -> None:
        hit("remove", path.name)
        super().remove(path)

    def read(self, path: Path) -> bytes:
        content = super().read(path)
        hit("read", path.name)
        return content


def serve_killed(settings: Settings, disk: Disk | None = None, read: Callable[[], Settings] | None = None) -> None:
    serve(settings, KillingDisk(), read)


if __name__ == "__main__":
    operation, name, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
    command.serve = serve_killed
    app(["serve", *sys.argv[4:]])
