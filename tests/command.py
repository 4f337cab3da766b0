"""The command line, called as a user does, in this process: starting an interpreter takes a second."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from unittest import mock

from braided.cli import main


def _terminal_of_nobody(content: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content.encode()), encoding="utf-8", write_through=True)


def braided(*arguments: str, text: str | None = None, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run `braided` with these arguments and this standard input; its exit code must be `code` if one is given."""
    return _called(main, *arguments, text=text, code=code)


def reproduce(*arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run `python -m reproduction` likewise."""
    from reproduction.__main__ import run  # slow to import, and of no use to most tests

    return _called(lambda: sys.exit(run()), *arguments, code=code)


def _called(
    program: Callable[[], None], *arguments: str, text: str | None = None, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    given, out, err = _terminal_of_nobody(text or ""), _terminal_of_nobody(), _terminal_of_nobody()
    found = 0
    with mock.patch.multiple(sys, argv=["braided", *arguments], stdin=given, stdout=out, stderr=err):
        try:
            program()
        except SystemExit as end:
            found = int(end.code or 0)
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    assert code is None or found == code, stderr
    return subprocess.CompletedProcess(arguments, found, stdout, stderr)
