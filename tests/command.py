"""The command line, called as a user does."""

from __future__ import annotations

import subprocess
import sys


def braided(*arguments: str, text: str | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run `braided` with these arguments and this standard input; its exit code must be `code`."""
    done = subprocess.run(
        [sys.executable, "-m", "braided", *arguments], input=text, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stderr
    return done
